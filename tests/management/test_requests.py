"""What holds for every request to the HTTP door: what is refused, in which shape, and what no peer may use up."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.server.http.endpoint import BODY_BYTES_MAX
from tests.http_api import Api
from tests.management.test_connections import eventually
from tests.management.test_logs import word
from tests.peers.servers import HOST, Server

TIMEOUT_S = 20
IDLE_TIMEOUT_S = 0.5
CONNECTIONS_MAX = 3
HEADER_BYTES_MAX = 2048


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with tight limits."""
    folder = tmp_path_factory.mktemp("narrow")
    limits = {
        "http_connections_max": CONNECTIONS_MAX,
        "http_idle_timeout_s": IDLE_TIMEOUT_S,
        "http_header_bytes_max": HEADER_BYTES_MAX,
    }
    config = folder / "headwater.toml"
    config.write_text("\n".join(f"{name} = {value}" for name, value in limits.items()), "utf-8")
    started = Server(folder / "data", "--config", str(config))
    started.start()
    yield started
    started.end()


def connected(server: Server) -> socket.socket:
    return socket.create_connection((HOST, server.http_port), TIMEOUT_S)


def answer_to(server: Server, request: bytes) -> tuple[int, dict[str, str], Any]:
    """What the server says to these bytes before it closes, or leaves the connection idle."""
    with connected(server) as peer:
        peer.sendall(request)
        answer = http.client.HTTPResponse(peer)
        answer.begin()
        return answer.status, dict(answer.getheaders()), json.loads(answer.read())


def test_nobody_comes_in_without_a_name_and_all_errors_are_problems(server: Server) -> None:
    for method, path in (("GET", "/logs"), ("POST", "/users"), ("DELETE", "/connections/x")):
        reply = Api(server.http_port, None, below="").ask(method, path)
        assert (reply.status, word(reply)) == (401, "not-authorized")
        assert reply.headers["WWW-Authenticate"].startswith("Basic realm=")
        wrong = Api(server.http_port, "guest", "wrong", below="").ask(method, path)
        assert (wrong.status, word(wrong)) == (401, "not-authorized")


def test_what_is_not_served_is_a_problem_too(root: Api) -> None:
    missing = root.ask("GET", "/no/such/path")
    assert (missing.status, word(missing)) == (404, "not-found")
    method = root.ask("PUT", "/logs")
    assert (method.status, word(method)) == (405, "method-not-allowed")
    assert set(method.headers["Allow"].split(",")) == {"GET", "HEAD", "POST"}
    websocket = root.ask("GET", "/amqp")
    assert (websocket.status, word(websocket)) == (426, "upgrade-required")


def test_answers_are_not_kept_and_do_not_name_the_library(root: Api) -> None:
    for path in ("/logs", "/no/such/path", "/logs/missing"):
        headers = root.ask("GET", path).headers
        assert (headers["Cache-Control"], headers["Server"]) == ("no-store", "headwater")


def test_head_answers_as_get_does_without_a_body(server: Server) -> None:
    login = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}
    connection = http.client.HTTPConnection(HOST, server.http_port, timeout=TIMEOUT_S)
    connection.request("HEAD", "/logs", headers=login)
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b"")
    assert int(answer.headers["Content-Length"]) > 0
    connection.close()


def test_what_a_connection_has_shown_counts_while_the_password_does_and_for_nobody_else(
    server: Server, root: Api, name: str
) -> None:
    root.do("POST", "/users", {"name": name, "password": "first"})
    connection = http.client.HTTPConnection(HOST, server.http_port, timeout=TIMEOUT_S)

    def status(password: str, user: str = name) -> int:
        login = base64.b64encode(f"{user}:{password}".encode()).decode()
        connection.request("GET", "/logs", headers={"Authorization": f"Basic {login}"})
        answer = connection.getresponse()
        answer.read()
        return answer.status

    assert [status("first"), status("first"), status("wrong"), status("first", "ada")] == [200, 200, 401, 401]
    assert status("first") == 200
    kept = connection.sock
    root.do("PATCH", f"/users/{name}", {"password": "second"})
    assert [status("first"), status("second")] == [401, 200]
    root.do("DELETE", f"/users/{name}")
    root.do("POST", "/users", {"name": name, "password": "third"})
    assert [status("second"), status("third")] == [401, 200]
    assert connection.sock is kept
    connection.request("GET", "/logs")
    assert connection.getresponse().status == 401
    connection.close()


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=x", "colour=red", "limit=1&limit=2", "vhost=", "limit="]
)
def test_parameters_that_are_not_expected_are_refused(root: Api, query: str) -> None:
    reply = root.ask("GET", f"/logs?{query}")
    assert (reply.status, word(reply)) == (400, "bad-request")


def test_a_path_that_is_not_utf_8_is_refused(root: Api) -> None:
    assert word(root.ask("GET", "/logs/%FF")) == "bad-request"


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"null", b"\xff", b"[" * 30_000, b'{"a":' * 10_000, b'{"name": 7}']
)
def test_a_body_that_is_not_what_is_expected_is_refused(root: Api, body: bytes) -> None:
    reply = root.ask("POST", "/logs", raw=body, headers={"Content-Type": "application/json"})
    assert (reply.status, word(reply)) == (400, "bad-request")


def test_a_whole_number_may_be_written_with_a_point(root: Api, name: str) -> None:
    headers = {"Content-Type": "application/json"}
    for number, status in (("2.0", 201), ("2.5", 400), ('"2"', 400), ("2e400", 400)):
        body = f'{{"name": "{name}", "partitions": {number}}}'.encode()
        assert root.ask("POST", "/logs", raw=body, headers=headers).status == status
    assert root.get(f"/logs/{name}")["partition_count"] == 2


def test_a_body_says_that_it_is_json(root: Api, name: str) -> None:
    body = json.dumps({"name": name}).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/xml"):
        reply = root.ask("POST", "/logs", raw=body, headers={"Content-Type": kind})
        assert (reply.status, word(reply)) == (415, "unsupported-media-type")
    parameters = {"Content-Type": "application/json; charset=utf-8"}
    assert root.ask("POST", "/logs", raw=body, headers=parameters).status == 201


def test_a_body_ends_at_its_bound_whether_or_not_it_says_its_length(server: Server, root: Api) -> None:
    headers = {"Content-Type": "application/json"}
    padded = b'{"name": ""}'.ljust(BODY_BYTES_MAX)
    assert word(root.ask("POST", "/logs", raw=padded, headers=headers)) == "bad-request"
    too_large = root.ask("POST", "/logs", raw=padded + b" ", headers=headers)
    assert (too_large.status, word(too_large)) == (413, "payload-too-large")
    login = base64.b64encode(b"guest:guest").decode()
    head = (
        "POST /logs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nAuthorization: Basic {login}\r\n\r\n"
    )
    status, _, problem = answer_to(server, head.encode() + (b"1000\r\n" + b" " * 0x1000 + b"\r\n") * 17)
    assert (status, problem["type"]) == (413, "urn:headwater:problem:payload-too-large")


def test_who_may_not_is_refused_before_anything_is_read(nobody_at_root: Api) -> None:
    reply = nobody_at_root.ask("POST", "/users", raw=b"no json", headers={"Content-Type": "text/plain"})
    assert (reply.status, word(reply)) == (403, "forbidden")


@pytest.mark.parametrize("origin", ["https://example.org", "http://127.0.0.1:1", "null", "http://[", "x"])
def test_pages_of_others_may_not_ask_in_the_name_of_who_looks_at_them(
    root: Api, name: str, origin: str
) -> None:
    reply = root.ask("POST", "/logs", {"name": name}, headers={"Origin": origin})
    assert (reply.status, word(reply)) == (403, "forbidden")
    assert root.ask("GET", f"/logs/{name}").status == 404


def test_a_page_of_another_origin_may_not_use_the_management_api_either(api: Api, name: str) -> None:
    body = {"arguments": {"x-queue-type": "stream"}}
    refused = api.ask("PUT", f"/queues/%2F/{name}", body, headers={"Origin": "https://example.org"})
    assert (refused.status, refused.body["error"]) == (403, "forbidden")


def test_a_page_of_the_servers_own_may_ask(server: Server, root: Api) -> None:
    own = {"Origin": f"http://{HOST}:{server.http_port}"}
    assert root.ask("GET", "/logs", headers=own).status == 200


@pytest.mark.parametrize(
    "request_line",
    [
        b"HELLO\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET /logs HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"GET /logs HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_what_is_no_http_is_answered_like_any_other_error(server: Server, request_line: bytes) -> None:
    status, headers, problem = answer_to(server, request_line)
    assert (status, problem["type"]) == (400, "urn:headwater:problem:bad-request")
    assert (headers["Content-Type"], headers["Server"]) == ("application/problem+json", "headwater")
    assert not [line for line in server.lines if "Traceback" in line]


def test_headers_have_a_bound_and_so_has_their_number(narrow: Server) -> None:
    for headers in (
        b"A: " + b"a" * 2 * HEADER_BYTES_MAX + b"\r\n",
        b"".join(b"A%d: a\r\n" % number for number in range(200)),
    ):
        status, _, problem = answer_to(narrow, b"GET /health HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n")
        assert (status, problem["status"]) == (400, 400)
    path = b"/" + b"a" * 2 * HEADER_BYTES_MAX
    assert answer_to(narrow, b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")[0] == 400


@pytest.mark.parametrize("begun", [b"", b"GET /health HTTP/1.1\r\nHost: x\r\n", b"GET"])
def test_who_sends_no_whole_request_is_closed_after_a_while(narrow: Server, begun: bytes) -> None:
    with connected(narrow) as peer:
        peer.sendall(begun)
        assert peer.recv(1024) == b""


def test_who_does_not_read_the_answers_to_its_requests_is_closed_after_a_while(narrow: Server) -> None:
    with connected(narrow) as peer:
        peer.setblocking(False)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        request = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 64
        with contextlib.suppress(ConnectionError, BlockingIOError):
            while peer.send(request):
                pass
        eventually(lambda: any("an answer was not read for" in line for line in narrow.lines))
    assert Api(narrow.http_port, below="").get("/health")["state"] == "ready"


def test_one_connection_too_many_is_closed_and_the_others_go_on(narrow: Server) -> None:
    assert Api(narrow.http_port, below="").get("/health")["state"] == "ready"
    taken = [connected(narrow) for _ in range(CONNECTIONS_MAX + 1)]
    try:
        eventually(lambda: any("closed a new connection" in line for line in narrow.lines))
        answers = [_asked(peer) for peer in taken]
        assert sorted(answers) == [b""] + [b"HTTP/1.1 200"] * CONNECTIONS_MAX
    finally:
        for peer in taken:
            peer.close()
    eventually(lambda: Api(narrow.http_port, below="").get("/health")["state"] == "ready")


def _asked(peer: socket.socket) -> bytes:
    try:
        peer.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        return peer.recv(12)
    except ConnectionError:
        return b""


def test_a_request_under_way_is_answered_before_the_server_stops(tmp_path: Path) -> None:
    (tmp_path / "headwater.toml").write_text("sasl_failure_delay_s = 2", "utf-8")
    own = Server(tmp_path / "data", "--config", str(tmp_path / "headwater.toml"))
    own.start()
    login = base64.b64encode(b"guest:wrong").decode()
    try:
        with connected(own) as peer:
            peer.sendall(f"GET /logs HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {login}\r\n\r\n".encode())
            eventually(lambda: any("authentication failed" in line for line in own.lines))
            own.terminate()
            assert peer.recv(1024).startswith(b"HTTP/1.1 401")
        assert own.wait() == 0
    finally:
        own.end()

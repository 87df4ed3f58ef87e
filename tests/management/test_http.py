"""What all of /api has in common: who is let in, how errors look, what a path and a body may be."""

from __future__ import annotations

import base64
import socket

import pytest

from headwater.server.http.management.application import ROUTES
from headwater.server.http.management.call import BODY_BYTES_MAX
from tests.http_api import Api
from tests.management.conftest import PASSWORD
from tests.peers.servers import Server

STREAM = {"arguments": {"x-queue-type": "stream"}}


def test_nobody_comes_in_without_a_name(server: Server) -> None:
    for path in ("/overview", "/queues/%2F/x", "/nothing-of-the-kind"):
        reply = Api(server.http_port, None).ask("GET", path)
        assert reply.status == 401
        assert reply.headers["WWW-Authenticate"].startswith("Basic realm=")
        assert reply.body == {"error": "not_authorized", "reason": "name and password are asked for"}


@pytest.mark.parametrize(("user", "password"), [("guest", "wrong"), ("unknown", "guest"), ("guest", "")])
def test_a_wrong_password_and_an_unknown_user_look_the_same(server: Server, user: str, password: str) -> None:
    reply = Api(server.http_port, user, password).ask("GET", "/whoami")
    assert (reply.status, reply.body) == (401, {"error": "not_authorized", "reason": "Login failed"})
    assert "WWW-Authenticate" in reply.headers


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(b"\xff:\xff").decode(),
        "Basic " + base64.b64encode(b"no colon").decode(),
        "Bearer abc",
        "Basic " + base64.b64encode(b"a\0b:c").decode(),
    ],
)
def test_a_header_that_is_no_basic_authentication_lets_nobody_in(server: Server, header: str) -> None:
    reply = Api(server.http_port, None).ask("GET", "/whoami", headers={"Authorization": header})
    assert (reply.status, reply.body["error"]) == (401, "not_authorized")


def test_what_is_not_there_and_what_is_not_allowed_are_told_in_json(api: Api) -> None:
    missing = api.ask("GET", "/no-such-thing")
    assert (missing.status, missing.body) == (404, {"error": "Object Not Found", "reason": "Not Found"})
    assert missing.headers["Content-Type"] == "application/json"
    refused = api.ask("PATCH", "/queues/%2F/x")
    assert (refused.status, refused.body["error"]) == (405, "method_not_allowed")
    assert set(refused.headers["Allow"].split(",")) == {"GET", "PUT", "DELETE"}


def test_answers_are_not_kept_and_do_not_name_the_library(api: Api) -> None:
    for path in ("/overview", "/no-such-thing"):
        headers = api.ask("GET", path).headers
        assert (headers["Cache-Control"], headers["Server"]) == ("no-store", "headwater")


@pytest.mark.parametrize("stream", ["a/b", "ä ö", "100%", "a+b", "a{b}", "?#&=", "..", "%2F", "a:b -> c"])
def test_names_of_any_characters_are_percent_encoded(api: Api, stream: str) -> None:
    encoded = "".join(f"%{byte:02X}" for byte in stream.encode())
    assert api.do("PUT", f"/queues/%2F/{encoded}", STREAM).status == 201
    assert api.get(f"/queues/%2f/{encoded}/")["name"] == stream
    assert stream in [queue["name"] for queue in api.get("/queues/%2F/")]
    assert api.do("DELETE", f"/queues/%2F/{encoded}").status == 204


def test_a_path_that_is_not_utf_8_is_refused(api: Api) -> None:
    for method, body in (("PUT", STREAM), ("GET", None)):
        reply = api.ask(method, "/queues/%2F/%FF", body)
        assert (reply.status, reply.body["reason"]) == (400, "the path is not UTF-8")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'{"arguments": [1]}',
        b'{"arguments": {"x-queue-type": {}}}',
        b'{"durable": 3}',
        b"[" * 30_000,
        b'{"a":' * 10_000,
    ],
)
def test_a_body_that_is_not_what_is_expected_is_refused(api: Api, name: str, body: bytes) -> None:
    reply = api.ask("PUT", f"/queues/%2F/{name}", raw=body)
    assert (reply.status, reply.body["error"]) == (400, "bad_request")
    assert api.ask("GET", f"/queues/%2F/{name}").status == 404


def test_a_body_ends_at_its_bound(api: Api, name: str) -> None:
    padding = BODY_BYTES_MAX - len(b'{"x":""}')
    fits, too_large = (b'{"x":"' + b"a" * size + b'"}' for size in (padding, padding + 1))
    assert api.ask("PUT", f"/exchanges/%2F/{name}", raw=fits).status == 201
    assert api.ask("PUT", f"/exchanges/%2F/{name}-2", raw=too_large).status == 413


def test_a_body_without_a_length_ends_at_its_bound_too(server: Server) -> None:
    credentials = base64.b64encode(b"guest:guest").decode()
    head = (
        "PUT /api/exchanges/%2F/chunked HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        f"Connection: close\r\nAuthorization: Basic {credentials}\r\n\r\n"
    )
    piece = b"1000\r\n" + b" " * 0x1000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", server.http_port), 30) as peer:
        peer.sendall(head.encode() + piece * 17)
        assert peer.recv(1 << 16).startswith(b"HTTP/1.1 413")
    assert Api(server.http_port).ask("GET", "/exchanges/%2F/chunked").status == 404


def test_every_endpoint_refuses_a_wrong_password_and_a_user_without_rights(
    server: Server, nobody: Api
) -> None:
    """Lists are empty for whoever sees nothing; all else is refused before anything is looked at or changed."""
    open_to_all = {"/whoami", "/overview"}
    for route in ROUTES:
        path = route.path.replace("{vhost}", "%2F").replace("{user}", "nobody")
        path = path.replace("{exchange}", "x").replace("{queue}", "y")
        for part in ("{name}", "{connection}", "{stream}"):
            path = path.replace(part, "z")
        body = {"configure": ".*", "write": ".*", "read": ".*", "partitions": 1, **STREAM}
        wrong = Api(server.http_port, "nobody", PASSWORD + "x").ask(route.method, path, body)
        assert (wrong.status, wrong.body["error"]) == (401, "not_authorized"), route
        reply = nobody.ask(route.method, path, body)
        if (
            route.method == "GET"
            and "{" not in route.path
            and path not in open_to_all | {"/nodes", "/permissions"}
        ):
            assert (reply.status, reply.body) == (200, []), route
        elif path in open_to_all:
            assert reply.status == 200, route
        elif path == "/connections/z":
            assert reply.status == 404, route
        else:
            assert (reply.status, reply.body["error"]) == (401, "not_authorised"), (route, reply)
    assert nobody.get("/overview")["object_totals"]["queues"] == 0
    assert nobody.get("/whoami") == {"name": "nobody", "tags": []}

"""AMQP over WebSocket: messages are pieces of one stream of bytes, and everything else is as over TCP."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import aiohttp
import pytest

from headwater.amqp.definitions import Condition
from headwater.amqp.events import Closed
from headwater.amqp.messaging import Accepted
from headwater.encoding.amqp_message import AmqpValue, Data, Message, encode_message
from headwater.encoding.amqp_types import Described, Symbol
from headwater.server.amqp.limits import Limits
from headwater.server.http.listener import HttpLimits
from headwater.server.http.websocket import PATH
from headwater.server.http.websocket_transport import MESSAGE_BYTES_MAX
from headwater.server.security.identity import Peer
from tests.amqp_client import AmqpClient, plain
from tests.conformance.listening import HOST
from tests.conformance.websocket import ListeningWebSocket, WebSocket
from tests.peers.servers import Server

EARLIEST = {Symbol("rabbitmq:stream-offset-spec"): Described(Symbol("rabbitmq:stream-offset-spec"), "first")}


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ListeningWebSocket]:
    with ListeningWebSocket(tmp_path_factory.mktemp("websocket") / "data") as listening:
        yield listening


def eventually(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def count(door: ListeningWebSocket) -> int:
    return door.call(lambda: len(door.amqp.connections))


def publish_and_read(client: AmqpClient, log: str, bodies: list[bytes]) -> None:
    """What is sent is accepted, and comes back."""
    up = client.sender(log, f"to {log}")
    client.receiver(log, name=f"from {log}", credit=len(bodies))
    for body in bodies:
        client.send(up, Message(body=Data((body,))))
    found = [client.message().body for _ in bodies]
    assert found == [Data((body,)) for body in bodies]


@pytest.mark.clause("AMQP WebSocket")
def test_a_client_publishes_and_reads(door: ListeningWebSocket, stream: str) -> None:
    with door.over_websocket() as client:
        assert client.mechanisms == ("SCRAM-SHA-256", "PLAIN", "ANONYMOUS")
        publish_and_read(client, stream, [b"message %d" % number for number in range(100)])
        up = client.sender(f"{stream}-2", "other")
        client.send(up, Message(body=AmqpValue("one")))
        assert isinstance(client.outcome(), Accepted)
        client.close()


@pytest.mark.clause("AMQP WebSocket")
@pytest.mark.parametrize("pieces_bytes", [1, 7, 100])
def test_messages_need_not_end_where_frames_do(
    door: ListeningWebSocket, stream: str, pieces_bytes: int
) -> None:
    client = AmqpClient(door.open_websocket(pieces_bytes=pieces_bytes))
    with client:
        client.authenticate("PLAIN", plain())
        publish_and_read(client.open(), stream, [b"x" * 300, b"y"])


def test_a_message_may_hold_many_frames_and_a_frame_many_messages(
    door: ListeningWebSocket, stream: str
) -> None:
    with door.over_websocket() as client:
        up = client.sender(stream)
        while not up.may_send:
            client.receive()
        for number in range(500):
            up.send(encode_message(Message(body=AmqpValue(number))))
        client.flush()
        eventually(lambda: door.call(lambda: door.partition(stream).committed_offset) == 500)
        publish_and_read(client, f"{stream}-large", [bytes(700_000), bytes(300_000)])


def test_no_message_is_larger_than_clients_take_by_themselves(door: ListeningWebSocket, stream: str) -> None:
    carrier = door.open_websocket()
    sizes = []

    class Measuring:
        sendall, close = carrier.sendall, carrier.close

        def recv(self, bytes_max: int) -> bytes:
            data = carrier.recv(bytes_max)
            sizes.append(len(data))
            return data

    with AmqpClient(Measuring()) as client:
        client.authenticate("PLAIN", plain())
        publish_and_read(client.open(), stream, [bytes(700_000)])
    assert max(sizes) == MESSAGE_BYTES_MAX


def test_a_door_that_stops_reading_after_every_frame_takes_everything(tmp_path: Path, stream: str) -> None:
    with (
        ListeningWebSocket(tmp_path / "data", Limits(turn_s_max=0.0)) as door,
        door.over_websocket() as client,
    ):
        publish_and_read(client, stream, [b"%d" % number * 1000 for number in range(50)])


@pytest.mark.clause("AMQP WebSocket")
def test_a_client_that_does_not_read_is_sent_no_more_than_a_bound_and_then_the_rest(tmp_path: Path) -> None:
    limits = Limits(delivery_bytes_high=64 * 1024)
    body, number = bytes(50_000), 800
    listening = ListeningWebSocket(tmp_path / "data", limits)
    listening.http_limits = HttpLimits(idle_timeout_s=0.5)  # which a client of AMQP need not keep
    with listening as door:
        with door.over_websocket() as writer:
            up = writer.sender("much")
            for _ in range(number):
                writer.send(up, Message(body=Data((body,))))
            eventually(lambda: door.call(lambda: door.partition("much").committed_offset) == number)
        with door.over_websocket() as reader:
            reader.receiver("much", credit=number, filters=EARLIEST)

            def sent() -> int:
                return door.call(lambda: sum(each.sent_bytes for each in door.amqp.connections))

            settled = [0, sent()]
            while settled[-1] != settled[-2] or not settled[-1]:
                time.sleep(2 * listening.http_limits.idle_timeout_s)
                settled.append(sent())
            assert settled[-1] < number * len(body) / 2  # what sockets hold is less
            assert door.unsent_bytes_max() < 4 * limits.delivery_bytes_high + (1 << 20)
            for _ in range(number):
                assert reader.message().body == Data((body,))


@pytest.mark.clause("AMQP WebSocket")
def test_text_is_refused(door: ListeningWebSocket) -> None:
    socket = door.open_websocket()
    socket.send_text("AMQP")
    assert socket.recv(1) == b""
    assert socket.close_code == 1003
    socket.close()
    eventually(lambda: count(door) == 0)


@pytest.mark.clause("AMQP WebSocket")
def test_a_message_above_the_bound_is_refused(tmp_path: Path) -> None:
    limits = Limits(websocket_message_bytes_max=1000)
    with ListeningWebSocket(tmp_path / "data", limits) as door:
        socket = door.open_websocket()
        socket.sendall(b"AMQP\x03\x01\x00\x00" + bytes(993))
        assert socket.recv(1) == b""
        assert socket.close_code == 1009
        socket.close()
        eventually(lambda: count(door) == 0)
        with door.over_websocket(pieces_bytes=1000) as client:
            publish_and_read(client, "log", [bytes(5000)])


def test_the_end_of_amqp_is_the_end_of_the_websocket(door: ListeningWebSocket) -> None:
    socket = door.open_websocket()
    client = AmqpClient(socket)
    client.authenticate("ANONYMOUS", b"")
    client.open().close()
    client.wait_until_closed()
    assert socket.close_code == 1000
    client.end()
    eventually(lambda: count(door) == 0)


def test_rubbish_is_answered_with_our_header_and_the_end(door: ListeningWebSocket) -> None:
    socket = door.open_websocket()
    socket.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert socket.recv(8) == b"AMQP\x03\x01\x00\x00"
    assert socket.recv(8) == b""
    socket.close()


def test_a_wrong_password_is_refused_late(door: ListeningWebSocket) -> None:
    with AmqpClient(door.open_websocket()) as client:
        started = time.monotonic()
        assert client.authenticate("PLAIN", plain("guest", "wrong")).code == 1
        assert time.monotonic() - started >= door.limits.failure_delay_s
        client.wait_until_closed()


def test_from_afar_neither_passwords_nor_nobody_come_in_the_clear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def far(_transport: object) -> Peer:
        return Peer(is_loopback=False)

    monkeypatch.setattr("headwater.server.amqp.connection.peer_of", far)
    with ListeningWebSocket(tmp_path / "data") as door:
        door.call(lambda: setattr(door.amqp.sasl, "_allows_plain_without_tls", False))
        with AmqpClient(door.open_websocket()) as client:
            assert client.authenticate("PLAIN", plain()).code == 1
            assert client.mechanisms == ("SCRAM-SHA-256",)


@pytest.mark.parametrize("leave", [WebSocket.close, WebSocket.vanish])
def test_a_client_that_leaves_is_gone(
    door: ListeningWebSocket, stream: str, leave: Callable[[WebSocket], None]
) -> None:
    socket = door.open_websocket()
    client = AmqpClient(socket)
    client.authenticate("ANONYMOUS", b"")
    client.open().sender(stream)
    assert count(door) == 1
    leave(socket)
    eventually(lambda: count(door) == 0)


def test_a_websocket_counts_as_a_connection(tmp_path: Path) -> None:
    with ListeningWebSocket(tmp_path / "data", Limits(connections_max=1)) as door:
        with door.over_websocket():
            socket = door.open_websocket()
            assert socket.recv(1) == b""
            socket.close()
        eventually(lambda: count(door) == 0)
        with door.over_websocket() as client:
            client.close()


def test_who_says_nothing_is_cut_off(tmp_path: Path) -> None:
    with ListeningWebSocket(tmp_path / "data", Limits(step_timeout_s=0.2)) as door:
        for first in (b"", b"AMQP\x03\x01"):
            socket = door.open_websocket()
            if first:
                socket.sendall(first)
            assert socket.recv(1) == b""
            socket.close()


def test_clients_are_told_that_the_server_stops(tmp_path: Path) -> None:
    with ListeningWebSocket(tmp_path / "data") as door, door.over_websocket() as client:
        stopping = door.begin(door.http.close())
        error = client.wait_for(Closed).error
        assert error is not None
        assert error.condition == Condition.CONNECTION_FORCED
        client.machine.close()
        client.flush()
        client.wait_until_closed()
        stopping.result(20)
        assert count(door) == 0


def test_an_open_websocket_does_not_hold_up_a_server_that_is_asked_to_stop(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    server.start()
    try:
        client = AmqpClient(WebSocket(server.http_port))
        with client:
            client.authenticate("ANONYMOUS", b"")
            client.open()
            assert server.stop() == 0
            error = client.wait_for(Closed).error
            assert error is not None
            assert error.condition == Condition.CONNECTION_FORCED
    finally:
        server.end()


# Who may open one


def asked(port: int, headers: dict[str, str], method: str = "GET") -> tuple[int, dict[str, str]]:
    connection = http.client.HTTPConnection(HOST, port, timeout=20)
    try:
        connection.request(method, PATH, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders())
    finally:
        connection.close()


UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Protocol": "amqp",
}


def test_what_is_no_websocket_is_told_so(door: ListeningWebSocket) -> None:
    status, headers = asked(door.http_port, {})
    assert (status, headers["Upgrade"]) == (426, "websocket")
    assert asked(door.http_port, UPGRADE, "POST")[0] == 405
    assert asked(door.http_port, {**UPGRADE, "Sec-WebSocket-Version": "5"})[0] == 426


@pytest.mark.clause("AMQP WebSocket")
@pytest.mark.parametrize("protocols", [(), ("mqtt",), ("amqp-old", "AMQP10")])
def test_the_subprotocol_has_to_be_offered(door: ListeningWebSocket, protocols: tuple[str, ...]) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        door.open_websocket(protocols=protocols)
    assert refused.value.status == 400


def test_the_subprotocol_is_chosen_among_others(door: ListeningWebSocket) -> None:
    socket = door.open_websocket(protocols=("other", "amqp"))
    assert socket.socket.protocol == "amqp"
    socket.close()


@pytest.mark.parametrize(
    ("allowed", "origin", "host", "status"),
    [
        (None, None, "localhost", 101),
        (None, "http://localhost", "localhost", 101),
        (None, "http://127.0.0.1:1", "127.0.0.1:1", 101),
        (None, "http://[::1]:8080", "[::1]:8080", 101),
        (None, "http://localhost:8080", "localhost", 403),
        (None, "https://example.org", "localhost", 403),
        (None, "https://example.org", "example.org", 403),
        (None, "null", "localhost", 403),
        (None, "http://[::1", "[::1", 403),
        ("https://example.org", "https://example.org", "localhost", 101),
        ("https://example.org", "http://example.org", "localhost", 403),
        ("*", "https://anywhere.example", "localhost", 101),
    ],
)
def test_pages_of_others_may_not_connect_unless_a_setting_says_so(
    door: ListeningWebSocket,
    monkeypatch: pytest.MonkeyPatch,
    allowed: str | None,
    origin: str | None,
    host: str,
    status: int,
) -> None:
    monkeypatch.setattr(door.over_http, "_allowed_origin", allowed)
    headers = {**UPGRADE, "Host": host}
    if origin is not None:
        headers["Origin"] = origin
    assert asked(door.http_port, headers)[0] == status
    eventually(lambda: count(door) == 0)


def test_a_page_of_the_servers_own_name_may_connect_from_another_machine(
    door: ListeningWebSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.server.http.origins.is_loopback", lambda _: False)
    headers = {**UPGRADE, "Host": "broker.example", "Origin": "https://broker.example"}
    assert asked(door.http_port, headers)[0] == 101
    eventually(lambda: count(door) == 0)

"""protonj2: connects, sends and receives, streams large messages and gives some up, drains, is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.peers.programs import Program, Refused, java_command, texts
from tests.peers.servers import HOST, PASSWORD, USER, Server

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    """One for all tests: it takes a second to start."""
    with Program(java_command("protonj2")) as started:
        yield started


@pytest.fixture
def peer(program: Program, server: Server) -> Iterator[Program]:
    """The program with a connection of this test."""
    program("connect", host=HOST, port=server.amqp_port)
    yield program
    program("disconnect")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "ANONYMOUS"])
def test_it_connects(program: Program, server: Server, mechanism: str) -> None:
    who = {} if mechanism == "ANONYMOUS" else {"user": USER, "password": PASSWORD}
    named = {"host": HOST, "port": server.amqp_port, "mechanism": mechanism}
    assert program("connect", **named, **who) == "Headwater"
    program("disconnect")


@pytest.mark.parametrize("settled", [{}, {"settled": True}])
def test_what_is_sent_is_received(peer: Program, stream: str, settled: dict[str, bool]) -> None:
    assert peer("sender", **{"as": "s", "address": stream}, **settled) == stream
    assert peer("send", to="s", bodies=texts(0, 1000)) == 1000
    assert peer("receiver", **{"as": "r", "address": stream, "offset": "first"}, **settled) == stream
    assert peer("receive", of="r", count=1000) == texts(0, 1000)


def test_messages_are_written_and_read_piece_by_piece(peer: Program, stream: str) -> None:
    sizes = (1000, 300_000, 1_000_000)
    for size in sizes:
        assert peer("send_stream", address=stream, size=size) == "accepted"
    assert peer("receive_stream", address=stream, count=3) == [f"{size} bytes" for size in sizes]


@pytest.mark.clause("AMQP flow 5")
def test_a_message_that_is_given_up_in_the_middle_was_never_there(peer: Program, stream: str) -> None:
    assert peer("send_stream", address=stream, size=300_000) == "accepted"
    for _ in range(5):
        assert peer("send_stream", address=stream, size=900_000, aborts=True) == "aborted"
    assert peer("send_stream", address=stream, size=2000) == "accepted"
    assert peer("receive_stream", address=stream, count=2) == ["300000 bytes", "2000 bytes"]


@pytest.mark.clause("AMQP flow 2")
def test_a_drain_brings_what_there_is_and_ends(peer: Program, stream: str) -> None:
    peer("sender", **{"as": "s", "address": stream})
    peer("send", to="s", bodies=texts(0, 3))
    peer("receiver", **{"as": "r", "address": stream, "offset": "first", "credit": 0})
    assert peer("drain", of="r", credit=10) == 3
    assert peer("receive", of="r", count=3) == texts(0, 3)
    assert peer("drain", of="r", credit=10) == 0


def test_a_dynamic_receiver_is_sent_to(peer: Program) -> None:
    address = peer("receiver", **{"as": "r"}, dynamic=True)
    peer("sender", **{"as": "s", "address": address})
    peer("send", to="s", bodies=texts(0, 3))
    assert peer("receive", of="r", count=3) == texts(0, 3)


def test_what_is_not_there_is_refused_with_a_reason(peer: Program, stream: str) -> None:
    with pytest.raises(Refused, match=f"there is no log '{stream}'"):
        peer("receiver", **{"as": "r", "address": stream})
    with pytest.raises(Refused, match="there are no transactions here"):
        peer("begin_transaction")
    peer("sender", **{"as": "s", "address": stream})
    assert peer("send", to="s", bodies=["still there"]) == 1


@pytest.mark.clause("AMQP WebSocket")
def test_everything_goes_over_a_websocket(program: Program, server: Server, stream: str) -> None:
    program("connect", host=HOST, port=server.http_port, web_socket_path="/amqp")
    program("sender", **{"as": "s", "address": stream})
    assert program("send", to="s", bodies=texts(0, 500)) == 500
    program("receiver", **{"as": "r", "address": stream, "offset": "first"})
    assert program("receive", of="r", count=500) == texts(0, 500)
    assert program("send_stream", address=f"{stream}-large", size=1_000_000) == "accepted"
    assert program("receive_stream", address=f"{stream}-large", count=1) == ["1000000 bytes"]
    program("disconnect")

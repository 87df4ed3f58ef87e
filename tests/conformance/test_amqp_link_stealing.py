"""AMQP 1.0 part 2, section 2.6.1: a link that is attached again while it is attached leaves the one that it was."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from headwater.amqp.definitions import Condition, Role
from headwater.amqp.frames import ProtocolId, encode_frame, protocol_header, read_frame, read_protocol_header
from headwater.amqp.messaging import Target
from headwater.amqp.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Open,
    Performative,
    decode_performative,
)
from tests.peers.servers import HOST, Server

TIMEOUT_S = 20.0
FRAME_SIZE_BYTES_MAX = 1 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("server") / "data")
    started.start()
    yield started
    started.end()


def answers(server: Server, *said: Performative) -> list[Performative]:
    """What the server says to one that says all of this at once, and then waits for the socket to close."""
    with socket.create_connection((HOST, server.amqp_port), timeout=TIMEOUT_S) as client:
        client.sendall(protocol_header(ProtocolId.AMQP) + b"".join(encode_frame(0, each) for each in said))
        found = b""
        while part := client.recv(65536):
            found += part
    assert read_protocol_header(found, 0, len(found)) is ProtocolId.AMQP
    position, heard = 8, []
    while frame := read_frame(found, position, len(found), FRAME_SIZE_BYTES_MAX):
        heard.append(decode_performative(found, frame.position, frame.end)[0])
        position = frame.end
    return heard


def test_the_link_that_was_is_detached_before_the_new_one_is_attached(server: Server) -> None:
    def attach(handle: int) -> Attach:
        return Attach("twice", handle, Role.SENDER, target=Target("stolen"), initial_delivery_count=0)

    heard = answers(server, Open("thief"), Begin(None, 0, 9, 9), attach(0), attach(1), Close())
    links = [each for each in heard if isinstance(each, Attach | Detach)]
    assert [type(each) for each in links] == [Attach, Detach, Attach]
    first, stolen, second = links
    assert isinstance(stolen, Detach)
    assert stolen.error is not None
    assert (stolen.handle, stolen.closed, stolen.error.condition) == (
        first.handle,
        True,
        Condition.LINK_STOLEN,
    )
    assert second.handle != first.handle, "the old one's handle is free when its peer has detached too"


def test_a_refused_attach_steals_nothing(server: Server) -> None:
    known = Attach("kept", 0, Role.SENDER, target=Target("kept"), initial_delivery_count=0)
    refused = Attach("kept", 1, Role.SENDER, target=Target("$none"), initial_delivery_count=0)
    heard = answers(server, Open("holder"), Begin(None, 0, 9, 9), known, refused, Close())
    detached = [each for each in heard if isinstance(each, Detach)]
    assert [each.error.condition for each in detached if each.error] == [Condition.NOT_FOUND]
    assert [each.handle for each in detached] == [1]

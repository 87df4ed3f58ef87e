"""A session on a store whose commits end when the test says so: what counts as said before a question."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.log.file_span import FileSpan
from headwater.server.security.access import Access
from headwater.server.security.identity import Identity, Peer
from headwater.server.security.sasl import Sasl
from headwater.server.streams.consuming import PROPERTIES_KEPT_MAX, PROPERTY_CHARS_KEPT_MAX, Subscription
from headwater.server.streams.door import Door, Endpoint
from headwater.server.streams.limits import Limits
from headwater.server.streams.session import Session
from headwater.streams import commands as c
from headwater.streams.codec import decode_response, encode
from headwater.streams.commands import Command, OffsetSpecification, OffsetType, ResponseCode
from headwater.streams.server_connection import ServerConnection
from tests.log_material import Machine, append, publish
from tests.security_material import authenticator, catalogue

STREAM = "log"
OK = ResponseCode.OK


class Connection:
    """An opened connection without a socket: the session's outlet, and what came out of it."""

    name = "here -> there"

    def __init__(self, door: Door, identity: Identity) -> None:
        self.machine = ServerConnection(door.peer_properties, ["PLAIN"])
        for command in (
            c.PeerPropertiesRequest(1, {}),
            c.SaslHandshakeRequest(2),
            c.SaslAuthenticateRequest(3, "PLAIN", b""),
        ):
            self.machine.receive(encode(command))
        self.machine.authenticated()
        for last in (c.TuneResponse(0, 0), c.OpenRequest(4, "/")):
            self.machine.receive(encode(last))
        self.machine.opened({})
        self.machine.data_to_send()
        self.session = Session(door, self.machine, self, identity, "/", Endpoint("h", 1))

    def can_deliver(self) -> bool:
        return False

    def deliver(self, subscription: Subscription, chunk: memoryview) -> None:
        raise AssertionError("there is no socket")

    def can_send_files(self) -> bool:
        return False

    def deliver_span(self, subscription: Subscription, span: FileSpan) -> None:
        raise AssertionError("there is no socket")

    def call_soon(self, subscription: Subscription) -> None:
        pass

    def answered(self) -> None:
        pass

    def close(self, code: ResponseCode, reason: str) -> None:
        raise AssertionError(reason)

    def ask(self, command: Command) -> list[Command]:
        """Hand a command to the session; gives what was answered at once."""
        self.session.handle(command)
        return self.sent()

    def sent(self) -> list[Command]:
        data, found = self.machine.data_to_send(), []
        while data:
            size = 4 + int.from_bytes(data[:4], "big")
            found.append(decode_response(data, 4, size))
            data = data[size:]
        return found


@pytest.fixture
def machine() -> Machine:
    made = Machine()
    made.log(STREAM)
    return made


@pytest.fixture
def connection(machine: Machine, tmp_path: Path) -> Iterator[Connection]:
    loop = asyncio.new_event_loop()
    with catalogue(tmp_path) as users, authenticator(users) as doorman:
        sasl = Sasl(doorman, allows_anonymous=False, allows_plain_without_tls=False)
        door = Door(machine.store, Access(users), sasl, loop, Limits(), "4.0.5")
        assert "PLAIN" in sasl.mechanisms(Peer(is_loopback=True))
        guest = users.state.users["guest"]
        yield Connection(door, Identity(guest.name, guest.id, guest.roles, is_loopback=True))
    loop.close()


def subscribe(
    id_: int, kind: OffsetType, value: int = 0, properties: dict[str, str] | None = None
) -> c.SubscribeRequest:
    return c.SubscribeRequest(9, id_, STREAM, OffsetSpecification(kind, value), 1, properties or {})


def test_a_sequence_counts_what_was_published_before_it_was_asked_for(
    machine: Machine, connection: Connection
) -> None:
    publish(machine.log(STREAM), [1, 2, 3], b"ref")
    assert connection.ask(c.QueryPublisherSequenceRequest(7, "ref", STREAM)) == []
    machine.store.flush()
    assert connection.sent() == [c.QueryPublisherSequenceResponse(7, OK, 3)]
    assert connection.ask(c.QueryPublisherSequenceRequest(8, "ref", STREAM)) == [
        c.QueryPublisherSequenceResponse(8, OK, 3)
    ]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(OffsetType.NEXT, 3), (OffsetType.LAST, 1), (OffsetType.TIMESTAMP, 3)],
)
def test_the_end_of_a_stream_is_behind_what_is_on_its_way_to_the_disk(
    machine: Machine, connection: Connection, kind: OffsetType, expected: int
) -> None:
    partition = machine.log(STREAM)
    append(partition, b"old")
    machine.store.flush()
    later = machine.clock() + 60_000 if kind is OffsetType.TIMESTAMP else 0
    with machine.held_back(partition, b"on its way", b"too"):
        assert connection.ask(subscribe(1, kind, later)) == []
        assert connection.ask(c.ResolveOffsetSpecRequest(8, STREAM, OffsetSpecification(kind, later))) == []
    resolved = OffsetSpecification(OffsetType.OFFSET, expected)
    assert connection.sent() == [c.SubscribeResponse(9, OK), c.ResolveOffsetSpecResponse(8, OK, resolved)]
    assert connection.session.subscriptions[1].offset == expected


def test_a_subscription_from_the_start_waits_for_nothing(machine: Machine, connection: Connection) -> None:
    with machine.held_back(machine.log(STREAM), b"x"):
        for id_, kind in enumerate((OffsetType.FIRST, OffsetType.OFFSET)):
            assert connection.ask(subscribe(id_, kind)) == [c.SubscribeResponse(9, OK)]


def test_a_connection_that_ended_meanwhile_gets_no_subscription(
    machine: Machine, connection: Connection
) -> None:
    with machine.held_back(machine.log(STREAM), b"x"):
        connection.ask(subscribe(1, OffsetType.NEXT))
        connection.session.close()
    assert connection.session.subscriptions == {}


def test_a_stream_that_went_meanwhile_is_not_there(machine: Machine, connection: Connection) -> None:
    append(machine.log(STREAM), b"x")
    assert connection.ask(subscribe(1, OffsetType.NEXT)) == []
    machine.store.delete_log(STREAM)
    machine.store.flush()
    assert connection.sent() == [c.SubscribeResponse(9, ResponseCode.STREAM_DOES_NOT_EXIST)]


def test_names_are_looked_at_before_permissions(connection: Connection) -> None:
    refused = ResponseCode.PRECONDITION_FAILED
    assert connection.ask(c.CreateRequest(5, "", {})) == [c.CreateResponse(5, refused)]
    assert connection.ask(c.CreateSuperStreamRequest(6, "", ("-0",), ("0",), {})) == [
        c.CreateSuperStreamResponse(6, refused)
    ]


def test_properties_of_a_subscription_are_kept_within_bounds(connection: Connection) -> None:
    many = {f"name-{number}": "v" * 10_000 for number in range(PROPERTIES_KEPT_MAX + 1)}
    connection.ask(subscribe(1, OffsetType.FIRST, 0, many))
    kept = connection.session.subscriptions[1].properties
    assert len(kept) == PROPERTIES_KEPT_MAX
    assert {len(value) for value in kept.values()} == {PROPERTY_CHARS_KEPT_MAX}

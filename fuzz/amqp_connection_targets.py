"""AMQP connections, of servers and of clients, at every state: any bytes, and any frames in any order."""

from __future__ import annotations

from collections.abc import Callable

from fuzz.amqp_owner import Owner
from fuzz.amqp_program import frames_of
from fuzz.targets import check, target
from headwater.amqp.definitions import Condition, Role
from headwater.amqp.faults import ConnectionFault
from headwater.amqp.frames import EMPTY_FRAME, ProtocolId, encode_frame, encode_sasl_frame, protocol_header
from headwater.amqp.messaging import Accepted, Source, Target
from headwater.amqp.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Performative,
    Transfer,
)
from headwater.amqp.receiver_link import ReceiverLink
from headwater.amqp.sasl import SASL_HEADER, SaslClient, SaslFailed, SaslServer
from headwater.amqp.sasl_frames import SaslCode, SaslInit, SaslMechanisms, SaslOutcome, SaslResponse
from headwater.amqp.sender_link import SenderLink
from headwater.encoding.amqp_types import Symbol
from headwater.errors import PeerError

__all__ = ["STAGES", "owner_at"]

HEADER = protocol_header(ProtocolId.AMQP)
_BODY = b"\x00\x53\x75\xa0\x04body"


def _said(*performatives: Performative | tuple[Performative, bytes], channel: int = 0) -> bytes:
    frames = [each if isinstance(each, tuple) else (each, b"") for each in performatives]
    return b"".join(encode_frame(channel, *each) for each in frames)


OPENED = HEADER + _said(Open("peer", max_frame_size=512))
BEGUN = OPENED + _said(Begin(None, 0, 20, 20))
ATTACHED = BEGUN + _said(
    Attach("up", 0, Role.SENDER, source=Source(), target=Target("log"), initial_delivery_count=0),
    Attach("down", 1, Role.RECEIVER, source=Source("log"), target=Target()),
)
BUSY = ATTACHED + _said(
    Flow(0, 20, 0, 20, 1, 0, 6),
    (Transfer(0, 0, b"a"), _BODY),
    (Transfer(0, 1, b"b", more=True), _BODY),
)


def _server(data: bytes) -> Callable[[], Owner]:
    def begun() -> Owner:
        owner = Owner()
        owner.give(data)
        return owner

    return begun


def _client(data: bytes, *, pipelined: bool) -> Callable[[], Owner]:
    def begun() -> Owner:
        owner = Owner()
        owner.connection.send_header()
        if pipelined:
            owner.connection.open()
            session = owner.connection.begin()
            ReceiverLink(session, "a").attach(Source("log"), Target())
            SenderLink(session, "b").attach(Source(), Target("log"))
        owner.give(data)
        return owner

    return begun


def _ended(what: str) -> Callable[[], Owner]:
    def begun() -> Owner:
        owner = Owner()
        owner.give(BUSY)
        (session,) = owner.connection.sessions.values()
        match what:
            case "link":
                for link in list(session.links.values()):
                    link.detach()
            case "session":
                session.end()
            case _:
                owner.connection.close()
        return owner

    return begun


STAGES: tuple[Callable[[], Owner], ...] = (
    _server(b""),
    _server(HEADER),
    _server(OPENED),
    _server(BEGUN),
    _server(ATTACHED),
    _server(BUSY),
    _ended("link"),
    _ended("session"),
    _ended("connection"),
    _client(b"", pipelined=False),
    _client(b"", pipelined=True),
    _client(HEADER, pipelined=True),
    _client(OPENED, pipelined=True),
    _client(OPENED + _said(Begin(0, 0, 20, 20)), pipelined=True),
)


def owner_at(number: int) -> Owner:
    """The owner of a connection that has come to a stage."""
    return STAGES[number % len(STAGES)]()


_TALK = _said(
    (Transfer(0, 2, b"c"), _BODY),
    (Transfer(0, 3, b"d", settled=True), _BODY),
    Disposition(Role.RECEIVER, 0, 2, True, Accepted()),
    Flow(2, 20, 4, 20, 1, 2, 6, drain=True, echo=True),
    Detach(0, True),
    End(),
    Close(),
)
_FROM_HEADER = 0
_FROM_ATTACHED = 4


@target(
    "amqp_connection_bytes",
    PeerError,
    seeds=[
        bytes((_FROM_ATTACHED, 7)) + _TALK,
        bytes((_FROM_HEADER, 0)) + BUSY + _TALK,
        bytes((_FROM_HEADER, 1)) + OPENED,
        bytes((12, 3)) + _said(Begin(0, 0, 9, 9), Attach("a", 0, Role.SENDER)) + EMPTY_FRAME,
    ],
)
def fuzz_connection_bytes(data: bytes) -> None:
    if len(data) < 2:
        return
    owner = owner_at(data[0])
    step = data[1] + 1
    for at in range(2, len(data), step):
        owner.give(data[at : at + step])
        owner.hear()
    _refuse_if_broken(owner)


_CHOSEN = bytes.fromhex(
    "50fe93591139b17938d6e61dc3c33415a89004756f14fa8eebcba24bce780c97d94f179daf226f5893185c99da7a2542"
    "7391cf1be3f230fc40526b0b755fdaca5bbca6f15e8ef4cd20af9689189581b432a46275cb362713d918"
)
"""Of which every kind of event comes."""


@target(
    "amqp_connection_frames",
    PeerError,
    seeds=[
        bytes((_FROM_ATTACHED,)) + _CHOSEN,
        bytes((_FROM_ATTACHED,)) + bytes(range(1, 120)),
        bytes((5,)) + b"\x0b\x01\x04" * 30,
    ],
)
def fuzz_connection_frames(data: bytes) -> None:
    if not data:
        return
    owner = owner_at(data[0])
    for frame in frames_of(data[1:]):
        owner.give(frame)
        owner.hear()
    _refuse_if_broken(owner)


def _refuse_if_broken(owner: Owner) -> None:
    """So that further inputs grow from those of which something came."""
    if owner.is_broken:
        raise ConnectionFault(Condition.NOT_ALLOWED, "the connection ended")


_INIT = SaslInit(Symbol("PLAIN"), b"\0user\0secret", "host")


@target(
    "amqp_sasl_server",
    PeerError,
    seeds=[
        SASL_HEADER + encode_sasl_frame(_INIT) + encode_sasl_frame(SaslResponse(b"x")),
        SASL_HEADER,
        HEADER,
    ],
)
def fuzz_sasl_server(data: bytes) -> None:
    machine = SaslServer(("PLAIN", "SCRAM-SHA-256"))
    position = 0
    while True:
        event, following = machine.next_event(data, position, len(data))
        check(position <= following <= len(data), "the position lies outside of what was given")
        position = following
        if isinstance(event, SaslFailed):
            raise ConnectionFault(Condition.NOT_ALLOWED, event.reason)
        if not isinstance(event, SaslInit | SaslResponse):
            return
        machine.challenge(b"go on")


@target(
    "amqp_sasl_client",
    PeerError,
    seeds=[
        SASL_HEADER
        + encode_sasl_frame(SaslMechanisms((Symbol("PLAIN"),)))
        + encode_sasl_frame(SaslOutcome(SaslCode.OK)),
        SASL_HEADER,
    ],
)
def fuzz_sasl_client(data: bytes) -> None:
    machine = SaslClient()
    position = 0
    while not machine.is_over:
        event, following = machine.next_event(data, position, len(data))
        check(position <= following <= len(data), "the position lies outside of what was given")
        position = following
        if event is None:
            return
        if isinstance(event, SaslMechanisms):
            machine.start("PLAIN", b"x", None)
        else:
            machine.respond(b"x")

"""A blocking AMQP peer: what it sends may be anything, what comes must be as the standard draws it."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from headwater.amqp.definitions import FRAME_SIZE_BYTES_MAX_DEFAULT, ErrorValue, Role, SenderSettleMode
from headwater.amqp.frames import (
    FrameType,
    ProtocolId,
    encode_frame,
    encode_sasl_frame,
    protocol_header,
    read_frame,
)
from headwater.amqp.messaging import Accepted, DeliveryState, Source, Target
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
    decode_performative,
)
from headwater.amqp.sasl_frames import SaslBody, SaslInit, SaslMechanisms, SaslOutcome, decode_sasl
from headwater.amqp.transactions import Coordinator
from headwater.encoding.amqp_decoder import decode
from headwater.encoding.amqp_message import SectionCode, data_section, decode_section, read_sections
from headwater.encoding.amqp_types import Described, Symbol
from tests.conformance.peer_socket import PeerSocket

__all__ = [
    "AMQP",
    "FIRST",
    "SASL",
    "AmqpWire",
    "Delivered",
    "Frame",
    "data",
    "delivered_of",
    "frame",
    "from_offset",
    "opened_amqp",
    "transfer",
]

AMQP = protocol_header(ProtocolId.AMQP)
SASL = protocol_header(ProtocolId.SASL)
OFFSET_SPEC = Symbol("rabbitmq:stream-offset-spec")
CREDIT = 1_000
WINDOW = 1 << 20

_SIZE = struct.Struct(">I")
_NUMBERS = itertools.count(1)
_FIELD_COUNTS: dict[type[Performative], int] = {
    Open: 10,
    Begin: 8,
    Attach: 14,
    Flow: 11,
    Transfer: 11,
    Disposition: 6,
    Detach: 3,
    End: 1,
    Close: 1,
}
PerformativeT = TypeVar("PerformativeT", bound=Performative)
BodyT = TypeVar("BodyT", bound=SaslBody)
data = data_section
"""A message with this body."""


def from_offset(position: object) -> dict[Symbol, Any]:
    """The filter that says where to begin."""
    return {OFFSET_SPEC: Described(OFFSET_SPEC, position)}


FIRST = from_offset("first")


class Frame(msgspec.Struct, frozen=True):
    """What came in one frame; a heartbeat has no performative."""

    channel: int
    performative: Performative | None
    payload: bytes
    size: int


class Delivered(msgspec.Struct, frozen=True):
    """A message as it came, taken apart."""

    id: int
    settled: bool
    annotations: dict[Symbol, Any]
    record: bytes
    """Without its delivery annotations."""
    frames: int

    @property
    def offset(self) -> int:
        """Which place in its partition it has."""
        digits = self.annotations[Symbol("event-streams-offset")]
        assert type(digits) is Symbol
        assert len(digits) == 16
        return int(digits, 16)

    @property
    def partition(self) -> str:
        """Which partition it is of."""
        return str(self.annotations[Symbol("event-streams-source-partition")])


def frame(performative: Performative, payload: bytes = b"", channel: int = 0) -> bytes:
    """The bytes of a frame."""
    return encode_frame(channel, performative, payload)


def transfer(id_: int, payload: bytes, handle: int = 0, channel: int = 0, **fields: Any) -> bytes:
    """The bytes of a transfer of one frame; its tag is made of its id."""
    values = {"delivery_tag": id_.to_bytes(4, "big"), "message_format": 0, "settled": False, **fields}
    return frame(Transfer(handle, id_, **values), payload, channel)


class AmqpWire(PeerSocket):
    """Sends frames or bytes, and takes what comes frame by frame; every frame is checked against its layout."""

    frame_size_bytes_max = FRAME_SIZE_BYTES_MAX_DEFAULT
    """What we told that we take."""

    def send(self, *parts: Performative | bytes, channel: int = 0) -> None:
        """All of it in one write."""
        self.send_bytes(
            b"".join(part if isinstance(part, bytes) else frame(part, channel=channel) for part in parts)
        )

    # What came

    def raw_frame(self) -> bytes:
        """The next frame whole."""
        size = self.exactly(_SIZE.size)
        return size + self.exactly(_SIZE.unpack(size)[0] - _SIZE.size)

    def frame(self) -> Frame:
        """The next frame, heartbeats included; its list has every field, null or not."""
        raw = self.raw_frame()
        assert len(raw) <= self.frame_size_bytes_max, f"a frame of {len(raw)} bytes is too large"
        found = read_frame(raw, 0, len(raw), len(raw))
        assert found is not None
        assert found.type is FrameType.AMQP
        if found.position == found.end:
            return Frame(found.channel, None, b"", len(raw))
        performative, behind = decode_performative(raw, found.position, found.end)
        listed, _ = decode(raw, found.position, found.end)
        assert isinstance(listed, Described)
        assert len(listed.value) == _FIELD_COUNTS[type(performative)], "lists have their full length"
        if not isinstance(performative, Transfer):
            assert behind == found.end, "a performative fills its frame"
        return Frame(found.channel, performative, raw[behind : found.end], len(raw))

    def next(self) -> Frame:
        """The next frame that is no heartbeat."""
        while True:
            came = self.frame()
            if came.performative is not None:
                return came

    def take(self, kind: type[PerformativeT], channel: int = 0) -> PerformativeT:
        """The next performative, which must be of this kind."""
        came = self.next()
        assert isinstance(came.performative, kind), f"{came} came instead of a {kind.__name__}"
        assert came.channel == channel
        return came.performative

    def until(self, kind: type[PerformativeT]) -> PerformativeT:
        """The next performative of this kind, whatever comes before it."""
        while not isinstance(found := self.next().performative, kind):
            pass
        return found

    def take_sasl(self, kind: type[BodyT]) -> BodyT:
        """The next frame, which must be this one of SASL, and of 512 bytes at most."""
        raw = self.raw_frame()
        found = read_frame(raw, 0, len(raw), 512)
        assert found is not None
        assert found.type is FrameType.SASL
        body = decode_sasl(raw, found.position, found.end)
        assert isinstance(body, kind), f"{body} came instead of a {kind.__name__}"
        return body

    def message(self, channel: int = 0) -> Delivered:
        """The next delivery whole; nothing else may come before it or within it."""
        first, parts, frames = None, [], 0
        while True:
            came = self.next()
            part = came.performative
            assert isinstance(part, Transfer), f"{came} came instead of a transfer"
            assert came.channel == channel
            if first is None:
                first = part
            else:
                assert part.delivery_id in (None, first.delivery_id)
            parts.append(came.payload)
            frames += 1
            if not part.more:
                break
        assert first.delivery_id is not None
        assert first.delivery_tag
        return delivered_of(first.delivery_id, bool(first.settled), b"".join(parts), frames)

    def messages(self, count: int) -> list[Delivered]:
        """So many deliveries."""
        return [self.message() for _ in range(count)]

    # What tells that nothing came

    def assert_nothing_came(self, channel: int = 0) -> None:
        """All that was sent is dealt with, and nothing came of it: echoes are answered before anything else.

        The second one comes in a later turn of the server's loop, when what the first turn put off is done.
        """
        for _ in range(2):
            self.echo(channel)
            assert self.take(Flow, channel).handle is None

    def echo(self, channel: int = 0) -> None:
        """Ask for the state of the session; it says that transfers may come."""
        self.send(Flow(0, WINDOW, 0, 1, echo=True), channel=channel)

    def assert_closes(self, condition: str) -> ErrorValue:
        """The connection is closed for this reason, waits for our answer, and then ends."""
        close = self.until(Close)
        assert close.error is not None
        assert close.error.condition == condition
        self.send(Close())
        self.assert_ended()
        return close.error

    def assert_ends(self, condition: str, channel: int = 0) -> ErrorValue:
        """The session is ended for this reason, and the connection goes on."""
        end = self.take(End, channel)
        assert end.error is not None
        assert end.error.condition == condition
        self.send(End(), channel=channel)
        return end.error

    def assert_detaches(self, condition: str, handle: int = 0, *, theirs: int | None = None) -> ErrorValue:
        """The link is closed for this reason, and its session goes on; `theirs` is the server's handle, if another."""
        detach = self.take(Detach)
        assert detach.error is not None
        assert detach.error.condition == condition
        assert detach.closed
        assert detach.handle == (handle if theirs is None else theirs)
        self.send(Detach(handle, closed=True))
        self.assert_nothing_came()
        return detach.error

    # Steps

    def greet(self, mechanism: str = "PLAIN", response: bytes | None = b"\0guest\0guest") -> SaslOutcome:
        """SASL of one message."""
        self.send(SASL, encode_sasl_frame(SaslInit(Symbol(mechanism), response)))
        assert self.exactly(len(SASL)) == SASL
        self.take_sasl(SaslMechanisms)
        return self.take_sasl(SaslOutcome)

    def open(self, **fields: Any) -> Open:
        """Open a connection; gives what the server says of itself."""
        self.send(AMQP, Open(**{"container_id": f"peer-{next(_NUMBERS)}", **fields}))
        assert self.exactly(len(AMQP)) == AMQP
        self.frame_size_bytes_max = fields.get("max_frame_size", self.frame_size_bytes_max)
        return self.take(Open)

    def begin(self, channel: int = 0, *, window: int = WINDOW) -> Begin:
        """Begin a session; its channels are the same both ways."""
        self.send(Begin(None, 0, window, WINDOW), channel=channel)
        begun = self.take(Begin, channel)
        assert begun.remote_channel == channel
        return begun

    def attach(
        self, role: Role, source: Source | None, target: Target | Coordinator | None, **fields: Any
    ) -> Attach:
        """Attach a link; gives the answer, whatever it is."""
        fields = {"name": f"link-{role}-{fields.get('handle', 0)}", "handle": 0, "role": role, **fields}
        if role is Role.SENDER:
            fields.setdefault("initial_delivery_count", 0)
        self.send(Attach(source=source, target=target, **fields))
        answer = self.take(Attach)
        assert answer.name == fields["name"]
        assert answer.role is not role
        return answer

    def sender(self, address: str | None, **fields: Any) -> Flow:
        """Attach a link to send on; gives the credit that follows."""
        answer = self.attach(Role.SENDER, Source(), Target(address), **fields)
        assert isinstance(answer.target, Target), f"{answer} refuses the link: {self.next()}"
        assert answer.target.address == address
        return self.take(Flow)

    def receiver(
        self,
        address: str,
        *,
        credit: int = CREDIT,
        filter: dict[Symbol, Any] | None = FIRST,
        settled: bool = False,
        **fields: Any,
    ) -> Attach:
        """Attach a link to receive on, from the first message unless a filter says otherwise, and give credit."""
        mode = SenderSettleMode.SETTLED if settled else SenderSettleMode.MIXED
        source = Source(address, filter=filter)
        fields = {"snd_settle_mode": mode, **fields}
        answer = self.attach(Role.RECEIVER, source, Target(), **fields)
        assert isinstance(answer.source, Source), f"{answer} refuses the link: {self.next()}"
        if credit:
            self.credit(credit, fields.get("handle", 0))
        return answer

    def credit(self, credit: int, handle: int = 0, *, delivery_count: int = 0, **fields: Any) -> None:
        """Let deliveries come."""
        self.send(Flow(0, WINDOW, 0, 1, handle, delivery_count, credit, **fields))

    def refused(
        self, condition: str, role: Role, source: Source | None, target: Any, **fields: Any
    ) -> ErrorValue:
        """Attach a link that is refused as clients expect it: without a terminus, then closed."""
        answer = self.attach(role, source, target, **fields)
        assert (answer.target if role is Role.SENDER else answer.source) is None
        return self.assert_detaches(condition, fields.get("handle", 0), theirs=answer.handle)

    # Sending messages

    def publish(self, payloads: Iterable[bytes], *, first_id: int = 0, handle: int = 0) -> None:
        """Send messages, and see them all accepted."""
        listed = list(payloads)
        self.send(b"".join(transfer(first_id + number, each, handle) for number, each in enumerate(listed)))
        outcomes = self.outcomes(range(first_id, first_id + len(listed)))
        assert set(map(type, outcomes.values())) <= {Accepted}, outcomes

    def outcomes(self, ids: Sequence[int]) -> dict[int, DeliveryState | None]:
        """What becomes of just these deliveries, once each; flows may come between."""
        found: dict[int, DeliveryState | None] = {}
        while len(found) < len(ids):
            came = self.next().performative
            if isinstance(came, Flow):
                continue
            assert isinstance(came, Disposition), f"{came} came instead of an outcome"
            assert came.role is Role.RECEIVER
            assert came.settled
            last = came.first if came.last is None else came.last
            for number in range((last - came.first) % 2**32 + 1):
                id_ = (came.first + number) % 2**32
                assert id_ in ids
                assert id_ not in found
                found[id_] = came.state
        return found


def opened_amqp(
    host: str,
    port: int,
    *,
    user: str = "guest",
    password: str | None = None,
    session: bool = True,
    fields: dict[str, Any] | None = None,
    **socket_options: Any,
) -> AmqpWire:
    """A connection that is open, with a session; a password that is not given is the user's name."""
    wire = AmqpWire(host, port, **socket_options)
    secret = user if password is None else password
    try:
        assert wire.greet(response=f"\0{user}\0{secret}".encode()).code == 0
        wire.open(**(fields or {}))
        if session:
            wire.begin()
    except BaseException:
        wire.vanish()
        raise
    return wire


def delivered_of(id_: int, settled: bool, payload: bytes, frames: int) -> Delivered:
    """A message taken apart."""
    sections = read_sections(payload, 0, len(payload))
    (section,) = [each for each in sections if each.code is SectionCode.DELIVERY_ANNOTATIONS]
    annotations = decode_section(payload, section)
    record = payload[: section.start] + payload[section.end :]
    return Delivered(id_, settled, annotations, record, frames)

"""One end of an AMQP connection under test, and a peer that says whatever a test has it say, and reads the answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from headwater.amqp.connection import Connection, Limits, PartialBudget
from headwater.amqp.definitions import Role
from headwater.amqp.events import Closed, Deliveries, Event, LinkAttached, Opened
from headwater.amqp.frames import ProtocolId, encode_frame, protocol_header, read_frame
from headwater.amqp.messaging import Source, Target
from headwater.amqp.performatives import (
    Attach,
    Begin,
    Flow,
    Open,
    Performative,
    Transfer,
    decode_performative,
)
from headwater.amqp.receiver_link import ReceiverLink
from headwater.amqp.sender_link import SenderLink
from headwater.encoding._span_kernel import SPAN_FIELDS

__all__ = [
    "AMQP_HEADER",
    "BODY",
    "Peer",
    "attach_receiver",
    "attach_sender",
    "messages_of",
    "payloads_of",
    "transfer",
]

AMQP_HEADER = protocol_header(ProtocolId.AMQP)
BODY = b"\x00\x53\x75\xa0\x04body"
WINDOW = 1000

Said = tuple[int, Performative, bytes]
Wanted = TypeVar("Wanted", bound=Performative)


def attach_sender(handle: int = 0, name: str = "up", **fields: object) -> Attach:
    """The attach of a peer that wants to send."""
    fields.setdefault("initial_delivery_count", 0)
    return Attach(name, handle, Role.SENDER, source=Source(), target=Target("log"), **fields)  # type: ignore[arg-type]


def attach_receiver(handle: int = 0, name: str = "down", **fields: object) -> Attach:
    """The attach of a peer that wants to receive."""
    return Attach(name, handle, Role.RECEIVER, source=Source("log"), target=Target(), **fields)  # type: ignore[arg-type]


def transfer(delivery_id: int | None = 0, handle: int = 0, **fields: object) -> Transfer:
    """A transfer with a tag, if it begins a delivery."""
    if delivery_id is not None:
        fields.setdefault("delivery_tag", delivery_id.to_bytes(4, "big"))
    return Transfer(handle, delivery_id, **fields)  # type: ignore[arg-type]


def messages_of(event: Deliveries) -> list[bytes]:
    """The messages of an event, less their delivery annotations."""
    spans = event.spans
    return [
        bytes(event.buffer[spans[at] : spans[at + 1]]) + bytes(event.buffer[spans[at + 2] : spans[at + 3]])
        for at in range(0, SPAN_FIELDS * event.count, SPAN_FIELDS)
    ]


def payloads_of(frames: Sequence[Said]) -> list[bytes]:
    """What the transfers among frames carry."""
    return [payload for _, performative, payload in frames if isinstance(performative, Transfer)]


class Peer:
    """A connection under test is `tested`; its owner opens, closes and ends as it is asked, and accepts links."""

    def __init__(self, limits: Limits | None = None, budget: PartialBudget | None = None) -> None:
        self.tested = Connection("tested", limits, budget=budget)
        self.messages: list[bytes] = []
        """Of all deliveries that were told of."""
        self._kept = bytearray()

    def opened(self, **fields: object) -> Peer:
        """Open the connection; the answer is read."""
        fields.setdefault("container_id", "peer")
        self.give(AMQP_HEADER)
        self.say(Open(**fields))  # type: ignore[arg-type]
        self.heard()
        return self

    def begun(self, next_outgoing_id: int = 0, window: int = WINDOW, **fields: object) -> Peer:
        """Begin a session on channel 0; the answer is read."""
        self.say(Begin(None, next_outgoing_id, window, window, **fields))  # type: ignore[arg-type]
        self.heard()
        return self

    def sender(self, credit: int = 100, handle: int = 0, name: str = "up", **fields: object) -> ReceiverLink:
        """Attach a link on which the peer sends, with credit; gives the tested end."""
        self.say(attach_sender(handle, name, **fields))
        link = self._last_link
        assert isinstance(link, ReceiverLink)
        link.grant(credit)
        self.heard()
        return link

    def receiver(
        self, credit: int = 100, handle: int = 0, name: str = "down", **fields: object
    ) -> SenderLink:
        """Attach a link on which the peer receives, with credit; gives the tested end."""
        self.say(attach_receiver(handle, name, **fields))
        link = self._last_link
        assert isinstance(link, SenderLink)
        if credit:
            self.flow(link_credit=credit, handle=handle, delivery_count=0)
        self.heard()
        return link

    @property
    def _last_link(self) -> object:
        session = self.tested.sessions[max(self.tested.sessions)]
        return session.links[max(session.links)]

    # What the peer says

    def say(self, *said: Performative | tuple[Performative, bytes], channel: int = 0) -> list[Event]:
        """Send frames in one piece; gives the events."""
        frames = [each if isinstance(each, tuple) else (each, b"") for each in said]
        return self.give(b"".join(encode_frame(channel, *each) for each in frames))

    def flow(self, channel: int = 0, **fields: object) -> list[Event]:
        """Send a flow, with windows that are wide unless the test says otherwise."""
        given: dict[str, object] = {
            "next_incoming_id": 0,
            "incoming_window": WINDOW,
            "next_outgoing_id": 0,
            "outgoing_window": WINDOW,
        }
        return self.say(Flow(**{**given, **fields}), channel=channel)  # type: ignore[arg-type]

    def give(self, data: bytes) -> list[Event]:
        """Send any bytes; gives the events."""
        self._kept += data
        buffer, position, events = bytes(self._kept), 0, []
        while True:
            event, position = self.tested.next_event(buffer, position, len(buffer))
            if event is None:
                break
            self._act(event)
            events.append(event)
        self._kept = bytearray(buffer[position:])
        return events

    def _act(self, event: Event) -> None:
        if isinstance(event, Opened):
            self.tested.open()
        elif isinstance(event, Closed) and not event.is_answered:
            self.tested.close()
        elif isinstance(event, LinkAttached) and not event.link.is_attached:
            source, target = event.link.remote.source, event.link.remote.target
            assert isinstance(source, Source)
            assert isinstance(target, Target)
            event.link.accept(source, target)
        elif isinstance(event, Deliveries):
            self.messages += messages_of(event)

    # What the peer hears

    def heard(self) -> list[Said]:
        """All frames that were not heard yet, with channel and payload; heartbeats are left out."""
        data = bytes(self.tested.data_to_send())
        position = len(AMQP_HEADER) if data.startswith(b"AMQP") else 0
        frames: list[Said] = []
        while position < len(data):
            frame = read_frame(data, position, len(data), 1 << 30)
            assert frame is not None, "what is sent is whole"
            if frame.position < frame.end:
                performative, payload = decode_performative(data, frame.position, frame.end)
                frames.append((frame.channel, performative, data[payload : frame.end]))
            position = frame.end
        return frames

    def heard_of(self, kind: type[Wanted]) -> list[Wanted]:
        """All performatives of a kind that were not heard yet; all others are passed over."""
        return [performative for _, performative, _ in self.heard() if isinstance(performative, kind)]

    def heard_one(self, kind: type[Wanted]) -> Wanted:
        """The one performative of a kind that was not heard yet."""
        (found,) = self.heard_of(kind)
        return found

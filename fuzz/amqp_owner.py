"""An owner of an AMQP connection that answers whatever comes, and what must hold of the connection at all times."""

from __future__ import annotations

from fuzz.targets import check
from headwater.amqp.connection import Connection, Limits, PartialBudget, State
from headwater.amqp.definitions import Condition, ErrorValue, ReceiverSettleMode
from headwater.amqp.events import (
    Closed,
    Deliveries,
    Event,
    LinkAttached,
    LinkDetached,
    LinkFlow,
    Opened,
    SessionEnded,
    Settled,
    WindowOpened,
)
from headwater.amqp.frames import PROTOCOL_HEADER_BYTES, ProtocolId, protocol_header, read_frame
from headwater.amqp.link import Link
from headwater.amqp.messaging import Accepted, DeliveryState, Rejected, Released, Source, Target
from headwater.amqp.performatives import Close, Open, decode_performative
from headwater.amqp.receiver_link import ReceiverLink
from headwater.amqp.sender_link import SenderLink
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.amqp_types import Described

__all__ = ["LIMITS", "PARTIAL_BYTES_MAX", "Owner"]

PARTIAL_BYTES_MAX = 300
LIMITS = Limits(
    frame_size_bytes_max=2000,
    opening_frame_bytes_max=600,
    channel_max=3,
    handle_max=3,
    incoming_window=16,
    run_count_max=4,
    performative_bytes_max=400,
    attach_bytes_max=8000,
    unsettled_ranges_max=12,
    message_size_bytes_max=500,
)
_CREDIT = 10
_MESSAGES = (b"\x00\x53\x75\xa0\x01m", b"\x00\x53\x75\xb0\x00\x00\x04\x00" + bytes(1024))
_OUTCOMES: tuple[DeliveryState, ...] = (
    Accepted(),
    Released(),
    Rejected(ErrorValue(Condition.INTERNAL_ERROR, "x" * 600)),
)


class Owner:
    """Opens, accepts, sends, settles and closes, by what it is told; `told` is that, however the bytes were cut."""

    def __init__(self) -> None:
        self.connection = Connection("tested", LIMITS, budget=PartialBudget(PARTIAL_BYTES_MAX))
        self.told: list[tuple[object, ...]] = []
        self._kept = bytearray()
        self._sent: list[type] = []
        self._was_header_sent = False

    @property
    def is_broken(self) -> bool:
        """Whether the connection ended for an error."""
        return any(each[0] is Closed and each[1] is not None for each in self.told)

    def give(self, data: bytes) -> None:
        """Take bytes of the peer, and check all that must hold."""
        self._kept += data
        buffer, position = bytes(self._kept), 0
        while True:
            event, following = self.connection.next_event(buffer, position, len(buffer))
            check(position <= following <= len(buffer), "the position lies outside of what was given")
            position = following
            if event is None:
                break
            self._handle(event)
            self._check_accounts()
        del self._kept[:position]
        check(len(self._kept) <= LIMITS.frame_size_bytes_max, "more is kept than a frame may have")

    def hear(self) -> None:
        """Take what is to be sent, and check it."""
        data = bytes(self.connection.data_to_send())
        position = 0
        if data and not self._was_header_sent:
            check(data.startswith(protocol_header(ProtocolId.AMQP)), "no header comes first")
            self._was_header_sent, position = True, PROTOCOL_HEADER_BYTES
        while position < len(data):
            size_max = self.connection.remote_frame_size_bytes_max
            frame = read_frame(data, position, len(data), size_max)
            check(frame is not None, "half a frame is sent")
            assert frame is not None
            check(Close not in self._sent, "something is sent behind close")
            if frame.position < frame.end:
                performative, _ = decode_performative(data, frame.position, frame.end)
                check(bool(self._sent) or isinstance(performative, Open), "no open comes first")
                self._sent.append(type(performative))
            position = frame.end

    def _handle(self, event: Event) -> None:
        match event:
            case Opened():
                self.told.append((Opened, event.open.container_id))
                if self.connection.state is State.OPEN_RECEIVED:
                    self.connection.open()
            case Closed():
                self.told.append((Closed, event.error and event.error.condition))
                self.connection.close()
                check(self.connection.state in (State.CLOSE_SENT, State.END), "a closed connection goes on")
            case SessionEnded():
                self.told.append((SessionEnded, event.session.channel, event.error and event.error.condition))
                event.session.end()
            case LinkAttached():
                self.told.append((LinkAttached, event.link.name, event.link.role))
                self._attach(event.link)
            case LinkDetached():
                self.told.append((LinkDetached, event.link.name, event.error and event.error.condition))
                event.link.detach(is_closed=event.is_closed)
            case Deliveries():
                self._settle(event)
            case Settled():
                self._settled(event)
            case LinkFlow():
                self.told.append((LinkFlow, event.link.name))
                self._send(event.link)
            case WindowOpened():
                self.told.append((WindowOpened, event.session.channel))
                for link in list(event.session.links.values()):
                    self._send(link)
            case _:
                self.told.append((type(event),))

    def _attach(self, link: Link) -> None:
        if link.is_attached:
            pass
        elif link.name.startswith("r"):
            link.refuse(ErrorValue(Condition.NOT_FOUND, link.name * 100))
        else:
            remote = link.remote
            link.accept(
                None if isinstance(remote.source, Described) else remote.source or Source(),
                remote.target if isinstance(remote.target, Target) else Target(),
            )
        if isinstance(link, ReceiverLink):
            link.grant(_CREDIT)

    def _settle(self, event: Deliveries) -> None:
        check(0 < event.count <= LIMITS.run_count_max, "an event of too many messages")
        for number in range(event.count):
            head, head_end, rest, end = event.spans[SPAN_FIELDS * number : SPAN_FIELDS * (number + 1)]
            check(
                0 <= head <= head_end <= rest <= end <= len(event.buffer), "a span lies outside of its buffer"
            )
            message = bytes(event.buffer[head:head_end]) + bytes(event.buffer[rest:end])
            check(len(message) <= LIMITS.message_size_bytes_max, "a message is larger than was said")
            id_ = event.first_id + number
            self.told.append((Deliveries, event.link.name, id_, event.is_settled, message))
            if id_ % 4:
                event.link.settle(id_, id_ + 1, _OUTCOMES[id_ % 3])

    def _settled(self, event: Settled) -> None:
        for link, ranges in event.parts:
            for first, end in ranges:
                for id_ in range(first, end):
                    self.told.append((Settled, link.name, id_, type(event.state), event.is_settled))
                if not event.is_settled:
                    link.settle((first, end), event.state)

    def _send(self, link: Link) -> None:
        if not isinstance(link, SenderLink):
            return
        link.send_rest()
        for number in range(4):
            message = _MESSAGES[number % 2]
            if link.may_send and len(message) <= (link.message_size_bytes_max or len(message)):
                link.send(message)
        link.drained()

    def _check_accounts(self) -> None:
        connection = self.connection
        links = [link for session in connection.sessions.values() for link in session.links.values()]
        check(all(isinstance(link, ReceiverLink | SenderLink) for link in links), "a link has no role")
        taken = PARTIAL_BYTES_MAX - connection.budget.bytes_left
        check(0 <= taken <= PARTIAL_BYTES_MAX, "more is held of messages than there is room for")
        halves = any(isinstance(link, ReceiverLink) and link.has_partial for link in links)
        check(halves or not taken, "what is held of messages that are gone is not given back")
        ranges = sum(_ranges_to_settle(link) for link in links)
        check(ranges <= connection.unsettled_budget.count, "unsettled ranges are not counted")
        check(
            bool(links) or connection.unsettled_budget.count == 0,
            "unsettled ranges of links that are gone are counted",
        )
        check(0 <= connection.attach_bytes <= LIMITS.attach_bytes_max, "links take more than they may")
        for link in links:
            check(link.credit >= 0, "more was sent than there is credit for")


def _ranges_to_settle(link: Link) -> int:
    """What waits for the peer to settle."""
    if isinstance(link, SenderLink):
        return link.unsettled.range_count
    if isinstance(link, ReceiverLink) and link.rcv_settle_mode is ReceiverSettleMode.SECOND:
        return link.unsettled.range_count
    return 0

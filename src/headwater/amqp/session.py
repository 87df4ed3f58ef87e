"""AMQP 1.0 part 2, section 2.5: sessions, which number transfers, hold windows, and carry dispositions to links."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

from headwater.amqp.definitions import HANDLE_MAX_DEFAULT, Condition, ErrorValue, Role
from headwater.amqp.events import (
    Deliveries,
    Event,
    LinkAttached,
    LinkDetached,
    LinkFlow,
    SessionEnded,
    Settled,
    WindowOpened,
)
from headwater.amqp.faults import (
    ConnectionFault,
    EndpointGone,
    LinkFault,
    LinkNameInUse,
    NoNumberLeft,
    SessionFault,
)
from headwater.amqp.link import Link, LinkState
from headwater.amqp.messaging import Accepted, DeliveryState, Received
from headwater.amqp.owners import Owners
from headwater.amqp.performatives import (
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
    Flow,
    Performative,
    Transfer,
)
from headwater.amqp.receiver_link import ReceiverLink
from headwater.amqp.sender_link import SenderLink
from headwater.amqp.serial import unwrapped, wrapped
from headwater.encoding._amqp_kernel import join_dispositions, peek_transfer, scan_transfers
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.chunk import ReadableBuffer
from headwater.encoding.ranges import IdRange

if TYPE_CHECKING:
    from headwater.amqp.connection import Connection

__all__ = ["Session", "SessionState"]

OUTGOING_WINDOW = 0x7FFFFFFF
"""Section 2.5.6: what we could send if the peer let us; nothing of ours bounds it."""

LINK_BYTES = 512
"""What a link counts of `attach_bytes_max` besides what the peer attached with."""

ACCEPTED = Accepted()


class SessionState(enum.Enum):
    """Section 2.5.5."""

    UNMAPPED = "unmapped"
    BEGIN_SENT = "begin sent"
    MAPPED = "mapped"
    END_SENT = "end sent"
    END_RECEIVED = "end received"


class _Settlement(NamedTuple):
    """A disposition that is to go out; neighbours become one."""

    role: Role
    first: int
    end: int
    is_settled: bool
    state: DeliveryState | None


class Session:
    """One session of a connection: its links by handle, and what both sides may send."""

    def __init__(self, connection: Connection, channel: int) -> None:
        self.connection = connection
        self.channel = channel
        self.remote_channel: int | None = None
        self.state = SessionState.UNMAPPED
        self.links: dict[int, Link] = {}
        """By our handle."""
        self.next_delivery_id = 0
        self._by_remote_handle: dict[int, Link] = {}
        self._awaiting_attach: dict[tuple[str, Role], Link] = {}
        """Links that we attached, by name and our role, until the peer answers."""
        self._remote_handle_max = HANDLE_MAX_DEFAULT
        self._next_incoming_id = 0
        self.incoming_end = 0
        """The transfer id at which our window ends, as the peer knows it."""
        self._next_outgoing_id = self._first_outgoing_id = 0
        self._outgoing_end = 0
        """The transfer id at which the peer's window ends."""
        self._last_delivery_id = 0
        """Of the peer's deliveries, the one that was heard of last."""
        self._has_deliveries = False
        """Whether there was one: the first may have any id."""
        self._sent: Owners[SenderLink] = Owners()
        self._received: Owners[ReceiverLink] = Owners()
        self._settlements: list[_Settlement] = []
        self._flow_due = False
        self._echoes_due: dict[Link, None] = {}

    # What the peer sent

    def receive_begin(self, channel: int, begin: Begin) -> None:
        """The peer began, or answered our begin, which we may have ended since."""
        self.remote_channel = channel
        self._remote_handle_max = begin.handle_max
        self._next_incoming_id = begin.next_outgoing_id
        self.incoming_end = self._next_incoming_id + self.connection.limits.incoming_window
        self._outgoing_end = self._next_outgoing_id + begin.incoming_window
        if self.state is SessionState.UNMAPPED:
            self.begin()
        if self.state is SessionState.BEGIN_SENT:
            self.state = SessionState.MAPPED

    def receive_run(self, buffer: ReadableBuffer, position: int, end: int) -> tuple[Event | None, int]:
        """Take what can be taken of many frames at once; where nothing can, the position stays."""
        if self.state is not SessionState.MAPPED:
            return None, position
        frame_max = self.connection.limits.frame_size_bytes_max
        peeked = peek_transfer(buffer, position, end, frame_max)
        if peeked is not None:
            return self._receive_transfers(buffer, position, end, peeked)
        joined = join_dispositions(buffer, position, end, frame_max)
        if joined is None:
            return None, position
        _, behind, channel, is_receiver, first, last, is_settled, is_accepted = joined
        if channel != self.remote_channel:
            return None, position
        role = Role.RECEIVER if is_receiver else Role.SENDER
        state = ACCEPTED if is_accepted else None
        return self._receive_disposition(Disposition(role, first, last, is_settled, state)), behind

    def receive(
        self, performative: Performative, size_bytes: int, buffer: ReadableBuffer, payload: int, end: int
    ) -> Event | None:
        """Act on one frame, whose performative took so many bytes; raises `SessionFault` or `ConnectionFault`."""
        if isinstance(performative, End):
            return self._receive_end(performative)
        if self.state is not SessionState.MAPPED:
            return None  # section 2.5.4: what comes behind our end, or the peer's, is passed over
        match performative:
            case Transfer():
                return self._receive_transfer(performative, buffer, payload, end)
            case Flow():
                return self._receive_flow(performative)
            case Disposition():
                return self._receive_disposition(performative)
            case Attach():
                return self._receive_attach(performative, size_bytes)
            case Detach():
                return self._receive_detach(performative)
            case _:
                raise ConnectionFault(Condition.NOT_ALLOWED, "no such frame belongs to a session")

    # What is to be sent

    def begin(self) -> None:
        """Begin our end, or answer the peer's begin."""
        limits = self.connection.limits
        self.connection.write(
            self.channel,
            Begin(
                self.remote_channel,
                wrapped(self._next_outgoing_id),
                limits.incoming_window,
                OUTGOING_WINDOW,
                handle_max=limits.handle_max,
            ),
        )
        self.state = SessionState.BEGIN_SENT

    def end(self, error: ErrorValue | None = None) -> None:
        """End the session, or answer the peer's end; once is enough."""
        if self.state in (SessionState.UNMAPPED, SessionState.END_SENT):
            return
        self.flush()
        self.connection.write(self.channel, End(error=error))
        if self.state is SessionState.END_RECEIVED:
            self.state = SessionState.UNMAPPED
            self.connection.session_ended(self)
        else:
            self.state = SessionState.END_SENT
        self._drop_links()

    def fail(self, fault: SessionFault) -> SessionEnded:
        """End the session for a fault of the peer; gives what the owner is told."""
        self.end(fault.value)
        return SessionEnded(self, fault.value, is_answered=True)

    def cut_short(self) -> None:
        """The peer sends and takes nothing more: forget deliveries that are only half there."""
        for link in self.links.values():
            link.cut_short()

    def drop(self) -> None:
        """The connection is gone, and the session with it."""
        self.state = SessionState.UNMAPPED
        self._drop_links()

    def attach(self, link: Link) -> None:
        """Take in a link of ours that waits for the peer's answer; raises `CallerError`."""
        if self.state not in (SessionState.MAPPED, SessionState.BEGIN_SENT):
            raise EndpointGone("the session")
        if (link.name, link.role) in self._awaiting_attach:
            raise LinkNameInUse(link.name)
        handle = self._free_handle()
        if handle is None:
            raise NoNumberLeft("handle")
        link.handle = handle
        self.links[handle] = link
        self._awaiting_attach[link.name, link.role] = link

    def release(self, link: Link) -> None:
        """Both ends of a link have detached: its handles are free, and may have others already."""
        self.links.pop(link.handle, None)
        self.connection.attach_bytes -= link.attach_bytes
        link.attach_bytes = 0
        self._echoes_due.pop(link, None)

    def write(self, performative: Performative, payload: ReadableBuffer = b"") -> None:
        """Queue one frame of this session; one that is too large for the peer ends the session in its place."""
        if self.state in (SessionState.UNMAPPED, SessionState.END_SENT):
            return
        if not self.connection.write(self.channel, performative, payload):
            fault = SessionFault(
                Condition.FRAME_SIZE_TOO_SMALL,
                f"{type(performative).__name__.lower()} is larger than a frame of yours may be",
            )
            self.connection.tell(self.fail(fault))

    def write_flow(self, link: Link | None = None, *, echo: bool = False) -> None:
        """Tell the peer our windows, and with a link where that stands."""
        limits = self.connection.limits
        self.incoming_end = self._next_incoming_id + limits.incoming_window
        self._flow_due = False
        flow = Flow(
            wrapped(self._next_incoming_id),
            limits.incoming_window,
            wrapped(self._next_outgoing_id),
            OUTGOING_WINDOW,
            echo=echo,
        )
        self.write(flow if link is None else link.described(flow))

    def settle(self, role: Role, ids: IdRange, state: DeliveryState | None, *, is_settled: bool) -> None:
        """Say what became of deliveries; goes out with the next bytes, in as few frames as possible."""
        if self.state not in (SessionState.MAPPED, SessionState.END_RECEIVED):
            return
        first, end = ids
        last = self._settlements[-1] if self._settlements else None
        settlement = _Settlement(role, first, end, is_settled, state)
        if last is not None and last.end == first and last._replace(first=first, end=end) == settlement:
            self._settlements[-1] = last._replace(end=end)
        else:
            self._settlements.append(settlement)
        self.connection.has_unflushed(self)

    def flush(self) -> None:
        """Write what gathered: dispositions, and flows that are due."""
        settlements, self._settlements = self._settlements, []
        for role, first, end, is_settled, state in settlements:
            last = wrapped(end - 1)
            self.write(Disposition(role, wrapped(first), last=last, settled=is_settled, state=state))
        echoes, self._echoes_due = self._echoes_due, {}
        for link in echoes:
            if link.is_attached:
                self.write_flow(link)
            elif link.state is LinkState.ATTACH_RECEIVED:
                self._echoes_due[link] = None
        if self._flow_due:
            self.write_flow()

    @property
    def window_left(self) -> int:
        """Transfer frames that the peer takes now."""
        return self._outgoing_end - self._next_outgoing_id

    def sends_unsettled(self, link: SenderLink) -> None:
        """The deliveries that go out next are of a link, and unsettled."""
        self._sent.note(self.next_delivery_id, link)

    def advance(self, *, deliveries: int = 0, frames: int = 0) -> None:
        """So many new deliveries went out, or so many frames."""
        self.next_delivery_id += deliveries
        self._next_outgoing_id += frames

    # Transfers

    def _receive_transfers(
        self, buffer: ReadableBuffer, position: int, end: int, peeked: tuple[int, int, int, bool]
    ) -> tuple[Event | None, int]:
        connection, limits = self.connection, self.connection.limits
        channel, handle, first_id, is_settled = peeked
        link = self._by_remote_handle.get(handle)
        if not isinstance(link, ReceiverLink) or not link.takes_runs(is_settled=is_settled):
            return None, position
        first = self._heard_of(first_id)
        if not self._is_new(first):
            return None, position
        room = min(self.incoming_end - self._next_incoming_id, link.credit, limits.run_count_max)
        spans = memoryview(connection.spans)[: SPAN_FIELDS * room]
        count, behind, annotated = scan_transfers(
            buffer,
            position,
            end,
            limits.frame_size_bytes_max,
            channel,
            handle,
            first_id,
            is_settled,
            limits.message_size_bytes_max,
            spans,
        )
        if not count:
            return None, position
        self._last_delivery_id, self._has_deliveries = first + count - 1, True
        self._took_frames(count)
        if not is_settled:
            self._received.note(first, link)
        link.took(first, count, is_settled=is_settled)
        return Deliveries(link, first, count, is_settled, 0, buffer, connection.spans, annotated), behind

    def _receive_transfer(
        self, transfer: Transfer, buffer: ReadableBuffer, payload: int, end: int
    ) -> Event | None:
        if self._next_incoming_id >= self.incoming_end:
            raise SessionFault(Condition.SESSION_WINDOW_VIOLATION, "the incoming window is full")
        self._took_frames(1)
        link = self._link_of(transfer.handle)
        first = None if transfer.delivery_id is None else self._heard_of(transfer.delivery_id)
        try:
            if not isinstance(link, ReceiverLink):
                raise LinkFault(Condition.NOT_ALLOWED, "this is a link on which we send")
            if link.is_detaching:
                self._pass_over(first, link)
                return None
            if first is not None and not link.has_partial:
                self._begins(first, link)
            return link.receive(transfer, first, buffer, payload, end)
        except LinkFault as fault:
            return None if link.is_detaching else self._detached_for(link, fault)

    def _pass_over(self, first: int | None, link: ReceiverLink) -> None:
        """Leave what was under way as we detached (section 2.6.5): no more than the window had room for then."""
        if self._next_incoming_id > link.errant_from:
            raise SessionFault(Condition.SESSION_ERRANT_LINK, f"link {link.name!r} was detached")
        if first is not None and self._is_new(first):
            self._begins(first, link)

    def _heard_of(self, delivery_id: int) -> int:
        return unwrapped(delivery_id, self._last_delivery_id)

    def _is_new(self, first: int) -> bool:
        return first > self._last_delivery_id or not self._has_deliveries

    def _begins(self, first: int, link: ReceiverLink) -> None:
        """A delivery of the peer begins; ids may leave some out, as clients do that count frames."""
        if not self._is_new(first):
            raise SessionFault(
                Condition.INVALID_FIELD,
                f"delivery-id {wrapped(first)} is not above {wrapped(self._last_delivery_id)}",
            )
        self._last_delivery_id, self._has_deliveries = first, True
        self._received.note(first, link)

    def _took_frames(self, count: int) -> None:
        self._next_incoming_id += count
        if 2 * (self.incoming_end - self._next_incoming_id) <= self.connection.limits.incoming_window:
            self._flow_due = True
            self.connection.has_unflushed(self)

    # Flow

    def _receive_flow(self, flow: Flow) -> Event | None:
        was_full = self.window_left <= 0
        heard = self._first_outgoing_id
        if flow.next_incoming_id is not None:
            heard = unwrapped(flow.next_incoming_id, self._next_outgoing_id)
        self._outgoing_end = heard + flow.incoming_window
        moved = unwrapped(flow.next_outgoing_id, self._next_incoming_id) - self._next_incoming_id
        self._next_incoming_id += moved
        self.incoming_end += moved
        link = None if flow.handle is None else self._link_of(flow.handle)
        if link is not None and not link.is_detaching:
            link.receive_flow(flow)
            if flow.echo:
                self._echoes_due[link] = None
                self.connection.has_unflushed(self)
        elif flow.echo:
            self._flow_due = True
            self.connection.has_unflushed(self)
        if was_full and self.window_left > 0:
            return WindowOpened(self)
        return None if link is None or link.is_detaching else LinkFlow(link)

    # Dispositions

    def _receive_disposition(self, disposition: Disposition) -> Event | None:
        is_ours = disposition.role is Role.RECEIVER
        near = self.next_delivery_id if is_ours else self._last_delivery_id
        first = unwrapped(disposition.first, near)
        end = (first if disposition.last is None else unwrapped(disposition.last, near)) + 1
        if not is_ours:
            if disposition.settled:
                for link, start, behind in self._received.of(first, end):
                    link.settled_by_peer(start, behind)
            return None
        return self._outcome((first, end), disposition.state, is_settled=disposition.settled)

    def _outcome(self, ids: IdRange, state: DeliveryState | None, *, is_settled: bool) -> Event | None:
        """The peer said what became of deliveries of ours."""
        if not is_settled and (state is None or isinstance(state, Received)):
            return None
        parts = [
            (link, ranges)
            for link, first, end in self._sent.of(*ids)
            if (ranges := link.outcome(first, end, is_settled=is_settled))
        ]
        return Settled(parts, state, is_settled) if parts else None

    # Links

    def _receive_attach(self, attach: Attach, size_bytes: int) -> Event | None:
        if attach.handle > self.connection.limits.handle_max:
            highest = self.connection.limits.handle_max
            raise ConnectionFault(
                Condition.CONNECTION_FRAMING_ERROR, f"handle {attach.handle} is above {highest}"
            )
        if attach.handle in self._by_remote_handle:
            raise SessionFault(Condition.SESSION_HANDLE_IN_USE, f"handle {attach.handle} has a link already")
        role = Role.SENDER if attach.role is Role.RECEIVER else Role.RECEIVER
        link = self._awaiting_attach.pop((attach.name, role), None)
        if link is None:
            link = SenderLink(self, attach.name) if role is Role.SENDER else ReceiverLink(self, attach.name)
            self._take_in(link, size_bytes)
        self._by_remote_handle[attach.handle] = link
        link.receive_attach(attach)
        return None if link.is_detaching else LinkAttached(link)

    def _take_in(self, link: Link, size_bytes: int) -> None:
        """Give a link of the peer's our handle."""
        connection = self.connection
        handle = self._free_handle()
        if handle is None:
            raise SessionFault(Condition.RESOURCE_LIMIT_EXCEEDED, "you leave us no handle")
        link.attach_bytes = LINK_BYTES + size_bytes
        if connection.attach_bytes + link.attach_bytes > connection.limits.attach_bytes_max:
            raise SessionFault(
                Condition.RESOURCE_LIMIT_EXCEEDED, "the links of a connection take too much memory"
            )
        connection.attach_bytes += link.attach_bytes
        link.handle = handle
        self.links[handle] = link

    def _receive_detach(self, detach: Detach) -> Event | None:
        link = self._link_of(detach.handle)
        is_answered = link.receive_detach()
        self._by_remote_handle.pop(detach.handle, None)
        if is_answered and detach.error is None:
            return None if link.was_broken else LinkDetached(link, detach.closed, None, is_answered=True)
        return LinkDetached(link, detach.closed, detach.error, is_answered=is_answered)

    def _detached_for(self, link: Link, fault: LinkFault) -> LinkDetached:
        link.detach(fault.value)
        link.was_broken = True
        return LinkDetached(link, is_closed=True, error=fault.value, is_answered=True)

    def _receive_end(self, performative: End) -> Event | None:
        self.connection.channel_free(self)
        if self.state is SessionState.END_SENT:
            self.state = SessionState.UNMAPPED
            self.connection.session_ended(self)
            return SessionEnded(self, performative.error, is_answered=True)
        self.state = SessionState.END_RECEIVED
        self.cut_short()
        return SessionEnded(self, performative.error, is_answered=False)

    def _link_of(self, handle: int) -> Link:
        link = self._by_remote_handle.get(handle)
        if link is None:
            raise SessionFault(Condition.SESSION_UNATTACHED_HANDLE, f"no link is attached to handle {handle}")
        return link

    def _free_handle(self) -> int | None:
        handles = range(self._remote_handle_max + 1)
        return next((handle for handle in handles if handle not in self.links), None)

    def _drop_links(self) -> None:
        for link in self.links.values():
            link.drop()

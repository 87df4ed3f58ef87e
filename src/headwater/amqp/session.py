"""AMQP 1.0 part 2, section 2.5: sessions, which number transfers, hold windows, and carry dispositions to links."""

from __future__ import annotations

import enum
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from headwater.amqp.definitions import Condition, ErrorValue, Role
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
from headwater.amqp.faults import ConnectionFault, EndpointGone, LinkFault, SessionFault
from headwater.amqp.link import Link
from headwater.amqp.messaging import Accepted, DeliveryState, Received
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
from headwater.amqp.ranges import IdRange
from headwater.amqp.receiver_link import ReceiverLink
from headwater.amqp.sender_link import SenderLink
from headwater.amqp.serial import unwrapped, wrapped
from headwater.encoding._amqp_kernel import join_dispositions, peek_transfer, scan_transfers
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.chunk import ReadableBuffer

if TYPE_CHECKING:
    from headwater.amqp.connection import Connection

__all__ = ["Session", "SessionState"]

OUTGOING_WINDOW = 0x7FFFFFFF
"""Section 2.5.6: what we could send if the peer let us; nothing of ours bounds it."""

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
        self._remote_handle_max = 0
        self._next_incoming_id = 0
        self._incoming_end = 0
        """The transfer id at which our window ends, as the peer knows it."""
        self._next_outgoing_id = 0
        self._outgoing_end = 0
        """The transfer id at which the peer's window ends."""
        self._last_delivery_id = 0
        """Of the peer's deliveries, the one that was heard of last."""
        self._sent: list[tuple[int, SenderLink]] = []
        """Which link our deliveries from an id on are of, up to the next entry."""
        self._settlements: list[_Settlement] = []
        self._flow_due = False
        self._echoes_due: dict[Link, None] = {}

    # What the peer sent

    def receive_begin(self, channel: int, begin: Begin) -> None:
        """The peer began, or answered our begin."""
        self.remote_channel = channel
        self._remote_handle_max = begin.handle_max
        self._next_incoming_id = begin.next_outgoing_id
        self._incoming_end = self._next_incoming_id + self.connection.limits.incoming_window
        self._outgoing_end = self._next_outgoing_id + begin.incoming_window
        if self.state is SessionState.UNMAPPED:
            self.begin()
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
        self, performative: Performative, buffer: ReadableBuffer, payload: int, end: int
    ) -> Event | None:
        """Act on one frame; raises `SessionFault` or `ConnectionFault`."""
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
                return self._receive_attach(performative)
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
                self._next_outgoing_id,
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

    def drop(self) -> None:
        """The connection is gone, and the session with it."""
        self.state = SessionState.UNMAPPED
        self._drop_links()

    def attach(self, link: Link) -> None:
        """Take in a link of ours that waits for the peer's answer."""
        self._check_mapped()
        link.handle = self._free_handle()
        self.links[link.handle] = link
        self._awaiting_attach[link.name, link.role] = link

    def accept(self, link: Link) -> None:
        """Take in a link that the peer attached: it gets our handle."""
        self._check_mapped()
        link.handle = self._free_handle()
        self.links[link.handle] = link

    def release(self, link: Link) -> None:
        """Both ends of a link have detached: its handles are free."""
        self.links.pop(link.handle, None)
        self._by_remote_handle.pop(link.remote_handle, None)
        self._awaiting_attach.pop((link.name, link.role), None)
        self._echoes_due.pop(link, None)

    def write(self, performative: Performative, payload: ReadableBuffer = b"") -> None:
        """Queue one frame of this session."""
        self.connection.write(self.channel, performative, payload)

    def write_flow(self, link: Link | None = None, *, echo: bool = False) -> None:
        """Tell the peer our windows, and with a link where that stands."""
        limits = self.connection.limits
        self._incoming_end = self._next_incoming_id + limits.incoming_window
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
        for link in self._echoes_due:
            self.write_flow(link)
        self._echoes_due.clear()
        if self._flow_due:
            self.write_flow()

    @property
    def window_left(self) -> int:
        """Transfer frames that the peer takes now."""
        return self._outgoing_end - self._next_outgoing_id

    def sent(self, link: SenderLink, deliveries: int, frames: int) -> None:
        """So many new deliveries of a link went out, in so many frames."""
        if deliveries and (not self._sent or self._sent[-1][1] is not link):
            self._forget_settled()
            self._sent.append((self.next_delivery_id, link))
        self.next_delivery_id += deliveries
        self._next_outgoing_id += frames

    # Transfers

    def _receive_transfers(
        self, buffer: ReadableBuffer, position: int, end: int, peeked: tuple[int, int, int, bool]
    ) -> tuple[Event | None, int]:
        connection, limits = self.connection, self.connection.limits
        channel, handle, first_id, is_settled = peeked
        link = self._by_remote_handle.get(handle)
        if not isinstance(link, ReceiverLink) or not link.takes_runs:
            return None, position
        room = min(self._incoming_end - self._next_incoming_id, link.credit, limits.run_count_max)
        spans = memoryview(connection.spans)[: SPAN_FIELDS * room]
        count, behind, _ = scan_transfers(
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
        first = self._heard_of(first_id)
        self._last_delivery_id = first + count - 1
        self._took_frames(count)
        link.took(first, count, is_settled=is_settled)
        return Deliveries(link, first, count, is_settled, 0, buffer, connection.spans), behind

    def _receive_transfer(
        self, transfer: Transfer, buffer: ReadableBuffer, payload: int, end: int
    ) -> Event | None:
        if self._next_incoming_id >= self._incoming_end:
            raise SessionFault(Condition.SESSION_WINDOW_VIOLATION, "the incoming window is full")
        self._took_frames(1)
        link = self._link_of(transfer.handle)
        if link.is_detaching:
            return None
        if not isinstance(link, ReceiverLink):
            raise SessionFault(Condition.SESSION_ERRANT_LINK, f"{link.name!r} is a link on which we send")
        first = None if transfer.delivery_id is None else self._heard_of(transfer.delivery_id)
        try:
            event = link.receive(transfer, first, buffer, payload, end)
        except LinkFault as fault:
            return self._detached_for(link, fault)
        if first is not None:
            self._last_delivery_id = first
        return event

    def _heard_of(self, delivery_id: int) -> int:
        return unwrapped(delivery_id, self._last_delivery_id)

    def _took_frames(self, count: int) -> None:
        self._next_incoming_id += count
        if 2 * (self._incoming_end - self._next_incoming_id) <= self.connection.limits.incoming_window:
            self._flow_due = True
            self.connection.has_unflushed(self)

    # Flow

    def _receive_flow(self, flow: Flow) -> Event | None:
        was_full = self.window_left <= 0
        heard = 0 if flow.next_incoming_id is None else flow.next_incoming_id
        self._outgoing_end = unwrapped(heard, self._next_outgoing_id) + flow.incoming_window
        moved = unwrapped(flow.next_outgoing_id, self._next_incoming_id) - self._next_incoming_id
        self._next_incoming_id += moved
        self._incoming_end += moved
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
                for link in self.links.values():
                    if isinstance(link, ReceiverLink):
                        link.settled_by_peer(first, end)
            return None
        return self._outcome((first, end), disposition.state, is_settled=disposition.settled)

    def _outcome(self, ids: IdRange, state: DeliveryState | None, *, is_settled: bool) -> Event | None:
        """The peer said what became of deliveries of ours."""
        if not is_settled and (state is None or isinstance(state, Received)):
            return None
        parts = [
            (link, ranges)
            for link, first, end in self._owners(*ids)
            if (ranges := link.outcome(first, end, is_settled=is_settled))
        ]
        return Settled(parts, state, is_settled) if parts else None

    def _owners(self, first: int, end: int) -> list[tuple[SenderLink, int, int]]:
        """The links of which our deliveries in a range are, each with its part."""
        found = []
        number = max(bisect_right(self._sent, first, key=lambda entry: entry[0]) - 1, 0)
        end = min(end, self.next_delivery_id)
        while number < len(self._sent) and self._sent[number][0] < end:
            start, link = self._sent[number]
            number += 1
            behind = self._sent[number][0] if number < len(self._sent) else self.next_delivery_id
            found.append((link, max(start, first), min(behind, end)))
        return found

    def _forget_settled(self) -> None:
        """Let go of the oldest runs of deliveries that are settled."""
        settled = 0
        for number, (first, link) in enumerate(self._sent):
            behind = self._sent[number + 1][0] if number + 1 < len(self._sent) else self.next_delivery_id
            if link.unsettled.within(first, behind):
                break
            settled += 1
        del self._sent[:settled]

    # Links

    def _receive_attach(self, attach: Attach) -> Event | None:
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
        self._by_remote_handle[attach.handle] = link
        link.receive_attach(attach)
        return None if link.is_detaching else LinkAttached(link)

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
        if self.state is SessionState.END_SENT:
            self.state = SessionState.UNMAPPED
            self.connection.session_ended(self)
            return SessionEnded(self, performative.error, is_answered=True)
        self.state = SessionState.END_RECEIVED
        return SessionEnded(self, performative.error, is_answered=False)

    def _link_of(self, handle: int) -> Link:
        link = self._by_remote_handle.get(handle)
        if link is None:
            raise SessionFault(Condition.SESSION_UNATTACHED_HANDLE, f"no link is attached to handle {handle}")
        return link

    def _free_handle(self) -> int:
        for handle in range(self._remote_handle_max + 1):
            if handle not in self.links:
                return handle
        raise SessionFault(Condition.RESOURCE_LIMIT_EXCEEDED, "the peer leaves us no handle")

    def _check_mapped(self) -> None:
        if self.state not in (SessionState.MAPPED, SessionState.BEGIN_SENT):
            raise EndpointGone("the session")

    def _drop_links(self) -> None:
        for link in self.links.values():
            link.drop()

"""AMQP 1.0 part 2, section 2.6: links on which we send, as far as credit, windows and frame sizes allow."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, ClassVar

import msgspec

from headwater.amqp.definitions import DELIVERY_TAG_BYTES_MAX, Role, SenderSettleMode
from headwater.amqp.link import Link, LinkState
from headwater.amqp.messaging import DeliveryState
from headwater.amqp.performatives import Flow, Transfer
from headwater.amqp.serial import unwrapped, wrapped
from headwater.encoding._span_kernel import FRAME_HEAD_BYTES, SPAN_FIELDS, write_transfers
from headwater.encoding.chunk import ReadableBuffer
from headwater.encoding.ranges import IdRange, IdRanges

if TYPE_CHECKING:
    from headwater.amqp.session import Session

__all__ = ["SenderLink"]

TRANSFER_BYTES_MAX = 80
"""What a frame of ours takes besides its payload: header, and a transfer with a tag of 32 bytes."""
CREDIT_COUNT_MAX = 0xFFFFFFFF
"""A receiver that claims to have seen what was not sent would have more, which no flow could tell."""


class SenderLink(Link):
    """A link on which the peer receives."""

    role: ClassVar[Role] = Role.SENDER

    def __init__(self, session: Session, name: str) -> None:
        super().__init__(session, name)
        self.unsettled = IdRanges(session.connection.unsettled_budget)
        """Sent, and not settled by both sides."""
        self.available = 0
        """What we could send, as far as the owner knows: the peer is told."""
        self.is_draining = False
        """Whether the peer waits for all that there is, and for the rest of its credit to be given up."""
        self._rest: memoryview | None = None
        """What was not sent yet of a message of several frames."""
        self._rest_settled = False
        self._first_delivery_count = 0
        """What our attach said."""

    @property
    def message_size_bytes_max(self) -> int:
        """The largest message that the receiver takes; 0 is none."""
        return self.remote.max_message_size or 0

    # Credit

    @property
    def may_send(self) -> bool:
        """Whether a delivery can begin now."""
        return (
            self.state is LinkState.ATTACHED
            and self.credit > 0
            and self._rest is None
            and self.session.window_left > 0
            and not self.session.connection.unsettled_budget.is_full
        )

    @property
    def room(self) -> int:
        """Deliveries that may begin now, if each goes in one frame."""
        return min(self.credit, self.session.window_left) if self.may_send else 0

    def receive_flow(self, flow: Flow) -> None:
        seen = self._first_delivery_count
        if flow.delivery_count is not None:
            seen = unwrapped(flow.delivery_count, self.delivery_count)
        if flow.link_credit is not None:
            self.credit = min(max(seen + flow.link_credit - self.delivery_count, 0), CREDIT_COUNT_MAX)
        self.is_draining = flow.drain

    def described(self, flow: Flow) -> Flow:
        return msgspec.structs.replace(
            flow,
            handle=self.handle,
            delivery_count=wrapped(self.delivery_count),
            link_credit=self.credit,
            available=self.available,
            drain=self.is_draining,
        )

    def drained(self) -> None:
        """There is nothing more to send: give the rest of the credit up, if the peer asked for that."""
        if self.is_draining and self._rest is None and self.state is LinkState.ATTACHED:
            self.delivery_count += self.credit
            self.credit = 0
            self.session.write_flow(self)
            self.is_draining = False

    # Sending

    @property
    def sends_settled(self) -> bool:
        """Whether deliveries are settled as they are sent, by what the peer asked for."""
        return self.snd_settle_mode is SenderSettleMode.SETTLED

    def send(
        self,
        payload: ReadableBuffer,
        *,
        delivery_tag: bytes | None = None,
        message_format: int = 0,
        is_settled: bool | None = None,
    ) -> int:
        """Begin a delivery, which `may_send` allows; gives its id. What no frame can take follows as windows open."""
        assert self.may_send, "the owner asks before it sends"
        assert len(delivery_tag or b"") <= DELIVERY_TAG_BYTES_MAX, "the owner makes tags as they may be"
        assert len(payload) <= (self.message_size_bytes_max or len(payload)), (
            "the owner asks what the peer takes"
        )
        id_ = self.session.next_delivery_id
        settled = self.sends_settled if is_settled is None else is_settled
        first = Transfer(
            self.handle,
            delivery_id=wrapped(id_),
            delivery_tag=wrapped(id_).to_bytes(4, "big") if delivery_tag is None else delivery_tag,
            message_format=message_format,
            settled=settled,
        )
        self._began(1, settled=settled)
        self.session.advance(deliveries=1)
        self._rest, self._rest_settled = memoryview(payload).toreadonly(), settled
        self._send_frames(first)
        return id_

    def send_records(
        self,
        data: ReadableBuffer,
        spans: array[int],
        first: int,
        count: int,
        annotations: bytes,
        bytes_max: int,
        *,
        is_settled: bool | None = None,
    ) -> int:
        """Send stored messages as far as credit, window and room allow, one frame each; gives how many.

        `annotations` is the section of the first, whose offset counts up, or nothing. A first one of several frames, or
        one that is larger than the receiver takes, is not sent. `may_send` allows it.
        """
        assert self.may_send, "the owner asks before it sends"
        settled = self.sends_settled if is_settled is None else is_settled
        connection = self.session.connection
        frame_bytes_max = connection.remote_frame_size_bytes_max
        if self.message_size_bytes_max:
            frame_bytes_max = min(frame_bytes_max, FRAME_HEAD_BYTES + self.message_size_bytes_max)
        count = min(count, self.credit, self.session.window_left)
        own_bytes = count * (TRANSFER_BYTES_MAX + len(annotations))
        sent_bytes = spans[SPAN_FIELDS * (first + count) - 1] - spans[SPAN_FIELDS * first + 2]
        out = connection.out
        start = len(out)
        out.extend(bytes(min(own_bytes + sent_bytes, bytes_max)))
        written, end = write_transfers(
            data,
            spans,
            first,
            count,
            out,
            start,
            len(out),
            frame_bytes_max,
            self.session.channel,
            self.handle,
            wrapped(self.session.next_delivery_id),
            settled,
            annotations,
        )
        del out[end:]
        self._began(written, settled=settled)
        self.session.advance(deliveries=written, frames=written)
        return written

    def send_rest(self) -> None:
        """Go on with a message of several frames, as far as the window allows now."""
        if self._rest is not None and self.state is LinkState.ATTACHED:
            self._send_frames(Transfer(self.handle, settled=self._rest_settled))

    def _began(self, count: int, *, settled: bool) -> None:
        self.credit -= count
        self.delivery_count += count
        if not settled and count:
            first = self.session.next_delivery_id
            self.unsettled.add(first, first + count)
            self.session.sends_unsettled(self)

    def _send_frames(self, transfer: Transfer) -> None:
        session = self.session
        payload_max = session.connection.remote_frame_size_bytes_max - TRANSFER_BYTES_MAX
        while self._rest is not None and session.window_left > 0:
            part, rest = self._rest[:payload_max], self._rest[payload_max:]
            session.write(msgspec.structs.replace(transfer, more=bool(rest)), part)
            session.advance(frames=1)
            transfer = Transfer(self.handle, settled=self._rest_settled)
            self._rest = rest or None

    # Settling

    def outcome(self, first: int, end: int, *, is_settled: bool) -> list[IdRange]:
        """Those of these deliveries that were unsettled; no longer if the peer has settled them."""
        return self.unsettled.take(first, end) if is_settled else self.unsettled.within(first, end)

    def settle(self, ids: IdRange, state: DeliveryState | None) -> None:
        """Settle deliveries whose outcome the peer has told."""
        for settled in self.unsettled.take(*ids):
            self.session.settle(self.role, settled, state, is_settled=True)

    # Helpers

    def holds(self, first: int, end: int) -> bool:
        return self.unsettled.has_any(first, end)

    def cut_short(self) -> None:
        self._rest = None

    def _initial_delivery_count(self) -> int | None:
        self._first_delivery_count = self.delivery_count
        return wrapped(self.delivery_count)

    def _let_go(self) -> None:
        self.cut_short()
        self.unsettled.clear()

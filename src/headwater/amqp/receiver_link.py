"""AMQP 1.0 part 2, section 2.6: links on which we receive: credit given, transfers put together, outcomes told."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, ClassVar

import msgspec

from headwater.amqp.definitions import (
    DELIVERY_TAG_BYTES_MAX,
    Condition,
    ReceiverSettleMode,
    Role,
    SenderSettleMode,
)
from headwater.amqp.events import Deliveries, Event, LinkFlow
from headwater.amqp.faults import LinkFault
from headwater.amqp.link import Link, LinkState
from headwater.amqp.messaging import DeliveryState
from headwater.amqp.performatives import Attach, Flow, Transfer
from headwater.amqp.serial import unwrapped, wrapped
from headwater.encoding._amqp_kernel import skim_message
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.amqp_types import Described
from headwater.encoding.chunk import ReadableBuffer
from headwater.encoding.ranges import IdRanges

if TYPE_CHECKING:
    from headwater.amqp.session import Session

__all__ = ["ReceiverLink"]


class _Partial:
    """A delivery of which not all frames have come."""

    __slots__ = ("data", "first", "is_resumed", "is_settled", "message_format", "settles_first", "tag")

    def __init__(self, first: int, tag: bytes, transfer: Transfer) -> None:
        self.first = first
        self.tag = tag
        self.message_format = transfer.message_format or 0
        self.settles_first = transfer.rcv_settle_mode is ReceiverSettleMode.FIRST
        self.is_resumed = transfer.resume
        """Section 2.7.5: what is resumed is passed over, as nothing here outlives a link."""
        self.is_settled = False
        self.data = bytearray()

    def is_gone_on_with(self, transfer: Transfer, first: int | None) -> bool:
        """Whether a transfer may be the next of this delivery."""
        return (
            first in (None, self.first)
            and transfer.delivery_tag in (None, self.tag)
            and transfer.message_format in (None, self.message_format)
        )


class ReceiverLink(Link):
    """A link on which the peer sends."""

    role: ClassVar[Role] = Role.RECEIVER

    def __init__(self, session: Session, name: str) -> None:
        super().__init__(session, name)
        self.unsettled = IdRanges()
        """Delivered, and not settled by both sides."""
        self.available = 0
        """What the sender said it could send."""
        self._is_draining = False
        self._partial: _Partial | None = None
        self._settled_first = IdRanges()
        """Of a link with receiver-settle-mode second, the deliveries that their sender wants settled at once."""

    # Credit

    def grant(self, credit: int) -> None:
        """Let this many deliveries come, from now on."""
        if self.state is LinkState.ATTACHED:
            self.credit = credit
            self._is_draining = False
            self.session.write_flow(self)

    def drain(self) -> None:
        """Ask the sender to send what it has, and to give up the rest of its credit."""
        self._check(LinkState.ATTACHED)
        self._is_draining = True
        self.session.write_flow(self, echo=True)

    def receive_attach(self, attach: Attach) -> None:
        super().receive_attach(attach)
        self.delivery_count = attach.initial_delivery_count or 0
        if self.rcv_settle_mode is ReceiverSettleMode.SECOND:
            # The sender has the last word. What we settle ourselves is bounded by the credit that we give.
            self.unsettled = IdRanges(self.session.connection.unsettled_budget)
            self._settled_first = IdRanges(self.session.connection.unsettled_budget)

    def receive_flow(self, flow: Flow) -> None:
        if flow.delivery_count is not None:
            advanced = unwrapped(flow.delivery_count, self.delivery_count) - self.delivery_count
            if advanced > 0:
                self.delivery_count += advanced
                self.credit = max(self.credit - advanced, 0)
        self.available = flow.available or 0

    def described(self, flow: Flow) -> Flow:
        return msgspec.structs.replace(
            flow,
            handle=self.handle,
            delivery_count=wrapped(self.delivery_count),
            link_credit=self.credit,
            drain=self._is_draining,
        )

    # Transfers

    @property
    def has_partial(self) -> bool:
        """Whether the next transfer goes on with a delivery that has begun."""
        return self._partial is not None

    def takes_runs(self, *, is_settled: bool) -> bool:
        """Whether whole messages may come now, many at once."""
        return (
            self.state is LinkState.ATTACHED
            and self._partial is None
            and self.credit > 0
            and self._may_settle(is_settled=is_settled)
            and not self._holds_too_much()
        )

    def took(self, first: int, count: int, *, is_settled: bool) -> None:
        """So many deliveries began."""
        self.delivery_count += count
        self.credit -= count
        if not is_settled:
            self.unsettled.add(first, first + count)

    def receive(
        self, transfer: Transfer, first: int | None, buffer: ReadableBuffer, payload: int, end: int
    ) -> Event | None:
        """Take one frame; gives the delivery when it is whole. Raises `LinkFault`."""
        self._check_transfer(transfer)
        partial = self._partial
        if partial is None:
            partial = self._begin_delivery(transfer, first)
        elif not partial.is_gone_on_with(transfer, first):
            raise LinkFault(Condition.NOT_ALLOWED, "a delivery began before the one before was whole")
        if transfer.settled is False and partial.is_settled:
            raise LinkFault(Condition.INVALID_FIELD, "a settled delivery cannot be unsettled again")
        partial.is_settled = partial.is_settled or bool(transfer.settled)
        if transfer.aborted or (partial.is_resumed and not transfer.more):
            # Nothing is kept of it; what it cost in credit is for the owner to give again.
            self.cut_short()
            return LinkFlow(self)
        if transfer.more:
            if not partial.is_resumed:
                self._keep(partial, buffer, payload, end)
            return None
        if not self._may_settle(is_settled=partial.is_settled):
            raise LinkFault(
                Condition.INVALID_FIELD,
                f"the link sends {self.snd_settle_mode.name.lower()}, this delivery does not",
            )
        return self._whole(partial, buffer, payload, end)

    # Settling

    def settle(self, first: int, end: int, state: DeliveryState) -> None:
        """Say what became of deliveries; with receiver-settle-mode second the sender has the last word."""
        for ids in self.unsettled.within(first, end):
            at_once = [ids]
            if self.rcv_settle_mode is ReceiverSettleMode.SECOND:
                at_once = self._settled_first.take(*ids)
                self.session.settle(self.role, ids, state, is_settled=False)
            for settled in at_once:
                self.unsettled.take(*settled)
                self.session.settle(self.role, settled, state, is_settled=True)

    def settled_by_peer(self, first: int, end: int) -> None:
        """The sender has forgotten these deliveries."""
        self.unsettled.take(first, end)
        self._settled_first.take(first, end)
        if self._partial is not None and first <= self._partial.first < end:
            self._partial.is_settled = True

    # Helpers

    def holds(self, first: int, end: int) -> bool:
        is_partial = self._partial is not None and first <= self._partial.first < end
        return is_partial or self.unsettled.has_any(first, end)

    def cut_short(self) -> None:
        if self._partial is not None:
            self.session.connection.budget.give_back(len(self._partial.data))
            self._partial = None

    def _may_settle(self, *, is_settled: bool) -> bool:
        """Whether what was agreed on lets a delivery be settled, or unsettled, by its sender."""
        mode = self.snd_settle_mode
        return mode is SenderSettleMode.MIXED or (mode is SenderSettleMode.SETTLED) == is_settled

    def _holds_too_much(self) -> bool:
        """Whether the sender has the last word of what is settled, and has left too much without it."""
        has_last_word = self.rcv_settle_mode is ReceiverSettleMode.SECOND
        return has_last_word and self.session.connection.unsettled_budget.is_full

    def _check_transfer(self, transfer: Transfer) -> None:
        if transfer.delivery_tag is not None and len(transfer.delivery_tag) > DELIVERY_TAG_BYTES_MAX:
            raise LinkFault(Condition.INVALID_FIELD, "a delivery-tag has 32 bytes at most")
        asks_second = transfer.rcv_settle_mode is ReceiverSettleMode.SECOND
        if asks_second and self.rcv_settle_mode is ReceiverSettleMode.FIRST and not transfer.settled:
            raise LinkFault(Condition.INVALID_FIELD, "the link settles first, so this delivery does")
        if isinstance(transfer.state, Described):
            raise LinkFault(Condition.NOT_IMPLEMENTED, "there are no transactions here")

    def _begin_delivery(self, transfer: Transfer, first: int | None) -> _Partial:
        if first is None or transfer.delivery_tag is None:
            raise LinkFault(Condition.INVALID_FIELD, "a delivery begins with its id and its tag")
        if self.credit <= 0:
            raise LinkFault(Condition.LINK_TRANSFER_LIMIT_EXCEEDED, "there is no credit for this delivery")
        if self._holds_too_much():
            raise LinkFault(
                Condition.RESOURCE_LIMIT_EXCEEDED, "too many deliveries wait for their sender to settle"
            )
        self.took(first, 1, is_settled=True)
        self._partial = _Partial(first, transfer.delivery_tag, transfer)
        return self._partial

    def _keep(self, partial: _Partial, buffer: ReadableBuffer, payload: int, end: int) -> None:
        size_max = self.session.connection.limits.message_size_bytes_max
        if size_max and len(partial.data) + end - payload > size_max:
            raise LinkFault(Condition.LINK_MESSAGE_SIZE_EXCEEDED, f"a message has {size_max} bytes at most")
        if not self.session.connection.budget.take(end - payload):
            raise LinkFault(
                Condition.RESOURCE_LIMIT_EXCEEDED, "too much is held of messages that are not whole"
            )
        partial.data += memoryview(buffer)[payload:end]

    def _whole(self, partial: _Partial, buffer: ReadableBuffer, payload: int, end: int) -> Deliveries:
        if partial.data:
            self._keep(partial, buffer, payload, end)
            buffer, payload, end = partial.data, 0, len(partial.data)
        elif 0 < self.session.connection.limits.message_size_bytes_max < end - payload:
            size_max = self.session.connection.limits.message_size_bytes_max
            raise LinkFault(Condition.LINK_MESSAGE_SIZE_EXCEEDED, f"a message has {size_max} bytes at most")
        self.cut_short()
        first = partial.first
        if not partial.is_settled:
            self.unsettled.add(first, first + 1)
            if partial.settles_first and self.rcv_settle_mode is ReceiverSettleMode.SECOND:
                self._settled_first.add(first, first + 1)
        spans = self.session.connection.spans
        _, head_end, rest = skim_message(buffer, payload, end)
        has_annotations = rest != head_end
        spans[0:SPAN_FIELDS] = array(
            "q",
            (payload, head_end if has_annotations else payload, rest if has_annotations else payload, end),
        )
        format_ = partial.message_format
        return Deliveries(self, first, 1, partial.is_settled, format_, buffer, spans, int(has_annotations))

    def _let_go(self) -> None:
        self.cut_short()
        self.unsettled.clear()
        self._settled_first.clear()

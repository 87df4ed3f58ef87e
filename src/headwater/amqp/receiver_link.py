"""AMQP 1.0 part 2, section 2.6: links on which we receive: credit given, transfers put together, outcomes told."""

from __future__ import annotations

from array import array
from typing import ClassVar

import msgspec

from headwater.amqp.definitions import DELIVERY_TAG_BYTES_MAX, Condition, ReceiverSettleMode, Role
from headwater.amqp.events import Deliveries, Event, LinkFlow
from headwater.amqp.faults import LinkFault
from headwater.amqp.link import Link, LinkState
from headwater.amqp.messaging import DeliveryState
from headwater.amqp.performatives import Attach, Flow, Transfer
from headwater.amqp.ranges import IdRanges
from headwater.amqp.serial import unwrapped, wrapped
from headwater.encoding._amqp_kernel import skim_message
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.amqp_types import Described
from headwater.encoding.chunk import ReadableBuffer

__all__ = ["ReceiverLink"]


class _Partial:
    """A delivery of which not all frames have come."""

    __slots__ = ("data", "first", "is_settled", "message_format", "settles_first")

    def __init__(self, first: int, message_format: int, *, settles_first: bool) -> None:
        self.first = first
        self.message_format = message_format
        self.settles_first = settles_first
        self.is_settled = False
        self.data = bytearray()


class ReceiverLink(Link):
    """A link on which the peer sends."""

    role: ClassVar[Role] = Role.RECEIVER

    initial_delivery_count: ClassVar[int | None] = None

    def __init__(self, session: object, name: str) -> None:
        super().__init__(session, name)  # type: ignore[arg-type]
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
    def takes_runs(self) -> bool:
        """Whether whole messages may come now, many at once."""
        return self.state is LinkState.ATTACHED and self._partial is None and self.credit > 0

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
        elif first not in (None, partial.first):
            raise LinkFault(Condition.NOT_ALLOWED, "a delivery began before the one before was whole")
        if transfer.settled is False and partial.is_settled:
            raise LinkFault(Condition.INVALID_FIELD, "a settled delivery cannot be unsettled again")
        partial.is_settled = partial.is_settled or bool(transfer.settled)
        if transfer.aborted or transfer.resume:
            # Nothing is kept of it; what it cost in credit is for the owner to give again.
            self._end_partial()
            return LinkFlow(self)
        if transfer.more:
            self._keep(partial, buffer, payload, end)
            return None
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

    # Helpers

    def _check_transfer(self, transfer: Transfer) -> None:
        if transfer.delivery_tag is not None and len(transfer.delivery_tag) > DELIVERY_TAG_BYTES_MAX:
            raise LinkFault(Condition.INVALID_FIELD, "a delivery-tag has 32 bytes at most")
        asks_second = transfer.rcv_settle_mode is ReceiverSettleMode.SECOND
        if asks_second and self.rcv_settle_mode is ReceiverSettleMode.FIRST:
            raise LinkFault(Condition.INVALID_FIELD, "the link settles first, so this delivery does")
        if isinstance(transfer.state, Described):
            raise LinkFault(Condition.NOT_IMPLEMENTED, "there are no transactions here")

    def _begin_delivery(self, transfer: Transfer, first: int | None) -> _Partial:
        if first is None or transfer.delivery_tag is None:
            raise LinkFault(Condition.INVALID_FIELD, "a delivery begins with its id and its tag")
        if self.credit <= 0:
            raise LinkFault(Condition.LINK_TRANSFER_LIMIT_EXCEEDED, "there is no credit for this delivery")
        self.took(first, 1, is_settled=True)
        self._partial = _Partial(
            first,
            transfer.message_format or 0,
            settles_first=transfer.rcv_settle_mode is ReceiverSettleMode.FIRST,
        )
        return self._partial

    def _keep(self, partial: _Partial, buffer: ReadableBuffer, payload: int, end: int) -> None:
        size_max = self.session.connection.limits.message_size_bytes_max
        if size_max and len(partial.data) + end - payload > size_max:
            self._end_partial()
            raise LinkFault(Condition.LINK_MESSAGE_SIZE_EXCEEDED, f"a message has {size_max} bytes at most")
        if not self.session.connection.budget.take(end - payload):
            self._end_partial()
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
            self._end_partial()
            raise LinkFault(Condition.LINK_MESSAGE_SIZE_EXCEEDED, f"a message has {size_max} bytes at most")
        self._end_partial()
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
        return Deliveries(self, first, 1, partial.is_settled, partial.message_format, buffer, spans)

    def _end_partial(self) -> None:
        if self._partial is not None:
            self.session.connection.budget.give_back(len(self._partial.data))
            self._partial = None

    def _let_go(self) -> None:
        self._end_partial()

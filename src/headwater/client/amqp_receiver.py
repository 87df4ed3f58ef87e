"""AMQP 1.0 part 2, section 2.6: a link on which a client receives, as fast as what comes is taken."""

from __future__ import annotations

import asyncio
from array import array
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec

from headwater.amqp.definitions import ErrorValue, ReceiverSettleMode, SenderSettleMode
from headwater.amqp.events import Deliveries
from headwater.amqp.messaging import Accepted, DeliveryState, Modified, Rejected, Released, Source, Target
from headwater.amqp.receiver_link import ReceiverLink
from headwater.client._kernel import moved_spans
from headwater.client.amqp_connection import AmqpConnection
from headwater.client.amqp_link import AmqpLink
from headwater.client.amqp_session import AmqpSession
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.amqp_message import Message, decode_message
from headwater.encoding.amqp_types import Described, Symbol, Timestamp
from headwater.encoding.ranges import IdRange
from headwater.errors import HeadwaterError

__all__ = [
    "CREDIT_COUNT",
    "AmqpReceiver",
    "ReceivedBatch",
    "ReceivedMessage",
    "from_offset",
    "from_timestamp",
    "selector",
]

CREDIT_COUNT = 1000
"""Messages that the server may send before one is taken here."""

_ACCEPTED = Accepted()
_RELEASED = Released()
_OFFSET = Symbol("rabbitmq:stream-offset-spec")
_SELECTOR = Symbol("apache.org:selector-filter:string")


def from_offset(offset: int | str) -> dict[Symbol, Described]:
    """The filter of a source that begins at an offset of a log, or at `first`, `last` or `next`."""
    return {_OFFSET: Described(_OFFSET, offset)}


def from_timestamp(timestamp_ms: int) -> dict[Symbol, Described]:
    """The filter of a source that begins with what was written at this time or later."""
    return {_OFFSET: Described(_OFFSET, Timestamp(timestamp_ms))}


def selector(expression: str) -> dict[Symbol, Described]:
    """The filter of a source that lets those messages pass for which an expression holds."""
    return {_SELECTOR: Described(_SELECTOR, expression)}


class ReceivedMessage(msgspec.Struct, frozen=True):
    """One message as it came; `id` says which delivery it is."""

    id: int
    is_settled: bool
    message_format: int
    data: bytes

    @property
    def ids(self) -> IdRange:
        """What is to be settled."""
        return self.id, self.id + 1

    def decode(self) -> Message:
        """The message with its sections; raises MalformedValue if it is none."""
        return decode_message(self.data, 0, len(self.data))


class ReceivedBatch(msgspec.Struct, frozen=True):
    """Messages with consecutive ids that came together; nothing is made of each until it is asked for.

    They lie in `data` where `spans` says (`encoding/_span_kernel.py` draws them); between two there may be other bytes.
    """

    first_id: int
    count: int
    is_settled: bool
    message_format: int
    data: bytes
    spans: array[int]

    @property
    def ids(self) -> IdRange:
        """What is to be settled."""
        return self.first_id, self.first_id + self.count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> ReceivedMessage:
        if not 0 <= index < self.count:
            raise IndexError(index)
        data = self.data[self.spans[SPAN_FIELDS * index] : self.spans[SPAN_FIELDS * index + 3]]
        return ReceivedMessage(self.first_id + index, self.is_settled, self.message_format, data)

    def messages(self) -> list[bytes]:
        """The bytes of all of them."""
        data, count = self.data, self.count
        starts, ends = self.spans[::SPAN_FIELDS], self.spans[3::SPAN_FIELDS]
        return [data[start:end] for start, end in zip(starts[:count], ends[:count], strict=True)]

    def behind(self, index: int) -> ReceivedBatch:
        """Those from `index` on."""
        return msgspec.structs.replace(
            self,
            first_id=self.first_id + index,
            count=self.count - index,
            spans=self.spans[SPAN_FIELDS * index :],
        )


class AmqpReceiver(AmqpLink):
    """Receives from one node: iterate over it, or take whole batches; what did not come settled is to be settled."""

    _machine: ReceiverLink

    def __init__(
        self, on: AmqpConnection | AmqpSession, source: Source, name: str | None, credit_count: int
    ) -> None:
        what = "a dynamic node" if source.dynamic else source.address or "no address"
        super().__init__(on, ReceiverLink, name, f"a receiver from {what}")
        self.credit_count = credit_count
        """Credit is given again as messages are taken, so that no more than these wait here."""
        self._batches: deque[ReceivedBatch] = deque()
        self._queued_count = 0
        self._gives_credit = credit_count > 0
        self._current: ReceivedBatch | None = None
        self._index = 0
        self._waiter: asyncio.Future[None] | None = None
        self._draining: asyncio.Future[None] | None = None

    @classmethod
    async def open(
        cls,
        on: AmqpConnection | AmqpSession,
        source: str | Source,
        *,
        target: Target | None = None,
        name: str | None = None,
        credit_count: int = CREDIT_COUNT,
        settle_mode: SenderSettleMode = SenderSettleMode.MIXED,
        receiver_settle_mode: ReceiverSettleMode = ReceiverSettleMode.FIRST,
        desired_capabilities: Sequence[str] = (),
        properties: Mapping[str, Any] | None = None,
    ) -> AmqpReceiver:
        """Attach; raises LinkRefused. `Source` has filters, durability, expiry, distribution mode, and dynamic nodes.

        With settle mode SETTLED messages come settled. A credit count of 0 leaves it to `grant`.
        """
        source = Source(source) if isinstance(source, str) else source
        receiver = cls(on, source, name, credit_count)
        await receiver._open(
            source, target or Target(), settle_mode, receiver_settle_mode, desired_capabilities, properties
        )
        return receiver

    @property
    def source(self) -> Source:
        """What the server grants: the address of a dynamic node, and of the filters those that it applies."""
        source = self.remote.source
        return source if isinstance(source, Source) else Source()

    # Taking messages

    async def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        while (message := await self.receive()) is not None:
            yield message

    async def receive(self, timeout_s: float | None = None) -> ReceivedMessage | None:
        """The next message; None when the time is up, or once it is closed here."""
        if self._current is None:
            self._current, self._index = await self.receive_batch(timeout_s), 0
        batch, index = self._current, self._index
        if batch is None:
            return None
        self._index = index + 1
        if self._index == batch.count:
            self._current = None
        return batch[index]

    async def receive_batch(self, timeout_s: float | None = None) -> ReceivedBatch | None:
        """The next messages that came together; None when the time is up, or once it is closed here.

        Raises what ended the link, behind the messages that came before.
        """
        if self._current is not None:
            rest, self._current = self._current.behind(self._index), None
            return rest
        if not self._batches and not await self._came(timeout_s):
            return None
        batch = self._batches.popleft()
        self._queued_count -= batch.count
        if self.error is None:
            self.connection.let_go(len(batch.data))
            self._give_credit()
        return batch

    # Settling

    def accept(self, what: ReceivedMessage | ReceivedBatch) -> None:
        """These are processed."""
        self.settle(what.ids, _ACCEPTED)

    def release(self, what: ReceivedMessage | ReceivedBatch) -> None:
        """These were not processed: they may go to somebody else."""
        self.settle(what.ids, _RELEASED)

    def reject(self, what: ReceivedMessage | ReceivedBatch, error: ErrorValue | None = None) -> None:
        """These are invalid, and nobody is to process them."""
        self.settle(what.ids, Rejected(error))

    def modify(
        self,
        what: ReceivedMessage | ReceivedBatch,
        *,
        delivery_failed: bool = True,
        undeliverable_here: bool = False,
        annotations: Mapping[str, Any] | None = None,
    ) -> None:
        """These were not processed, and are to be changed so before they are delivered again."""
        changed = {Symbol(name): value for name, value in annotations.items()} if annotations else None
        self.settle(what.ids, Modified(delivery_failed, undeliverable_here, changed))

    def settle(self, ids: IdRange, outcome: DeliveryState) -> None:
        """Say what became of deliveries, those that are settled already left out; neighbours become one frame."""
        self._check_alive()
        self._machine.settle(*ids, outcome)
        self.connection.wrote()

    @property
    def unsettled_count(self) -> int:
        """Messages that came and are not settled yet."""
        return self._machine.unsettled.count

    # Credit

    def grant(self, count: int | None = None) -> None:
        """Let this many messages come from now on; without a number, again as many as are taken."""
        self._check_alive()
        self._gives_credit = count is None
        if count is None:
            self._give_credit()
        else:
            self._machine.grant(count)
            self.connection.wrote()

    async def drain(self) -> None:
        """Have the server send what it has and give up the rest of the credit; after that `grant` lets more come."""
        self._check_alive()
        self._gives_credit = False
        self._draining = asyncio.get_running_loop().create_future()
        self._machine.drain()
        self.connection.wrote()
        try:
            await self.connection.answer(self._draining, f"drain of {self.what}")
        finally:
            self._draining = None

    async def detach(self) -> None:
        """Leave, while the server keeps what is durable of the link; to attach again by its name goes on with it."""
        await self._leave(is_closed=False)

    # What the connection tells

    def delivered(self, event: Deliveries) -> None:
        spans, count = event.spans, event.count
        start, end = spans[0], spans[SPAN_FIELDS * count - 1]
        with memoryview(event.buffer) as view:
            data = bytes(view[start:end])
        own_spans = array("q", bytes(8 * SPAN_FIELDS * count))
        moved_spans(spans, count, start, own_spans)
        self._batches.append(
            ReceivedBatch(event.first_id, count, event.is_settled, event.message_format, data, own_spans)
        )
        self._queued_count += count
        self.connection.hold(len(data))
        self._wake()

    def flow(self) -> None:
        if self._draining is not None and not self._machine.credit and not self._draining.done():
            self._draining.set_result(None)
        # A delivery that was aborted has used credit.
        self._give_credit()

    def settled(self, ranges: Sequence[IdRange], state: DeliveryState | None, *, is_settled: bool) -> None:
        raise AssertionError("nothing of ours is settled on a link on which we receive")

    def _attached(self) -> None:
        self._give_credit()

    def _ended(self, error: HeadwaterError) -> None:
        if self._draining is not None and not self._draining.done():
            self._draining.set_exception(error)
        # What waits here can still be taken, but it is no reason to read nothing from the connection.
        self.connection.let_go(sum(len(batch.data) for batch in self._batches))
        self._wake()

    # Helpers

    def _give_credit(self) -> None:
        """Half of it at once: a flow for each message would cost more than it hastens."""
        link = self._machine
        is_due = 2 * (link.credit + self._queued_count) <= self.credit_count
        if is_due and self._gives_credit and self.error is None:
            link.grant(self.credit_count - self._queued_count)
            self.connection.wrote()

    async def _came(self, timeout_s: float | None) -> bool:
        """Wait for messages; False when the time is up, or when it was closed here."""
        try:
            async with asyncio.timeout(timeout_s):
                while not self._batches:
                    if self._leaving is not None:
                        return False
                    self._check_alive()
                    if self._waiter is None:
                        self._waiter = asyncio.get_running_loop().create_future()
                    await asyncio.shield(self._waiter)
        except TimeoutError:
            return bool(self._batches)
        return True

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

"""AMQP 1.0 part 2, section 2.6: a link on which a client sends, as far as credit, windows and the socket allow."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headwater.amqp.definitions import ReceiverSettleMode, SenderSettleMode
from headwater.amqp.events import Deliveries
from headwater.amqp.messaging import Accepted, DeliveryState, Source, Target
from headwater.amqp.sender_link import SenderLink
from headwater.client._kernel import record_spans
from headwater.client.amqp_connection import AmqpConnection
from headwater.client.amqp_errors import MessageRefused
from headwater.client.amqp_link import AmqpLink
from headwater.client.amqp_sent import SentBatch, Unsettled
from headwater.client.amqp_session import AmqpSession
from headwater.client.errors import MessageTooLarge
from headwater.client.forwarding import to_send_on
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.amqp_message import Message, data_section, encode_message
from headwater.encoding.chunk import ReadableBuffer
from headwater.encoding.ranges import IdRange
from headwater.errors import HeadwaterError

__all__ = ["REFUSED_BATCHES_KEPT_MAX", "UNSETTLED_MESSAGES_MAX", "AmqpSender"]

UNSETTLED_MESSAGES_MAX = 20_000
REFUSED_BATCHES_KEPT_MAX = 1000
"""Batches with refusals that nobody has asked for, remembered until `flush`; beyond, their messages are counted."""

_WRITE_BYTES = 256 << 10
"""What is written at once; other links have their turn in between."""
_DATA_HEAD_BYTES_MAX = 8


class AmqpSender(AmqpLink):
    """Sends to one node, or with `Target()` as an anonymous relay to where each message's `to` says.

    What is sent are encoded messages; with `as_data` they are bytes that become the data section of one each.
    """

    _machine: SenderLink

    def __init__(
        self, on: AmqpConnection | AmqpSession, target: Target, name: str | None, unsettled_max: int
    ) -> None:
        super().__init__(on, SenderLink, name, f"a sender to {target.address or 'no one node'}")
        self.unsettled_max = unsettled_max
        self.on_settled: Callable[[int, int, DeliveryState | None], None] | None = None
        """Called with number of the first, count and outcome of each run of messages that is settled."""
        self.sent_count = 0
        """Messages sent, which are numbered from 0 on."""
        self.accepted_count = 0
        self.refused_count = 0
        self._unsettled = Unsettled()
        self._refused_batches: list[SentBatch] = []
        """Batches with refusals that may not have been told of."""
        self._refused_messages_beyond = 0
        self._turn = asyncio.Lock()
        self._room_waiter: asyncio.Future[None] | None = None
        self._idle_waiters: list[asyncio.Future[None]] = []

    @classmethod
    async def open(
        cls,
        on: AmqpConnection | AmqpSession,
        target: str | Target,
        *,
        source: Source | None = None,
        name: str | None = None,
        unsettled_max: int = UNSETTLED_MESSAGES_MAX,
        settle_mode: SenderSettleMode = SenderSettleMode.MIXED,
        receiver_settle_mode: ReceiverSettleMode = ReceiverSettleMode.FIRST,
        desired_capabilities: Sequence[str] = (),
        properties: Mapping[str, Any] | None = None,
    ) -> AmqpSender:
        """Attach; raises LinkRefused. With settle mode SETTLED nothing is known of what becomes of messages."""
        target = Target(target) if isinstance(target, str) else target
        sender = cls(on, target, name, unsettled_max)
        await sender._open(
            source or Source(), target, settle_mode, receiver_settle_mode, desired_capabilities, properties
        )
        return sender

    @property
    def unsettled_count(self) -> int:
        """Messages of which it is not known yet what became of them."""
        return self._unsettled.count

    @property
    def message_bytes_max(self) -> int | None:
        """The largest message that the node takes, if it says so."""
        return self.remote.max_message_size or None

    async def send(self, message: bytes | Message) -> None:
        """Send one message and wait until it is accepted; raises MessageRefused if it is not."""
        await self.send_batch([message if isinstance(message, bytes) else encode_message(message)])

    async def forward(self, messages: Sequence[bytes]) -> None:
        """Send on messages as a receiver got them, less what held for its link alone, and wait until all are accepted;
        raises MessageRefused if some are not."""
        await self.send_batch([to_send_on(each) for each in messages])

    async def send_batch(self, messages: Sequence[bytes], *, as_data: bool = False) -> None:
        """Send messages and wait until all are accepted; raises MessageRefused if some are not."""
        sent = await self.post(messages, as_data=as_data)
        if refusals := await sent.settled():
            raise MessageRefused(self.what, refusals, sum(each.count for each in refusals))

    async def post(
        self, messages: Sequence[bytes], *, as_data: bool = False, is_settled: bool | None = None
    ) -> SentBatch:
        """Send messages; returns when they are on their way. Waits while too many are unsettled, or there is no credit.

        What becomes of them the batch tells, and `on_settled`; refusals that nobody has asked for `flush` raises.
        Messages that are settled as they are sent have no outcome.
        """
        spans = array("q", bytes(8 * SPAN_FIELDS * len(messages)))
        longest = record_spans(messages, as_data, spans)
        self._check_size(longest + _DATA_HEAD_BYTES_MAX if as_data else longest)
        return await self.post_spans(b"".join(messages), spans, 0, len(messages), is_settled=is_settled)

    async def post_spans(
        self,
        data: ReadableBuffer,
        spans: array[int],
        first: int,
        count: int,
        *,
        is_settled: bool | None = None,
    ) -> SentBatch:
        """Send messages from where they lie, as `post` does; `_span_kernel.py` draws spans."""
        async with self._turn:
            self._check_alive()
            settled = self._machine.sends_settled if is_settled is None else is_settled
            batch = SentBatch(self.sent_count, count, 0 if settled else count)
            done = 0
            while done < count:
                room = min(await self._room(), count - done)
                sent, first_id = self._write(data, spans, first + done, room, is_settled=settled)
                if not settled:
                    self._unsettled.add(first_id, sent, batch, done)
                done += sent
                self.sent_count += sent
                self.connection.wrote()
            self._give_up_credit()
            return batch

    async def flush(self) -> None:
        """Wait until all is settled; raises MessageRefused if some was refused and nobody has asked for it since."""
        if self._unsettled.count:
            self._check_alive()
            waiter = asyncio.get_running_loop().create_future()
            self._idle_waiters.append(waiter)
            await waiter
        batches, self._refused_batches = self._refused_batches, []
        count, self._refused_messages_beyond = self._refused_messages_beyond, 0
        refusals = [each for batch in batches if not batch.is_told for each in batch.numbered_refusals()]
        if refusals or count:
            raise MessageRefused(self.what, refusals, count + sum(each.count for each in refusals))

    async def close(self) -> None:
        """Wait for what is unsettled, then detach for good."""
        try:
            if self.error is None:
                await self.flush()
        finally:
            await super().close()

    # What the connection tells

    def flow(self) -> None:
        self._machine.send_rest()
        self._give_room()
        if not self._turn.locked():
            self._give_up_credit()
        self.connection.wrote()

    def delivered(self, event: Deliveries) -> None:
        raise AssertionError("nothing is delivered on a link on which we send")

    def settled(self, ranges: Sequence[IdRange], state: DeliveryState | None, *, is_settled: bool) -> None:
        is_accepted = isinstance(state, Accepted)
        for first, end in ranges:
            for batch, index, count in self._unsettled.settle(first, end, state):
                if is_accepted:
                    self.accepted_count += count
                else:
                    self._note_refusal(batch, count)
                if self.on_settled is not None:
                    self.on_settled(batch.first_number + index, count, state)
        if not is_settled:
            # The receiver settles second: it waits for us to forget them.
            for ids in ranges:
                self._machine.settle(ids, state)
            self.connection.wrote()
        self._give_room()
        if not self._unsettled.count:
            self._wake_idle()

    def _ended(self, error: HeadwaterError) -> None:
        self._unsettled.end(error)
        self._give_room()
        waiters, self._idle_waiters = self._idle_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(error)

    # Sending

    async def _room(self) -> int:
        """How many messages may be sent now; waits until that is one at least."""
        while True:
            self._check_alive()
            await self.connection.protocol.drained()
            room = self.unsettled_max - self._unsettled.count
            if room > 0 and self._machine.may_send:
                return room
            self._check_alive()
            self._give_up_credit()
            self._room_waiter = asyncio.get_running_loop().create_future()
            await self._room_waiter

    def _write(
        self, data: ReadableBuffer, spans: array[int], first: int, room: int, *, is_settled: bool
    ) -> tuple[int, int]:
        """Send some, one at least; gives how many and the id of the first."""
        link = self._machine
        first_id = link.session.next_delivery_id
        sent = link.send_records(data, spans, first, room, b"", _WRITE_BYTES, is_settled=is_settled)
        if not sent:
            # It needs several frames, or is larger than what is written at once.
            link.send(_message(data, spans, first), is_settled=is_settled)
            sent = 1
        return sent, first_id

    def _give_up_credit(self) -> None:
        """There is nothing to send now: a server that drains gets the rest of its credit back."""
        if self._machine.is_draining:
            self._machine.drained()
            self.connection.wrote()

    def _check_size(self, size_bytes: int) -> None:
        size_bytes_max = self.message_bytes_max
        if size_bytes_max is not None and size_bytes > size_bytes_max:
            raise MessageTooLarge(size_bytes, size_bytes_max)

    # Waiting

    def _note_refusal(self, batch: SentBatch, count: int) -> None:
        self.refused_count += count
        if batch.is_told or batch.is_kept:
            return
        if len(self._refused_batches) < REFUSED_BATCHES_KEPT_MAX:
            self._refused_batches.append(batch)
            batch.is_kept = True
        else:
            self._refused_messages_beyond += count

    def _give_room(self) -> None:
        waiter, self._room_waiter = self._room_waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _wake_idle(self) -> None:
        waiters, self._idle_waiters = self._idle_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _message(data: ReadableBuffer, spans: array[int], number: int) -> bytes:
    """One message of these, less the delivery annotations between its parts."""
    head, head_end, rest, end = spans[SPAN_FIELDS * number : SPAN_FIELDS * (number + 1)]
    if head < 0:
        return data_section(bytes(data[rest:end]))
    return bytes(data[head:head_end]) + bytes(data[rest:end])

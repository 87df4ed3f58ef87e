"""The work of `headwater publish`: batches to the streams they belong to, at a rate, with what became of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import msgspec

from headwater.cli.connecting import Misused, Stop
from headwater.client.errors import RequestRefused
from headwater.client.stream_connection import StreamConnection
from headwater.client.stream_publisher import StreamPublisher
from headwater.client.super_stream import PartitionedPublisher, partition_names, streams_of
from headwater.encoding.amqp_message import data_section
from headwater.encoding.compression import Compression
from headwater.errors import HeadwaterError
from headwater.streams.commands import ResponseCode

__all__ = ["FLUSH_TIMEOUT_S", "Outcome", "Plan", "Unconfirmed", "paced", "publish_all"]

FLUSH_TIMEOUT_S = 30.0
_STEPS_PER_SECOND = 50
"""With a rate, batches are cut so that there are about so many a second."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How messages are to be sent."""

    stream: str
    batch_messages: int
    name: str | None = None
    numbered: bool = False
    """Whether the id of a message is its number in the input, so that the same input again stores nothing twice."""
    key: bytes | None = None
    key_separator: bytes | None = None
    filter_value: str | None = None
    compression: Compression | None = None
    rate: float | None = None
    create: bool = False
    partitions: int | None = None


class Outcome(msgspec.Struct):
    """What became of the messages; it is true at every moment."""

    stream: str
    read: int = 0
    skipped: int = 0
    """Messages that a named publisher has sent before."""
    sent: int = 0
    confirmed: int = 0
    refused: int = 0
    byte_count: int = msgspec.field(default=0, name="bytes")
    seconds: float = 0.0


@dataclass(slots=True)
class _Sender:
    """One stream: its publisher, and messages that wait for the confirm of a sub-batch."""

    publisher: StreamPublisher
    stored_id: int
    packed: dict[int, int] = field(default_factory=dict)
    """Messages in each sub-batch that is not confirmed, by its id."""


async def publish_all(
    connection: StreamConnection,
    plan: Plan,
    batches: AsyncIterator[list[bytes]],
    outcome: Outcome,
    stop: Stop,
) -> None:
    """Send all batches and wait for their confirms; raises what went wrong, with the outcome up to then."""
    if plan.create:
        await _create(connection, plan)
    publisher = await _open(connection, plan)
    work = _Work(publisher, plan, outcome)
    started = time.monotonic()
    try:
        async for batch in paced(batches, plan, started, outcome, stop):
            if stop.is_set:
                break
            await work.send(batch)
        async with asyncio.timeout(FLUSH_TIMEOUT_S):
            await publisher.flush()
    except TimeoutError:
        raise Unconfirmed(outcome.sent - outcome.confirmed, FLUSH_TIMEOUT_S) from None
    finally:
        outcome.seconds = time.monotonic() - started


class Unconfirmed(HeadwaterError):
    """Confirms did not come in time."""

    def __init__(self, count: int, seconds: float) -> None:
        self.count, self.seconds = count, seconds
        super().__init__(
            f"{count} messages were not confirmed within {seconds:g} s; whether they are stored is unknown: "
            "look at the server, and send again with --name and --file so that none is stored twice"
        )


async def _create(connection: StreamConnection, plan: Plan) -> None:
    if plan.partitions is None:
        await connection.create_stream(plan.stream, exists_ok=True)
    else:
        streams, keys = partition_names(plan.stream, plan.partitions)
        await connection.create_super_stream(plan.stream, streams, keys, exists_ok=True)


async def _open(connection: StreamConnection, plan: Plan) -> PartitionedPublisher:
    try:
        streams = await streams_of(connection, plan.stream)
    except RequestRefused as error:
        if error.code == ResponseCode.STREAM_DOES_NOT_EXIST:
            raise Misused(f"there is no stream {plan.stream!r}; --create makes it") from None
        raise
    has_key = plan.key is not None or plan.key_separator is not None
    if has_key and streams == [plan.stream]:
        raise Misused(f"{plan.stream!r} is no super stream, so keys mean nothing there; leave them out")
    if plan.name is not None and len(streams) > 1 and not has_key:
        raise Misused(
            "on a super stream --name needs --key or --key-separator: a message that is sent again must go "
            "where it went before"
        )
    return await PartitionedPublisher.open(connection, streams, name=plan.name)


class _Work:
    """Sends batches."""

    def __init__(self, publisher: PartitionedPublisher, plan: Plan, outcome: Outcome) -> None:
        self._publisher = publisher
        self._plan = plan
        self._outcome = outcome
        self._turn = 0
        self._senders = {id(each): _Sender(each, each.next_id - 1) for each in publisher.publishers}
        for sender in self._senders.values():
            sender.publisher.on_confirmed = self._counter(sender)

    async def send(self, batch: list[bytes]) -> None:
        """Send one batch to where it belongs."""
        first_number = self._outcome.read + 1
        self._outcome.read += len(batch)
        for publisher, messages, numbers in self._routed(batch, first_number):
            await self._send_new(self._senders[id(publisher)], messages, numbers)

    async def _send_new(self, sender: _Sender, messages: list[bytes], numbers: range | list[int]) -> None:
        """Leave out what the server has had from this publisher already."""
        if self._plan.numbered and numbers[0] <= sender.stored_id:
            new = [at for at, number in enumerate(numbers) if number > sender.stored_id]
            self._outcome.skipped += len(messages) - len(new)
            messages, numbers = [messages[at] for at in new], [numbers[at] for at in new]
        if messages:
            await self._send_to(sender, messages, numbers)

    def _routed(
        self, batch: list[bytes], first_number: int
    ) -> list[tuple[StreamPublisher, list[bytes], range | list[int]]]:
        numbers = range(first_number, first_number + len(batch))
        publishers = self._publisher.publishers
        if self._plan.key_separator is not None:
            keys, batch = _split(batch, self._plan.key_separator, first_number)
            return [
                (publisher, [batch[at] for at in places], [numbers[at] for at in places])
                for publisher, places in self._publisher.route(keys)
            ]
        if self._plan.key is not None:
            ((publisher, _),) = self._publisher.route([self._plan.key])
            return [(publisher, batch, numbers)]
        # Without keys each batch goes to the next partition.
        self._turn = (self._turn + 1) % len(publishers)
        return [(publishers[self._turn], batch, numbers)]

    async def _send_to(self, sender: _Sender, messages: list[bytes], numbers: range | list[int]) -> None:
        plan = self._plan
        if plan.compression is not None:
            id_ = numbers[-1] if plan.numbered else sender.publisher.next_id
            sender.packed[id_] = len(messages)
            packed = [data_section(message) for message in messages]
            await sender.publisher.publish_sub_batch(packed, plan.compression, id_=id_)
        else:
            filters = None if plan.filter_value is None else [plan.filter_value] * len(messages)
            ids = list(numbers) if plan.numbered else None
            await sender.publisher.publish(messages, ids=ids, filter_values=filters, as_data=True)
        self._outcome.sent += len(messages)
        self._outcome.byte_count += sum(map(len, messages))

    def _counter(self, sender: _Sender) -> Callable[[int, int], None]:
        outcome, packed = self._outcome, sender.packed

        def confirmed(_: int, count: int) -> None:
            outcome.confirmed += count

        def packed_confirmed(first: int, count: int) -> None:
            outcome.confirmed += sum(packed.pop(id_, 0) for id_ in range(first, first + count))

        return confirmed if self._plan.compression is None else packed_confirmed


async def paced(
    batches: AsyncIterator[list[bytes]], plan: Plan, started: float, outcome: Outcome, stop: Stop
) -> AsyncIterator[list[bytes]]:
    """The batches, cut and held back so that the rate is kept."""
    if plan.rate is None:
        async for batch in batches:
            yield batch
        return
    step = max(1, min(plan.batch_messages, int(plan.rate / _STEPS_PER_SECOND)))
    async for batch in batches:
        for at in range(0, len(batch), step):
            ahead = outcome.read / plan.rate - (time.monotonic() - started)
            if ahead > 0:
                await stop.or_done(asyncio.sleep(ahead, True))
            yield batch[at : at + step]


def _split(batch: list[bytes], separator: bytes, first_number: int) -> tuple[list[bytes], list[bytes]]:
    """Keys and messages of lines that have a separator between them."""
    keys, messages = [], []
    for number, line in enumerate(batch, first_number):
        key, found, message = line.partition(separator)
        if not found:
            raise Misused(f"message {number} has no {separator!r} in it, as --key-separator says")
        keys.append(key)
        messages.append(message)
    return keys, messages

"""The second part of the demo: a shop whose orders go through the stream door, numbered so that none can hide."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from headwater.cli.histogram import Histogram, Latency
from headwater.client.address import Address
from headwater.client.stream_connection import StreamConnection
from headwater.client.stream_consumer import LAST, StreamConsumer, at_offset
from headwater.client.stream_publisher import StreamPublisher
from headwater.encoding.amqp_message import body_of, data_section
from headwater.errors import PeerError

__all__ = [
    "ORDERS",
    "Published",
    "ReadBack",
    "last_messages",
    "publish_for",
    "publish_until_lost",
    "read_back",
    "send",
]

ORDERS = "orders"
PUBLISHER = "shop"
BATCH_ORDERS = 1000
UNCONFIRMED_ORDERS_MAX = 50_000
_CUSTOMERS = (b"ada", b"grace", b"edsger", b"barbara", b"leslie")


def order(number: int) -> bytes:
    """The body of an order; the same for the same number."""
    customer = _CUSTOMERS[number % 5]
    return b'{"order": %d, "customer": "%s", "amount": "%d.50"}' % (number, customer, 5 + number % 90)


def _entry(number: int) -> bytes:
    """An order as it stands in a chunk."""
    message = data_section(order(number))
    return len(message).to_bytes(4, "big") + message


@dataclass(frozen=True, slots=True)
class Published:
    """What a publisher saw."""

    sent: int
    last_sent: int
    confirmed_through: int
    """Every order up to this number was confirmed."""
    seconds: float
    confirm: Latency | None


@dataclass(frozen=True, slots=True)
class ReadBack:
    """What a reader found up to the last order."""

    count: int
    """Orders in all, those before the first that was read included."""
    is_exact: bool
    """Whether the order at each offset is the one that belongs there, so none is missing, twice, or out of turn."""
    seconds: float


async def publish_for(port: int, seconds: float) -> Published:
    """Make the stream, and publish as fast as it goes; returns when all is confirmed."""
    async with await _connect(port) as connection:
        await connection.create_stream(ORDERS)
        shop = await _Shop.open(connection)
        started = time.monotonic()
        while time.monotonic() - started < seconds:
            await shop.send_batch()
        await shop.publisher.flush()
        return shop.published(time.monotonic() - started)


async def publish_until_lost(port: int, after_s: float, kill: Callable[[], None]) -> Published:
    """Go on publishing, and let the server be killed in the middle of it."""
    connection = await _connect(port)
    shop = await _Shop.open(connection)
    loop, started = asyncio.get_running_loop(), time.monotonic()
    killing = loop.call_later(after_s, kill)
    try:
        while True:
            await shop.send_batch()
    except PeerError:
        return shop.published(time.monotonic() - started)
    finally:
        killing.cancel()
        await connection.close()


async def send(port: int, first: int, last: int) -> tuple[int, int]:
    """Send these orders, whether they were sent before or not; gives how many were there before and behind."""
    async with await _connect(port) as connection:
        before = await _count(connection)
        shop = await _Shop.open(connection)
        shop.publisher.next_id = first
        while shop.publisher.next_id <= last:
            await shop.send_batch(last)
        await shop.publisher.close()
        return before, await _count(connection)


async def read_back(port: int, first: int = 1) -> ReadBack:
    """Read all orders from this one on, and compare each with the one that it should be."""
    async with await _connect(port) as connection:
        started = time.monotonic()
        count = await _count(connection)
        consumer = await StreamConsumer.open(connection, ORDERS, at_offset(first - 1))
        behind, is_exact = first - 1, True
        while behind < count:
            chunk = await consumer.next_chunk()
            assert chunk is not None
            chunk.check()
            # Chunk by chunk: millions are compared in a moment.
            expected = b"".join(
                [_entry(number + 1) for number in range(chunk.first_offset, chunk.next_offset)]
            )
            is_exact = is_exact and chunk.first_offset <= behind and chunk.data == expected
            behind = chunk.next_offset
        return ReadBack(behind, is_exact, time.monotonic() - started)


async def last_messages(port: int, stream: str, count: int) -> list[tuple[int, str]]:
    """Offsets and bodies of the last messages of a stream."""
    async with await _connect(port) as connection:
        consumer = await StreamConsumer.open(connection, stream, LAST)
        chunk = await consumer.next_chunk()
        assert chunk is not None
        found = list(chunk.messages())[-count:]
        return [(offset, (body_of(message) or b"").decode()) for offset, message in found]


async def _connect(port: int) -> StreamConnection:
    return await StreamConnection.connect(Address(port=port), connection_name="headwater demo")


async def _count(connection: StreamConnection) -> int:
    return (await connection.stream_stats(ORDERS))["committed_offset"] + 1


class _Shop:
    """A named publisher: order N has publishing id N."""

    def __init__(self, publisher: StreamPublisher) -> None:
        self.publisher = publisher
        self._first = publisher.next_id
        self._latency = Histogram()
        self._sent_at: deque[tuple[int, int]] = deque()
        publisher.on_confirmed = self._confirmed

    @classmethod
    async def open(cls, connection: StreamConnection) -> _Shop:
        return cls(
            await StreamPublisher.open(
                connection, ORDERS, name=PUBLISHER, unconfirmed_max=UNCONFIRMED_ORDERS_MAX
            )
        )

    async def send_batch(self, last: int | None = None) -> None:
        first = self.publisher.next_id
        behind = first + BATCH_ORDERS if last is None else min(first + BATCH_ORDERS, last + 1)
        self._sent_at.append((behind - 1, time.monotonic_ns()))
        await self.publisher.publish([order(number) for number in range(first, behind)], as_data=True)

    def published(self, seconds: float) -> Published:
        publisher = self.publisher
        sent = publisher.next_id - self._first
        return Published(
            sent, publisher.next_id - 1, publisher.answered_through, seconds, self._latency.latency()
        )

    def _confirmed(self, first: int, count: int) -> None:
        now_ns = time.monotonic_ns()
        while self._sent_at and self._sent_at[0][0] < first + count:
            self._latency.record(now_ns - self._sent_at.popleft()[1], BATCH_ORDERS)

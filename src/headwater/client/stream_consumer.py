"""RabbitMQ Streams protocol, Subscribe, Credit and Deliver: chunks of one stream, as fast as they are taken."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

from headwater.client.chunk_view import UNPACKED_BYTES_MAX, Chunk
from headwater.client.errors import TooMuchDelivered
from headwater.client.stream_connection import StreamConnection
from headwater.encoding.chunk import CHUNK_HEADER_BYTES, ReadableBuffer
from headwater.errors import HeadwaterError
from headwater.streams import commands as c
from headwater.streams.commands import OffsetSpecification, OffsetType
from headwater.streams.errors import InvalidCommand

__all__ = ["FIRST", "LAST", "NEXT", "QUEUED_CHUNKS_MAX", "StreamConsumer", "at_offset", "at_timestamp"]

QUEUED_CHUNKS_MAX = 16
"""Chunks that the server may send before one is taken here."""

FIRST = OffsetSpecification(OffsetType.FIRST)
LAST = OffsetSpecification(OffsetType.LAST)
NEXT = OffsetSpecification(OffsetType.NEXT)

_CREDIT_MAX = 65_535


def at_offset(offset: int) -> OffsetSpecification:
    """From this offset on."""
    return OffsetSpecification(OffsetType.OFFSET, offset)


def at_timestamp(timestamp_ms: int) -> OffsetSpecification:
    """From the first chunk on that was written at this time or later."""
    return OffsetSpecification(OffsetType.TIMESTAMP, timestamp_ms)


class StreamConsumer:
    """A subscription; iterate over it for its chunks, which end when it is closed."""

    def __init__(
        self,
        connection: StreamConnection,
        stream: str,
        name: str | None,
        queued_max: int,
        unpacked_bytes_max: int,
    ) -> None:
        self.stream = stream
        self.name = name
        self.queued_max = queued_max
        self.is_active = True
        """Whether it is the one of its group that gets chunks."""
        self.on_activity: Callable[[bool], Awaitable[OffsetSpecification | None]] | None = None
        """Asked where to begin when it becomes the active one of its group; None is behind the stored offset."""
        self.error: HeadwaterError | None = None
        self._connection = connection
        self._unpacked_bytes_max = unpacked_bytes_max
        self._id = -1
        self._offset = NEXT
        self._from_offset = 0
        self._chunks: deque[Chunk] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._credit_due = 0
        self._is_closed = False

    @classmethod
    async def open(
        cls,
        connection: StreamConnection,
        stream: str,
        offset: OffsetSpecification = NEXT,
        *,
        name: str | None = None,
        filter_values: Sequence[str] = (),
        match_unfiltered: bool = False,
        single_active: bool = False,
        super_stream: str | None = None,
        on_activity: Callable[[bool], Awaitable[OffsetSpecification | None]] | None = None,
        queued_max: int = QUEUED_CHUNKS_MAX,
        unpacked_bytes_max: int = UNPACKED_BYTES_MAX,
    ) -> StreamConsumer:
        """Subscribe. Filters let whole chunks pass: what does not match in them is the caller's to leave out.

        A single active consumer shares its name with others, of which one gets chunks.
        """
        if not 1 <= queued_max <= _CREDIT_MAX:
            raise InvalidCommand("Subscribe", f"queued_max is {queued_max}, and not 1 to {_CREDIT_MAX}")
        consumer = cls(connection, stream, name, queued_max, unpacked_bytes_max)
        consumer.on_activity = on_activity
        consumer.is_active = not single_active
        consumer._begin_at(offset)
        properties = _properties(name, filter_values, match_unfiltered, single_active, super_stream)
        consumer._id = await connection.subscribe(consumer, offset, queued_max, properties)
        return consumer

    async def __aiter__(self) -> AsyncIterator[Chunk]:
        while (chunk := await self.next_chunk()) is not None:
            yield chunk

    async def next_chunk(self) -> Chunk | None:
        """The next chunk, or None once it is closed; raises what ended it, behind the chunks that came before."""
        while not self._chunks:
            if self._is_closed:
                return None
            if self.error is not None:
                raise self.error.with_traceback(None)
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self.take()

    def take(self) -> Chunk | None:
        """The next chunk if one is here."""
        if not self._chunks:
            return None
        chunk = self._chunks.popleft()
        # Half the queue at once: a frame for each chunk would cost more than it hastens.
        self._credit_due += 1
        if self._credit_due >= (self.queued_max + 1) // 2:
            self._connection.give_credit(self._id, self._credit_due)
            self._credit_due = 0
        return chunk

    def store_offset(self, offset: int) -> None:
        """Keep under this consumer's name that everything up to `offset` is done."""
        self._connection.store_offset(self._named(), self.stream, offset)

    async def stored_offset(self) -> int | None:
        """What was stored last under this consumer's name."""
        return await self._connection.stored_offset(self._named(), self.stream)

    async def close(self) -> None:
        """Unsubscribe; chunks that are here already can still be taken."""
        self._is_closed = True
        self._wake()
        await self._connection.unsubscribe(self._id)

    # What the connection tells

    def delivered(self, event: c.Deliver, buffer: ReadableBuffer) -> None:
        """Queue a chunk."""
        if self._is_closed:
            return
        if len(self._chunks) + self._credit_due >= self.queued_max:
            self._connection.fail(TooMuchDelivered(self.stream, self.queued_max))
            return
        header = event.header
        with memoryview(buffer) as view:
            data = bytes(view[event.start + CHUNK_HEADER_BYTES : event.end])
        self._chunks.append(
            Chunk(
                self.stream,
                header.first_offset,
                header.records,
                header.entries,
                header.timestamp_ms,
                event.committed_chunk_id,
                header.data_crc,
                data,
                self._from_offset,
                self._unpacked_bytes_max,
            )
        )
        self._wake()

    async def activity_changed(self, active: bool) -> OffsetSpecification:
        """Become the active one, or stop to be; gives where to begin."""
        self.is_active = active
        chosen = None if self.on_activity is None else await self.on_activity(active)
        if not active:
            return OffsetSpecification(OffsetType.NONE)
        if chosen is None and self.name is not None:
            stored = await self.stored_offset()
            chosen = None if stored is None else at_offset(stored + 1)
        offset = chosen or self._offset
        self._begin_at(offset)
        return offset

    def ended(self, error: HeadwaterError) -> None:
        """No more chunks will come."""
        self.error = error
        self._wake()

    def _begin_at(self, offset: OffsetSpecification) -> None:
        self._offset = offset
        self._from_offset = offset.value if offset.type is OffsetType.OFFSET else 0

    def _named(self) -> str:
        if self.name is None:
            raise InvalidCommand("StoreOffset", "this consumer has no name")
        return self.name

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


def _properties(
    name: str | None,
    filter_values: Sequence[str],
    match_unfiltered: bool,
    single_active: bool,
    super_stream: str | None,
) -> Mapping[str, str]:
    properties = {f"filter.{index}": value for index, value in enumerate(filter_values)}
    if filter_values:
        properties["match-unfiltered"] = "true" if match_unfiltered else "false"
    if name is not None:
        properties["name"] = name
    if single_active:
        properties["single-active-consumer"] = "true"
    if super_stream is not None:
        properties["super-stream"] = super_stream
    return properties

"""The stream client for programs without a loop: a thread runs it, so heartbeats go on whatever the caller does."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from types import TracebackType
from typing import Any, TypeVar

from headwater.client.address import Address, Credentials
from headwater.client.chunk_view import UNPACKED_BYTES_MAX, Chunk
from headwater.client.loop_thread import LoopThread
from headwater.client.stream_connection import REQUEST_TIMEOUT_S, StreamConnection
from headwater.client.stream_consumer import NEXT, QUEUED_CHUNKS_MAX, StreamConsumer
from headwater.client.stream_publisher import UNCONFIRMED_MESSAGES_MAX, StreamPublisher
from headwater.encoding.compression import Compression
from headwater.streams.commands import OffsetSpecification

__all__ = ["BlockingConnection", "BlockingConsumer", "BlockingPublisher"]

_Result = TypeVar("_Result")


class BlockingConnection:
    """A `StreamConnection` for threads; `run` carries out whatever has no method of its own here."""

    def __init__(
        self,
        address: Address | None = None,
        credentials: Credentials | None = None,
        *,
        vhost: str = "/",
        connection_name: str | None = None,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        """Connect, as `StreamConnection.connect` does."""
        self._thread = LoopThread()
        self._is_closed = False
        connecting = StreamConnection.connect(
            address,
            credentials,
            vhost=vhost,
            connection_name=connection_name,
            request_timeout_s=request_timeout_s,
        )
        try:
            self.connection = self.run(connecting)
        except BaseException:
            self._thread.stop()
            raise

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Carry out a coroutine of the connection, or of what was opened on it."""
        return self._thread.run(work)

    def publisher(
        self, stream: str, *, name: str | None = None, unconfirmed_max: int = UNCONFIRMED_MESSAGES_MAX
    ) -> BlockingPublisher:
        """As `StreamPublisher.open`."""
        opening = StreamPublisher.open(self.connection, stream, name=name, unconfirmed_max=unconfirmed_max)
        return BlockingPublisher(self, self.run(opening))

    def consumer(
        self,
        stream: str,
        offset: OffsetSpecification = NEXT,
        *,
        name: str | None = None,
        filter_values: Sequence[str] = (),
        match_unfiltered: bool = False,
        queued_max: int = QUEUED_CHUNKS_MAX,
        unpacked_bytes_max: int = UNPACKED_BYTES_MAX,
    ) -> BlockingConsumer:
        """As `StreamConsumer.open`."""
        opening = StreamConsumer.open(
            self.connection,
            stream,
            offset,
            name=name,
            filter_values=filter_values,
            match_unfiltered=match_unfiltered,
            queued_max=queued_max,
            unpacked_bytes_max=unpacked_bytes_max,
        )
        return BlockingConsumer(self, self.run(opening))

    def close(self) -> None:
        """Close the connection and end the thread."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self.run(self.connection.close())
        finally:
            self._thread.stop()

    def __enter__(self) -> BlockingConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BlockingPublisher:
    """A `StreamPublisher` for threads."""

    def __init__(self, connection: BlockingConnection, publisher: StreamPublisher) -> None:
        self._connection = connection
        self.publisher = publisher

    def publish(
        self,
        records: list[bytes],
        *,
        ids: list[int] | None = None,
        filter_values: Sequence[str | None] | None = None,
        as_data: bool = False,
    ) -> None:
        """Send records; returns when they are on their way."""
        self._connection.run(
            self.publisher.publish(records, ids=ids, filter_values=filter_values, as_data=as_data)
        )

    def publish_sub_batch(self, records: Sequence[bytes], compression: Compression) -> None:
        """Send records packed together."""
        self._connection.run(self.publisher.publish_sub_batch(records, compression))

    def flush(self) -> None:
        """Wait until all is confirmed; raises MessagesRefused if some were not taken."""
        self._connection.run(self.publisher.flush())

    def close(self) -> None:
        """Wait for what is unanswered and give the publisher back."""
        self._connection.run(self.publisher.close())


class BlockingConsumer:
    """A `StreamConsumer` for threads."""

    def __init__(self, connection: BlockingConnection, consumer: StreamConsumer) -> None:
        self._connection = connection
        self.consumer = consumer

    def __iter__(self) -> Iterator[Chunk]:
        while chunks := self.next_chunks():
            yield from chunks

    def next_chunks(self, timeout_s: float | None = None) -> list[Chunk]:
        """All chunks that are here, at least one; none once it is closed, or when the time is up."""
        return self._connection.run(self._take_all(timeout_s))

    def store_offset(self, offset: int) -> None:
        """Keep that everything up to this offset is done."""

        async def store() -> None:
            self.consumer.store_offset(offset)

        self._connection.run(store())

    def close(self) -> None:
        """Unsubscribe."""
        self._connection.run(self.consumer.close())

    async def _take_all(self, timeout_s: float | None) -> list[Chunk]:
        try:
            async with asyncio.timeout(timeout_s):
                first = await self.consumer.next_chunk()
        except TimeoutError:
            return []
        chunks = [] if first is None else [first]
        while (chunk := self.consumer.take()) is not None:
            chunks.append(chunk)
        return chunks

"""What streams hold at the end: every byte of every message looked at, and told as runs of ids."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import msgspec

from headwater.client.chunk_view import Chunk
from headwater.client.stream_connection import StreamConnection
from headwater.client.stream_consumer import FIRST, StreamConsumer
from headwater.encoding._kernel import entry_spans
from headwater.encoding.compression import unpack
from headwater.errors import PeerError
from tests.checker.payload import BadPayload, Identity, Payloads, filter_of
from tests.checker.plan import Publisher

__all__ = ["ChunkFound", "Run", "StreamContent", "holds", "read_stream", "runs_of", "target_of"]

CHUNKS_QUEUED = 64
READ_TIMEOUT_S = 120.0
_ONE_RECORD = -1
_COMMITTED_OFFSET = "committed_offset"


class Run(msgspec.Struct, frozen=True):
    """Whole entries of one attempt of a publisher that stand together, with ids that rise by one."""

    publisher: int
    attempt: int
    first: int
    last: int
    records_per_id: int


class ChunkFound(msgspec.Struct, frozen=True):
    """A chunk as the last reader saw it."""

    first: int
    records: int
    crc: int
    runs: tuple[Run, ...]

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.first + self.records


class StreamContent(msgspec.Struct):
    """A stream from its first chunk to its last, and what is wrong with the bytes of it."""

    name: str
    chunks: list[ChunkFound] = []
    faults: list[str] = []

    @property
    def end(self) -> int:
        """The offset behind the last record."""
        return self.chunks[-1].end if self.chunks else 0

    def runs(self) -> Iterator[Run]:
        """All runs in the order of the stream."""
        for chunk in self.chunks:
            yield from chunk.runs


async def read_stream(connection: StreamConnection, name: str, payloads: Payloads) -> StreamContent:
    """Read a stream to its committed end; raises TimeoutError if the server does not deliver it."""
    content = StreamContent(name)
    end = (await connection.stream_stats(name))[_COMMITTED_OFFSET] + 1
    consumer = await StreamConsumer.open(connection, name, FIRST, queued_max=CHUNKS_QUEUED)
    while content.end < end:
        async with asyncio.timeout(READ_TIMEOUT_S):
            chunk = await consumer.next_chunk()
        assert chunk is not None
        runs: tuple[Run, ...] = ()
        try:
            chunk.check()
            runs = tuple(runs_of(chunk, payloads))
        except (BadPayload, PeerError) as error:
            content.faults.append(f"the chunk at {chunk.first_offset}: {error}")
        content.chunks.append(ChunkFound(chunk.first_offset, chunk.records, chunk.data_crc, runs))
    await consumer.close()
    return content


def runs_of(chunk: Chunk, payloads: Payloads) -> list[Run]:
    """What a chunk holds; raises `BadPayload` for anything that was not sent so."""
    runs: list[Run] = []
    for position, size, records, compression in entry_spans(chunk.data, 0, len(chunk.data), chunk.entries):
        entry = chunk.data[position : position + size]
        if compression == _ONE_RECORD:
            message = payloads.read(entry)
        else:
            unpacked_bytes = int.from_bytes(chunk.data[position - 8 : position - 4], "big")
            message = _sub_batch(bytes(unpack(entry, compression, unpacked_bytes)), records, payloads)
        if message.records != records:
            raise BadPayload(f"{message} stands in an entry of {records} records")
        _extend(runs, message)
    return runs


def target_of(content: StreamContent, publishers: Sequence[Publisher], wanted: Sequence[str | None]) -> int:
    """Behind the last chunk with a message under one of these filter values, None for those without; 0 for none."""
    for chunk in reversed(content.chunks):
        if holds(chunk, publishers, wanted):
            return chunk.end
    return 0


def holds(chunk: ChunkFound, publishers: Sequence[Publisher], wanted: Sequence[str | None]) -> bool:
    """Whether a chunk has a message under one of these filter values."""
    return any(
        filter_of(publishers[run.publisher].filters, id_) in wanted
        for run in chunk.runs
        for id_ in range(run.first, run.last + 1)
    )


def _sub_batch(plain: bytes, records: int, payloads: Payloads) -> Identity:
    """The first message of a sub-batch, when all others follow it."""
    messages = [
        payloads.read(plain[position : position + size])
        for position, size, _, _ in entry_spans(plain, 0, len(plain), records)
    ]
    first = messages[0]
    if messages != [first._replace(place=place) for place in range(records)] or first.place:
        raise BadPayload(f"the sub-batch of {first} has other messages")
    return first


def _extend(runs: list[Run], message: Identity) -> None:
    last = runs[-1] if runs else None
    if (
        last is not None
        and (last.publisher, last.attempt, last.records_per_id)
        == (message.publisher, message.attempt, message.records)
        and last.last + 1 == message.id
    ):
        runs[-1] = msgspec.structs.replace(last, last=message.id)
    else:
        runs.append(Run(message.publisher, message.attempt, message.id, message.id, message.records))

"""Reading a partition forward: the newest chunks from memory, the others from disk into one reused buffer."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Self

import msgspec

from headwater.encoding._kernel import SCAN_FIELDS, new_buffer, scan_chunks
from headwater.encoding.chunk import CHUNK_HEADER_BYTES, ChunkType, check_data, read_header
from headwater.errors import LogCorrupt, MalformedChunk, PartitionDeleted
from headwater.log.file_span import FileSpan
from headwater.log.files import storage_error
from headwater.log.index import INDEX_ENTRY_BYTES, entry_at, find_offset, find_time, last_time
from headwater.log.partition import Partition, PartitionState
from headwater.log.read_ahead import ReadAhead
from headwater.log.segment import SEGMENT_HEADER_BYTES, Segment

__all__ = ["ChunkView", "Reader", "Run", "find_timestamp", "last_chunk_offset", "locate"]

READ_BYTES = 256 * 1024
SPAN_BYTES_MIN = 32 * 1024
"""Smaller chunks are read many at once, which costs less than a look at each."""
_CHUNKS_MAX = 1024


class ChunkView(msgspec.Struct, frozen=True, gc=False):
    """Where one user chunk lies in the buffer of a run."""

    start: int
    data_end: int
    end: int
    """Behind its trailer."""
    entries: int
    records: int
    first_offset: int

    @property
    def data_start(self) -> int:
        """Where its entries begin."""
        return self.start + CHUNK_HEADER_BYTES


class Run:
    """Consecutive chunks in one buffer, which is used again by the next read.

    `fields` holds `SCAN_FIELDS` integers for each chunk: start, bytes of header and data (as Deliver sends them), bytes
    in all, type, records, first offset. Chunks that are no user chunks take part, and have no records.
    """

    __slots__ = ("buffer", "count", "fields")

    def __init__(self, buffer: memoryview, fields: array[int], count: int) -> None:
        self.buffer = buffer
        self.fields = fields
        self.count = count

    @property
    def chunks(self) -> Iterator[ChunkView]:
        """The user chunks."""
        for at in range(0, SCAN_FIELDS * self.count, SCAN_FIELDS):
            start, deliver_bytes, whole_bytes, type_, records, first_offset = self.fields[
                at : at + SCAN_FIELDS
            ]
            if type_ == ChunkType.USER:
                entries = int.from_bytes(self.buffer[start + 2 : start + 4], "big")
                data_end, end = start + deliver_bytes, start + whole_bytes
                yield ChunkView(start, data_end, end, entries, records, first_offset)

    @property
    def deliveries(self) -> Iterator[memoryview]:
        """Header and data of each user chunk, as the stream protocol's Deliver carries them."""
        fields, buffer, end = self.fields, self.buffer, SCAN_FIELDS * self.count
        spans = zip(
            fields[0:end:SCAN_FIELDS], fields[1:end:SCAN_FIELDS], fields[3:end:SCAN_FIELDS], strict=True
        )
        return (buffer[start : start + size] for start, size, type_ in spans if type_ == ChunkType.USER)


class Reader:
    """Reads one partition from an offset on, chunk by whole chunk; the first one may begin before the offset.

    What was removed meanwhile is passed over: `offset` tells where the reader really stands.
    """

    def __init__(
        self,
        partition: Partition,
        offset: int,
        *,
        buffer: bytearray | None = None,
        verify: bool = False,
        keeps_runs: bool = False,
    ) -> None:
        """With `keeps_runs` every run has a buffer of its own, for those who hand it on."""
        self._partition = partition
        self._buffer = buffer
        self._header = bytearray(CHUNK_HEADER_BYTES)
        self._fields = array("q")
        self._verify = verify
        self._keeps_runs = keeps_runs
        self._segment: Segment | None = None
        self._room_bytes = READ_BYTES
        self._fd = -1
        self._position = 0
        self._chunk_offset = 0
        """The first offset that the chunk at the position must have."""
        self.offset = offset
        """Of the next record to be read."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the file back; a reader that waits at the end holds none, and no buffer of its own."""
        if self._keeps_runs:
            self._buffer, self._fields, self._room_bytes = None, array("q"), READ_BYTES
        if self._segment is not None:
            self._partition.owner.open_files.release(self._segment.path)
            self._segment = None

    def read(self, *, wait: bool = True) -> Run | None:
        """The next chunks, or None at the end of what is committed.

        With `wait=False` a page that is not in memory raises `BlockingIOError`: then `read_ahead`.
        """
        if not self._has_more():
            return None
        try:
            return self._read_tail() or self._read_disk(wait)
        except BlockingIOError:
            raise
        except OSError as error:
            raise storage_error(error.errno or 0, self._partition.folder, reading=True) from error

    def next_span(self) -> FileSpan | None:
        """The next chunk where it lies on disk, if it is large; None if it had better be read, or there is none.

        It is in memory, as far as its first and last page tell; else this raises `BlockingIOError`: then `read_ahead`.
        """
        if not self._has_more() or self._is_in_tail():
            return None
        try:
            segment = self._segment or self._open()
            span = self._span(segment)
        except BlockingIOError:
            raise
        except OSError:
            return None  # `read` says what it means
        if span is not None:
            self._position += span.header.total_bytes
            self._chunk_offset = self.offset = span.header.next_offset
        return span

    def read_ahead(self, on_done: Callable[[], None]) -> None:
        """After `BlockingIOError`: fetch what comes next on a thread; read again when `on_done` is called."""
        if self._segment is None:
            on_done()
            return
        owner = self._partition.owner
        owner.submit_background(
            ReadAhead(owner.files, owner.open_files, self._segment.path, self._position, on_done)
        )

    def _has_more(self) -> bool:
        partition = self._partition
        if partition.state is PartitionState.DELETED:
            self.close()
            raise PartitionDeleted(partition.name)
        if self.offset < partition.first_offset:
            self.offset = partition.first_offset
            self.close()
        if self.offset >= partition.committed_offset:
            self.close()
            if partition.state is PartitionState.DAMAGED and partition.error is not None:
                raise partition.error
            return False
        return True

    def _is_in_tail(self) -> bool:
        tail = self._partition.tail
        return bool(tail) and self.offset >= tail[0].first_offset

    def _span(self, segment: Segment) -> FileSpan | None:
        files, view = self._partition.owner.files, memoryview(self._header)
        if segment.size - self._position < SPAN_BYTES_MIN:
            return None
        if files.read_into(self._fd, view, self._position, wait=False) < CHUNK_HEADER_BYTES:
            return None
        try:
            header = read_header(view, 0)
        except MalformedChunk:
            return None
        goes_on = header.first_offset == self._chunk_offset and header.next_offset > self.offset
        if header.type is not ChunkType.USER or not goes_on or header.deliver_bytes < SPAN_BYTES_MIN:
            return None
        if self._position + header.total_bytes > segment.size:
            return None
        if not files.read_into(self._fd, view[:1], self._position + header.deliver_bytes - 1, wait=False):
            return None
        return FileSpan(self._partition.owner.open_files, segment.path, self._position, header)

    def _read_tail(self) -> Run | None:
        if not self._is_in_tail():
            return None
        self.close()
        tail = self._partition.tail
        number = bisect_right(tail, self.offset, key=lambda chunk: chunk.first_offset) - 1
        chunk = tail[number]
        place = (0, chunk.deliver_bytes, len(chunk.whole))
        fields = array("q", (*place, ChunkType.USER, chunk.records, chunk.first_offset))
        self.offset = chunk.first_offset + chunk.records
        return Run(chunk.whole, fields, 1)

    def _read_disk(self, wait: bool) -> Run:
        """Read until there is a user chunk, which there is, as the offset is committed."""
        while True:
            segment = self._segment or self._open()
            if self._position >= segment.size:
                self._open_next(segment)
                continue
            view = memoryview(self._room())[: segment.size - self._position]
            size = self._partition.owner.files.read_into(self._fd, view, self._position, wait=wait)
            count, consumed, offset, damaged = scan_chunks(view, 0, size, self._chunk_offset, self._fields)
            if not count:
                self._need_more(view, size, damaged, wait)
                continue
            if self._verify:
                count, consumed, offset = self._check(view, count, consumed, offset)
            self._position += consumed
            self._chunk_offset = offset
            if offset > self.offset:
                self.offset = offset
                if self._keeps_runs:
                    self._buffer = None  # whoever waits for a socket holds no more than what was sent to it
                return Run(view, self._fields, count)

    def _room(self) -> bytearray:
        """The buffer for the next read."""
        if not self._fields:
            self._fields = array("q", bytes(8 * SCAN_FIELDS * _CHUNKS_MAX))
        if self._buffer is None:
            self._buffer = new_buffer(self._room_bytes)
        return self._buffer

    def _open(self) -> Segment:
        segment, self._position, self._chunk_offset = locate(self._partition, self.offset)
        return self._hold(segment)

    def _open_next(self, segment: Segment) -> None:
        """Go on at the start of the segment behind one that was read to its end."""
        self.close()
        following = [other for other in self._partition.segments if other.first_offset > segment.first_offset]
        if not following or following[0].first_offset != self._chunk_offset:
            raise self._damage(segment, segment.size, f"no segment goes on at offset {self._chunk_offset}")
        self._position = SEGMENT_HEADER_BYTES
        self._hold(following[0])

    def _hold(self, segment: Segment) -> Segment:
        self._fd = self._partition.owner.open_files.acquire(segment.path)
        self._segment = segment
        return segment

    def _need_more(self, view: memoryview, size: int, damaged: bool, wait: bool) -> None:
        """No whole chunk was read: a larger buffer, a read that waits, or an error is due."""
        assert self._segment is not None
        if damaged:
            raise self._damage(self._segment, self._position, "the header of a chunk is broken")
        if size < len(view):
            if not wait:
                raise BlockingIOError
            raise self._damage(self._segment, self._position, "the file is shorter than it was")
        total = read_header(view, 0).total_bytes if size >= CHUNK_HEADER_BYTES else READ_BYTES
        end = self._position + (total if size >= CHUNK_HEADER_BYTES else CHUNK_HEADER_BYTES)
        if end > self._segment.size:
            raise self._damage(self._segment, self._position, "a chunk reaches beyond the end of its segment")
        self._room_bytes = total
        self._buffer = new_buffer(total)

    def _check(self, view: memoryview, count: int, consumed: int, offset: int) -> tuple[int, int, int]:
        """The same for the chunks whose data is right; raises at the first one if it is not."""
        assert self._segment is not None
        for number in range(count):
            start = self._fields[SCAN_FIELDS * number]
            try:
                check_data(view, start, read_header(view, start))
            except MalformedChunk as error:
                if number:
                    return number, start, self._fields[SCAN_FIELDS * number + 5]
                raise self._damage(self._segment, self._position, error.reason) from error
        return count, consumed, offset

    def _damage(self, segment: Segment, position: int, reason: str) -> LogCorrupt:
        error = LogCorrupt(segment.path, position, reason)
        self._partition.stop(error, PartitionState.DAMAGED)
        self.close()
        return error


def locate(partition: Partition, offset: int) -> tuple[Segment, int, int]:
    """Segment, position and first offset of the chunk that holds a committed offset."""
    segments = partition.segments
    number = bisect_right(segments, offset, key=lambda segment: segment.first_offset) - 1
    segment = segments[max(number, 0)]
    entries = partition.owner.indexes.entries(segment)
    found = find_offset(entries, offset)
    if found is None:
        return segment, SEGMENT_HEADER_BYTES, segment.first_offset
    entry = entry_at(entries, found)
    return segment, entry.position, entry.first_offset


def last_chunk_offset(partition: Partition) -> int | None:
    """The first offset of the last chunk with events; None if there is none."""
    if partition.tail:
        return partition.tail[-1].first_offset
    for segment in reversed(partition.segments):
        entries = partition.owner.indexes.entries(segment)
        for number in reversed(range(len(entries) // INDEX_ENTRY_BYTES)):
            entry = entry_at(entries, number)
            if entry.type == ChunkType.USER:
                return entry.first_offset
    return None


def find_timestamp(partition: Partition, timestamp_ms: int) -> int:
    """The first offset of the first chunk at which time, which never falls, has reached a time; the end if none has."""
    entries_of = partition.owner.indexes.entries
    number = bisect_left(partition.segments, timestamp_ms, key=lambda segment: last_time(entries_of(segment)))
    for segment in partition.segments[number : number + 1]:
        entries = entries_of(segment)
        found = find_time(entries, timestamp_ms)
        if found is not None:
            return entry_at(entries, found).first_offset
    return partition.committed_offset

"""One partition as it is read for a client: run by run, chunk by chunk, some records at a time."""

from __future__ import annotations

import time
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import msgspec

from headwater.encoding._amqp_kernel import skim_entries
from headwater.encoding._kernel import walk_entries
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.chunk import ReadableBuffer, largest_timestamp
from headwater.encoding.compression import unpack_entry
from headwater.encoding.event_filter import StoredEvent
from headwater.encoding.expression_position import Bounds
from headwater.errors import UnreadableSubBatch
from headwater.log.clock import wall_clock_ms
from headwater.log.partition import Partition
from headwater.log.reader import ChunkView, Reader, Run

__all__ = ["ASKED_BYTES_MAX", "ASKED_RECORDS_MAX", "RecordFilter", "RecordSource", "Records", "Selection"]

RECORDS_MAX = 512
PASSED_OVER_MAX = 2048
"""So many records, or chunks, may a filter pass over before others have their turn."""
ASKED_RECORDS_MAX = 64
ASKED_BYTES_MAX = 64 * 1024
"""A filter is asked of so many records at once, less if they are large; then is seen whether its time is over."""
FILTERING_S_MAX = 0.005
"""So long may a filter look for records before others have their turn; expressions may be a thousand times dearer."""


class _Entries:
    """Entries of a chunk, or of a sub-batch in it, of which the records were not skimmed yet."""

    __slots__ = ("data", "end", "entries_left", "offset", "position")

    def __init__(self, data: ReadableBuffer, position: int, end: int, entries: int, offset: int) -> None:
        self.data = data
        self.position = position
        self.end = end
        self.entries_left = entries
        self.offset = offset


class Records:
    """Skimmed records that were not taken yet, with offsets one after the other."""

    __slots__ = ("count", "data", "first", "offset", "spans")

    def __init__(self, data: ReadableBuffer, spans: array[int], first: int, count: int, offset: int) -> None:
        self.data = data
        self.spans = spans
        self.first = first
        self.count = count
        self.offset = offset

    def pass_over(self, count: int) -> None:
        """So many are done with."""
        self.first += count
        self.count -= count
        self.offset += count

    def first_record(self) -> bytes:
        """The record that comes next, without what its entry has around it."""
        at = SPAN_FIELDS * self.first
        head, _, rest, end = self.spans[at : at + SPAN_FIELDS]
        return bytes(self.data[rest if head < 0 else head : end])


class RecordFilter(Protocol):
    """What says which records are wanted."""

    def matching(self, event: StoredEvent, spans: Sequence[int], first: int, count: int) -> list[int]:
        """Which of `count` skimmed entries are, from the `first` one on, whose offset is that of the event."""
        ...


class Selection(msgspec.Struct, frozen=True):
    """What is wanted of one partition."""

    filter: RecordFilter
    latest_offset: int
    """What `@latest` is before, fixed when it was asked for."""
    bounds: Bounds


class RecordSource:
    """Records of one partition from an offset on: all of them, or a selection."""

    def __init__(
        self, partition: Partition, offset: int, partition_id: str, selection: Selection | None = None
    ) -> None:
        self.partition = partition
        self.partition_id = partition_id
        self.offset = offset
        """Of the record that is taken next."""
        self.since = offset
        """No record from here to `position` is wanted."""
        self.is_waiting = False
        """Whether the disk is asked."""
        self.has_passed_over = False
        """Whether nothing was found for the filter passed over much, so that there may be more at once."""
        self._reader: Reader | None = None
        self._run: Run | None = None
        self._run_end = 0
        self._chunks: Iterator[ChunkView] = iter(())
        self._entries: list[_Entries] = []
        """Those of the chunk, and behind them those of a sub-batch in it."""
        self.records: deque[Records] = deque()
        """What comes next, after `fill`; all of one chunk."""
        self._selection = selection
        self._asks = selection is not None and not selection.bounds.is_exact
        """Whether the filter is asked of each record."""
        self._has_ended = selection is not None and selection.bounds.is_empty
        """Whether nothing that is still to come can be wanted."""
        self._event = StoredEvent(
            partition=partition_id, latest_offset=selection.latest_offset if selection else 0
        )
        self._spans: array[int] | None = None

    @property
    def position(self) -> int:
        """All records before this offset are taken, or not wanted."""
        if self.records:
            return self.records[0].offset
        return max(self.offset, self._entries[-1].offset) if self._entries else self.offset

    @property
    def timestamp_ms(self) -> int:
        """When the records that come next were accepted."""
        return self._event.timestamp_ms

    @property
    def has_ended(self) -> bool:
        """Whether nothing that is still to come can be wanted."""
        return self._has_ended and not self.records

    def seek(self, offset: int) -> None:
        """Go on from another offset; not while the disk is asked."""
        if self.since <= offset <= self.position:
            self.offset = max(self.offset, offset)
            return
        if offset < self.position:
            self.close()
            self._has_ended = self._selection is not None and self._selection.bounds.is_empty
        while self.records and self.records[0].offset + self.records[0].count <= offset:
            self.records.popleft()
        if self.records and self.records[0].offset < offset:
            self.records[0].pass_over(offset - self.records[0].offset)
        if self._run is not None and offset > self._run_end:
            self.close()  # the index leads there faster than reading on
        self.offset = self.since = offset

    def fill(self, when_read: Callable[[], None]) -> bool:
        """Find the next records that are for us; False at the end, while the disk works, or after much passed over."""
        if self._spans is None:
            self._spans = array("q", bytes(8 * SPAN_FIELDS * RECORDS_MAX))
        self.has_passed_over = False
        passed_over = 0
        filtering_end = time.monotonic() + FILTERING_S_MAX
        while passed_over < PASSED_OVER_MAX:
            if not self._entries:
                if self._has_ended or not self._next_chunk(when_read):
                    return False
                passed_over += 1
                continue
            entries = self._entries[-1]
            if not entries.entries_left:
                self._entries.pop()
                continue
            found = self._skim(entries, self._spans)
            if not found:
                self._open_sub_batch(entries)
                continue
            offset = entries.offset
            entries.entries_left -= found
            entries.offset += found
            first = min(max(self.offset - offset, 0), found)
            self._select(Records(entries.data, self._spans, first, found - first, offset + first))
            if self.records:
                return True
            self.offset = max(self.offset, entries.offset)
            passed_over += found
            if self._asks and time.monotonic() > filtering_end:
                break
        self.has_passed_over = True
        return False

    def take(self, count: int) -> None:
        """So many of the first records of the queue are done with."""
        records = self.records[0]
        records.pass_over(count)
        self.offset = self.since = records.offset
        if not records.count:
            self.records.popleft()

    def close(self) -> None:
        """Let go of what was read."""
        if self._reader is not None:
            self._reader.close()
        self._reader = self._run = self._spans = None
        self.records.clear()
        self._event.buffer = b""
        self._chunks = iter(())
        self._entries = []

    def _skim(self, entries: _Entries, spans: array[int]) -> int:
        """Go over as many of the entries as are looked at together; gives their number, 0 before a sub-batch."""
        count = min(entries.entries_left, ASKED_RECORDS_MAX) if self._asks else entries.entries_left
        start = entries.position
        found, entries.position = skim_entries(entries.data, start, entries.end, count, spans)
        if self._asks and entries.position - start > ASKED_BYTES_MAX:
            ends = spans[SPAN_FIELDS - 1 : SPAN_FIELDS * found : SPAN_FIELDS]
            found = max(bisect_right(ends, start + ASKED_BYTES_MAX), 1)
            entries.position = ends[found - 1]
        return found

    def _select(self, records: Records) -> None:
        """Queue those that are wanted, as runs."""
        selection = self._selection
        if selection is not None:
            # Who goes on where others stopped may be told to begin before what the filter asks for.
            records.pass_over(min(max(selection.bounds.offset_start - records.offset, 0), records.count))
            records.count = max(min(records.count, selection.bounds.offset_end - records.offset), 0)
            self._has_ended = records.offset + records.count >= selection.bounds.offset_end
        if not records.count:
            return
        if selection is None or not self._asks:
            self.records.append(records)
            return
        event = self._event
        event.buffer, event.offset, event.now_ms = records.data, records.offset, wall_clock_ms()
        wanted = selection.filter.matching(event, records.spans, records.first, records.count)
        self.records.extend(_runs_of(records, wanted))

    def _open_sub_batch(self, entries: _Entries) -> None:
        """Go on within the sub-batch that comes next; one that cannot be read is passed over."""
        start, offset = entries.position, entries.offset
        entries.position, count = walk_entries(entries.data, start, entries.end, 1)
        entries.entries_left -= 1
        entries.offset += count
        if entries.offset <= self.offset:
            return
        try:
            plain, count = unpack_entry(entries.data, start, entries.position)
        except UnreadableSubBatch:
            self.offset = entries.offset
            return
        self._entries.append(_Entries(plain, 0, len(plain), count, offset))

    def _next_chunk(self, when_read: Callable[[], None]) -> bool:
        while True:
            chunk = next(self._chunks, None)
            if chunk is None:
                if not self._read(when_read):
                    return False
            elif chunk.first_offset + chunk.records > self.offset:
                assert self._run is not None, "chunks are of a run"
                data = self._run.buffer
                # What a search by time goes by, which never falls, and not the wall clock, which may.
                timestamp_ms = largest_timestamp(data, chunk.end)
                if not self._wants(timestamp_ms):
                    if not self._has_ended:
                        self.offset = chunk.first_offset + chunk.records
                    return not self._has_ended
                self._event.timestamp_ms = timestamp_ms
                self._entries = [
                    _Entries(data, chunk.data_start, chunk.data_end, chunk.entries, chunk.first_offset)
                ]
                return True

    def _wants(self, timestamp_ms: int) -> bool:
        """Whether a chunk of this time may hold something that is wanted."""
        if self._selection is None:
            return True
        bounds = self._selection.bounds
        self._has_ended = timestamp_ms >= bounds.time_end_ms  # it never falls
        return bounds.time_start_ms <= timestamp_ms < bounds.time_end_ms

    def _read(self, when_read: Callable[[], None]) -> bool:
        if self._reader is None:
            self._reader = Reader(self.partition, self.offset, keeps_runs=True)
        try:
            run = self._reader.read(wait=False)
        except BlockingIOError:
            self.is_waiting = True
            self._reader.read_ahead(lambda: self._fetched(when_read))
            return False
        if run is None:
            # A reader costs a buffer: a link that waits at the end has none.
            self.offset = max(self.offset, self._reader.offset)
            self.close()
            return False
        self._run, self._chunks, self._run_end = run, run.chunks, self._reader.offset
        return True

    def _fetched(self, when_read: Callable[[], None]) -> None:
        self.is_waiting = False
        when_read()


def _runs_of(records: Records, wanted: Sequence[int]) -> Iterator[Records]:
    """Those of the records whose numbers are wanted, consecutive ones together."""
    position = 0
    while position < len(wanted):
        first, start = wanted[position], position
        while position < len(wanted) and wanted[position] == first + position - start:
            position += 1
        offset = records.offset + first - records.first
        yield Records(records.data, records.spans, first, position - start, offset)

"""One partition as a consuming link reads it: run by run, chunk by chunk, some records at a time."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator

from headwater.amqp.definitions import Condition
from headwater.amqp.sender_link import SenderLink
from headwater.encoding._amqp_kernel import skim_entries
from headwater.encoding._kernel import walk_entries
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.chunk import ReadableBuffer, largest_timestamp
from headwater.encoding.compression import unpack_entry
from headwater.encoding.delivery_annotations import annotations_before_offset, message_to_send, offset_digits
from headwater.errors import UnreadableSubBatch
from headwater.log.partition import Partition
from headwater.log.reader import ChunkView, Reader, Run
from headwater.server.amqp.nodes import Refused

__all__ = ["Feed"]

RECORDS_MAX = 512


class _Entries:
    """Entries of a chunk, or of a sub-batch in it, of which the records were not skimmed yet."""

    __slots__ = ("data", "end", "entries_left", "offset", "position")

    def __init__(self, data: ReadableBuffer, position: int, end: int, entries: int, offset: int) -> None:
        self.data = data
        self.position = position
        self.end = end
        self.entries_left = entries
        self.offset = offset


class _Records:
    """Skimmed records that were not sent yet."""

    __slots__ = ("count", "data", "first", "offset", "spans")

    def __init__(self, data: ReadableBuffer, spans: array[int], count: int, offset: int) -> None:
        self.data = data
        self.spans = spans
        self.first = 0
        self.count = count
        self.offset = offset

    def pass_over(self, count: int) -> None:
        """So many are done with."""
        self.first += count
        self.count -= count
        self.offset += count


class Feed:
    """Messages of one partition from an offset on."""

    def __init__(self, partition: Partition, offset: int, partition_id: str) -> None:
        self.partition = partition
        self.partition_id = partition_id
        self.offset = offset
        """Of the message that is sent next."""
        self.is_waiting = False
        """Whether the disk is asked."""
        self._reader: Reader | None = None
        self._run: Run | None = None
        self._chunks: Iterator[ChunkView] = iter(())
        self._entries: list[_Entries] = []
        """Those of the chunk, and behind them those of a sub-batch in it."""
        self._records: _Records | None = None
        self._spans: array[int] | None = None
        self._annotations = b""

    def send(self, link: SenderLink, bytes_max: int, when_read: Callable[[], None]) -> int:
        """Send messages as far as the link allows, one at least; 0 at the end, or while the disk works.

        Raises `StorageError`, and `Refused` if the next message is larger than the receiver takes.
        """
        records = self._records or self._next_records(when_read)
        if records is None:
            return 0
        annotations = self._annotations + offset_digits(records.offset)
        sent = link.send_records(
            records.data, records.spans, records.first, records.count, annotations, bytes_max
        )
        if not sent:
            message = message_to_send(_first_record(records), annotations)
            if 0 < link.message_size_bytes_max < len(message):
                raise Refused(
                    Condition.LINK_MESSAGE_SIZE_EXCEEDED,
                    f"the message at offset {records.offset} has {len(message)} bytes,"
                    f" and the receiver takes {link.message_size_bytes_max} at most",
                )
            link.send(message)
            sent = 1
        records.pass_over(sent)
        self.offset = records.offset
        if not records.count:
            self._records = None
        return sent

    def close(self) -> None:
        """Let go of what was read."""
        if self._reader is not None:
            self._reader.close()
        self._reader = self._run = self._records = self._spans = None
        self._chunks = iter(())
        self._entries = []

    def _next_records(self, when_read: Callable[[], None]) -> _Records | None:
        """The next records that are for us; None at the end, or while the disk works."""
        if self._spans is None:
            self._spans = array("q", bytes(8 * SPAN_FIELDS * RECORDS_MAX))
        while True:
            if not self._entries and not self._next_chunk(when_read):
                return None
            entries = self._entries[-1]
            if not entries.entries_left:
                self._entries.pop()
                continue
            found, entries.position = skim_entries(
                entries.data, entries.position, entries.end, entries.entries_left, self._spans
            )
            if not found:
                self._open_sub_batch(entries)
                continue
            records = _Records(entries.data, self._spans, found, entries.offset)
            entries.entries_left -= found
            entries.offset += found
            records.pass_over(min(max(self.offset - records.offset, 0), found))
            if records.count:
                self._records = records
                return records

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
                self._annotations = annotations_before_offset(timestamp_ms, self.partition_id)
                self._entries = [
                    _Entries(data, chunk.data_start, chunk.data_end, chunk.entries, chunk.first_offset)
                ]
                return True

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
        self._run, self._chunks = run, run.chunks
        return True

    def _fetched(self, when_read: Callable[[], None]) -> None:
        self.is_waiting = False
        when_read()


def _first_record(records: _Records) -> bytes:
    at = SPAN_FIELDS * records.first
    head, _, rest, end = records.spans[at : at + SPAN_FIELDS]
    return bytes(records.data[rest if head < 0 else head : end])

"""The window in which duplicates are dropped, made of the newest events of a partition as its data folder is opened."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from headwater.encoding._amqp_kernel import skim_entries
from headwater.encoding._kernel import walk_entries
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.chunk import ReadableBuffer, largest_timestamp
from headwater.encoding.compression import unpack_entry
from headwater.errors import UnreadableSubBatch
from headwater.log.duplicates import DuplicateWindow, digests_of
from headwater.log.partition import Partition
from headwater.log.reader import ChunkView, Reader, find_timestamp

__all__ = ["restore_window"]

_SKIMMED_MAX = 512


def restore_window(partition: Partition, window: DuplicateWindow) -> None:
    """Fill the window with what the newest events of a partition say; raises `StorageError`."""
    offset = max(partition.first_offset, partition.committed_offset - window.count_max)
    if offset >= partition.committed_offset:
        return
    offset = max(offset, find_timestamp(partition, window.first_time_ms()))
    with Reader(partition, offset) as reader:
        while (run := reader.read()) is not None:
            for chunk in run.chunks:
                _add_chunk(run.buffer, chunk, window)


def _add_chunk(data: ReadableBuffer, chunk: ChunkView, window: DuplicateWindow) -> None:
    offset, came_ms = chunk.first_offset, largest_timestamp(data, chunk.end)
    for buffer, spans, count in _records(data, chunk.data_start, chunk.data_end, chunk.entries):
        window.add(offset, digests_of(buffer, spans, 0, count), came_ms)
        offset += count


def _records(
    data: ReadableBuffer, position: int, end: int, entries: int
) -> Iterator[tuple[ReadableBuffer, array[int], int]]:
    """The spans of all records of entries, some at a time; of a sub-batch that cannot be read there are none."""
    while entries:
        spans = array("q", bytes(8 * SPAN_FIELDS * _SKIMMED_MAX))
        found, behind = skim_entries(data, position, end, entries, spans)
        if found:
            yield data, spans, found
        else:
            behind, records = walk_entries(data, position, end, 1)
            found = 1
            try:
                plain, _ = unpack_entry(data, position, behind)
                yield from _records(plain, 0, len(plain), records)
            except UnreadableSubBatch:
                yield b"", array("q", bytes(8 * SPAN_FIELDS * records)), records
        entries -= found
        position = behind

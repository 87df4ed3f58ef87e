"""The index of a segment: where each chunk lies. A cache, never synced, rebuilt whenever it disagrees.

entry, 29                                footer of a sealed index, 40
 0  8  first offset                       0  8  magic "HDWTRIDX"
 8  8  largest timestamp so far           8  8  entry count
16  8  epoch                             16  8  length of the segment
24  4  position                          24  8  position of the last snapshot
28  1  chunk type                        32  4  reserved, 0
                                         36  4  CRC-32 of bytes 0 to 35
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import msgspec
from isal.isal_zlib import crc32

from headwater.errors import MalformedIndex

__all__ = [
    "INDEX_ENTRY_BYTES",
    "INDEX_FOOTER_BYTES",
    "Index",
    "IndexEntry",
    "IndexFooter",
    "entry_at",
    "find_offset",
    "find_time",
    "is_ordered",
    "last_time",
]

INDEX_ENTRY_BYTES = 29
INDEX_FOOTER_BYTES = 40

_MAGIC = b"HDWTRIDX"
_ENTRY = struct.Struct(">QqQIB")
_FOOTER = struct.Struct(">8sQQQI")
_CRC = struct.Struct(">I")
_FIRST = struct.Struct(">Q")
_TIME = struct.Struct(">q")
_TIME_AT = 8

_first_at = _FIRST.unpack_from
_time_at = _TIME.unpack_from


class IndexEntry(msgspec.Struct, frozen=True, gc=False):
    """One chunk of a segment."""

    first_offset: int
    timestamp_ms_max: int
    epoch: int
    position: int
    type: int


class IndexFooter(msgspec.Struct, frozen=True, gc=False):
    """What a sealed index says of itself and of its segment."""

    count: int
    segment_bytes: int
    snapshot_position: int
    entries_crc: int

    def encode(self) -> bytes:
        """The 40 bytes behind the entries."""
        body = _FOOTER.pack(_MAGIC, self.count, self.segment_bytes, self.snapshot_position, self.entries_crc)
        return body + _CRC.pack(crc32(body))

    def check(self, entries: bytes) -> None:
        """Raise `MalformedIndex` unless these are the entries that were sealed."""
        if crc32(entries) != self.entries_crc:
            raise MalformedIndex("CRC of the entries")

    @staticmethod
    def decode(data: bytes, file_bytes: int) -> IndexFooter:
        """The footer in the last 40 bytes of an index file of this length; raises `MalformedIndex`."""
        if len(data) != INDEX_FOOTER_BYTES or data[:8] != _MAGIC:
            raise MalformedIndex("no footer")
        if _CRC.unpack_from(data, _FOOTER.size)[0] != crc32(data[: _FOOTER.size]):
            raise MalformedIndex("CRC of the footer")
        footer = IndexFooter(*_FOOTER.unpack_from(data)[1:])
        if footer.count * INDEX_ENTRY_BYTES + INDEX_FOOTER_BYTES != file_bytes:
            raise MalformedIndex("the footer counts other entries")
        return footer


class Index:
    """The entries of one segment: those in the file, and those that wait to be written to it."""

    __slots__ = ("cached", "crc", "path", "pending", "sealed", "trusted", "written")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written = 0
        """Entries in the file."""
        self.pending = bytearray()
        """Entries of committed chunks that are not in the file yet."""
        self.crc = 0
        """CRC-32 of all entries."""
        self.trusted = False
        """Whether the file is known to hold these entries: checked by CRC, or written by this process."""
        self.sealed = False
        """Whether the file ends with a footer that counts all entries."""
        self.cached: bytearray | None = None
        """All entries, while the cache holds them."""

    @property
    def written_bytes(self) -> int:
        """The length of the file, less a footer."""
        return self.written * INDEX_ENTRY_BYTES

    @property
    def count(self) -> int:
        """Entries in all."""
        return self.written + len(self.pending) // INDEX_ENTRY_BYTES

    def append(self, entry: IndexEntry) -> None:
        """Add the entry of a chunk that was committed."""
        packed = _ENTRY.pack(
            entry.first_offset, entry.timestamp_ms_max, entry.epoch, entry.position, entry.type
        )
        self.pending += packed
        self.sealed = False
        self.crc = crc32(packed, self.crc)
        if self.cached is not None:
            self.cached += packed

    def trust(self, written: bytes) -> None:
        """The file holds just these entries."""
        self.written = len(written) // INDEX_ENTRY_BYTES
        self.crc = crc32(written)
        self.trusted = True

    def mark_written(self, byte_count: int) -> None:
        """The first `byte_count` pending bytes are in the file now."""
        byte_count = min(byte_count, len(self.pending))
        del self.pending[:byte_count]
        self.written += byte_count // INDEX_ENTRY_BYTES


def entry_at(entries: bytes | bytearray, number: int) -> IndexEntry:
    """The entry with this number."""
    return IndexEntry(*_ENTRY.unpack_from(entries, number * INDEX_ENTRY_BYTES))


def is_ordered(entries: bytes) -> bool:
    """Whether positions rise and offsets never fall, as in an index of which no page was lost."""
    position, offset = 0, 0
    for first_offset, _, _, at, _ in _ENTRY.iter_unpack(entries):
        if at <= position or first_offset < offset:
            return False
        position, offset = at, first_offset
    return True


def last_time(entries: bytes | bytearray) -> int:
    """The running maximum of time at the last chunk; 0 if there is none."""
    return int(_time_at(entries, len(entries) - INDEX_ENTRY_BYTES + _TIME_AT)[0]) if entries else 0


def find_offset(entries: bytes | bytearray, offset: int) -> int | None:
    """The number of the last chunk that starts at or before an offset; None if there is none."""
    found = _count_below(entries, offset + 1, _first_at, 0)
    return found - 1 if found else None


def find_time(entries: bytes | bytearray, timestamp_ms: int) -> int | None:
    """The number of the first chunk at which the running maximum of time reaches a time; None if none does."""
    found = _count_below(entries, timestamp_ms, _time_at, _TIME_AT)
    return found if found < len(entries) // INDEX_ENTRY_BYTES else None


def _count_below(
    entries: bytes | bytearray, value: int, field_at: Callable[[bytes | bytearray, int], tuple[int]], at: int
) -> int:
    """How many entries hold less in a field that never falls; `bisect` with a key takes half as long again."""
    low, high = 0, len(entries) // INDEX_ENTRY_BYTES
    while low < high:
        middle = (low + high) >> 1
        if field_at(entries, middle * INDEX_ENTRY_BYTES + at)[0] < value:
            low = middle + 1
        else:
            high = middle
    return low

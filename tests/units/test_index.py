"""Index entries, the footer that seals them, and look-ups by offset and by time."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from headwater.errors import MalformedIndex
from headwater.log.index import (
    INDEX_ENTRY_BYTES,
    INDEX_FOOTER_BYTES,
    Index,
    IndexEntry,
    IndexFooter,
    entry_at,
    find_offset,
    find_time,
    is_ordered,
)


def entries_of(*entries: IndexEntry) -> bytes:
    index = Index(Path("0.index"))
    for entry in entries:
        index.append(entry)
    return bytes(index.pending)


# The chunk at 300 is a delta: it takes no offset. Time stands still where the clock stepped back.
ENTRIES = entries_of(
    IndexEntry(0, 1000, 1, 64, 2),
    IndexEntry(0, 1000, 1, 100, 0),
    IndexEntry(10, 1000, 1, 200, 0),
    IndexEntry(15, 1200, 2, 300, 1),
    IndexEntry(15, 1300, 2, 400, 0),
)


def test_an_entry_is_29_bytes_and_reads_as_it_was_written() -> None:
    largest = IndexEntry(2**64 - 1, 2**63 - 1, 2**64 - 1, 2**32 - 1, 255)
    data = entries_of(IndexEntry(0, 0, 0, 0, 0), largest)
    assert len(data) == 2 * INDEX_ENTRY_BYTES == 58
    assert entry_at(data, 1) == largest


@pytest.mark.parametrize(
    ("offset", "number"), [(0, 1), (9, 1), (10, 2), (14, 2), (15, 4), (16, 4), (2**63, 4)]
)
def test_an_offset_is_in_the_last_chunk_that_starts_at_or_before_it(offset: int, number: int) -> None:
    assert find_offset(ENTRIES, offset) == number


def test_an_offset_before_all_chunks_is_in_none() -> None:
    assert find_offset(entries_of(IndexEntry(5, 1, 1, 64, 0)), 4) is None
    assert find_offset(b"", 0) is None


@pytest.mark.parametrize(("time", "number"), [(0, 0), (1000, 0), (1001, 3), (1200, 3), (1201, 4), (1300, 4)])
def test_a_time_is_reached_at_the_first_chunk_whose_running_maximum_is_there(time: int, number: int) -> None:
    assert find_time(ENTRIES, time) == number


def test_a_time_that_was_never_reached_is_in_no_chunk() -> None:
    assert find_time(ENTRIES, 1301) is None
    assert find_time(b"", 0) is None


def test_entries_are_ordered_when_positions_rise_and_offsets_do_not_fall() -> None:
    assert is_ordered(b"")
    assert is_ordered(ENTRIES)
    assert not is_ordered(entries_of(IndexEntry(0, 0, 0, 0, 0)))  # a lost page reads as zeros
    assert not is_ordered(entries_of(IndexEntry(5, 0, 0, 64, 0), IndexEntry(5, 0, 0, 64, 0)))
    assert not is_ordered(entries_of(IndexEntry(5, 0, 0, 64, 0), IndexEntry(4, 0, 0, 100, 0)))


def test_a_footer_reads_as_it_was_written_and_checks_its_entries() -> None:
    footer = IndexFooter(5, 2**64 - 1, 64, zlib.crc32(ENTRIES))
    data = footer.encode()
    assert len(data) == INDEX_FOOTER_BYTES == 40
    assert IndexFooter.decode(data, len(ENTRIES) + 40) == footer
    footer.check(ENTRIES)
    with pytest.raises(MalformedIndex, match="CRC of the entries"):
        footer.check(ENTRIES[:-1] + b"\xff")


def test_a_footer_of_other_entries_is_refused() -> None:
    data = IndexFooter(5, 500, 64, zlib.crc32(ENTRIES)).encode()
    for file_bytes in (40, len(ENTRIES) + 39, len(ENTRIES) + 69):
        with pytest.raises(MalformedIndex, match="counts other entries"):
            IndexFooter.decode(data, file_bytes)


@pytest.mark.parametrize("position", range(40))
def test_every_flipped_byte_of_a_footer_is_found(position: int) -> None:
    data = bytearray(IndexFooter(5, 500, 64, 7).encode())
    data[position] ^= 1
    with pytest.raises(MalformedIndex):
        IndexFooter.decode(bytes(data), len(ENTRIES) + 40)


@pytest.mark.parametrize("size", [0, 39, 41])
def test_a_footer_of_another_length_is_none(size: int) -> None:
    data = IndexFooter(0, 0, 0, 0).encode() + b"\0"
    with pytest.raises(MalformedIndex, match="no footer; it is rebuilt from its segment"):
        IndexFooter.decode(data[:size], 40)


def test_pending_entries_become_written_and_the_crc_covers_all() -> None:
    index = Index(Path("0.index"))
    for number in range(3):
        index.append(entry_at(ENTRIES, number))
    index.mark_written(2 * INDEX_ENTRY_BYTES)
    assert (index.written, index.written_bytes, index.count) == (2, 58, 3)
    assert bytes(index.pending) == ENTRIES[58:87]
    index.mark_written(10_000)
    assert (index.written, index.count) == (3, 3)
    assert index.crc == zlib.crc32(ENTRIES[:87])


def test_a_loaded_index_grows_with_what_is_appended() -> None:
    index = Index(Path("0.index"))
    index.trust(ENTRIES[:29])
    index.cached = bytearray(ENTRIES[:29])
    index.append(entry_at(ENTRIES, 1))
    assert index.trusted
    assert bytes(index.cached) == ENTRIES[:58]
    assert struct.unpack_from(">Q", index.pending)[0] == 0
    assert index.crc == zlib.crc32(ENTRIES[:58])

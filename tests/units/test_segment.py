"""The header of a segment, its file name, and the sealing of its index."""

from __future__ import annotations

import errno
import struct
import zlib
from pathlib import Path

import pytest

from headwater.errors import MalformedChunk, NewerFormat
from headwater.log.files import Files
from headwater.log.index import INDEX_FOOTER_BYTES, IndexEntry, IndexFooter
from headwater.log.segment import (
    Segment,
    SegmentHeader,
    decode_segment_header,
    encode_segment_header,
    segment_offset,
    segment_path,
)
from tests.log_material import DATA
from tests.simulation.rig import new_disk

HEADER = SegmentHeader(2**64 - 1, 2**32 - 1, 2**63 - 1, 1_700_000_000_000, 2**64 - 1, 2**32 - 1)
PATH = Path("0.segment")


def sealed(header: bytearray) -> bytes:
    struct.pack_into(">I", header, 60, zlib.crc32(header[:60]))
    return bytes(header)


@pytest.mark.parametrize("header", [HEADER, SegmentHeader(0, 0, 0, 0, 0, 0)])
def test_a_header_reads_as_it_was_written(header: SegmentHeader) -> None:
    data = encode_segment_header(header)
    assert len(data) == 64
    assert decode_segment_header(data + b"behind", PATH) == header


@pytest.mark.parametrize("position", range(64))
def test_every_flipped_byte_of_a_header_is_found(position: int) -> None:
    data = bytearray(encode_segment_header(HEADER))
    data[position] ^= 0x10
    with pytest.raises(MalformedChunk) as caught:
        decode_segment_header(bytes(data), PATH)
    assert caught.value.reason == ("no segment header" if position < 8 else "CRC of the segment header")


@pytest.mark.parametrize("size", [0, 8, 63])
def test_a_header_that_is_cut_off_is_none(size: int) -> None:
    with pytest.raises(MalformedChunk, match="no segment header"):
        decode_segment_header(encode_segment_header(HEADER)[:size], PATH)


def test_a_newer_format_is_refused_with_both_numbers() -> None:
    data = bytearray(encode_segment_header(HEADER))
    struct.pack_into(">H", data, 8, 2)
    with pytest.raises(NewerFormat, match="has format 2, this version reads up to 1") as caught:
        decode_segment_header(sealed(data), PATH)
    assert (caught.value.path, caught.value.found, caught.value.known) == ("0.segment", 2, 1)


@pytest.mark.parametrize("offset", [0, 1, 2**63 - 1])
def test_a_file_name_tells_the_first_offset(offset: int) -> None:
    path = segment_path(Path("folder"), offset)
    assert path.parent == Path("folder")
    assert segment_offset(path.name) == offset


def test_file_names_sort_as_their_offsets() -> None:
    offsets = [0, 9, 10, 2**32, 2**63 - 1]
    names = [segment_path(Path(), offset).name for offset in offsets]
    assert sorted(names) == names


@pytest.mark.parametrize(
    "name",
    [
        "",
        "note.txt",
        "0.segment",
        "0" * 20,
        "0" * 20 + ".index",
        "0" * 20 + ".segment.removed",
        "0" * 21 + ".segment",
        "-" + "0" * 19 + ".segment",
        "٣" * 20 + ".segment",
        "0" * 19 + "x.segment",
    ],
)
def test_any_other_name_tells_none(name: str) -> None:
    assert segment_offset(name) is None


def test_sealing_writes_what_is_missing_and_a_footer_that_names_the_segment(tmp_path: Path) -> None:
    files = Files()
    segment = Segment(segment_path(tmp_path, 0), 0, 500, 1)
    segment.index.append(IndexEntry(0, 10, 1, 64, 2))
    segment.seal_index(files, 64)
    segment.index.append(IndexEntry(0, 11, 1, 200, 0))
    grown = segment.index.sealed
    segment.seal_index(files, 0)
    data = segment.index.path.read_bytes()
    footer = IndexFooter.decode(data[-INDEX_FOOTER_BYTES:], len(data))
    assert (footer.count, footer.segment_bytes, footer.snapshot_position) == (2, 500, 0)
    footer.check(data[:-INDEX_FOOTER_BYTES])
    assert (grown, segment.index.sealed, segment.index.trusted) == (False, True, True)
    assert not segment.index.pending


def test_an_index_that_cannot_be_written_is_no_failure() -> None:
    files = new_disk(1)
    files.fail("create", "*.index", errno.ENOSPC)
    segment = Segment(segment_path(DATA, 0), 0, 500, 1)
    segment.index.append(IndexEntry(0, 10, 1, 64, 2))
    segment.seal_index(files, 64)
    assert not segment.index.sealed
    assert segment.index.count == 1
    assert files.open_descriptors() == []

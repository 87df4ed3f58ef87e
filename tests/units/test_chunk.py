"""The layout of a chunk: what is sealed reads back, and what is wrong is refused with its reason."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pytest

from headwater.encoding import chunk
from headwater.encoding.chunk import CHUNK_HEADER_BYTES, ChunkHeader, ChunkType, Trailer
from headwater.errors import MalformedChunk, ReferenceTooLong

RECORD = b"\x00\x00\x00\x05hello"


def sealed(data: bytes = RECORD, **changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "type": ChunkType.USER,
        "entries": 1,
        "records": 1,
        "timestamp_ms": 1_700_000_000_000,
        "epoch": 3,
        "first_offset": 42,
        "bloom": b"",
        "publishers": {},
        "offsets": {},
        "synced_position": 64,
        "timestamp_ms_max": 1_700_000_000_001,
    }
    buffer = bytearray(CHUNK_HEADER_BYTES) + data
    return bytes(buffer[: chunk.seal_chunk(buffer, len(buffer), **(fields | changes))])


def patched(data: bytes, position: int, replacement: bytes) -> bytes:
    return data[:position] + replacement + data[position + len(replacement) :]


def refused(data: bytes, position: int = 0) -> str:
    with pytest.raises(MalformedChunk) as caught:
        chunk.read_chunk(data, position)
    return caught.value.reason


def test_what_is_sealed_reads_back() -> None:
    data = sealed(bloom=bytes(16), publishers={b"p": 7}, offsets={b"c": 8, b"d": 9})
    header, trailer = chunk.read_chunk(data, 0)
    assert header == ChunkHeader(
        type=ChunkType.USER,
        entries=1,
        records=1,
        timestamp_ms=1_700_000_000_000,
        epoch=3,
        first_offset=42,
        data_crc=header.data_crc,
        data_bytes=len(RECORD),
        trailer_bytes=chunk.trailer_size(16, {b"p": 7}, {b"c": 8, b"d": 9}),
        bloom_bytes=16,
    )
    assert trailer == Trailer(
        bloom=bytes(16),
        publishers={b"p": 7},
        offsets={b"c": 8, b"d": 9},
        synced_position=64,
        timestamp_ms_max=1_700_000_000_001,
    )
    assert header.total_bytes == len(data)


def test_a_chunk_reads_at_any_position_of_any_buffer() -> None:
    data = b"before" + sealed() + b"behind"
    for buffer in (data, bytearray(data), memoryview(data)):
        assert chunk.read_chunk(buffer, 6)[0].first_offset == 42


def test_the_largest_timestamp_reads_from_the_end() -> None:
    data = b"before" + sealed(bloom=bytes(16), publishers={b"p": 7})
    assert chunk.largest_timestamp(data + b"behind", len(data)) == 1_700_000_000_001


def test_sealing_leaves_a_large_buffer_as_long_as_it_is() -> None:
    buffer = bytearray(200)
    buffer[48:57] = RECORD
    expected = sealed()
    total = chunk.seal_chunk(
        buffer,
        57,
        type=ChunkType.USER,
        entries=1,
        records=1,
        timestamp_ms=1_700_000_000_000,
        epoch=3,
        first_offset=42,
        bloom=b"",
        publishers={},
        offsets={},
        synced_position=64,
        timestamp_ms_max=1_700_000_000_001,
    )
    assert len(buffer) == 200
    assert bytes(buffer[:total]) == expected


def test_delta_and_snapshot_take_no_offset() -> None:
    delta = sealed(b"", type=ChunkType.DELTA, entries=0, records=0, offsets={b"c": 5})
    snapshot = sealed(chunk.encode_snapshot({}, {}), type=ChunkType.SNAPSHOT, entries=0, records=0)
    assert chunk.read_chunk(delta, 0)[1].offsets == {b"c": 5}
    assert chunk.read_chunk(snapshot, 0)[0].type is ChunkType.SNAPSHOT


@pytest.mark.parametrize(
    ("position", "replacement"),
    [
        (0, b"\x51"),
        (1, b"\x03"),
        (45, b"\x01"),
        (47, b"\x01"),
        (2, b"\x00\x00"),
        (4, b"\x00\x00\x00\x00"),
        (2, b"\x00\x03"),
        (24, b"\xff" * 8),
        (24, b"\x7f" + b"\xff" * 7),
        (36, b"\x80\x00\x00\x00"),
        (36, b"\xff\xff\xff\xff"),
        (40, b"\x00\x00\x00\x1b"),
        (40, b"\xff\xff\xff\xff"),
        (44, b"\x0f"),
        (44, b"\x10"),
        (1, b"\x01"),
        (1, b"\x02"),
    ],
)
def test_a_header_that_cannot_be_is_refused(position: int, replacement: bytes) -> None:
    with pytest.raises(MalformedChunk):
        chunk.read_header(patched(sealed(), position, replacement), 0)


@pytest.mark.parametrize(
    ("position", "width", "limit"),
    [(36, 4, chunk.DATA_BYTES_MAX), (40, 4, chunk.TRAILER_BYTES_MAX), (24, 8, chunk.OFFSET_MAX - 1)],
)
def test_lengths_and_offsets_have_a_limit(position: int, width: int, limit: int) -> None:
    chunk.read_header(patched(sealed(), position, limit.to_bytes(width, "big")), 0)
    with pytest.raises(MalformedChunk, match="cannot be"):
        chunk.read_header(patched(sealed(), position, (limit + 1).to_bytes(width, "big")), 0)


def test_a_chunk_has_at_most_65535_entries() -> None:
    most = sealed(bytes(4 * chunk.ENTRIES_MAX), entries=chunk.ENTRIES_MAX, records=chunk.ENTRIES_MAX)
    assert chunk.read_chunk(most, 0)[0].entries == chunk.ENTRIES_MAX
    with pytest.raises(struct.error):
        sealed(bytes(4 * 65_536), entries=65_536, records=65_536)


def test_a_header_needs_48_bytes_at_a_position_that_is_there() -> None:
    with pytest.raises(MalformedChunk, match="48 bytes"):
        chunk.read_header(sealed()[:47], 0)
    with pytest.raises(MalformedChunk, match="48 bytes"):
        chunk.read_header(sealed(), -1)


def test_delta_with_data_and_short_snapshot_are_refused() -> None:
    assert "data length of 9" in refused(sealed(type=ChunkType.DELTA, entries=0, records=0))
    assert "data length of 7" in refused(sealed(bytes(7), type=ChunkType.SNAPSHOT, entries=0, records=0))


def test_what_is_cut_off_is_refused() -> None:
    assert "trailer is cut off" in refused(sealed()[:-1])
    header = chunk.read_header(sealed(), 0)
    with pytest.raises(MalformedChunk, match="data is cut off"):
        chunk.check_data(sealed()[:50], 0, header)


def test_a_crc_that_does_not_hold_is_refused() -> None:
    assert "CRC of the data" in refused(patched(sealed(), 52, b"H"))
    assert "CRC of header and trailer" in refused(patched(sealed(), 8, b"\x01"))
    assert "CRC of header and trailer" in refused(sealed()[:-1] + b"\x00")


def test_entries_must_be_what_the_header_says() -> None:
    assert "entries are not" in refused(sealed(RECORD + RECORD))
    assert "entries are not" in refused(sealed(records=2))
    assert "reaches beyond" in refused(sealed(RECORD[:-1]))
    two = b"\x90\x00\x02" + struct.pack(">II", 8, 4) + b"pack"
    assert chunk.read_chunk(sealed(two, records=2), 0)[0].records == 2


def test_counts_of_the_trailer_must_hold() -> None:
    data = bytearray(sealed(publishers={b"p": 7}))
    tail = len(data) - chunk.TRAILER_TAIL_BYTES

    def counted(publishers: int, offsets: int) -> bytes:
        struct.pack_into(">II", data, tail, publishers, offsets)
        crc = zlib.crc32(data[57:-4], zlib.crc32(data[:48]))
        return bytes(data[:-4]) + struct.pack(">I", crc)

    assert chunk.read_chunk(counted(0, 1), 0)[1].offsets == {b"p": 7}
    assert "more than its counts" in refused(counted(0, 0))
    assert "empty or cut off" in refused(counted(0xFFFFFFFF, 1))


@pytest.mark.parametrize("size", [0, 256])
def test_a_reference_is_1_to_255_bytes(size: int) -> None:
    with pytest.raises(ReferenceTooLong):
        sealed(publishers={bytes(size): 1})
    with pytest.raises(ReferenceTooLong):
        sealed(offsets={bytes(size): 1})
    with pytest.raises(ReferenceTooLong):
        chunk.encode_snapshot({bytes(size): (1, 2)}, {})


@pytest.mark.parametrize("size", [1, 15, 256])
def test_a_bloom_filter_is_16_to_255_bytes(size: int) -> None:
    with pytest.raises(ValueError, match="bloom"):
        sealed(bloom=bytes(size))


def test_data_must_lie_behind_the_header() -> None:
    with pytest.raises(ValueError, match="no chunk"):
        chunk.seal_chunk(
            bytearray(48),
            47,
            type=ChunkType.DELTA,
            entries=0,
            records=0,
            timestamp_ms=0,
            epoch=0,
            first_offset=0,
            bloom=b"",
            publishers={},
            offsets={},
            synced_position=0,
            timestamp_ms_max=0,
        )


def test_a_chunk_of_another_segment_is_refused() -> None:
    data = sealed(salt=0xFFFFFFFF)
    assert chunk.read_chunk(data, 0, 0xFFFFFFFF)[0].first_offset == 42
    assert "CRC of header and trailer" in refused(data)


def test_trailer_size_is_what_is_written() -> None:
    publishers, offsets = {b"a" * 255: 1, b"b": 2}, {b"c": 3}
    data = sealed(bloom=bytes(255), publishers=publishers, offsets=offsets)
    assert chunk.trailer_size(255, publishers, offsets) == len(data) - 48 - len(RECORD)


def test_a_snapshot_reads_back() -> None:
    publishers, offsets = {b"p": (2**64 - 1, 1), b"q" * 255: (0, 2)}, {b"c": (5, 2**64 - 1)}
    data = chunk.encode_snapshot(publishers, offsets)
    for buffer in (data, bytearray(data), memoryview(data)):
        assert chunk.decode_snapshot(buffer) == (publishers, offsets)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(7),
        bytes(9),
        struct.pack(">II", 1, 0),
        struct.pack(">II", 1, 0) + b"\x00" + bytes(16),
        struct.pack(">II", 1, 0) + b"\x01p" + bytes(15),
        struct.pack(">II", 2, 0) + (b"\x01p" + bytes(16)) * 2,
        struct.pack(">II", 0xFFFFFFFF, 0x80000000) + b"\x01p" + bytes(16),
    ],
)
def test_a_snapshot_that_cannot_be_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedChunk):
        chunk.decode_snapshot(data)

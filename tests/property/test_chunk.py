"""Chunks of every shape read back, and no bytes raise anything but MalformedChunk."""

from __future__ import annotations

import contextlib
import struct
import zlib
from array import array
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headwater.encoding import chunk
from headwater.encoding._kernel import scan_chunks, walk_entries
from headwater.encoding.chunk import ChunkType
from headwater.errors import MalformedChunk

u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
references = st.binary(min_size=1, max_size=255) | st.binary(min_size=1, max_size=4)
values = st.dictionaries(references, u64, max_size=4)
timed_values = st.dictionaries(references, st.tuples(u64, u64), max_size=4)
blooms = st.just(b"") | st.binary(min_size=16, max_size=255)
records = st.binary(max_size=60).map(lambda record: struct.pack(">I", len(record)) + record)
sub_batches = st.builds(
    lambda compression, count, packed: (
        struct.pack(">BHII", 0x80 | compression << 4, count, 4 * count, len(packed)) + packed
    ),
    st.integers(0, 4),
    st.integers(1, 65_535),
    st.binary(max_size=60),
)


@st.composite
def chunks(draw: st.DrawFn) -> tuple[bytes, dict[str, Any]]:
    """A sealed chunk and the fields it was sealed with; `data` is one of them."""
    kind = draw(st.sampled_from(ChunkType))
    entries = draw(st.lists(records | sub_batches, min_size=1, max_size=5)) if kind is ChunkType.USER else []
    data = b"".join(entries)
    record_count = walk_entries(data, 0, len(data), len(entries))[1]
    if kind is ChunkType.SNAPSHOT:
        data = chunk.encode_snapshot(draw(timed_values), draw(timed_values))
    fields: dict[str, Any] = {
        "type": kind,
        "entries": len(entries),
        "records": record_count,
        "timestamp_ms": draw(u64),
        "epoch": draw(u64),
        "first_offset": draw(st.integers(0, chunk.OFFSET_MAX - record_count)),
        "bloom": draw(blooms),
        "publishers": draw(values),
        "offsets": draw(values),
        "synced_position": draw(u64),
        "timestamp_ms_max": draw(u64),
        "salt": draw(u32),
    }
    buffer = bytearray(chunk.CHUNK_HEADER_BYTES) + data + bytes(draw(st.sampled_from([0, 3, 2000])))
    total = chunk.seal_chunk(buffer, chunk.CHUNK_HEADER_BYTES + len(data), **fields)
    return bytes(buffer[:total]), fields | {"data": data}


@given(chunks(), st.binary(max_size=5))
def test_a_chunk_reads_back(made: tuple[bytes, dict[str, Any]], before: bytes) -> None:
    data, fields = made
    header, trailer = chunk.read_chunk(before + data + before, len(before), fields["salt"])
    assert header.total_bytes == len(data)
    assert data[48 : 48 + header.data_bytes] == fields["data"]
    for name in ("type", "entries", "records", "timestamp_ms", "epoch", "first_offset"):
        assert getattr(header, name) == fields[name]
    for name in ("bloom", "publishers", "offsets", "synced_position", "timestamp_ms_max"):
        assert getattr(trailer, name) == fields[name]
    assert header.bloom_bytes == len(fields["bloom"])
    assert header.data_crc == zlib.crc32(fields["data"])
    size = chunk.trailer_size(header.bloom_bytes, fields["publishers"], fields["offsets"])
    assert size == header.trailer_bytes


@given(chunks(), st.data())
def test_a_change_of_any_byte_is_found(made: tuple[bytes, dict[str, Any]], data: st.DataObject) -> None:
    sealed, fields = made
    position = data.draw(st.integers(0, len(sealed) - 1))
    change = data.draw(st.integers(1, 255))
    damaged = bytearray(sealed)
    damaged[position] ^= change
    assert refused(bytes(damaged), fields["salt"])


def test_a_change_of_every_byte_of_one_chunk_is_found() -> None:
    buffer = bytearray(48) + b"\x00\x00\x00\x02hi" + b"\x90\x00\x02\x00\x00\x00\x08\x00\x00\x00\x01z"
    total = chunk.seal_chunk(
        buffer,
        len(buffer),
        type=ChunkType.USER,
        entries=2,
        records=3,
        timestamp_ms=1,
        epoch=2,
        first_offset=3,
        bloom=bytes(range(16)),
        publishers={b"p": 4},
        offsets={b"c": 5},
        synced_position=6,
        timestamp_ms_max=7,
    )
    for position in range(total):
        for bit in range(8):
            damaged = bytearray(buffer)
            damaged[position] ^= 1 << bit
            assert refused(bytes(damaged), 0), (position, bit)


def refused(data: bytes, salt: int) -> bool:
    try:
        chunk.read_chunk(data, 0, salt)
    except MalformedChunk:
        return True
    return False


@given(chunks(), st.data())
def test_a_chunk_that_is_cut_off_is_refused(made: tuple[bytes, dict[str, Any]], data: st.DataObject) -> None:
    sealed, fields = made
    assert refused(sealed[: data.draw(st.integers(0, len(sealed) - 1))], fields["salt"])


@given(st.binary(max_size=400) | st.binary(max_size=300).map(lambda tail: b"\x50\x00\x00\x01" + tail), u32)
def test_any_bytes_read_or_are_refused(data: bytes, salt: int) -> None:
    for position in (0, len(data) // 2):
        with contextlib.suppress(MalformedChunk):
            chunk.read_chunk(data, position, salt)


@given(chunks(), st.data())
def test_a_trailer_whose_crc_was_made_to_hold_reads_or_is_refused(
    made: tuple[bytes, dict[str, Any]], data: st.DataObject
) -> None:
    sealed, fields = made
    start = 48 + len(fields["data"])
    damaged = bytearray(sealed)
    position = data.draw(st.integers(start, len(sealed) - 5))
    damaged[position] = data.draw(st.integers(0, 255))
    crc = zlib.crc32(damaged[start:-4], zlib.crc32(damaged[:48], fields["salt"]))
    damaged[-4:] = struct.pack(">I", crc)
    try:
        _, trailer = chunk.read_chunk(damaged, 0, fields["salt"])
    except MalformedChunk:
        return
    assert len(damaged) == start + chunk.trailer_size(len(trailer.bloom), trailer.publishers, trailer.offsets)


@given(timed_values, timed_values)
def test_a_snapshot_reads_back(publishers: dict[bytes, Any], offsets: dict[bytes, Any]) -> None:
    data = chunk.encode_snapshot(publishers, offsets)
    assert chunk.decode_snapshot(data) == (publishers, offsets)
    assert list(chunk.decode_snapshot(data)[0]) == list(publishers)


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda rest: bytes(3) + b"\x01" + rest))
def test_any_bytes_are_a_snapshot_or_are_refused(data: bytes) -> None:
    try:
        publishers, offsets = chunk.decode_snapshot(data)
    except MalformedChunk:
        return
    assert chunk.encode_snapshot(publishers, offsets) == data


@given(chunks(), st.integers(0, 47), st.binary(min_size=1, max_size=4))
def test_scanner_and_reader_agree_on_headers(
    made: tuple[bytes, dict[str, Any]], position: int, replacement: bytes
) -> None:
    data = made[0][:position] + replacement + made[0][position + len(replacement) :]
    first = struct.unpack_from(">Q", data, 24)[0]
    if first > chunk.OFFSET_MAX:
        return
    *_, damaged = scan_chunks(data, 0, len(data), first, array("q", bytes(48)))
    try:
        chunk.read_header(data, 0)
    except MalformedChunk:
        assert damaged
    else:
        assert not damaged

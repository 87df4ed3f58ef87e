"""A chunk on disk (docs/internals/log-format.md, Chunk). Header and data are those of the stream protocol's Deliver.

header, 48                                     trailer
 0  1  0x50                                     bloom filter, `bloom size` bytes (0 or 16 to 255)
 1  1  type: 0 user, 1 delta, 2 snapshot        publishers, each: length 1, reference, sequence 8
 2  2  entries                                  offsets, each:    length 1, reference, offset 8
 4  4  records                                  tail, 28:
 8  8  timestamp, ms, wall clock                 0  4  publisher count
16  8  epoch                                     4  4  offset count
24  8  first offset                              8  8  synced position
32  4  CRC-32 of the data                       16  8  largest timestamp so far in the partition
36  4  data length                              24  4  CRC-32 of header, bloom, publishers,
40  4  trailer length                                  offsets and tail, less these 4 bytes; it
44  1  bloom size                                      starts from the salt of the segment
45  3  reserved, 0

data of a user chunk: entries (`_kernel.py` draws them). A delta has none. Data of a snapshot:

 0  4  publisher count     4  4  offset count     then each: length 1, reference, value 8, time of use, ms, 8
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Mapping
from typing import TypeAlias

import msgspec
from isal.isal_zlib import crc32

from headwater.encoding._kernel import walk_entries
from headwater.errors import MalformedChunk, ReferenceTooLong

__all__ = [
    "BLOOM_BYTES_MAX",
    "BLOOM_BYTES_MIN",
    "CHUNK_HEADER_BYTES",
    "CHUNK_MAGIC",
    "DATA_BYTES_MAX",
    "ENTRIES_MAX",
    "OFFSET_MAX",
    "REFERENCE_BYTES_MAX",
    "TRAILER_BYTES_MAX",
    "TRAILER_TAIL_BYTES",
    "ChunkHeader",
    "ChunkType",
    "ReadableBuffer",
    "Trailer",
    "check_data",
    "decode_snapshot",
    "encode_snapshot",
    "largest_timestamp",
    "read_chunk",
    "read_header",
    "read_trailer",
    "seal_chunk",
    "trailer_size",
]

ReadableBuffer: TypeAlias = bytes | bytearray | memoryview

CHUNK_HEADER_BYTES = 48
TRAILER_TAIL_BYTES = 28
CHUNK_MAGIC = 0x50
ENTRIES_MAX = 65_535
REFERENCE_BYTES_MAX = 255
BLOOM_BYTES_MIN = 16
BLOOM_BYTES_MAX = 255
# Far above every setting, far below what a damaged length would make a reader fetch. `_kernel.py` has the same.
DATA_BYTES_MAX = 1 << 30
TRAILER_BYTES_MAX = 1 << 28
OFFSET_MAX = (1 << 63) - 1

_HEADER = struct.Struct(">BBHIQQQIIII")
_TIMESTAMP_MAX_AT = 16
_TAIL = struct.Struct(">IIQQ")
_CRC = struct.Struct(">I")
_COUNTS = struct.Struct(">II")
_VALUE = struct.Struct(">Q")
_VALUE_AND_TIME = struct.Struct(">QQ")


class ChunkType(enum.IntEnum):
    """What the data of a chunk is."""

    USER = 0
    DELTA = 1
    SNAPSHOT = 2


_TYPES = tuple(ChunkType)


class ChunkHeader(msgspec.Struct, frozen=True, gc=False):
    """The 48 bytes before the data."""

    type: ChunkType
    entries: int
    records: int
    timestamp_ms: int
    epoch: int
    first_offset: int
    data_crc: int
    data_bytes: int
    trailer_bytes: int
    bloom_bytes: int

    @property
    def deliver_bytes(self) -> int:
        """Header and data, as consumers get them."""
        return CHUNK_HEADER_BYTES + self.data_bytes

    @property
    def total_bytes(self) -> int:
        """Header, data and trailer together."""
        return self.deliver_bytes + self.trailer_bytes

    @property
    def next_offset(self) -> int:
        """The first offset behind it."""
        return self.first_offset + self.records


class Trailer(msgspec.Struct, frozen=True):
    """What stands behind the data: sequences and offsets that the chunk brings, and what was durable before it."""

    bloom: bytes
    publishers: dict[bytes, int]
    offsets: dict[bytes, int]
    synced_position: int
    timestamp_ms_max: int


def read_header(buffer: ReadableBuffer, position: int) -> ChunkHeader:
    """The header at `position`; raises MalformedChunk if these 48 bytes cannot be one. No CRC is checked yet."""
    if position < 0 or len(buffer) - position < CHUNK_HEADER_BYTES:
        raise MalformedChunk(position, "fewer than 48 bytes are there")
    fields = _HEADER.unpack_from(buffer, position)
    magic, kind, entries, records, timestamp_ms, epoch, first_offset, crc, data_bytes, trailer_bytes, last = (
        fields
    )
    if magic != CHUNK_MAGIC or kind >= len(_TYPES) or last & 0xFFFFFF:
        raise MalformedChunk(position, "magic, type or reserved bytes are wrong")
    bloom_bytes = last >> 24
    _check_lengths(position, data_bytes, trailer_bytes, bloom_bytes)
    _check_counts(position, kind, entries, records, first_offset, data_bytes)
    return ChunkHeader(
        _TYPES[kind],
        entries,
        records,
        timestamp_ms,
        epoch,
        first_offset,
        crc,
        data_bytes,
        trailer_bytes,
        bloom_bytes,
    )


def read_trailer(buffer: ReadableBuffer, position: int, header: ChunkHeader, salt: int = 0) -> Trailer:
    """The trailer of the chunk at `position`; raises MalformedChunk unless it is whole and its CRC holds."""
    start = position + CHUNK_HEADER_BYTES + header.data_bytes
    end = start + header.trailer_bytes
    if len(buffer) < end:
        raise MalformedChunk(position, "the trailer is cut off")
    tail = end - TRAILER_TAIL_BYTES
    view = memoryview(buffer)
    crc = crc32(view[start : end - 4], crc32(view[position : position + CHUNK_HEADER_BYTES], salt))
    if (crc,) != _CRC.unpack_from(buffer, end - 4):
        raise MalformedChunk(position, "the CRC of header and trailer does not hold")
    publisher_count, offset_count, synced_position, timestamp_ms_max = _TAIL.unpack_from(buffer, tail)
    references = start + header.bloom_bytes
    publishers, behind = _read_values(view[:tail], references, publisher_count)
    offsets, behind = _read_values(view[:tail], behind, offset_count)
    if behind != tail:
        raise MalformedChunk(behind, "the trailer holds more than its counts say")
    return Trailer(bytes(view[start:references]), publishers, offsets, synced_position, timestamp_ms_max)


def largest_timestamp(buffer: ReadableBuffer, end: int) -> int:
    """The largest timestamp so far in the partition, as the trailer says of the whole chunk that ends there."""
    at = end - TRAILER_TAIL_BYTES + _TIMESTAMP_MAX_AT
    return int.from_bytes(buffer[at : at + 8], "big", signed=True)


def check_data(buffer: ReadableBuffer, position: int, header: ChunkHeader) -> None:
    """Raises MalformedChunk unless the data of the chunk at `position` is whole and its CRC holds."""
    start = position + CHUNK_HEADER_BYTES
    end = start + header.data_bytes
    if len(buffer) < end:
        raise MalformedChunk(position, "the data is cut off")
    if crc32(memoryview(buffer)[start:end]) != header.data_crc:
        raise MalformedChunk(position, "the CRC of the data does not hold")


def read_chunk(buffer: ReadableBuffer, position: int, salt: int = 0) -> tuple[ChunkHeader, Trailer]:
    """The chunk at `position` with everything checked: lengths, both CRCs, and the entries of a user chunk."""
    header = read_header(buffer, position)
    trailer = read_trailer(buffer, position, header, salt)
    check_data(buffer, position, header)
    if header.type is ChunkType.USER:
        start = position + CHUNK_HEADER_BYTES
        end = start + header.data_bytes
        if walk_entries(buffer, start, end, header.entries) != (end, header.records):
            raise MalformedChunk(position, "the entries are not what the header says")
    return header, trailer


def trailer_size(bloom_bytes: int, publishers: Mapping[bytes, int], offsets: Mapping[bytes, int]) -> int:
    """Bytes of the trailer that `seal_chunk` writes for these."""
    size = bloom_bytes + TRAILER_TAIL_BYTES + 9 * (len(publishers) + len(offsets))
    return size + sum(map(len, publishers)) + sum(map(len, offsets))


def seal_chunk(
    buffer: bytearray,
    data_end: int,
    *,
    type: ChunkType,
    entries: int,
    records: int,
    timestamp_ms: int,
    epoch: int,
    first_offset: int,
    bloom: bytes,
    publishers: Mapping[bytes, int],
    offsets: Mapping[bytes, int],
    synced_position: int,
    timestamp_ms_max: int,
    salt: int = 0,
) -> int:
    """Make a chunk of the data at 48 to `data_end`: header before, trailer behind; gives its length.

    The buffer grows if the trailer does not fit, so nobody may hold a view of it then.
    """
    # One join of few parts, two packs and three CRCs: this runs once for every chunk that is written.
    body = bytes(bloom)
    if publishers or offsets:
        body = b"".join((body, *_values(publishers), *_values(offsets)))
    tail = data_end + len(body)
    end = tail + TRAILER_TAIL_BYTES
    _check_sealable(data_end - CHUNK_HEADER_BYTES, end - data_end, len(bloom))
    if len(buffer) < end:
        buffer.extend(bytes(end - len(buffer)))
    buffer[data_end:tail] = body
    _TAIL.pack_into(buffer, tail, len(publishers), len(offsets), synced_position, timestamp_ms_max)
    with memoryview(buffer) as view:
        _HEADER.pack_into(
            buffer,
            0,
            CHUNK_MAGIC,
            type,
            entries,
            records,
            timestamp_ms,
            epoch,
            first_offset,
            crc32(view[CHUNK_HEADER_BYTES:data_end]),
            data_end - CHUNK_HEADER_BYTES,
            end - data_end,
            len(bloom) << 24,
        )
        crc = crc32(view[data_end : end - 4], crc32(view[:CHUNK_HEADER_BYTES], salt))
    _CRC.pack_into(buffer, end - 4, crc)
    return end


def encode_snapshot(
    publishers: Mapping[bytes, tuple[int, int]], offsets: Mapping[bytes, tuple[int, int]]
) -> bytes:
    """The data of a snapshot chunk; each reference has its value and the time of its last use in ms."""
    parts = [_COUNTS.pack(len(publishers), len(offsets))]
    for values in (publishers, offsets):
        for reference, (value, used_ms) in values.items():
            parts.append(_prefix(reference))
            parts.append(_VALUE_AND_TIME.pack(value, used_ms))
    return b"".join(parts)


def decode_snapshot(
    data: ReadableBuffer,
) -> tuple[dict[bytes, tuple[int, int]], dict[bytes, tuple[int, int]]]:
    """Publishers and offsets of a snapshot's data; raises MalformedChunk on anything else."""
    if len(data) < _COUNTS.size:
        raise MalformedChunk(0, "the snapshot is cut off")
    publisher_count, offset_count = _COUNTS.unpack_from(data, 0)
    publishers, behind = _read_timed_values(data, _COUNTS.size, publisher_count)
    offsets, behind = _read_timed_values(data, behind, offset_count)
    if behind != len(data):
        raise MalformedChunk(behind, "the snapshot holds more than its counts say")
    return publishers, offsets


def _check_sealable(data_bytes: int, trailer_bytes: int, bloom_bytes: int) -> None:
    """Raises ValueError for lengths that would make a chunk nobody can read back."""
    if not 0 <= data_bytes <= DATA_BYTES_MAX or trailer_bytes > TRAILER_BYTES_MAX:
        raise ValueError(f"{data_bytes} bytes of data and {trailer_bytes} of trailer make no chunk")
    if bloom_bytes and not BLOOM_BYTES_MIN <= bloom_bytes <= BLOOM_BYTES_MAX:
        raise ValueError(f"a bloom filter of {bloom_bytes} bytes cannot be kept; use 16 to 255")


def _check_lengths(position: int, data_bytes: int, trailer_bytes: int, bloom_bytes: int) -> None:
    if data_bytes > DATA_BYTES_MAX:
        raise MalformedChunk(position, f"a data length of {data_bytes} cannot be")
    if trailer_bytes > TRAILER_BYTES_MAX or trailer_bytes < TRAILER_TAIL_BYTES + bloom_bytes:
        raise MalformedChunk(position, f"a trailer length of {trailer_bytes} cannot be")
    if 0 < bloom_bytes < BLOOM_BYTES_MIN:
        raise MalformedChunk(position, f"a bloom size of {bloom_bytes} cannot be")


def _check_counts(
    position: int, kind: int, entries: int, records: int, first_offset: int, data_bytes: int
) -> None:
    if first_offset > OFFSET_MAX - records:
        raise MalformedChunk(position, f"a first offset of {first_offset} cannot be")
    if kind == ChunkType.USER:
        if not 0 < entries <= records or data_bytes < 4 * entries:
            raise MalformedChunk(position, f"{entries} entries and {records} records cannot be")
    elif entries or records:
        raise MalformedChunk(position, "it has entries, but is no user chunk")
    elif (data_bytes > 0) if kind == ChunkType.DELTA else (data_bytes < _COUNTS.size):
        raise MalformedChunk(position, f"a data length of {data_bytes} cannot be")


def _prefix(reference: bytes) -> bytes:
    size = len(reference)
    if not 0 < size <= REFERENCE_BYTES_MAX:
        raise ReferenceTooLong(size)
    return bytes((size,)) + reference


def _values(values: Mapping[bytes, int]) -> list[bytes]:
    return [_prefix(reference) + _VALUE.pack(value) for reference, value in values.items()]


def _read_reference(buffer: ReadableBuffer, position: int, value_bytes: int) -> bytes:
    """The reference at `position`, when the value behind it is there too."""
    size = buffer[position] if position < len(buffer) else 0
    if size == 0 or len(buffer) - position - 1 < size + value_bytes:
        raise MalformedChunk(position, "a reference is empty or cut off")
    return bytes(buffer[position + 1 : position + 1 + size])


def _read_values(buffer: ReadableBuffer, position: int, count: int) -> tuple[dict[bytes, int], int]:
    values: dict[bytes, int] = {}
    for _ in range(count):
        reference = _read_reference(buffer, position, _VALUE.size)
        position += 1 + len(reference)
        (values[reference],) = _VALUE.unpack_from(buffer, position)
        position += _VALUE.size
    if len(values) != count:
        raise MalformedChunk(position, "a reference is there twice")
    return values, position


def _read_timed_values(
    buffer: ReadableBuffer, position: int, count: int
) -> tuple[dict[bytes, tuple[int, int]], int]:
    values: dict[bytes, tuple[int, int]] = {}
    for _ in range(count):
        reference = _read_reference(buffer, position, _VALUE_AND_TIME.size)
        position += 1 + len(reference)
        value, used_ms = _VALUE_AND_TIME.unpack_from(buffer, position)
        values[reference] = (value, used_ms)
        position += _VALUE_AND_TIME.size
    if len(values) != count:
        raise MalformedChunk(position, "a reference is there twice")
    return values, position

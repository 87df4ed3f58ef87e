"""Deliver for a client that reads one sub-batch in a chunk and decides by the first entry: each gets its own chunk.

Other clients get chunks as they lie on disk. Records that stand together stay together; all pieces keep epoch and time
of their chunk, and say of bloom filter and trailer what that one says.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import groupby

from isal.isal_zlib import crc32

from headwater.encoding._kernel import entry_spans
from headwater.encoding.chunk import CHUNK_HEADER_BYTES, ChunkHeader, read_header
from headwater.errors import MalformedChunk

__all__ = ["split_at_sub_batches"]

_ONE_RECORD = -1
_COUNTS = struct.Struct(">HI")
_FIRST_OFFSET_CRC_AND_LENGTH = struct.Struct(">QII")
_COUNTS_AT = 2
_FIRST_OFFSET_AT = 24


def split_at_sub_batches(chunks: Iterable[memoryview]) -> Iterator[memoryview]:
    """The same entries at the same offsets; a chunk without sub-batches, or of nothing but one, stays as it is."""
    for chunk in chunks:
        header = read_header(chunk, 0)
        try:
            spans = entry_spans(chunk, CHUNK_HEADER_BYTES, len(chunk), header.entries)
        except MalformedChunk:
            yield chunk  # damaged on disk since it was written: its CRC tells the client, as it does any other
        else:
            yield from _pieces(chunk, header, spans)


def _pieces(
    chunk: memoryview, header: ChunkHeader, spans: Iterable[tuple[int, int, int, int]]
) -> Iterator[memoryview]:
    # Records of one run have the same key; that of a sub-batch is its own.
    runs = groupby(spans, key=lambda span: span[0] if span[3] != _ONE_RECORD else _ONE_RECORD)
    offset, start = header.first_offset, CHUNK_HEADER_BYTES
    for _, run in runs:
        entries = records = 0
        end = start
        for position, size, count, _ in run:
            entries, records, end = entries + 1, records + count, position + size
        if entries == header.entries:
            yield chunk
        else:
            yield _piece(chunk, start, end, entries, records, offset)
        offset, start = offset + records, end


def _piece(chunk: memoryview, start: int, end: int, entries: int, records: int, offset: int) -> memoryview:
    """A chunk of the entries between two positions of another one."""
    piece = bytearray(chunk[:CHUNK_HEADER_BYTES])
    piece += chunk[start:end]
    _COUNTS.pack_into(piece, _COUNTS_AT, entries, records)
    data_crc = crc32(memoryview(piece)[CHUNK_HEADER_BYTES:])
    _FIRST_OFFSET_CRC_AND_LENGTH.pack_into(piece, _FIRST_OFFSET_AT, offset, data_crc, end - start)
    return memoryview(piece)

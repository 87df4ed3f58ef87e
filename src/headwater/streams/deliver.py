"""RabbitMQ Streams protocol, Deliver: a chunk as it lies on disk, behind a header of 9 or 17 bytes.

0  4  size
4  2  key, 0x0008
6  2  version
8  1  subscription id
9  8  committed chunk id       (version 2 alone)
      chunk: 48 bytes of header and the data; bloom filter and trailer stay on disk
"""

from __future__ import annotations

import struct

from headwater.encoding.chunk import CHUNK_HEADER_BYTES, CHUNK_MAGIC, ChunkHeader, ChunkType, ReadableBuffer
from headwater.errors import MalformedFrame
from headwater.streams.commands import Deliver, Key
from headwater.streams.errors import UnknownFrame

__all__ = ["DELIVER_HEADER_BYTES", "DELIVER_HEADER_BYTES_V2", "decode_deliver", "deliver_header"]

DELIVER_HEADER_BYTES = 9
DELIVER_HEADER_BYTES_V2 = 17

_HEADER = struct.Struct(">IHHB")
_HEADER_V2 = struct.Struct(">IHHBQ")
_COMMITTED_CHUNK_ID = struct.Struct(">Q")
_CHUNK_HEADER = struct.Struct(">BBHIqQQIIIB3x")
_CHUNK_TYPES = tuple(ChunkType)


def deliver_header(subscription_id: int, chunk_bytes: int, committed_chunk_id: int | None = None) -> bytes:
    """What goes before a chunk of `chunk_bytes` of header and data; of version 2 if there is a committed chunk id."""
    if committed_chunk_id is None:
        return _HEADER.pack(DELIVER_HEADER_BYTES - 4 + chunk_bytes, Key.DELIVER, 1, subscription_id)
    size = DELIVER_HEADER_BYTES_V2 - 4 + chunk_bytes
    return _HEADER_V2.pack(size, Key.DELIVER, 2, subscription_id, committed_chunk_id)


def decode_deliver(buffer: ReadableBuffer, version: int, position: int, end: int) -> Deliver:
    """The frame whose fields fill `position` to `end`, with its chunk's header; entries and CRC are not checked."""
    if version not in (1, 2):
        raise UnknownFrame(Key.DELIVER, version)
    start = position + (1 if version == 1 else 9)
    if start + CHUNK_HEADER_BYTES > end:
        raise MalformedFrame("a Deliver is cut off")
    committed_chunk_id = None if version == 1 else _COMMITTED_CHUNK_ID.unpack_from(buffer, position + 1)[0]
    header = _read_header(buffer, start)
    if header.data_bytes != end - start - CHUNK_HEADER_BYTES:
        raise MalformedFrame(f"a chunk with {header.data_bytes} bytes of data stands in {end - start} bytes")
    return Deliver(buffer[position], committed_chunk_id, header, start, end)


def _read_header(buffer: ReadableBuffer, position: int) -> ChunkHeader:
    # Not `read_header`: that one holds a trailer to our own format, and other servers have theirs.
    magic, kind, *fields = _CHUNK_HEADER.unpack_from(buffer, position)
    if magic != CHUNK_MAGIC or kind >= len(_CHUNK_TYPES):
        raise MalformedFrame("magic or type of a chunk are unknown")
    return ChunkHeader(_CHUNK_TYPES[kind], *fields)

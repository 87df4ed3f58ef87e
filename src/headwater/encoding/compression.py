"""RabbitMQ Streams protocol, Publish: how the records of a sub-batch are packed, and unpacked within a bound."""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence

import cramjam

from headwater.encoding._kernel import entry_spans, walk_records
from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import MalformedChunk, MalformedFrame, UnreadableSubBatch

__all__ = [
    "SUB_BATCH_BYTES_MAX",
    "SUB_BATCH_RECORDS_MAX",
    "Compression",
    "pack_sub_batch",
    "unpack",
    "unpack_entry",
]

SUB_BATCH_RECORDS_MAX = 65_535
SUB_BATCH_BYTES_MAX = 64 << 20
"""What servers take, unpacked."""

_HEAD = struct.Struct(">BHII")
_LENGTH = struct.Struct(">I")


class Compression(enum.IntEnum):
    """The codes of the protocol; snappy and lz4 are in their frame formats."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def pack_sub_batch(records: Sequence[bytes], compression: Compression) -> bytes:
    """The entry that holds these records: 1 to 65,535 of them, and 64 MiB at most."""
    if not 0 < len(records) <= SUB_BATCH_RECORDS_MAX:
        raise ValueError(f"a sub-batch takes 1 to {SUB_BATCH_RECORDS_MAX} records, not {len(records)}")
    parts: list[bytes] = []
    for record in records:
        parts += (_LENGTH.pack(len(record)), record)
    plain = b"".join(parts)
    packed = plain if compression is Compression.NONE else bytes(_CODECS[compression].compress(plain))
    return _HEAD.pack(0x80 | compression << 4, len(records), len(plain), len(packed)) + packed


def unpack(packed: ReadableBuffer, compression: int, unpacked_bytes: int) -> ReadableBuffer:
    """The records of a sub-batch, which must be of exactly this size; never writes a byte more than that.

    Raises MalformedFrame; what size is acceptable is for the caller to say before.
    """
    if compression == Compression.NONE:
        plain: ReadableBuffer = packed
        size = len(packed)
    else:
        plain = bytearray(unpacked_bytes)
        try:
            size = _CODECS[Compression(compression)].decompress_into(packed, plain)
        except Exception as error:  # noqa: BLE001 - whatever the library finds wrong, the bytes are the peer's
            raise MalformedFrame(
                f"{Compression(compression).name.lower()} does not unpack: {error}"
            ) from None
    if size != unpacked_bytes:
        raise MalformedFrame(f"a sub-batch of {unpacked_bytes} bytes unpacks to {size}")
    return plain


def unpack_entry(data: ReadableBuffer, position: int, end: int) -> tuple[ReadableBuffer, int]:
    """The records of the sub-batch at a position of chunk data, as chunk data of single records, and their number.

    Uncompressed ones are not copied, if slices of `data` are not. No server looks into a sub-batch when it is
    published, so what is stored may not unpack: then UnreadableSubBatch is raised, which tells how many offsets the
    sub-batch takes, and the reader decides what becomes of them.
    """
    ((start, size, records, compression),) = entry_spans(data, position, end, 1)
    unpacked_bytes = int.from_bytes(data[start - 8 : start - 4], "big")
    try:
        plain = unpack(data[start : start + size], compression, unpacked_bytes)
        behind = walk_records(plain, 0, len(plain), records)
    except (MalformedFrame, MalformedChunk) as error:
        raise UnreadableSubBatch(records, error.reason) from None
    if behind != len(plain):
        raise UnreadableSubBatch(records, f"{len(plain) - behind} bytes stand behind its records")
    return plain, records


_CODECS = {
    Compression.GZIP: cramjam.gzip,
    Compression.SNAPPY: cramjam.snappy,
    Compression.LZ4: cramjam.lz4,
    Compression.ZSTD: cramjam.zstd,
}

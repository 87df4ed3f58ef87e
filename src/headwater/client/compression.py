"""RabbitMQ Streams protocol, Publish: how the records of a sub-batch are packed, and unpacked within a bound."""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence

import cramjam

from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import MalformedFrame

__all__ = ["SUB_BATCH_BYTES_MAX", "SUB_BATCH_RECORDS_MAX", "Compression", "pack_sub_batch", "unpack"]

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


_CODECS = {
    Compression.GZIP: cramjam.gzip,
    Compression.SNAPPY: cramjam.snappy,
    Compression.LZ4: cramjam.lz4,
    Compression.ZSTD: cramjam.zstd,
}

"""A chunk as a consumer gets it: looked into only when its entries are asked for."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from isal.isal_zlib import crc32

from headwater.client.errors import DamagedChunk, UnpackedTooLarge
from headwater.encoding._kernel import entry_spans
from headwater.encoding.chunk import ReadableBuffer
from headwater.encoding.compression import unpack
from headwater.errors import MalformedChunk, MalformedFrame

__all__ = ["UNPACKED_BYTES_MAX", "Chunk"]

UNPACKED_BYTES_MAX = 64 << 20
"""What one sub-batch may unpack to."""

_ONE_RECORD = -1


class Chunk(msgspec.Struct, frozen=True):
    """Events with offsets from `first_offset` on, as they came; those before `from_offset` were not asked for."""

    stream: str
    first_offset: int
    records: int
    entries: int
    timestamp_ms: int
    committed_chunk_id: int | None
    data_crc: int
    data: bytes
    """The entries; `encoding/_kernel.py` draws them."""
    from_offset: int = 0
    unpacked_bytes_max: int = UNPACKED_BYTES_MAX

    @property
    def next_offset(self) -> int:
        """The offset behind the last event."""
        return self.first_offset + self.records

    def check(self) -> None:
        """Raises DamagedChunk unless the CRC holds."""
        if crc32(self.data) != self.data_crc:
            raise DamagedChunk(self.stream, self.first_offset, "the CRC of its data does not hold")

    def runs(self) -> Iterator[tuple[int, int, ReadableBuffer, int]]:
        """Entries without their packing: first offset, count, and a buffer with the position where their entries begin.

        All single records that stand together are one run; each sub-batch is another, unpacked when it is come to.
        """
        offset, spans = self.first_offset, self._spans(self.data, self.entries, self.first_offset)
        index = 0
        while index < len(spans):
            position, size, records, compression = spans[index]
            if compression == _ONE_RECORD:
                behind = index + 1
                while behind < len(spans) and spans[behind][3] == _ONE_RECORD:
                    behind += 1
                yield offset, behind - index, self.data, position - 4
                offset += behind - index
                index = behind
            else:
                yield offset, records, self._unpacked(offset, position, size, compression), 0
                offset += records
                index += 1
        if offset != self.next_offset:
            raise DamagedChunk(
                self.stream, self.first_offset, "it has not as many records as its header says"
            )

    def messages(self) -> Iterator[tuple[int, bytes]]:
        """Offset and bytes of each event from `from_offset` on, in order."""
        for first_offset, count, buffer, start in self.runs():
            if first_offset + count <= self.from_offset:
                continue
            offset = first_offset
            for position, size, _, compression in self._spans(buffer, count, first_offset, start):
                if compression != _ONE_RECORD:
                    raise DamagedChunk(self.stream, offset, "a sub-batch holds another one")
                if offset >= self.from_offset:
                    yield offset, bytes(buffer[position : position + size])
                offset += 1

    def _unpacked(self, offset: int, position: int, size: int, compression: int) -> ReadableBuffer:
        unpacked_bytes = int.from_bytes(self.data[position - 8 : position - 4], "big")
        if unpacked_bytes > self.unpacked_bytes_max:
            raise UnpackedTooLarge(self.stream, offset, unpacked_bytes, self.unpacked_bytes_max)
        try:
            return unpack(self.data[position : position + size], compression, unpacked_bytes)
        except MalformedFrame as error:
            raise DamagedChunk(self.stream, offset, error.reason) from None

    def _spans(
        self, buffer: ReadableBuffer, count: int, offset: int, start: int = 0
    ) -> list[tuple[int, int, int, int]]:
        try:
            return entry_spans(buffer, start, len(buffer), count)
        except MalformedChunk as error:
            raise DamagedChunk(self.stream, offset, error.reason) from None

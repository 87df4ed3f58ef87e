"""What was gathered becomes chunks: sealed one behind the other for one write into one segment."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from headwater.encoding._hash_kernel import bloom_add
from headwater.encoding.chunk import ChunkType, encode_snapshot, seal_chunk
from headwater.log.commit import SealedChunk
from headwater.log.files import Buffer
from headwater.log.intake import Gathering
from headwater.log.segment import SegmentHeader, encode_segment_header

__all__ = ["ChunkWriter"]


class ChunkWriter:
    """Seals the chunks of one commit."""

    def __init__(self, epoch: int, now_ms: int, timestamp_ms_max: int, filter_bytes: int) -> None:
        self._epoch = epoch
        self._now_ms = now_ms
        self._timestamp_ms_max = timestamp_ms_max
        self._filter_bytes = filter_bytes
        self._salt = 0
        self._synced_position = 0
        self.position = 0
        """Where in the segment the next chunk goes."""
        self.buffers: list[Buffer] = []
        self.chunks: list[SealedChunk] = []

    def start_segment(self, log_id: int, partition: int, first_offset: int) -> int:
        """Begin with the header of a new segment; gives its salt."""
        self._salt = secrets.randbits(32)
        header = SegmentHeader(log_id, partition, first_offset, self._now_ms, self._epoch, self._salt)
        self.buffers.append(encode_segment_header(header))
        self.position = len(self.buffers[0])
        return self._salt

    def continue_segment(self, position: int, salt: int, synced_position: int) -> None:
        """Begin behind what a segment holds."""
        self.position = position
        self._salt = salt
        self._synced_position = synced_position

    def add_gathered(self, gathering: Gathering, offsets: Mapping[bytes, int]) -> None:
        """Seal gathered entries, with offsets that were stored meanwhile."""
        self._add(ChunkType.USER, gathering, offsets)

    def add_delta(self, first_offset: int, offsets: Mapping[bytes, int]) -> None:
        """Seal stored offsets for which no entries came along."""
        self._add(ChunkType.DELTA, Gathering(first_offset, 0), offsets)

    def add_snapshot(
        self,
        first_offset: int,
        publishers: Mapping[bytes, tuple[int, int]],
        offsets: Mapping[bytes, tuple[int, int]],
    ) -> None:
        """Seal all sequences and stored offsets."""
        data = encode_snapshot(publishers, offsets)
        gathering = Gathering(first_offset, len(data))
        gathering.put(data)
        self._add(ChunkType.SNAPSHOT, gathering, {})

    def _add(self, type: ChunkType, gathering: Gathering, offsets: Mapping[bytes, int]) -> None:
        total = seal_chunk(
            gathering.buffer,
            gathering.end,
            type=type,
            entries=gathering.entries,
            records=gathering.records,
            timestamp_ms=self._now_ms,
            epoch=self._epoch,
            first_offset=gathering.first_offset,
            bloom=self._bloom(gathering.filter_values),
            publishers=gathering.publishers,
            offsets=offsets,
            synced_position=self._synced_position,
            timestamp_ms_max=self._timestamp_ms_max,
            salt=self._salt,
        )
        del gathering.buffer[total:]  # the tail may keep it for long
        view = memoryview(gathering.buffer)
        self.buffers.append(view)
        self.chunks.append(
            SealedChunk(
                type,
                gathering.first_offset,
                gathering.records,
                self.position,
                self._timestamp_ms_max,
                gathering.end,
                view,
                gathering.publishers,
                offsets,
                gathering.waiting,
            )
        )
        self.position += total

    def _bloom(self, filter_values: set[bytes] | None) -> bytes:
        if filter_values is None:
            return b""
        bloom = bytearray(self._filter_bytes)
        for value in filter_values:
            bloom_add(bloom, value)
        return bytes(bloom)

"""Reading a segment chunk by chunk with everything checked, and finding chunks behind damage."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from headwater.encoding.chunk import (
    CHUNK_HEADER_BYTES,
    ChunkHeader,
    Trailer,
    check_data,
    read_chunk,
    read_header,
    read_trailer,
)
from headwater.errors import LogCorrupt, MalformedChunk
from headwater.log.files import Files
from headwater.log.index import IndexEntry

__all__ = ["ScannedChunk", "SegmentScan"]

_WINDOW_BYTES = 1 << 20
_CHUNK_START = re.compile(rb"\x50[\x00-\x02]")


class ScannedChunk:
    """A valid chunk and where it lies; its data stands in `buffer` from `data_start` to `data_end`."""

    __slots__ = ("buffer", "data_end", "data_start", "header", "position", "trailer")

    def __init__(
        self, position: int, buffer: bytes, start: int, header: ChunkHeader, trailer: Trailer
    ) -> None:
        self.position = position
        self.buffer = buffer
        self.header = header
        self.trailer = trailer
        self.data_start = start + CHUNK_HEADER_BYTES
        self.data_end = self.data_start + header.data_bytes

    @property
    def end(self) -> int:
        """The position behind it."""
        return self.position + self.header.total_bytes

    @property
    def end_offset(self) -> int:
        """The offset behind its last record."""
        return self.header.first_offset + self.header.records

    @property
    def data(self) -> memoryview:
        """Its data."""
        return memoryview(self.buffer)[self.data_start : self.data_end]

    def index_entry(self) -> IndexEntry:
        """What the index says of it."""
        header = self.header
        return IndexEntry(
            header.first_offset, self.trailer.timestamp_ms_max, header.epoch, self.position, header.type
        )


class SegmentScan:
    """An open segment, read in large pieces; without a salt only the CRC of data can be checked."""

    def __init__(self, files: Files, fd: int, size: int, salt: int | None) -> None:
        self._files = files
        self._fd = fd
        self._window = b""
        self._window_start = 0
        self.size = size
        self.salt = salt

    def chunk(self, position: int) -> ScannedChunk:
        """The chunk at a position; raises `MalformedChunk` unless it is whole and valid."""
        start = self._load(position, CHUNK_HEADER_BYTES)
        total = read_header(self._window, start).total_bytes
        if total > self.size - position:
            raise MalformedChunk(position, "it reaches beyond the end of the segment")
        start = self._load(position, total)
        header, trailer = read_chunk(self._window, start, self.salt or 0)
        return ScannedChunk(position, self._window, start, header, trailer)

    def chunks(self, position: int, path: Path, offset: int) -> Iterator[ScannedChunk]:
        """All chunks from a position, and the offset due there, to the end; raises `LogCorrupt` at the first damage."""
        while position < self.size:
            try:
                chunk = self.chunk(position)
            except MalformedChunk as error:
                raise LogCorrupt(path, position, error.reason) from error
            if chunk.header.first_offset != offset:
                raise LogCorrupt(path, position, f"offset {chunk.header.first_offset} where {offset} is due")
            yield chunk
            position, offset = chunk.end, chunk.end_offset

    def synced_position_behind(self, position: int) -> int:
        """The highest synced position that valid chunks behind a position tell; 0 if there are none."""
        highest = 0
        for base in range(position, self.size, _WINDOW_BYTES):
            data = self._files.read(self._fd, base, _WINDOW_BYTES + 1)
            for match in _CHUNK_START.finditer(data):
                candidate = base + match.start()
                synced = self._synced_position_at(candidate)
                if synced <= candidate:
                    highest = max(highest, synced)
        return highest

    def _synced_position_at(self, position: int) -> int:
        try:
            head = self._files.read(self._fd, position, CHUNK_HEADER_BYTES)
            header = read_header(head, 0)
            if header.total_bytes > self.size - position:
                return 0
            whole = self._files.read(self._fd, position, header.total_bytes)
            if self.salt is not None:
                return read_trailer(whole, 0, header, self.salt).synced_position
            if not header.data_bytes:
                return 0
            check_data(whole, 0, header)
            return int.from_bytes(whole[-20:-12], "big")
        except MalformedChunk:
            return 0

    def _load(self, position: int, count: int) -> int:
        """Have `count` bytes from a position in the window, fewer at the end of the file; gives where they begin."""
        start = position - self._window_start
        if start < 0 or start + count > len(self._window):
            self._window = self._files.read(self._fd, position, max(count, _WINDOW_BYTES))
            self._window_start = position
            start = 0
        return start

"""A chunk where it lies in its segment, for who sends it from the file without reading it."""

from __future__ import annotations

from pathlib import Path

from headwater.encoding.chunk import ChunkHeader
from headwater.log.open_files import OpenFiles

__all__ = ["FileSpan"]


class FileSpan:
    """Header and data of one user chunk, as a Deliver carries them; `release` lets go of the file."""

    __slots__ = ("_open_files", "_path", "fd", "header", "position")

    def __init__(self, open_files: OpenFiles, path: Path, position: int, header: ChunkHeader) -> None:
        self._open_files = open_files
        self._path = path
        self.fd = open_files.acquire(path)
        self.position = position
        self.header = header

    @property
    def byte_count(self) -> int:
        """How many bytes they are."""
        return self.header.deliver_bytes

    def release(self) -> None:
        """The bytes are sent, or never will be."""
        self._open_files.release(self._path)

"""Syncs of segments: one that failed spoils its segment, however many succeed after it."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

from headwater.log.commit_form import NativeWrite
from headwater.log.files import Buffer, Files

__all__ = ["SegmentSyncs"]


class SegmentSyncs:
    """Remembers failures, for after one the system may call pages clean that the disk does not hold.

    Threads share it: a failure is noted before anybody else can see a later sync of the same file succeed.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._spoilt: set[Path] = set()
        self._under_way: dict[Path, NativeWrite] = {}

    def write_and_sync(self, path: Path, fd: int, position: int, buffers: Sequence[Buffer]) -> int:
        """As `Files.write_and_sync`, with a sync."""
        return self._noted(path, self._files.write_and_sync(fd, position, buffers, sync=True))

    def began(self, path: Path, write: NativeWrite) -> None:
        """A write with a sync was submitted, the only one of this segment."""
        self._under_way[path] = write

    def ended(self, path: Path) -> int:
        """It is done; gives what came of it, as `write_and_sync` does."""
        return self._noted(path, self._under_way.pop(path).result)

    def sync(self, path: Path, fd: int) -> None:
        """Sync an open segment; raises `OSError` if this or an earlier sync of it failed."""
        try:
            self._files.sync(fd)
        except OSError:
            self._spoilt.add(path)
            raise
        if self._is_spoilt(path):
            raise OSError(errno.EIO, "an earlier sync of it failed", str(path))

    def sync_closed(self, path: Path) -> None:
        """The same for a segment that is not open."""
        fd = self._files.open(path, write=True)
        try:
            self.sync(path, fd)
        finally:
            self._files.close(fd)

    def _noted(self, path: Path, code: int) -> int:
        if code < 0:
            self._spoilt.add(path)
        return code or (-errno.EIO if path in self._spoilt else 0)

    def _is_spoilt(self, path: Path) -> bool:
        write = self._under_way.get(path)
        return path in self._spoilt or (write is not None and write.is_done and write.result < 0)

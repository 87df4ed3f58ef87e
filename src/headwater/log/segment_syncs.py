"""Syncs of segments: one that failed spoils its segment, however many succeed after it."""

from __future__ import annotations

import errno
from pathlib import Path

from headwater.log.files import Files

__all__ = ["SegmentSyncs"]


class SegmentSyncs:
    """Remembers failures, for after one the system may call pages clean that the disk does not hold.

    Threads share it: a failure is noted before anybody else can see a later sync of the same file succeed.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._spoilt: set[Path] = set()

    def checked(self, path: Path, code: int) -> int:
        """The result of a write with a sync, which is a failed sync after one that failed."""
        if code < 0:
            self._spoilt.add(path)
        return code or (-errno.EIO if path in self._spoilt else 0)

    def sync(self, path: Path, fd: int) -> None:
        """Sync an open segment; raises `OSError` if this or an earlier sync of it failed."""
        try:
            self._files.sync(fd)
        except OSError:
            self._spoilt.add(path)
            raise
        if path in self._spoilt:
            raise OSError(errno.EIO, "an earlier sync of it failed", str(path))

    def sync_closed(self, path: Path) -> None:
        """The same for a segment that is not open."""
        fd = self._files.open(path, write=True)
        try:
            self.sync(path, fd)
        finally:
            self._files.close(fd)

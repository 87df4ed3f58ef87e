"""Cold pages: a thread fetches what a reader needs next, so that the loop never waits for the disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headwater.log.files import Files
from headwater.log.open_files import OpenFiles

__all__ = ["READ_AHEAD_BYTES", "ReadAhead"]

READ_AHEAD_BYTES = 2 << 20


class ReadAhead:
    """Brings a stretch of a segment into memory; what fails shows when the reader tries again."""

    def __init__(
        self, files: Files, open_files: OpenFiles, path: Path, position: int, on_done: Callable[[], None]
    ) -> None:
        self._files = files
        self._open_files = open_files
        self._path = path
        self._position = position
        self._on_done = on_done
        self._fd = open_files.acquire(path)

    def run(self) -> None:
        """Read it, and let go of it; on a thread."""
        try:
            self._files.read(self._fd, self._position, READ_AHEAD_BYTES)
        except OSError:
            return

    def apply(self) -> None:
        """Tell the reader."""
        self._open_files.release(self._path)
        self._on_done()

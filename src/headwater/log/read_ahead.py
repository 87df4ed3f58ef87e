"""Cold pages: a thread fetches what a reader needs next, so that the loop never waits for the disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headwater.log.files import Files
from headwater.log.open_files import OpenFiles

__all__ = ["READ_AHEAD_BYTES", "ReadAhead"]

READ_AHEAD_BYTES = 2 << 20
_STEP_BYTES = 256 * 1024


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
        """Read it, let go of it, and have the system begin with what follows; on a thread."""
        end = self._position + READ_AHEAD_BYTES
        step = memoryview(bytearray(_STEP_BYTES))
        try:
            for position in range(self._position, end, _STEP_BYTES):
                if self._files.read_into(self._fd, step, position) < _STEP_BYTES:
                    return
            self._files.expect_reads(self._fd, end, READ_AHEAD_BYTES)
        except OSError:
            return

    def apply(self) -> None:
        """Tell the reader."""
        self._open_files.release(self._path)
        self._on_done()

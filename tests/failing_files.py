"""A disk that fails when a test says so."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.log.files import Buffer, Files

__all__ = ["FailingFiles"]


class FailingFiles(Files):
    """A real disk on which the next write, or the next sync, of a segment fails."""

    def __init__(self) -> None:
        self.write_error = 0
        self.sync_error = 0

    def write_and_sync(self, fd: int, position: int, buffers: Sequence[Buffer], *, sync: bool) -> int:
        if self.write_error:
            code, self.write_error = self.write_error, 0
            half = b"".join(buffers)
            super().write_and_sync(fd, position, [half[: len(half) // 2]], sync=False)
            return code
        code = super().write_and_sync(fd, position, buffers, sync=sync and not self.sync_error)
        if sync and self.sync_error:
            code, self.sync_error = -self.sync_error, 0
        return code

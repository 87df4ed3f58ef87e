"""A disk that is slow when a test says so."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from headwater.log.files import Buffer, Files

__all__ = ["DelayedFiles"]

GO_ON_MAX_S = 30.0


class DelayedFiles(Files):
    """Writes to segments end when they are let go."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.entered = threading.Event()
        self.go_on.set()

    def write_and_sync(self, fd: int, position: int, buffers: Sequence[Buffer], *, sync: bool) -> int:
        code = super().write_and_sync(fd, position, buffers, sync=sync)
        if sync:
            self.entered.set()
            assert self.go_on.wait(GO_ON_MAX_S)
        return code

    def hold_back(self) -> None:
        """From now on writes wait; `entered` is set when one does."""
        self.go_on.clear()
        self.entered.clear()

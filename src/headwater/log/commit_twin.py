"""What `_commit_kernel.py` does, in Python: for trees without compiled kernels, and to hold the kernel to."""

from __future__ import annotations

import contextlib
import errno
import os
from collections import deque
from collections.abc import Sequence
from queue import SimpleQueue
from typing import TypeAlias

__all__ = ["WriteQueue", "write_and_sync"]

_Buffer: TypeAlias = bytes | bytearray | memoryview

_Write: TypeAlias = tuple[int, int, list[memoryview], bool]

_VECTORS_MAX = 1024
_STOP = -1


def write_and_sync(fd: int, position: int, buffers: Sequence[_Buffer], sync: bool) -> int:
    """Write the buffers one behind the other from `position`, and sync if asked.

    Gives 0, the errno of a failed write, or the negative errno of a failed fdatasync, which is never tried again.
    """
    result = _write_all(fd, position, buffers)
    if result == 0 and sync:
        try:
            os.fdatasync(fd)
        except OSError as error:
            result = -(error.errno or errno.EIO)
    return result


class WriteQueue:
    """Jobs on their way to threads and back; see the kernel."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[tuple[int, _Write | None]] = SimpleQueue()
        self._done: deque[tuple[int, bool]] = deque()
        self.done_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def put_write(self, number: int, fd: int, position: int, buffers: Sequence[_Buffer], sync: bool) -> None:
        """Hand out a write, under a number of the caller's."""
        # Views keep each buffer in place, and refuse what is none.
        views = [memoryview(buffer) for buffer in buffers]
        self._asked.put((number, (fd, position, views, sync)))

    def put_call(self, number: int) -> None:
        """Hand out what a thread does in Python."""
        self._asked.put((number, None))

    def put_stop(self) -> None:
        """End one thread, when all before is done."""
        self._asked.put((_STOP, None))

    def take(self) -> tuple[int, int] | None:
        """Carry out writes until there is something else to do: None at the end, else a number and a result."""
        while True:
            number, write = self._asked.get()
            if number == _STOP:
                return None
            if write is None:
                return number, 0
            result = write_and_sync(*write)
            del write
            if result:
                return number, result
            self._put_done(number, is_write=True)

    def put_done(self, number: int) -> None:
        """What `take` gave was dealt with; so may be what was never put."""
        self._put_done(number, is_write=False)

    def collect(self) -> list[tuple[int, bool]]:
        """The numbers of what is done, and of each whether it was a write that succeeded inside `take`."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.done_fd)
        found = []
        while self._done:
            found.append(self._done.popleft())
        return found

    def close(self) -> None:
        """Give the descriptor back; no thread may be inside `take` any more."""
        os.close(self.done_fd)

    def _put_done(self, number: int, *, is_write: bool) -> None:
        self._done.append((number, is_write))
        os.eventfd_write(self.done_fd, 1)


def _write_all(fd: int, position: int, buffers: Sequence[_Buffer]) -> int:
    # What is empty or written is not offered, so that a write of no bytes can only mean trouble.
    left = [memoryview(buffer).cast("B") for buffer in buffers if memoryview(buffer).nbytes]
    if left and position < 0:
        return errno.EINVAL  # os.pwritev would take -1 for the place where the file stands
    first = 0
    while first < len(left):
        try:
            written = os.pwritev(fd, left[first : first + _VECTORS_MAX], position)
        except OSError as error:
            return error.errno or errno.EIO
        if written == 0:
            return errno.EIO
        position += written
        while written > 0 and written >= len(left[first]):
            written -= len(left[first])
            first += 1
        if written > 0:
            left[first] = left[first][written:]
    return 0

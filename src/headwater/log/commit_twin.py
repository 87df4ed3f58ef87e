"""What `_commit_kernel.py` does, in Python: for trees without compiled kernels, and to hold the kernel to."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import TypeAlias

__all__ = ["write_and_sync"]

_Buffer: TypeAlias = bytes | bytearray | memoryview

_VECTORS_MAX = 1024


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

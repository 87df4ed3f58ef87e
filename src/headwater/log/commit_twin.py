"""What `_commit_kernel.py` does, in Python: for trees without compiled kernels, and to hold the kernel to."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Sequence
from typing import ClassVar, TypeAlias

__all__ = ["NativeWrite", "serve", "write_and_sync"]

_Buffer: TypeAlias = bytes | bytearray | memoryview

_VECTORS_MAX = 1024
_ADDRESS = struct.Struct("@N")


class NativeWrite:
    """As that of the kernel; a process has one interpreter, so the address of an object is its `id`."""

    _submitted: ClassVar[dict[int, NativeWrite]] = {}

    def __init__(self, fd: int, position: int, buffers: Sequence[_Buffer], syncs: bool) -> None:
        self._arguments = (fd, position, list(buffers), syncs)
        self._result: int | None = None

    @property
    def is_done(self) -> bool:
        """Whether there is a result."""
        return self._result is not None

    @property
    def result(self) -> int:
        """What came of it."""
        assert self._result is not None
        return self._result

    def run(self) -> None:
        """Carry it out here."""
        self._result = write_and_sync(*self._arguments)

    def submit(self, queue_fd: int) -> None:
        """Hand it to a thread in `serve` at the other end of this pipe."""
        self._submitted[id(self)] = self
        os.write(queue_fd, _ADDRESS.pack(id(self)))

    @classmethod
    def submitted(cls, address: int) -> NativeWrite:
        """The one that was submitted under this address."""
        return cls._submitted.pop(address)


def serve(queue_fd: int, event_fd: int) -> None:
    """Carry out what is submitted, and count each on the event descriptor, until the pipe is closed."""
    while address := os.read(queue_fd, _ADDRESS.size):
        NativeWrite.submitted(*_ADDRESS.unpack(address)).run()
        os.eventfd_write(event_fd, 1)


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

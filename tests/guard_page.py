"""Memory that ends where nothing may be read: whoever reads a byte too many does not get away with it."""

from __future__ import annotations

import ctypes
import mmap

__all__ = ["GuardedMemory"]

PROT_NONE = 0


class GuardedMemory:
    """Some pages, and one behind them that cannot be touched: a kernel that does so ends the process."""

    def __init__(self, size_bytes: int = 1 << 16) -> None:
        page = mmap.PAGESIZE
        self._end = -(-size_bytes // page) * page
        self._memory = mmap.mmap(-1, self._end + page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(start + self._end), page, PROT_NONE):
            raise OSError(ctypes.get_errno(), "mprotect")

    def placed(self, data: bytes) -> memoryview:
        """The bytes, the last of which is the last that may be read; they are there until others are placed."""
        start = self._end - len(data)
        view = memoryview(self._memory)[start : self._end]
        view[:] = data
        return view

# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The one kernel that is no leaf: write and sync in one call without the GIL. Its twin is `commit_twin.py`."""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.cpython.buffer import PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
    from cython.cimports.libc.errno import EINTR, EIO, errno
    from cython.cimports.libc.stdlib import calloc, free
    from cython.cimports.posix.uio import iovec, pwritev
    from cython.cimports.posix.unistd import fdatasync
else:
    raise ImportError(
        "this kernel calls libc and runs compiled alone; headwater.log.commit_twin does the same"
    )

__all__ = ["COMPILED", "write_and_sync"]

COMPILED = cython.compiled


def write_and_sync(fd: cython.int, position: cython.longlong, buffers: object, sync: cython.bint) -> int:
    """Write the buffers one behind the other from `position`, and sync if asked.

    Gives 0, the errno of a failed write, or the negative errno of a failed fdatasync, which is never tried again.
    """
    held: list = list(buffers)
    count: cython.Py_ssize_t = len(held)
    exported: cython.Py_ssize_t = 0
    result: cython.int = 0
    # The exports keep each buffer in place: one that somebody grows meanwhile raises in that somebody's hands.
    views: cython.pointer(cython.Py_buffer) = cython.cast(
        cython.pointer(cython.Py_buffer), calloc(count + 1, cython.sizeof(cython.Py_buffer))
    )
    vectors: cython.pointer(iovec) = cython.cast(
        cython.pointer(iovec), calloc(count + 1, cython.sizeof(iovec))
    )
    try:
        if views == cython.NULL or vectors == cython.NULL:
            raise MemoryError(f"no memory for {count} buffers")
        while exported < count:
            PyObject_GetBuffer(held[exported], cython.address(views[exported]), PyBUF_SIMPLE)
            vectors[exported].iov_base = views[exported].buf
            vectors[exported].iov_len = views[exported].len
            exported += 1
        with cython.nogil:
            result = _write_all(fd, position, vectors, count)
            if result == 0 and sync and fdatasync(fd) != 0:
                result = -errno
    finally:
        while exported > 0:
            exported -= 1
            PyBuffer_Release(cython.address(views[exported]))
        free(views)
        free(vectors)
    return result


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _write_all(
    fd: cython.int, position: cython.longlong, vectors: cython.pointer(iovec), count: cython.Py_ssize_t
) -> cython.int:
    first: cython.Py_ssize_t = 0
    while True:
        # What is empty or written is passed over, so that a write of no bytes can only mean trouble.
        while first < count and vectors[first].iov_len == 0:
            first += 1
        if first == count:
            return 0
        written: cython.Py_ssize_t = pwritev(
            fd, cython.address(vectors[first]), min(count - first, 1024), position
        )
        if written < 0:
            if errno == EINTR:
                continue
            return errno
        if written == 0:
            return EIO
        position += written
        first = _advance(vectors, first, written)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _advance(
    vectors: cython.pointer(iovec), first: cython.Py_ssize_t, written: cython.size_t
) -> cython.Py_ssize_t:
    """Takes the written bytes off the vectors; gives the first that has some left."""
    while written > 0 and written >= vectors[first].iov_len:
        written -= vectors[first].iov_len
        vectors[first].iov_len = 0
        first += 1
    if written > 0:
        vectors[first].iov_base = cython.cast(cython.p_char, vectors[first].iov_base) + written
        vectors[first].iov_len -= written
    return first

# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The one kernel that is no leaf: write and sync in one call without the GIL. Its twin is `commit_twin.py`.

A `NativeWrite` that is submitted goes by its address through a pipe to a thread in `serve`, which never takes the GIL:
a loop that is busy keeps neither a commit waiting to begin nor one that has ended waiting to be told.
"""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.cpython.buffer import PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
    from cython.cimports.libc.errno import EINTR, EIO, errno
    from cython.cimports.libc.stdlib import calloc, free
    from cython.cimports.posix.uio import iovec, pwritev
    from cython.cimports.posix.unistd import fdatasync, read, write
else:
    raise ImportError(
        "this kernel calls libc and runs compiled alone; headwater.log.commit_twin does the same"
    )

__all__ = ["COMPILED", "NativeWrite", "serve", "write_and_sync"]

COMPILED = cython.compiled

_Write = cython.struct(
    fd=cython.int,
    syncs=cython.int,
    position=cython.longlong,
    vectors=cython.pointer(iovec),
    count=cython.Py_ssize_t,
    result=cython.int,
)
# One number says whether there is a result and which, so that no thread sees the one without the other.
_PENDING = cython.declare(cython.int, -0x7FFFFFFF)


@cython.final
@cython.cclass
class NativeWrite:
    """Buffers to be written one behind the other from a position, and whether to sync.

    Whoever submits one keeps it until it is done. The result is 0, the errno of a failed write, or the negative errno
    of a failed fdatasync, which is never tried again.
    """

    _write: _Write
    _views: cython.pointer(cython.Py_buffer)
    _exported: cython.Py_ssize_t
    _address: cython.pointer(_Write)

    def __init__(
        self, fd: cython.int, position: cython.longlong, buffers: object, syncs: cython.bint
    ) -> None:
        held: list = list(buffers)
        count: cython.Py_ssize_t = len(held)
        # The exports keep each buffer in place: one that somebody grows meanwhile raises in that somebody's hands.
        self._views = cython.cast(
            cython.pointer(cython.Py_buffer), calloc(count + 1, cython.sizeof(cython.Py_buffer))
        )
        self._write.vectors = cython.cast(cython.pointer(iovec), calloc(count + 1, cython.sizeof(iovec)))
        if self._views == cython.NULL or self._write.vectors == cython.NULL:
            raise MemoryError(f"no memory for {count} buffers")
        self._write.fd = fd
        self._write.syncs = syncs
        self._write.position = position
        self._write.count = count
        self._write.result = _PENDING
        while self._exported < count:
            view: cython.pointer(cython.Py_buffer) = cython.address(self._views[self._exported])
            PyObject_GetBuffer(held[self._exported], view, PyBUF_SIMPLE)
            self._write.vectors[self._exported].iov_base = view.buf
            self._write.vectors[self._exported].iov_len = view.len
            self._exported += 1

    def __dealloc__(self) -> None:
        while self._exported > 0:
            self._exported -= 1
            PyBuffer_Release(cython.address(self._views[self._exported]))
        free(self._views)
        free(self._write.vectors)

    @property
    def is_done(self) -> bool:
        """Whether there is a result."""
        return self._write.result != _PENDING

    @property
    def result(self) -> int:
        """What came of it."""
        return self._write.result

    def run(self) -> None:
        """Carry it out here."""
        with cython.nogil:
            _carry_out(cython.address(self._write))

    def submit(self, queue_fd: cython.int) -> None:
        """Hand it to a thread in `serve` at the other end of this pipe."""
        self._address = cython.address(self._write)
        size: cython.Py_ssize_t = cython.sizeof(cython.p_void)
        sent: cython.Py_ssize_t = 0
        code: cython.int = EINTR
        with cython.nogil:
            while sent != size and code == EINTR:
                sent = write(queue_fd, cython.address(self._address), size)
                code = errno
        if sent != size:
            raise OSError(code, "the threads that write cannot be reached")


def serve(queue_fd: cython.int, event_fd: cython.int) -> None:
    """Carry out what is submitted, and count each on the event descriptor, until the pipe is closed."""
    with cython.nogil:
        _serve(queue_fd, event_fd)


def write_and_sync(fd: cython.int, position: cython.longlong, buffers: object, sync: cython.bint) -> int:
    """Write the buffers one behind the other from `position`, and sync if asked; the result as of `NativeWrite`."""
    native: NativeWrite = NativeWrite(fd, position, buffers, sync)
    native.run()
    return native._write.result


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _serve(queue_fd: cython.int, event_fd: cython.int) -> cython.void:
    one: cython.ulonglong = 1
    submitted: cython.pointer(_Write) = cython.NULL
    size: cython.Py_ssize_t = cython.sizeof(cython.p_void)
    while True:
        received: cython.Py_ssize_t = read(queue_fd, cython.address(submitted), size)
        if received == size:
            _carry_out(submitted)
            # The descriptor is never full: nobody submits that often without collecting.
            write(event_fd, cython.address(one), 8)
        elif received >= 0 or errno != EINTR:
            return


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _carry_out(job: cython.pointer(_Write)) -> cython.void:
    result: cython.int = _write_all(job.fd, job.position, job.vectors, job.count)
    if result == 0 and job.syncs and fdatasync(job.fd) != 0:
        result = -errno
    job.result = result


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

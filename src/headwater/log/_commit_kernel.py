# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The one kernel that is no leaf: it writes and syncs without the GIL. Its twin is `commit_twin.py`."""

from __future__ import annotations

import os

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

__all__ = ["COMPILED", "WriteQueue", "write_and_sync"]

COMPILED = cython.compiled

_Request = cython.struct(
    fd=cython.int,
    position=cython.longlong,
    sync=cython.bint,
    count=cython.Py_ssize_t,
    exported=cython.Py_ssize_t,
    views=cython.pointer(cython.Py_buffer),
    vectors=cython.pointer(iovec),
)
# What goes through the pipes: the number of a job, and the write that it is; NULL for one of Python's.
_Message = cython.struct(number=cython.longlong, request=cython.pointer(_Request))

_STOP = cython.declare(cython.longlong, -1)
_COLLECTED_MAX = cython.declare(cython.Py_ssize_t, 256)


def write_and_sync(fd: cython.int, position: cython.longlong, buffers: object, sync: cython.bint) -> int:
    """Write the buffers one behind the other from `position`, and sync if asked.

    Gives 0, the errno of a failed write, or the negative errno of a failed fdatasync, which is never tried again.
    """
    request: cython.pointer(_Request) = _new_request(fd, position, buffers, sync)
    result: cython.int = 0
    with cython.nogil:
        result = _carry_out(request)
    _free_request(request)
    return result


@cython.cclass
class WriteQueue:
    """Jobs on their way to threads and back, through two pipes: the system does the queueing and the waking.

    A write is carried out inside `take`, whose thread needs the GIL for one that failed alone: to ask for it interrupts
    a busy loop within its turn, which costs more than a small commit.
    """

    _asked_in: cython.int
    _asked_out: cython.int
    _done_in: cython.int
    _done_out: cython.int

    def __cinit__(self) -> None:
        self._asked_out, self._asked_in = os.pipe2(os.O_CLOEXEC)
        self._done_out, self._done_in = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._done_out, False)

    @property
    def done_fd(self) -> int:
        """Readable while something is done and was not collected."""
        return self._done_out

    def put_write(
        self,
        number: cython.longlong,
        fd: cython.int,
        position: cython.longlong,
        buffers: object,
        sync: cython.bint,
    ) -> None:
        """Hand out a write, under a number of the caller's."""
        _put(self._asked_in, number, _new_request(fd, position, buffers, sync))

    def put_call(self, number: cython.longlong) -> None:
        """Hand out what a thread does in Python."""
        _put(self._asked_in, number, cython.NULL)

    def put_stop(self) -> None:
        """End one thread, when all before is done."""
        _put(self._asked_in, _STOP, cython.NULL)

    def take(self) -> tuple[int, int] | None:
        """Carry out writes until there is something to do in Python: None at the end, else a number and a result.

        The result is that of `write_and_sync` if it failed, and 0 for a call. Both want `put_done`.
        """
        asked = cython.declare(_Message)
        result: cython.int = 0
        with cython.nogil:
            result = _serve(self._asked_out, self._done_in, cython.address(asked))
        if asked.request != cython.NULL:
            _free_request(asked.request)
        return None if asked.number == _STOP else (asked.number, result)

    def put_done(self, number: cython.longlong) -> None:
        """What `take` gave was dealt with; so may be what was never put."""
        _put(self._done_in, number, cython.NULL)

    def collect(self) -> list[tuple[int, bool]]:
        """The numbers of what is done, and of each whether it was a write that succeeded inside `take`."""
        found: list = []
        done = cython.declare(_Message[256])
        while True:
            size: cython.Py_ssize_t = read(self._done_out, done, cython.sizeof(_Message) * _COLLECTED_MAX)
            if size <= 0:
                if size < 0 and errno == EINTR:
                    continue
                return found
            count: cython.Py_ssize_t = size // cython.sizeof(_Message)
            i: cython.Py_ssize_t = 0
            while i < count:
                found.append((done[i].number, done[i].request != cython.NULL))
                if done[i].request != cython.NULL:
                    _free_request(done[i].request)
                i += 1
            if count < _COLLECTED_MAX:
                return found

    def close(self) -> None:
        """Give the descriptors back; no thread may be inside `take` any more."""
        for fd in (self._asked_in, self._asked_out, self._done_in, self._done_out):
            os.close(fd)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _serve(asked_out: cython.int, done_in: cython.int, asked: cython.pointer(_Message)) -> cython.int:
    """Carry out writes until Python is wanted, for `asked` and this result."""
    while True:
        size: cython.Py_ssize_t = read(asked_out, asked, cython.sizeof(_Message))
        if size < 0 and errno == EINTR:
            continue
        if size != cython.sizeof(_Message):
            asked.number = _STOP
            asked.request = cython.NULL
        if asked.request == cython.NULL:
            return 0
        result: cython.int = _carry_out(asked.request)
        if result != 0:
            return result
        _send(done_in, asked)


@cython.cfunc
def _put(pipe_in: cython.int, number: cython.longlong, request: cython.pointer(_Request)) -> cython.bint:
    message = cython.declare(_Message)
    message.number = number
    message.request = request
    with cython.nogil:
        _send(pipe_in, cython.address(message))
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _send(pipe_in: cython.int, message: cython.pointer(_Message)) -> cython.void:
    # A pipe takes a message of this size as a whole, or has the thread wait.
    while write(pipe_in, message, cython.sizeof(_Message)) < 0:
        if errno != EINTR:
            return


@cython.cfunc
def _new_request(
    fd: cython.int, position: cython.longlong, buffers: object, sync: cython.bint
) -> cython.pointer(_Request):
    """A request with its buffers exported: they stay in place, and whoever grows one meanwhile gets the error."""
    held: list = list(buffers)
    count: cython.Py_ssize_t = len(held)
    request: cython.pointer(_Request) = cython.cast(
        cython.pointer(_Request), calloc(1, cython.sizeof(_Request))
    )
    if request == cython.NULL:
        raise MemoryError("no memory for a write")
    request.fd = fd
    request.position = position
    request.sync = sync
    request.count = count
    request.views = cython.cast(
        cython.pointer(cython.Py_buffer), calloc(count + 1, cython.sizeof(cython.Py_buffer))
    )
    request.vectors = cython.cast(cython.pointer(iovec), calloc(count + 1, cython.sizeof(iovec)))
    try:
        if request.views == cython.NULL or request.vectors == cython.NULL:
            raise MemoryError(f"no memory for {count} buffers")
        while request.exported < count:
            view: cython.pointer(cython.Py_buffer) = cython.address(request.views[request.exported])
            PyObject_GetBuffer(held[request.exported], view, PyBUF_SIMPLE)
            request.vectors[request.exported].iov_base = view.buf
            request.vectors[request.exported].iov_len = view.len
            request.exported += 1
    except BaseException:
        _free_request(request)
        raise
    return request


@cython.cfunc
def _free_request(request: cython.pointer(_Request)) -> cython.bint:
    while request.exported > 0:
        request.exported -= 1
        PyBuffer_Release(cython.address(request.views[request.exported]))
    free(request.views)
    free(request.vectors)
    free(request)
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _carry_out(request: cython.pointer(_Request)) -> cython.int:
    result: cython.int = _write_all(request.fd, request.position, request.vectors, request.count)
    if result == 0 and request.sync and fdatasync(request.fd) != 0:
        return -errno
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

"""The commit kernel and its Python twin write, sync and signal to the same bytes and the same results."""

from __future__ import annotations

import errno
import os
import resource
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest

from headwater.log import _commit_kernel, commit_twin

Write: TypeAlias = Callable[[int, int, Sequence[bytes | bytearray | memoryview], bool], int]


@pytest.fixture(params=[_commit_kernel.write_and_sync, commit_twin.write_and_sync], ids=["kernel", "twin"])
def write_and_sync(request: pytest.FixtureRequest) -> Write:
    write: Write = request.param
    return write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "segment"


@pytest.fixture
def fd(path: Path) -> Iterator[int]:
    number = os.open(path, os.O_RDWR | os.O_CREAT)
    yield number
    os.close(number)


@pytest.fixture
def file_bytes_max() -> Iterator[int]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    yield 10_000
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_the_kernel_is_compiled() -> None:
    assert _commit_kernel.COMPILED


@pytest.mark.parametrize("sync", [True, False])
def test_buffers_of_every_kind_are_written_in_order(
    write_and_sync: Write, fd: int, path: Path, sync: bool
) -> None:
    assert write_and_sync(fd, 0, [b"one ", bytearray(b"two "), memoryview(b"a three")[2:]], sync) == 0
    assert path.read_bytes() == b"one two three"


def test_writing_starts_at_the_position(write_and_sync: Write, fd: int, path: Path) -> None:
    path.write_bytes(b"0123456789")
    assert write_and_sync(fd, 3, [b"ab", b"c"], True) == 0
    assert path.read_bytes() == b"012abc6789"


def test_more_buffers_than_one_call_takes_are_written(write_and_sync: Write, fd: int, path: Path) -> None:
    buffers = [bytes([i % 251]) * (i % 7) for i in range(5_000)]
    assert write_and_sync(fd, 0, buffers, False) == 0
    assert path.read_bytes() == b"".join(buffers)


@pytest.mark.parametrize("buffers", [[], [b""], [b""] * 3_000])
def test_nothing_to_write_is_no_failure(
    write_and_sync: Write, fd: int, path: Path, buffers: list[bytes]
) -> None:
    assert write_and_sync(fd, 5, buffers, True) == 0
    assert path.read_bytes() == b""


def test_empty_buffers_between_others_are_passed_over(write_and_sync: Write, fd: int, path: Path) -> None:
    assert write_and_sync(fd, 0, [b"", b"a", b"", b"", b"b", b""] * 1_000, True) == 0
    assert path.read_bytes() == b"ab" * 1_000


def test_a_closed_descriptor_is_a_failed_write(write_and_sync: Write, fd: int) -> None:
    closed = os.dup(fd)
    os.close(closed)
    assert write_and_sync(closed, 0, [b"a"], True) == errno.EBADF


def test_a_closed_descriptor_with_nothing_to_write_is_a_failed_sync(write_and_sync: Write, fd: int) -> None:
    closed = os.dup(fd)
    os.close(closed)
    assert write_and_sync(closed, 0, [], True) == -errno.EBADF


def test_a_full_disk_is_a_failed_write(write_and_sync: Write) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        assert write_and_sync(full, 0, [b"a" * 100], True) == errno.ENOSPC
    finally:
        os.close(full)


def test_a_partial_write_goes_on_until_it_fails(
    write_and_sync: Write, fd: int, path: Path, file_bytes_max: int
) -> None:
    buffers = [bytes([i]) * 3_000 for i in range(5)]
    assert write_and_sync(fd, 0, buffers, True) == errno.EFBIG
    assert path.read_bytes() == b"".join(buffers)[:file_bytes_max]


def test_what_cannot_be_synced_gives_the_negative_errno(write_and_sync: Write) -> None:
    reader, writer = os.pipe()
    try:
        assert write_and_sync(writer, 0, [], True) == -errno.EINVAL
        assert write_and_sync(writer, 0, [], False) == 0
        assert write_and_sync(writer, 0, [b"a"], True) == errno.ESPIPE
    finally:
        os.close(reader)
        os.close(writer)


def test_a_negative_position_is_a_failed_write(write_and_sync: Write, fd: int) -> None:
    assert write_and_sync(fd, -1, [b"a"], True) == errno.EINVAL


def test_what_is_no_buffer_is_refused_before_anything_is_written(
    write_and_sync: Write, fd: int, path: Path
) -> None:
    buffers: list[bytes] = [b"a", "b"]  # type: ignore[list-item]
    with pytest.raises(TypeError):
        write_and_sync(fd, 0, buffers, True)
    assert path.read_bytes() == b""


def test_buffers_are_let_go_after_the_call(write_and_sync: Write, fd: int) -> None:
    buffer = bytearray(b"abc")
    write_and_sync(fd, 0, [buffer, buffer], True)
    buffer.extend(b"it may grow again")


@pytest.fixture(params=[_commit_kernel, commit_twin], ids=["kernel", "twin"])
def queue(request: pytest.FixtureRequest) -> Iterator[commit_twin.WriteQueue]:
    made: commit_twin.WriteQueue = request.param.WriteQueue()
    yield made
    made.close()


def readable(descriptor: int, wait_ms: int = 0) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(wait_ms))


def test_a_queue_carries_out_writes_and_gives_all_else_to_its_thread(
    queue: commit_twin.WriteQueue, fd: int, path: Path
) -> None:
    queue.put_write(1, fd, 0, [b"one", bytearray(b"two")], True)
    queue.put_call(2)
    queue.put_write(3, fd, 6, [b"three"], False)
    queue.put_stop()
    assert not readable(queue.done_fd)
    assert queue.take() == (2, 0)
    queue.put_done(2)
    assert queue.take() is None
    assert path.read_bytes() == b"onetwothree"
    assert readable(queue.done_fd)
    assert queue.collect() == [(1, True), (2, False), (3, True)]
    assert queue.collect() == []
    assert not readable(queue.done_fd)


def test_a_queue_gives_a_failed_write_or_sync_to_its_thread(queue: commit_twin.WriteQueue) -> None:
    reader, writer = os.pipe()
    queue.put_write(1, writer, 0, [b"a"], True)
    queue.put_write(2, writer, 0, [], True)
    assert queue.take() == (1, errno.ESPIPE)
    assert queue.take() == (2, -errno.EINVAL)
    queue.put_done(1)
    assert queue.collect() == [(1, False)]
    os.close(reader)
    os.close(writer)


def test_a_queue_keeps_buffers_in_place_until_they_are_collected(
    queue: commit_twin.WriteQueue, fd: int
) -> None:
    buffer = bytearray(b"abc")
    queue.put_write(1, fd, 0, [buffer], True)
    with pytest.raises(BufferError):
        buffer.extend(b"may not move")
    queue.put_stop()
    assert queue.take() is None
    assert queue.collect() == [(1, True)]
    buffer.extend(b"it may grow again")


def test_a_queue_takes_no_write_without_buffers(queue: commit_twin.WriteQueue, fd: int) -> None:
    with pytest.raises(TypeError):
        queue.put_write(1, fd, 0, [b"a", "b"], True)  # type: ignore[list-item]
    queue.put_stop()
    assert queue.take() is None
    assert queue.collect() == []


def test_threads_of_a_queue_share_its_writes(queue: commit_twin.WriteQueue, fd: int, path: Path) -> None:
    threads = [threading.Thread(target=queue.take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(1_000):
        queue.put_write(number, fd, 8 * number, [number.to_bytes(8, "big")], False)
    for _ in threads:
        queue.put_stop()
    for thread in threads:
        thread.join()
    assert sorted(queue.collect()) == [(number, True) for number in range(1_000)]
    assert path.read_bytes() == b"".join(number.to_bytes(8, "big") for number in range(1_000))


def test_a_thread_of_the_kernel_needs_no_interpreter(fd: int) -> None:
    """While this thread holds on to the interpreter, a write is asked for, carried out and reported."""
    queue = _commit_kernel.WriteQueue()
    thread = threading.Thread(target=queue.take)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(60)
    try:
        thread.start()
        queue.put_write(1, fd, 0, [b"x"], True)
        assert readable(queue.done_fd, 30_000), "the thread has come to wait inside the kernel"
        queue.put_write(2, fd, 1, [b"y"], True)
        found: list[tuple[int, bool]] = []
        until = time.monotonic() + 30
        while len(found) < 2 and time.monotonic() < until:
            found += queue.collect()
        assert found == [(1, True), (2, True)]
    finally:
        sys.setswitchinterval(interval)
        queue.put_stop()
        thread.join()
        queue.close()


def test_other_threads_run_while_the_kernel_writes(fd: int) -> None:
    buffers = [bytes(1 << 20)] * 64
    span: list[float] = []

    def commit() -> None:
        span.append(time.perf_counter())
        _commit_kernel.write_and_sync(fd, 0, buffers, True)
        span.append(time.perf_counter())

    thread = threading.Thread(target=commit)
    thread.start()
    seen = []
    while thread.is_alive():
        seen.append(time.perf_counter())
    middle = (span[0] + span[1]) / 2
    quarter = (span[1] - span[0]) / 4
    assert any(abs(moment - middle) < quarter for moment in seen)

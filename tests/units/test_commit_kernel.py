"""The commit kernel and its Python twin write, sync and signal to the same bytes and the same results."""

from __future__ import annotations

import errno
import os
import resource
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest

from headwater.log import _commit_kernel, commit_twin

Write: TypeAlias = Callable[[int, int, Sequence[bytes | bytearray | memoryview], bool, int], int]


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
def event() -> Iterator[int]:
    number = os.eventfd(0, os.EFD_NONBLOCK)
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
    assert write_and_sync(fd, 0, [b"one ", bytearray(b"two "), memoryview(b"a three")[2:]], sync, -1) == 0
    assert path.read_bytes() == b"one two three"


def test_writing_starts_at_the_position(write_and_sync: Write, fd: int, path: Path) -> None:
    path.write_bytes(b"0123456789")
    assert write_and_sync(fd, 3, [b"ab", b"c"], True, -1) == 0
    assert path.read_bytes() == b"012abc6789"


def test_more_buffers_than_one_call_takes_are_written(write_and_sync: Write, fd: int, path: Path) -> None:
    buffers = [bytes([i % 251]) * (i % 7) for i in range(5_000)]
    assert write_and_sync(fd, 0, buffers, False, -1) == 0
    assert path.read_bytes() == b"".join(buffers)


@pytest.mark.parametrize("buffers", [[], [b""], [b""] * 3_000])
def test_nothing_to_write_is_no_failure(
    write_and_sync: Write, fd: int, path: Path, buffers: list[bytes]
) -> None:
    assert write_and_sync(fd, 5, buffers, True, -1) == 0
    assert path.read_bytes() == b""


def test_empty_buffers_between_others_are_passed_over(write_and_sync: Write, fd: int, path: Path) -> None:
    assert write_and_sync(fd, 0, [b"", b"a", b"", b"", b"b", b""] * 1_000, True, -1) == 0
    assert path.read_bytes() == b"ab" * 1_000


def test_a_closed_descriptor_is_a_failed_write(write_and_sync: Write, fd: int) -> None:
    closed = os.dup(fd)
    os.close(closed)
    assert write_and_sync(closed, 0, [b"a"], True, -1) == errno.EBADF


def test_a_closed_descriptor_with_nothing_to_write_is_a_failed_sync(write_and_sync: Write, fd: int) -> None:
    closed = os.dup(fd)
    os.close(closed)
    assert write_and_sync(closed, 0, [], True, -1) == -errno.EBADF


def test_a_full_disk_is_a_failed_write(write_and_sync: Write) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        assert write_and_sync(full, 0, [b"a" * 100], True, -1) == errno.ENOSPC
    finally:
        os.close(full)


def test_a_partial_write_goes_on_until_it_fails(
    write_and_sync: Write, fd: int, path: Path, file_bytes_max: int
) -> None:
    buffers = [bytes([i]) * 3_000 for i in range(5)]
    assert write_and_sync(fd, 0, buffers, True, -1) == errno.EFBIG
    assert path.read_bytes() == b"".join(buffers)[:file_bytes_max]


def test_what_cannot_be_synced_gives_the_negative_errno(write_and_sync: Write) -> None:
    reader, writer = os.pipe()
    try:
        assert write_and_sync(writer, 0, [], True, -1) == -errno.EINVAL
        assert write_and_sync(writer, 0, [], False, -1) == 0
        assert write_and_sync(writer, 0, [b"a"], True, -1) == errno.ESPIPE
    finally:
        os.close(reader)
        os.close(writer)


def test_a_negative_position_is_a_failed_write(write_and_sync: Write, fd: int) -> None:
    assert write_and_sync(fd, -1, [b"a"], True, -1) == errno.EINVAL


def test_each_call_adds_one_to_the_event(write_and_sync: Write, fd: int, event: int) -> None:
    for _ in range(3):
        assert write_and_sync(fd, 0, [b"a"], True, event) == 0
    assert os.eventfd_read(event) == 3


def test_failures_signal_too(write_and_sync: Write, event: int) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        assert write_and_sync(full, 0, [b"a"], True, event) == errno.ENOSPC
        assert write_and_sync(full, 0, [], True, event) == -errno.EINVAL
    finally:
        os.close(full)
    assert os.eventfd_read(event) == 2


def test_a_full_event_does_not_block_or_fail(write_and_sync: Write, fd: int, event: int) -> None:
    os.eventfd_write(event, 2**64 - 2)
    assert write_and_sync(fd, 0, [b"a"], False, event) == 0


def test_what_is_no_buffer_is_refused_before_anything_is_written(
    write_and_sync: Write, fd: int, path: Path
) -> None:
    buffers: list[bytes] = [b"a", "b"]  # type: ignore[list-item]
    with pytest.raises(TypeError):
        write_and_sync(fd, 0, buffers, True, -1)
    assert path.read_bytes() == b""


def test_buffers_are_let_go_after_the_call(write_and_sync: Write, fd: int) -> None:
    buffer = bytearray(b"abc")
    write_and_sync(fd, 0, [buffer, buffer], True, -1)
    buffer.extend(b"it may grow again")


def test_other_threads_run_while_the_kernel_waits() -> None:
    # A pipe for a file would be refused, so the wait is that of a full event descriptor that blocks.
    event = os.eventfd(2**32 - 1)
    os.eventfd_write(event, 2**64 - 2 - (2**32 - 1))
    results: list[int] = []

    def commit() -> None:
        results.append(_commit_kernel.write_and_sync(-1, 0, [], False, event))

    thread = threading.Thread(target=commit)
    thread.start()
    assert os.eventfd_read(event) == 2**64 - 2
    thread.join(10)
    assert results == [0]
    assert os.eventfd_read(event) == 1
    os.close(event)

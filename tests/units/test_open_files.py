"""Descriptors are shared, bounded, and closed when nobody needs them."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from headwater.log.open_files import OpenFiles
from tests.log_material import DATA, Machine, append, read_all
from tests.simulation.faulty_files import FaultyFiles
from tests.simulation.rig import new_disk


@pytest.fixture
def files() -> FaultyFiles:
    disk = new_disk(1)
    for number in range(5):
        disk.close(disk.open(path(number), create=True))
    return disk


def path(number: int) -> Path:
    return DATA / f"{number}.segment"


def test_a_file_is_opened_once_for_all_that_read_it(files: FaultyFiles) -> None:
    opened = OpenFiles(files, 4)
    assert opened.acquire(path(0)) == opened.acquire(path(0))
    opened.release(path(0))
    opened.release(path(0))
    assert files.open_descriptors() == [path(0)]
    opened.close()
    assert files.open_descriptors() == []


def test_the_longest_unused_are_closed_when_there_are_more_than_the_bound(files: FaultyFiles) -> None:
    opened = OpenFiles(files, 2)
    for number in (0, 1, 0, 2):
        opened.acquire(path(number))
        opened.release(path(number))
    assert files.open_descriptors() == [path(0), path(2)]


def test_what_is_used_stays_open_beyond_the_bound_and_closes_later(files: FaultyFiles) -> None:
    opened = OpenFiles(files, 1)
    held = [opened.acquire(path(number)) for number in range(4)]
    assert [files.size(fd) for fd in held] == [0] * 4
    for number in range(4):
        opened.release(path(number))
    assert len(files.open_descriptors()) == 1


def test_a_file_that_goes_away_is_closed_when_its_last_user_is_done(files: FaultyFiles) -> None:
    opened = OpenFiles(files, 4)
    fd = opened.acquire(path(0))
    opened.forget(path(0))
    assert files.size(fd) == 0
    opened.release(path(0))
    assert files.open_descriptors() == []
    opened.acquire(path(1))
    opened.release(path(1))
    opened.forget(path(1))
    opened.forget(path(2))
    assert files.open_descriptors() == []


def test_when_the_process_has_too_many_unused_ones_make_room(files: FaultyFiles) -> None:
    opened = OpenFiles(files, 10)
    for number in range(3):
        opened.acquire(path(number))
        opened.release(path(number))
    files.open_files_max = 3
    fd = opened.acquire(path(3))
    assert files.open_descriptors() == [path(3)]
    assert files.size(fd) == 0


def test_when_all_are_used_the_system_s_answer_stands(files: FaultyFiles) -> None:
    opened = OpenFiles(files, 10)
    held = opened.acquire(path(0))
    files.open_files_max = 1
    with pytest.raises(OSError, match="Too many open files") as caught:
        opened.acquire(path(1))
    assert caught.value.errno == errno.EMFILE
    assert files.size(held) == 0


def test_one_who_writes_gets_a_descriptor_that_can(
    files: FaultyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = OpenFiles(files, 10)
    with monkeypatch.context() as patched:
        open_ = files.open

        def refuse(name: Path, *, write: bool = False, create: bool = False) -> int:
            if write:
                raise PermissionError(errno.EACCES, "Permission denied", str(name))
            return open_(name, write=write, create=create)

        patched.setattr(files, "open", refuse)
        opened.acquire(path(0))
        with pytest.raises(PermissionError):
            opened.acquire(path(0), write=True)
    fd = opened.acquire(path(0), write=True)
    assert files.write_and_sync(fd, 0, [b"x"], sync=True) == 0
    opened.release(path(0), write=True)
    opened.release(path(0))
    opened.close()
    assert files.open_descriptors() == []


def test_a_store_with_many_partitions_keeps_few_files_open() -> None:
    machine = Machine(open_files_max=4, tail_bytes_max=1)
    partitions = [machine.log(f"log{number}") for number in range(20)]
    idle = len(machine.files.open_descriptors())
    for _ in range(2):
        for partition in partitions:
            append(partition, b"x")
        machine.store.flush()
        assert len(machine.files.open_descriptors()) <= idle + 4 + 1
    assert [len(read_all(partition)) for partition in partitions] == [2] * 20
    machine.store.close()
    assert machine.files.open_descriptors() == []

"""One commit: what it writes, syncs and makes, in which order, and what it says when that fails."""

from __future__ import annotations

import errno

import pytest

from headwater.errors import DiskFull, NoAccess, StorageError, SyncFailed, TooManyOpenFiles, WriteFailed
from headwater.log.commit import Commit, PartitionId
from headwater.log.partition import Partition
from tests.log_material import Answers, Machine, append, read_records

ERRORS: list[tuple[int, type[StorageError]]] = [
    (errno.ENOSPC, DiskFull),
    (errno.EDQUOT, DiskFull),
    (errno.EFBIG, DiskFull),
    (errno.EACCES, NoAccess),
    (errno.EROFS, NoAccess),
    (errno.EMFILE, TooManyOpenFiles),
    (errno.EIO, WriteFailed),
]


@pytest.fixture
def machine() -> Machine:
    return Machine()


def in_flight(machine: Machine, partition: Partition, record: bytes) -> tuple[Commit, Answers]:
    answers = append(partition, record)
    machine.store.dispatch()
    assert partition.in_flight is not None
    return partition.in_flight, answers


def kinds(machine: Machine) -> list[str]:
    assert machine.files.trace is not None
    return [f"{line.split()[1]} {line.rsplit('/', 1)[-1]}" for line in machine.files.trace]


def test_a_partition_is_called_by_the_numbers_of_its_folder() -> None:
    assert str(PartitionId(3, 4)) == "3/4"


def test_the_first_commit_makes_folder_and_segment_and_syncs_all_of_them(machine: Machine) -> None:
    partition = machine.log()
    machine.files.trace = []
    append(partition, b"a")
    machine.store.flush()
    name = "00000000000000000000.segment"
    assert kinds(machine) == [
        "make_folder 0",
        f"create {name}",
        f"write {name}",
        f"sync {name}",
        "sync_folder 0",
        "sync_folder 1",
    ]


def test_a_later_commit_writes_once_and_syncs_once(machine: Machine) -> None:
    partition = machine.log()
    append(partition, b"a")
    machine.store.flush()
    machine.files.trace = []
    append(partition, b"b", b"c")
    machine.store.flush()
    assert [kind.split()[0] for kind in kinds(machine)] == ["write", "sync"]


def test_the_segment_before_is_durable_before_a_new_one_is_made(machine: Machine) -> None:
    partition = machine.log(segment_bytes=1024)
    append(partition, bytes(2000))
    machine.store.flush()
    machine.files.trace = []
    append(partition, b"b")
    machine.store.flush()
    assert kinds(machine)[:3] == [
        "sync 00000000000000000000.segment",
        "make_folder 0",
        "create 00000000000000000001.segment",
    ]


@pytest.mark.parametrize(("code", "error"), ERRORS)
def test_each_failed_write_says_what_it_means_and_the_next_one_is_tried(
    machine: Machine, code: int, error: type[StorageError]
) -> None:
    partition = machine.log()
    append(partition, b"a")
    machine.store.flush()
    machine.files.fail_write("*.segment", code, after_bytes=5)
    _, answers = in_flight(machine, partition, b"b")
    machine.store.flush()
    assert [type(answer) for answer in answers] == [error]
    assert "segment" in str(answers[0])
    assert not partition.read_only
    append(partition, b"c")
    machine.store.flush()
    machine.crash()
    assert read_records(machine.log()) == [b"a", b"c"]


@pytest.mark.parametrize("what", ["make_folder", "create", "write"])
def test_a_first_commit_that_fails_leaves_nothing_behind(machine: Machine, what: str) -> None:
    partition = machine.log()
    machine.files.fail(what, "/data/logs/1/0*", errno.ENOSPC)
    answers = append(partition, b"a")
    machine.store.flush()
    assert [type(answer) for answer in answers] == [DiskFull]
    assert machine.names(partition, ".segment") == []
    append(partition, b"b")
    machine.store.flush()
    assert read_records(partition) == [b"b"]


@pytest.mark.parametrize("what", ["sync", "sync_folder"])
def test_what_could_not_be_synced_makes_the_partition_read_only(machine: Machine, what: str) -> None:
    partition = machine.log()
    machine.files.fail(what, "/data/logs/1/0*", errno.EIO)
    answers = append(partition, b"a")
    machine.store.flush()
    assert [type(answer) for answer in answers] == [SyncFailed]
    assert partition.read_only
    machine.crash()
    partition = machine.log()
    append(partition, b"b")
    machine.store.flush()
    assert read_records(partition)[-1] == b"b"


def test_a_previous_segment_that_cannot_be_synced_stops_the_partition(machine: Machine) -> None:
    partition = machine.log(segment_bytes=1024)
    append(partition, bytes(2000))
    machine.store.flush()
    machine.files.fail_sync("*00.segment")
    answers = append(partition, b"b")
    machine.store.flush()
    assert [type(answer) for answer in answers] == [SyncFailed]
    assert partition.read_only
    assert len(machine.names(partition, ".segment")) == 1


def test_a_cut_that_fails_too_stops_the_partition(machine: Machine) -> None:
    partition = machine.log()
    append(partition, b"a")
    machine.store.flush()
    machine.files.fail_write("*.segment", after_bytes=5)
    machine.files.fail("truncate", "*.segment", errno.EIO)
    answers = append(partition, b"b")
    machine.store.flush()
    assert [type(answer) for answer in answers] == [WriteFailed]
    assert partition.read_only
    assert read_records(partition) == [b"a"]


def test_index_entries_are_written_along_and_a_failure_of_theirs_is_none(machine: Machine) -> None:
    partition = machine.log()
    machine.files.fail("create", "*.index", errno.ENOSPC)
    for number in range(300):
        append(partition, b"%d" % number)
        machine.store.flush()
    index = partition.segments[0].index
    assert index.written > 100
    assert index.count == 301
    assert machine.files.size_of(index.path) == index.written_bytes
    assert len(read_records(partition)) == 300


def test_a_commit_takes_about_as_much_as_was_set_and_the_rest_is_next(machine: Machine) -> None:
    partition = machine.log(chunk_data_bytes_max=100, commit_bytes_max=250)
    answers = append(partition, *[b"%d" % number * 80 for number in range(5)])
    machine.store.dispatch()
    commit = partition.in_flight
    assert commit is not None
    assert [chunk.deliver_bytes - 48 for chunk in commit.chunks] == [8, 84, 84]
    machine.store.flush()
    assert answers == [None] * 5
    assert partition.committed_offset == 5

"""Few dirty partitions are synced each by itself, many through the journal; both confirm, and both fail, alike."""

from __future__ import annotations

import errno

import pytest

from headwater.errors import DiskFull, SyncFailed, TooManyOpenFiles
from headwater.log.partition import Partition
from tests.log_material import DATA, Answers, Machine, append, read_records

MANY = 6


@pytest.fixture
def machine() -> Machine:
    return Machine(direct_files_max=2, journal_bytes_max=4096)


@pytest.fixture
def partitions(machine: Machine) -> list[Partition]:
    """More partitions than are synced directly, each with one event."""
    found = [machine.log(f"log{number}") for number in range(MANY)]
    for partition in found:
        append(partition, b"first")
        machine.store.flush()
    assert journals(machine) == []
    return found


def journals(machine: Machine) -> list[str]:
    return machine.files.names(DATA / "journal")


def append_to_all(partitions: list[Partition], record: bytes) -> list[Answers]:
    return [append(partition, record) for partition in partitions]


def test_as_many_partitions_as_the_bound_go_without_a_journal(
    machine: Machine, partitions: list[Partition]
) -> None:
    append_to_all(partitions[:2], b"x")
    machine.store.flush()
    assert journals(machine) == []


def test_more_partitions_go_through_the_journal_with_one_sync(
    machine: Machine, partitions: list[Partition]
) -> None:
    append_to_all(partitions, b"second")
    machine.store.flush()
    machine.files.trace = []
    answers = append_to_all(partitions, b"third")
    machine.store.flush()
    assert answers == [[None]] * MANY
    syncs = [line for line in machine.files.trace if " sync " in line]
    assert len(syncs) == 1
    assert ".journal" in syncs[0]


def test_what_the_journal_holds_is_there_after_an_abrupt_end(
    machine: Machine, partitions: list[Partition]
) -> None:
    append_to_all(partitions, b"second")
    machine.store.flush()
    assert len(journals(machine)) == 1
    machine.files = machine.files.after_crash(machine.files.rng)
    machine.open()
    assert journals(machine) == []
    for number in range(MANY):
        assert read_records(machine.log(f"log{number}")) == [b"first", b"second"]


def test_a_journal_that_is_long_is_put_away(machine: Machine, partitions: list[Partition]) -> None:
    for number in range(5):
        append_to_all(partitions, b"%d " % number + bytes(100))
        machine.store.flush()
        sizes = [machine.files.size_of(DATA / "journal" / name) for name in journals(machine)]
        assert all(size < 4096 + MANY * 300 for size in sizes)
    assert machine.store._scheduler.next_journal_number > 2
    machine.store.close()
    assert journals(machine) == []
    machine.open()
    assert len(read_records(machine.log("log0"))) == 6


def test_a_journal_that_cannot_be_written_refuses_the_round_and_writing_goes_on(
    machine: Machine, partitions: list[Partition]
) -> None:
    machine.files.fail_write("*.journal", errno.ENOSPC)
    refused = append_to_all(partitions, b"refused")
    machine.store.flush()
    assert [[type(answer) for answer in answers] for answers in refused] == [[DiskFull]] * MANY
    assert not any(partition.read_only or partition.blocked for partition in partitions)
    append_to_all(partitions, b"second")
    machine.store.flush()
    machine.crash()
    for number in range(MANY):
        assert read_records(machine.log(f"log{number}")) == [b"first", b"second"]


def test_a_journal_that_cannot_be_synced_stops_its_partitions_until_they_were_recovered(
    machine: Machine, partitions: list[Partition]
) -> None:
    append_to_all(partitions, b"second")
    machine.store.flush()
    machine.files.fail_sync("*.journal")
    refused = append_to_all(partitions, b"refused")
    machine.store.flush()
    assert [[type(answer) for answer in answers] for answers in refused] == [[SyncFailed]] * MANY
    assert all(partition.read_only for partition in partitions)
    machine.crash()
    again = [machine.log(f"log{number}") for number in range(MANY)]
    answers = append_to_all(again, b"third")
    machine.store.flush()
    assert answers == [[None]] * MANY
    for partition in again:
        assert read_records(partition)[:2] == [b"first", b"second"]
        assert read_records(partition)[-1] == b"third"


def test_a_segment_that_cannot_be_written_does_not_keep_the_others_of_its_round(
    machine: Machine, partitions: list[Partition]
) -> None:
    machine.files.fail_write("/data/logs/3/*.segment", errno.EIO)
    answers = append_to_all(partitions, b"second")
    machine.store.flush()
    assert [answer[0] is None for answer in answers] == [True, True, False, True, True, True]
    append(partitions[2], b"third")
    machine.store.flush()
    machine.crash()
    assert read_records(machine.log("log2")) == [b"first", b"third"]
    assert read_records(machine.log("log3")) == [b"first", b"second"]


def test_a_segment_that_cannot_be_synced_at_a_checkpoint_keeps_the_journal(
    machine: Machine, partitions: list[Partition]
) -> None:
    append_to_all(partitions, b"second")
    machine.store.flush()
    machine.files.fail_sync("/data/logs/2/*.segment")
    append_to_all(partitions, b"3" * 1000)
    machine.store.flush()
    assert len(journals(machine)) == 1
    assert [partition.read_only for partition in partitions] == [False, True, False, False, False, False]
    machine.crash()
    assert journals(machine) == []
    assert read_records(machine.log("log1")) == [b"first", b"second", b"3" * 1000]


def test_partitions_in_memory_mode_never_go_through_the_journal(machine: Machine) -> None:
    partitions = [machine.log(f"memory{number}", durability="memory") for number in range(MANY)]
    answers = append_to_all(partitions, b"x")
    machine.store.flush()
    assert answers == [[None]] * MANY
    assert journals(machine) == []


def test_too_many_open_files_refuse_the_append_and_nothing_else() -> None:
    machine = Machine()
    partition = machine.log()
    machine.files.open_files_max = len(machine.files.open_descriptors())
    answers = append(partition, b"refused")
    machine.store.flush()
    assert [type(answer) for answer in answers] == [TooManyOpenFiles]
    machine.files.heal()
    append(partition, b"a")
    machine.store.flush()
    assert read_records(partition) == [b"a"]


def test_a_fault_of_one_callback_does_not_keep_the_others_waiting() -> None:
    machine = Machine()
    partition, other = machine.log(), machine.log("other")

    def fault(error: object) -> None:
        raise LookupError("a fault of ours")

    partition.append(b"\0\0\0\0", 1, 1, fault)
    answers = append(other, b"x")
    with pytest.raises(LookupError, match="a fault of ours"):
        machine.store.flush()
    machine.store.flush()
    assert answers == [None]

"""A data folder with its logs: made, found, deleted, opened again; with an event loop and without."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from headwater.errors import DiskFull, FolderInUse, InvalidSettings, LogExists, UnknownLog
from headwater.log.clock import wall_clock_ms
from headwater.log.log import PartitionDefinition
from headwater.log.settings import LogSettings, StoreSettings
from headwater.log.store import Store
from tests.log_material import DATA, Answers, Machine, append, publish, read_all, read_records

PARTS = [PartitionDefinition("orders-0"), PartitionDefinition("orders-1", "eu")]


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_a_log_is_found_by_vhost_and_name(machine: Machine) -> None:
    made = machine.store.create_log("a")
    other = machine.store.create_log("a", vhost="other")
    assert machine.store.log("a") is made
    assert machine.store.log("a", "other") is other
    for name, vhost in (("b", "/"), ("a", "third")):
        with pytest.raises(UnknownLog, match=f"there is no log '{name}'; create it"):
            machine.store.log(name, vhost)


def test_logs_are_as_they_were_after_opening_again(machine: Machine) -> None:
    settings = LogSettings(durability="memory", max_age_ms=5)
    machine.store.create_log("orders", kind="super_stream", partitions=PARTS, settings=settings)
    machine.store.create_log("single")
    machine.reopen()
    orders = machine.store.log("orders")
    assert orders.definition.settings == settings
    assert [partition.name for partition in orders.partitions] == ["orders-0", "orders-1"]
    assert orders.definition.partitions == tuple(PARTS)
    assert [partition.name for partition in machine.store.log("single").partitions] == ["single"]
    assert machine.store.partition_count == 3


@pytest.mark.parametrize("name", ["orders", "orders-0", "orders-1", "single"])
def test_names_of_logs_and_partitions_share_one_space(machine: Machine, name: str) -> None:
    machine.store.create_log("orders", kind="super_stream", partitions=PARTS)
    machine.store.create_log("single")
    with pytest.raises(LogExists, match=f"log '{name}' exists already"):
        machine.store.create_log(name)
    with pytest.raises(LogExists):
        machine.store.create_log("new", kind="super_stream", partitions=[PartitionDefinition(name)])
    machine.store.create_log(name, vhost="other")


def test_a_refused_definition_makes_nothing(machine: Machine) -> None:
    with pytest.raises(InvalidSettings):
        machine.store.create_log("")
    with pytest.raises(InvalidSettings):
        machine.store.create_log("a", partitions=PARTS)
    assert machine.files.names(DATA / "logs") == ["0"]


def test_a_log_that_finds_no_room_is_none_and_may_be_made_later(machine: Machine) -> None:
    machine.files.capacity_bytes = 0
    with pytest.raises(DiskFull):
        machine.store.create_log("a")
    machine.files.heal()
    with pytest.raises(UnknownLog):
        machine.store.log("a")
    append(machine.store.create_log("a").partitions[0], b"x")
    machine.store.flush()
    machine.crash()
    assert read_records(machine.store.log("a").partitions[0]) == [b"x"]


def test_a_deleted_log_is_gone_and_its_name_is_free(machine: Machine) -> None:
    append(machine.log(), b"old")
    machine.store.flush()
    machine.store.delete_log("log")
    with pytest.raises(UnknownLog):
        machine.store.delete_log("log")
    append(machine.log(), b"new")
    machine.store.flush()
    machine.crash()
    assert read_records(machine.log()) == [b"new"]
    assert machine.files.names(DATA / "logs") == ["0", "2"]


def test_a_log_that_cannot_be_deleted_is_still_there(machine: Machine) -> None:
    partition = machine.log()
    machine.files.fail("rename", "*", errno.ENOSPC)
    with pytest.raises(DiskFull):
        machine.store.delete_log("log")
    append(partition, b"x")
    machine.store.flush()
    assert read_records(machine.log()) == [b"x"]


def test_closing_commits_what_waits_and_gives_everything_back(machine: Machine) -> None:
    answers = append(machine.log(), b"a")
    machine.log().store_offset(b"reader", 1)
    machine.store.close()
    assert answers == [None]
    assert machine.files.open_descriptors() == []
    machine.open()
    assert machine.log().stored_offset(b"reader") == 1
    assert machine.store.notices == machine.store.damaged == []


def test_opening_again_and_again_without_writing_makes_nothing_grow(machine: Machine) -> None:
    publish(machine.log(), [1])
    machine.reopen()
    used = machine.files.used_bytes()
    for _ in range(3):
        machine.reopen()
        assert machine.files.used_bytes() == used


def test_a_full_disk_refuses_writes_serves_reads_and_writing_resumes_by_itself(machine: Machine) -> None:
    partition = machine.log()
    publish(partition, [1])
    machine.store.flush()
    machine.files.capacity_bytes = machine.files.used_bytes() + 20
    for _ in range(3):
        refused = publish(partition, [2, 3])
        machine.store.flush()
        assert [type(answer) for answer in refused] == [DiskFull]
        assert read_records(partition) == [b"id1"]
        assert partition.next_offset == 1
    machine.files.heal()
    answers = publish(partition, [2, 3])
    machine.store.flush()
    assert answers == [None]
    machine.crash()
    assert read_records(machine.log()) == [b"id1", b"id2", b"id3"]


def test_offsets_stored_on_a_full_disk_are_written_when_there_is_room(machine: Machine) -> None:
    partition = machine.log()
    append(partition, b"a")
    machine.store.flush()
    machine.files.capacity_bytes = machine.files.used_bytes()
    partition.store_offset(b"reader", 1)
    machine.store.flush()
    machine.files.heal()
    append(partition, b"b")
    machine.store.flush()
    machine.crash()
    assert machine.log().stored_offset(b"reader") == 1


def test_a_second_process_is_refused_on_the_real_disk(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "data")
    with pytest.raises(FolderInUse):
        Store.open(tmp_path / "data")
    store.close()
    again = Store.open(tmp_path / "data", StoreSettings(commit_threads=1))
    assert again.epoch == 2
    again.close()


def test_the_wall_clock_counts_milliseconds() -> None:
    assert 1_600_000_000_000 < wall_clock_ms() < 10_000_000_000_000


def test_with_a_loop_a_turn_is_committed_together_and_confirms_come_by_themselves(tmp_path: Path) -> None:
    async def turn() -> tuple[int, Answers]:
        loop = asyncio.get_running_loop()
        store = Store.open(tmp_path, loop=loop)
        partition = store.create_log("log").partitions[0]
        done: asyncio.Future[None] = loop.create_future()
        answers = append(partition, *[b"%d" % number for number in range(9)])

        def last(error: object) -> None:
            done.set_result(None)

        partition.append(b"\0\0\0\0", 1, 1, last)
        await asyncio.wait_for(done, 30)
        chunks = len(partition.tail)
        assert len(read_all(partition)) == 10
        store.close()
        return chunks, answers

    chunks, answers = asyncio.run(turn())
    assert chunks == 1
    assert answers == [None] * 9


def test_with_a_loop_partitions_that_waited_for_the_journal_are_committed_without_another_append(
    tmp_path: Path,
) -> None:
    async def two_rounds() -> list[Answers]:
        loop = asyncio.get_running_loop()
        store = Store.open(tmp_path, StoreSettings(direct_files_max=1), loop=loop)
        partitions = [store.create_log(f"log{number}").partitions[0] for number in range(4)]
        last: asyncio.Future[None] = loop.create_future()
        answers = [append(partition, b"x") for partition in partitions[:2]]
        store.dispatch()
        answers += [append(partition, b"x") for partition in partitions[2:]]
        partitions[3].when_settled(lambda _error: last.set_result(None))
        store.dispatch()
        await asyncio.wait_for(last, 30)
        store.close()
        return answers

    assert asyncio.run(two_rounds()) == [[None]] * 4

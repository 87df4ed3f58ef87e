"""A partition taken from a super stream that was never used: what is left, where it lies, and a crash at any moment."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import msgspec
import pytest

from headwater.errors import PartitionDeleted, PartitionUsed
from headwater.log.log import PartitionDefinition
from headwater.log.partition import Partition
from headwater.log.store import Store
from tests.log_material import Machine, append, read_records
from tests.simulation.faulty_files import Crashed, Phase

OPERATIONS_MAX = 60


def made() -> Machine:
    machine = Machine()
    partitions = [PartitionDefinition(f"orders-{key}", key) for key in "abc"]
    machine.store.create_log("orders", kind="super_stream", partitions=partitions)
    return machine


def names(store: Store) -> list[str]:
    log = store.log("orders")
    assert [each.name for each in log.definition.partitions] == [each.name for each in log.partitions]
    return [partition.name for partition in log.partitions]


def partition(store: Store, name: str) -> Partition:
    found = store.stream(name)
    assert found is not None
    return found


def test_the_others_keep_their_folders_and_their_events() -> None:
    machine = made()
    last = partition(machine.store, "orders-c")
    machine.store.delete_unused_partition("orders-b")
    assert names(machine.store) == ["orders-a", "orders-c"]
    assert partition(machine.store, "orders-c") is last
    append(last, b"kept")
    machine.store.flush()
    machine.crash()
    assert names(machine.store) == ["orders-a", "orders-c"]
    assert machine.store.stream("orders-b") is None
    assert read_records(partition(machine.store, "orders-c")) == [b"kept"]
    assert partition(machine.store, "orders-c").id == last.id


def test_all_of_them_may_go_one_by_one_and_the_names_are_free_again() -> None:
    machine = made()
    for key in "bac":
        machine.store.delete_unused_partition(f"orders-{key}")
    assert names(machine.store) == []
    machine.store.create_log("orders-a")
    machine.reopen()
    assert names(machine.store) == []
    assert machine.store.partition_count == 1


def test_whoever_uses_it_is_told_and_finds_it_gone() -> None:
    machine = made()
    gone = partition(machine.store, "orders-b")
    told = []
    gone.on_deleted.add(lambda: told.append(gone.name))
    machine.store.delete_unused_partition("orders-b")
    assert told == ["orders-b"]
    with pytest.raises(PartitionDeleted):
        append(gone, b"too late")


def test_none_goes_alone_once_one_of_them_was_used() -> None:
    machine = made()
    append(partition(machine.store, "orders-a"), b"not on disk yet")
    with pytest.raises(PartitionUsed):
        machine.store.delete_unused_partition("orders-b")
    machine.store.flush()
    machine.reopen()
    with pytest.raises(PartitionUsed):
        machine.store.delete_unused_partition("orders-b")
    assert names(machine.store) == ["orders-a", "orders-b", "orders-c"]


def test_a_stored_offset_is_a_use_as_well() -> None:
    machine = made()
    partition(machine.store, "orders-a").store_offset(b"reader", 0)
    with pytest.raises(PartitionUsed):
        machine.store.delete_unused_partition("orders-b")


def test_a_stream_is_no_partition_to_take_away() -> None:
    machine = made()
    machine.store.create_log("alone")
    with pytest.raises(PartitionUsed):
        machine.store.delete_unused_partition("alone")


def test_one_that_comes_later_lies_behind_all_others() -> None:
    machine = made()
    machine.store.delete_unused_partition("orders-b")
    definition = machine.store.log("orders").definition
    grown = (*definition.partitions, PartitionDefinition("orders-d", "d"))
    assert msgspec.structs.replace(definition, partitions=grown).own_numbers == [0, 2, 3]


@pytest.mark.parametrize("phase", Phase)
def test_a_crash_leaves_the_old_or_the_new(phase: Phase) -> None:
    reached_end = False
    for operation in range(1, OPERATIONS_MAX):
        machine = made()
        machine.files.crash_in(operation, phase)
        done = False
        with suppress(Crashed):
            machine.store.delete_unused_partition("orders-b")
            done = True
        reached_end = reached_end or done
        machine.committer.queued.clear()
        machine.files = machine.files.after_crash(Random(operation))
        machine.open()
        allowed = [["orders-a", "orders-c"]] + ([] if done else [["orders-a", "orders-b", "orders-c"]])
        assert names(machine.store) in allowed, (operation, done)
        assert machine.store.notices == machine.store.damaged == []
    assert reached_end

"""Streams bound to a super stream: what `log.json` says of them, order, deletion, and a crash at any moment."""

from __future__ import annotations

import errno
from contextlib import suppress
from random import Random

import pytest

from headwater.errors import DiskFull, InvalidSettings, UnknownLog
from headwater.log.log import PartitionDefinition
from headwater.log.store import Store
from tests.log_material import Machine, append, read_records
from tests.simulation.faulty_files import Crashed, Phase

OPERATIONS_MAX = 60


@pytest.fixture
def machine() -> Machine:
    made = Machine()
    made.store.create_log("orders", kind="super_stream")
    for name in ("a", "b", "c"):
        made.log(name)
    return made


def names(store: Store, name: str = "orders") -> list[str]:
    log = store.log(name)
    found = [partition.name for partition in log.partitions]
    assert found == [partition.name for partition in log.definition.partitions]
    return found


def test_a_super_stream_may_begin_without_partitions(machine: Machine) -> None:
    machine.reopen()
    assert names(machine.store) == []
    assert machine.store.partition_count == 3


def test_a_bound_stream_is_one_partition_under_two_logs(machine: Machine) -> None:
    append(machine.log("a"), b"before")
    machine.store.bind_stream("orders", "a", key="eu")
    assert machine.store.log("orders").partitions == [machine.log("a")]
    append(machine.store.log("orders").partitions[0], b"behind")
    machine.store.flush()
    machine.crash()
    assert read_records(machine.log("a")) == [b"before", b"behind"]
    assert machine.store.log("orders").partitions == [machine.log("a")]
    assert machine.store.log("orders").definition.partitions == (
        PartitionDefinition("a", "eu", machine.store.log("a").definition.id),
    )
    assert machine.store.partition_count == 3


def test_bound_streams_stand_in_their_order_and_the_others_behind(machine: Machine) -> None:
    machine.store.bind_stream("orders", "c", key="2", order=2)
    machine.store.bind_stream("orders", "a", key="0", order=0)
    machine.store.bind_stream("orders", "b", key="1", order=1)
    assert names(machine.store) == ["a", "b", "c"]
    machine.log("d")
    machine.store.bind_stream("orders", "d", key="3")
    machine.reopen()
    assert names(machine.store) == ["a", "b", "c", "d"]


def test_binding_again_changes_nothing_and_otherwise_is_refused(machine: Machine) -> None:
    machine.store.bind_stream("orders", "a", key="0", order=0)
    machine.store.bind_stream("orders", "a", key="0", order=0)
    assert names(machine.store) == ["a"]
    with pytest.raises(InvalidSettings, match="two have the same name"):
        machine.store.bind_stream("orders", "a", key="1")
    for super_stream, stream in (("a", "b"), ("orders", "orders")):
        with pytest.raises(InvalidSettings, match="a stream is bound to a super stream"):
            machine.store.bind_stream(super_stream, stream)
    for super_stream, stream in (("orders", "nothing"), ("nothing", "a")):
        with pytest.raises(UnknownLog):
            machine.store.bind_stream(super_stream, stream)
    assert names(machine.store) == ["a"]


def test_own_partitions_keep_their_folders_when_streams_are_bound_among_them(machine: Machine) -> None:
    own = [PartitionDefinition("x-0", "0"), PartitionDefinition("x-1", "1")]
    log = machine.store.create_log("x", kind="super_stream", partitions=own)
    append(log.partitions[1], b"second")
    machine.store.bind_stream("x", "a", key="2", order=2)
    machine.store.flush()
    machine.reopen()
    assert names(machine.store, "x") == ["x-0", "x-1", "a"]
    assert read_records(machine.store.log("x").partitions[1]) == [b"second"]


def test_deleting_the_super_stream_leaves_bound_streams(machine: Machine) -> None:
    append(machine.log("a"), b"kept")
    machine.store.bind_stream("orders", "a")
    machine.store.flush()
    machine.store.delete_log("orders")
    machine.crash()
    assert read_records(machine.log("a")) == [b"kept"]
    with pytest.raises(UnknownLog):
        machine.store.log("orders")


def test_a_deleted_stream_leaves_its_super_streams(machine: Machine) -> None:
    machine.store.create_log("more", kind="super_stream")
    for super_stream in ("orders", "more"):
        machine.store.bind_stream(super_stream, "a")
        machine.store.bind_stream(super_stream, "b")
    machine.store.delete_log("a")
    assert names(machine.store) == names(machine.store, "more") == ["b"]
    machine.crash()
    assert names(machine.store) == names(machine.store, "more") == ["b"]
    assert machine.store.notices == []


def test_a_binding_that_finds_no_room_is_none(machine: Machine) -> None:
    machine.store.bind_stream("orders", "a")
    machine.files.fail("write", "*log.json*", errno.ENOSPC)
    with pytest.raises(DiskFull):
        machine.store.bind_stream("orders", "b")
    assert names(machine.store) == ["a"]
    machine.files.heal()
    machine.store.bind_stream("orders", "b")
    machine.reopen()
    assert names(machine.store) == ["a", "b"]


def test_a_stream_that_somebody_took_away_is_told_and_passed_over(machine: Machine) -> None:
    machine.store.bind_stream("orders", "a")
    machine.store.bind_stream("orders", "b")
    folder = machine.store.log("a").folder
    machine.store.close()
    machine.files.remove_tree(folder)
    machine.open()
    assert names(machine.store) == ["b"]
    assert machine.store.notices == ["orders: its partition a is a stream that is gone"]


@pytest.mark.parametrize("phase", list(Phase))
def test_a_crash_while_binding_or_deleting_leaves_the_old_or_the_new(phase: Phase) -> None:
    reached_end = False
    for operation in range(OPERATIONS_MAX):
        machine = Machine()
        machine.store.create_log("orders", kind="super_stream")
        append(machine.log("a"), b"kept")
        append(machine.log("b"), b"gone")
        machine.store.bind_stream("orders", "b", key="1", order=1)
        machine.store.flush()
        machine.files.crash_in(operation, phase)
        done = 0
        with suppress(Crashed):
            machine.store.bind_stream("orders", "a", key="0", order=0)
            done = 1
            machine.store.delete_log("b")
            done = 2
        reached_end = reached_end or done == 2
        machine.committer.queued.clear()
        machine.files = machine.files.after_crash(Random(operation))
        machine.open()
        allowed = [{"b"}, {"a", "b"}, {"a"}][done : done + 2]
        assert set(names(machine.store)) in allowed, (operation, done)
        assert read_records(machine.log("a")) == [b"kept"]
        assert (
            done == 2 or ("/", "b") not in machine.store.logs or read_records(machine.log("b")) == [b"gone"]
        )
        assert machine.store.notices == machine.store.damaged == []
    assert reached_end

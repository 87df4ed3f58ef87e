"""Who uses a log is told when it is another one: more or fewer partitions, other settings, or gone."""

from __future__ import annotations

import errno

import pytest

from headwater.errors import StorageError
from headwater.log.log import Log, LogDefinition, PartitionDefinition
from headwater.log.settings import LogSettings
from tests.log_material import Machine


class Told(list[tuple[str, str, list[str]]]):
    """What happened to which log, and which partitions it had then."""

    def __init__(self, machine: Machine, *followed: str) -> None:
        super().__init__()
        self.before: list[LogDefinition] = []
        machine.store.on_log_changed.add(self._changed)
        machine.store.on_log_deleted.add(lambda log: self._take("deleted", log))
        for name in followed:
            log = machine.store.log(name)
            log.on_partitions_changed.add(lambda log=log: self._take("partitions", log))  # type: ignore[misc]

    def _changed(self, log: Log, before: LogDefinition) -> None:
        self.before.append(before)
        self._take("changed", log)

    def _take(self, what: str, log: Log) -> None:
        self.append((what, log.name, [partition.name for partition in log.partitions]))


@pytest.fixture
def machine() -> Machine:
    made = Machine()
    made.store.create_log("orders", kind="super_stream", partitions=[PartitionDefinition("orders-0")])
    made.log("a")
    return made


def test_a_super_stream_that_grows_is_told_once(machine: Machine) -> None:
    told = Told(machine, "orders", "a")
    before = machine.store.log("orders").definition
    machine.store.bind_stream("orders", "a")
    machine.store.bind_stream("orders", "a")
    grown = ["orders-0", "a"]
    assert told == [("partitions", "orders", grown), ("changed", "orders", grown)]
    assert told.before == [before]


def test_a_super_stream_that_loses_a_bound_stream_is_told_before_the_stream_is_gone(machine: Machine) -> None:
    machine.store.bind_stream("orders", "a")
    told = Told(machine, "orders")
    machine.log("a").on_deleted.add(lambda: told.append(("gone", "a", [])))
    machine.store.delete_log("a")
    assert told == [
        ("partitions", "orders", ["orders-0"]),
        ("changed", "orders", ["orders-0"]),
        ("gone", "a", []),
        ("deleted", "a", ["a"]),
    ]


def test_a_super_stream_that_loses_an_unused_partition_is_told(machine: Machine) -> None:
    told = Told(machine, "orders")
    machine.store.delete_unused_partition("orders-0")
    assert told == [("partitions", "orders", []), ("changed", "orders", [])]


def test_a_deleted_log_is_told_once_and_is_no_longer_found(machine: Machine) -> None:
    told = Told(machine, "orders")
    machine.store.on_log_deleted.add(
        lambda log: told.append((f"{('/', log.name) in machine.store.logs}", "", []))
    )
    machine.store.delete_log("orders")
    assert sorted(told) == [("False", "", []), ("deleted", "orders", ["orders-0"])]


def test_other_settings_are_in_force_when_they_are_told(machine: Machine) -> None:
    told = Told(machine, "a")
    found: list[LogSettings] = []
    machine.store.on_log_changed.add(lambda log, _: found.append(log.partitions[0].settings))
    changed = LogSettings(group_binding="dynamic")
    machine.store.change_settings("a", changed)
    machine.store.change_settings("a", changed)
    assert told == [("changed", "a", ["a"])]
    assert (found, told.before[0].settings) == ([changed], LogSettings())


def test_what_could_not_be_changed_is_not_told(machine: Machine) -> None:
    told = Told(machine, "orders")
    machine.files.fail("sync", "*log.json*", errno.EIO, times=2)
    with pytest.raises(StorageError):
        machine.store.bind_stream("orders", "a")
    with pytest.raises(StorageError):
        machine.store.change_settings("a", LogSettings(max_bytes=5))
    assert told == []

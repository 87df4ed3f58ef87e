"""Settings of a log that is there already: changed durably or not at all, and in force at once."""

from __future__ import annotations

import errno
from contextlib import suppress
from random import Random

import msgspec
import pytest

from headwater.errors import InvalidSettings, StorageError, UnknownLog
from headwater.log.log import PartitionDefinition
from headwater.log.settings import LogSettings
from headwater.server.management.logs import make_log
from headwater.server.streams.topology import Topology
from headwater.streams.commands import ResponseCode
from tests.log_material import Machine, append, read_records
from tests.simulation.faulty_files import Crashed, Phase

OPERATIONS_MAX = 30


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_changed_settings_hold_for_all_partitions_and_after_a_crash(machine: Machine) -> None:
    parts = [PartitionDefinition("orders-0"), PartitionDefinition("orders-1")]
    machine.store.create_log("orders", kind="super_stream", partitions=parts)
    changed = LogSettings(max_bytes=5, group_binding="dynamic", dead_letter_log="dead", delivery_count_max=0)
    machine.store.change_settings("orders", changed)
    for _ in range(2):
        log = machine.store.log("orders")
        assert log.definition.settings == changed
        assert [partition.settings for partition in log.partitions] == [changed, changed]
        machine.crash()


def test_what_is_appended_next_keeps_to_the_changed_settings(machine: Machine) -> None:
    partition = machine.log(segment_bytes=1 << 20, max_bytes=1 << 20)
    machine.store.change_settings("log", LogSettings(segment_bytes=1024, max_bytes=2000))
    for number in range(8):
        append(partition, b"%d " % number + bytes(600))
        machine.store.flush()
    assert len(partition.segments) == 4
    assert machine.store.enforce_retention() == []
    machine.store.flush()
    assert partition.first_offset == 6
    machine.crash()
    assert read_records(machine.log()) == [b"6", b"7"]


def test_durability_stays_as_the_log_was_made(machine: Machine) -> None:
    machine.log()
    with pytest.raises(InvalidSettings, match="it stays 'disk', as the log was made"):
        machine.store.change_settings("log", LogSettings(durability="memory", max_bytes=5))
    assert machine.log().settings == LogSettings()


def test_settings_that_cannot_be_are_refused_and_nothing_changes(machine: Machine) -> None:
    machine.log()
    with pytest.raises(InvalidSettings, match="'log' is the log itself"):
        machine.store.change_settings("log", LogSettings(dead_letter_log="log"))
    with pytest.raises(UnknownLog):
        machine.store.change_settings("another", LogSettings())
    assert machine.log().settings == LogSettings()


def test_a_change_that_the_disk_refuses_is_none(machine: Machine) -> None:
    partition = machine.log()
    machine.files.fail("sync", "/data/logs/1/log.json*", errno.EIO)
    with pytest.raises(StorageError):
        machine.store.change_settings("log", LogSettings(max_bytes=5))
    assert partition.settings == machine.store.log("log").definition.settings == LogSettings()
    machine.files.heal()
    machine.crash()
    assert machine.log().settings == LogSettings()


@pytest.mark.parametrize("phase", list(Phase))
def test_a_power_cut_while_settings_change_leaves_the_old_or_the_new_ones(phase: Phase) -> None:
    found = set()
    for operation in range(OPERATIONS_MAX):
        machine = Machine()
        machine.log(max_bytes=5)
        machine.files.crash_in(operation, phase)
        is_done = False
        with suppress(Crashed):
            machine.store.change_settings("log", LogSettings(max_bytes=6, group_waiting="wait"))
            is_done = True
        machine.committer.queued.clear()
        machine.files = machine.files.after_crash(Random(operation))
        machine.open()
        settings = machine.store.log("log").definition.settings
        assert settings in (LogSettings(max_bytes=5), LogSettings(max_bytes=6, group_waiting="wait"))
        found.add((is_done, settings.max_bytes))
    assert {(False, 5), (True, 6)} <= found <= {(False, 5), (False, 6), (True, 6)}


def test_who_declares_a_stream_again_finds_it_whatever_an_operator_made_of_it(machine: Machine) -> None:
    topology = Topology(machine.store)
    assert topology.create("/", "a", {"max-age": "1h"}) is ResponseCode.OK
    made = machine.store.log("a").definition.settings
    policies = msgspec.structs.replace(made, group_binding="dynamic", dead_letter_log="dead")
    machine.store.change_settings("a", policies)
    assert topology.create("/", "a", {"max-age": "1h"}) is ResponseCode.STREAM_ALREADY_EXISTS
    machine.store.change_settings("a", msgspec.structs.replace(policies, max_age_ms=7_200_000))
    for age, code in (
        ("1h", ResponseCode.STREAM_ALREADY_EXISTS),
        ("2h", ResponseCode.STREAM_ALREADY_EXISTS),
        ("3h", ResponseCode.PRECONDITION_FAILED),
    ):
        assert topology.create("/", "a", {"max-age": age}) is code


def test_a_partition_is_declared_again_with_the_settings_of_its_super_stream(machine: Machine) -> None:
    parts = [PartitionDefinition("orders-0")]
    make_log(machine.store, "/", "orders", "super_stream", parts, LogSettings(groups_max=1))
    topology = Topology(machine.store)
    assert topology.create("/", "orders-0", {}) is ResponseCode.STREAM_ALREADY_EXISTS
    assert topology.create("/", "orders-0", {"max-age": "1h"}) is ResponseCode.PRECONDITION_FAILED

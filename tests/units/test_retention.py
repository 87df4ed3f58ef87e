"""Old segments go by age and by bytes, also while nobody writes; what is left is whole."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from headwater.log.partition import Partition
from tests.log_material import Machine, append, read_all

MINUTE_MS = 60_000


@pytest.fixture
def machine() -> Machine:
    return Machine()


def filled(machine: Machine, count: int = 12, **settings: Any) -> Partition:
    """One event a minute, two in each segment of 1,114 bytes."""
    partition = machine.log(segment_bytes=1024, **settings)
    for number in range(count):
        machine.clock.now_ms += MINUTE_MS
        append(partition, b"%02d " % number + bytes(400))
        machine.store.flush()
    return partition


def enforce(machine: Machine) -> None:
    assert machine.store.enforce_retention() == []
    machine.store.flush()


def test_without_limits_everything_stays(machine: Machine) -> None:
    partition = filled(machine)
    machine.clock.now_ms *= 2
    enforce(machine)
    assert len(read_all(partition)) == 12


def test_the_oldest_segments_go_while_the_partition_is_larger(machine: Machine) -> None:
    partition = filled(machine, max_bytes=3 * 1114)
    enforce(machine)
    assert partition.size_bytes == 3 * 1114
    assert partition.first_offset == 6
    assert len(machine.names(partition, ".segment")) == len(machine.names(partition, ".index")) + 1 == 3
    machine.crash()
    assert [offset for offset, _ in read_all(machine.log())] == list(range(6, 12))


def test_one_byte_less_than_three_segments_leaves_two(machine: Machine) -> None:
    partition = filled(machine, max_bytes=3 * 1114 - 1)
    enforce(machine)
    assert partition.first_offset == 8


def test_the_newest_segment_stays_however_large_it_is(machine: Machine) -> None:
    partition = filled(machine, max_bytes=1)
    enforce(machine)
    assert partition.first_offset == 10
    assert len(partition.segments) == 1


def test_segments_go_whose_youngest_event_is_too_old(machine: Machine) -> None:
    partition = filled(machine, max_age_ms=5 * MINUTE_MS)
    enforce(machine)
    # The events are 11 to 0 minutes old; that of offset 5, the youngest of its segment, is 6 minutes old.
    assert partition.first_offset == 6


def test_an_event_of_just_the_age_stays(machine: Machine) -> None:
    partition = filled(machine, max_age_ms=6 * MINUTE_MS)
    enforce(machine)
    assert partition.first_offset == 4
    machine.clock.now_ms += 1
    enforce(machine)
    assert partition.first_offset == 6


def test_age_takes_the_last_events_too_while_nobody_writes(machine: Machine) -> None:
    partition = filled(machine, max_age_ms=5 * MINUTE_MS)
    machine.clock.now_ms += 5 * MINUTE_MS
    enforce(machine)
    enforce(machine)
    assert partition.first_offset == 10
    machine.clock.now_ms += 1
    enforce(machine)
    enforce(machine)
    assert (partition.first_offset, partition.committed_offset) == (12, 12)
    assert len(partition.segments) == 1
    for _ in range(3):
        machine.clock.now_ms += 60 * MINUTE_MS
        size = partition.size_bytes
        enforce(machine)
        assert partition.size_bytes == size
    append(partition, b"next")
    machine.store.flush()
    assert [offset for offset, _ in read_all(partition)] == [12]


def test_an_empty_partition_has_nothing_to_lose(machine: Machine) -> None:
    partition = machine.log(max_age_ms=1, max_bytes=1)
    machine.clock.now_ms += MINUTE_MS
    enforce(machine)
    assert partition.segments == []


def test_a_partition_that_is_read_only_loses_nothing(machine: Machine) -> None:
    partition = filled(machine, max_bytes=1)
    machine.files.fail_sync("*.segment")
    append(partition, b"x")
    machine.store.flush()
    assert partition.read_only
    enforce(machine)
    assert partition.first_offset == 0


@pytest.mark.parametrize("what", ["rename", "sync_folder", "remove"])
def test_a_removal_that_fails_is_finished_by_opening_or_starts_again(machine: Machine, what: str) -> None:
    partition = filled(machine, max_bytes=3 * 1114)
    machine.files.fail(what, "/data/logs/1/0*", errno.EIO, times=2)
    enforce(machine)
    assert partition.first_offset == 6
    told = [str(error) for error in machine.store.enforce_retention()]
    # What has its new name is gone, although its bytes may stay until the next opening.
    assert len(told) == (what != "remove")
    assert all("/data/logs/1/0 failed: Input/output error" in error for error in told)
    machine.files.heal()
    machine.crash()
    partition = machine.log()
    enforce(machine)
    assert [offset for offset, _ in read_all(partition)] == list(range(6, 12))
    assert machine.names(partition, ".removed") == []


def test_time_is_the_running_maximum_when_the_clock_steps_back(machine: Machine) -> None:
    partition = filled(machine, 6, max_age_ms=5 * MINUTE_MS)
    now = machine.clock.now_ms
    machine.clock.now_ms = now - 1000 * MINUTE_MS
    for _ in range(4):
        append(partition, bytes(400))
        machine.store.flush()
    enforce(machine)
    assert partition.first_offset == 0
    machine.clock.now_ms = now + 4 * MINUTE_MS
    enforce(machine)
    assert partition.first_offset == 4

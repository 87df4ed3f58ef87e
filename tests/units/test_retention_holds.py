"""Who still needs old events holds retention back, up to a limit; and whoever wants to know is told what went."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from headwater.log.partition import Partition
from tests.log_material import Answers, Machine, append, read_all
from tests.simulation.faulty_files import Crashed, Phase
from tests.units.test_retention import MINUTE_MS, enforce, filled

SEGMENT = 1114
OPERATIONS_MAX = 20


@pytest.fixture
def machine() -> Machine:
    return Machine()


class Holds:
    """What retention asks, and the answer it gets."""

    def __init__(self, machine: Machine, needed: int | None) -> None:
        self.needed = needed
        self.asked: list[tuple[Partition, int]] = []
        machine.store.retention_holds = self

    def __call__(self, partition: Partition, offset_at_limit: int) -> int | None:
        self.asked.append((partition, offset_at_limit))
        return self.needed


@pytest.mark.parametrize(
    ("needed", "first"), [(0, 0), (1, 0), (2, 2), (3, 2), (4, 4), (5, 4), (6, 6), (12, 6), (None, 6)]
)
def test_a_segment_stays_that_holds_what_is_needed(machine: Machine, needed: int | None, first: int) -> None:
    partition = filled(machine, max_bytes=3 * SEGMENT)
    holds = Holds(machine, needed)
    enforce(machine)
    assert (partition.first_offset, holds.asked) == (first, [(partition, 0)])
    machine.crash()
    assert [offset for offset, _ in read_all(machine.log())] == list(range(first, 12))


def test_events_that_are_too_old_are_held_back_too(machine: Machine) -> None:
    partition = filled(machine, max_age_ms=5 * MINUTE_MS)
    holds = Holds(machine, 2)
    enforce(machine)
    assert partition.first_offset == 2
    holds.needed = 12
    machine.clock.now_ms += 60 * MINUTE_MS
    enforce(machine)
    enforce(machine)
    assert (partition.first_offset, len(partition.segments)) == (12, 1)


@pytest.mark.parametrize(
    ("limit", "first"),
    [
        (3 * SEGMENT, 0),
        (3 * SEGMENT - 1, 2),
        (2 * SEGMENT, 2),
        (2 * SEGMENT - 1, 4),
        (SEGMENT, 4),
        (SEGMENT - 1, 6),
        (0, 6),
    ],
)
def test_nothing_is_held_back_beyond_the_limit(machine: Machine, limit: int, first: int) -> None:
    partition = filled(machine, max_bytes=3 * SEGMENT, retention_hold_bytes_max=limit)
    holds = Holds(machine, 0)
    enforce(machine)
    assert (partition.first_offset, holds.asked) == (first, [(partition, first)])


def test_nobody_is_asked_where_nothing_is_to_go(machine: Machine) -> None:
    filled(machine, max_bytes=100 * SEGMENT)
    holds = Holds(machine, 0)
    enforce(machine)
    assert holds.asked == []


def test_what_was_held_back_goes_when_it_is_no_longer_needed(machine: Machine) -> None:
    partition = filled(machine, max_bytes=3 * SEGMENT)
    holds = Holds(machine, 0)
    enforce(machine)
    assert partition.first_offset == 0
    holds.needed = 4
    enforce(machine)
    assert partition.first_offset == 4
    holds.needed = None
    enforce(machine)
    assert partition.first_offset == 6


@pytest.mark.parametrize("phase", list(Phase))
def test_what_is_held_back_survives_a_power_cut_at_any_moment(phase: Phase) -> None:
    found = set()
    for operation in range(OPERATIONS_MAX):
        machine = Machine()
        filled(machine, max_bytes=3 * SEGMENT)
        Holds(machine, 4)
        machine.files.crash_in(operation, phase)
        with suppress(Crashed):
            enforce(machine)
        machine.committer.queued.clear()
        machine.files = machine.files.after_crash(Random(operation))
        machine.open()
        offsets = [offset for offset, _ in read_all(machine.log())]
        assert offsets == list(range(offsets[0], 12))
        found.add(offsets[0])
    assert {0, 4} <= found <= {0, 2, 4}


class Told(list[tuple[str, int]]):
    """What went, as it is told."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        machine.store.on_events_removed.add(self.take)

    def take(self, partition: Partition, first_offset: int) -> None:
        assert partition.first_offset == first_offset
        self.append((partition.name, first_offset))


def test_what_retention_removes_is_told_once(machine: Machine) -> None:
    filled(machine, max_bytes=3 * SEGMENT)
    machine.log("another", max_bytes=1)
    told = Told(machine)
    enforce(machine)
    enforce(machine)
    assert told == [("log", 6)]


def test_nothing_is_told_when_everything_is_held_back(machine: Machine) -> None:
    filled(machine, max_bytes=3 * SEGMENT)
    Holds(machine, 0)
    told = Told(machine)
    enforce(machine)
    assert told == []


def test_truncation_asks_nobody_and_is_told(machine: Machine) -> None:
    partition = filled(machine)
    holds = Holds(machine, 0)
    told = Told(machine)
    answers = Answers()
    for before in (1, 5, 12):
        partition.truncate(before, answers)
        machine.store.flush()
    assert (told, holds.asked) == ([("log", 4), ("log", 12)], [])
    assert answers == [None, None, None]
    append(partition, b"next")
    machine.store.flush()
    assert [offset for offset, _ in read_all(partition)] == [12]

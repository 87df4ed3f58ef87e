"""One short schedule, crashed at every single one of its operations, before, in the middle of, and after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headwater.log.settings import LogSettings, StoreSettings
from tests.simulation import steps
from tests.simulation.faulty_files import Phase
from tests.simulation.schedule import take_step
from tests.simulation.staging_steps import STAGING_STEPS
from tests.simulation.steps import Step
from tests.simulation.world import LogModel, World

SEED = 1
PARTS = 4
OPENING_OPERATIONS = 45
SETTINGS = StoreSettings(direct_files_max=2, journal_bytes_max=2048, open_files_max=4, tail_bytes_max=1024)
LOG_SETTINGS = LogSettings(segment_bytes=1024, snapshot_interval_bytes=1024, chunk_data_bytes_max=512)


def open_first(world: World) -> None:
    """The first opening makes the data folder's own files."""
    world.open(clean=False)


def create_fixed_log(world: World) -> None:
    """Three partitions: one or two dirty ones go the direct way, three through the journal."""
    if "swept" in world.logs:
        return
    world.create(LogModel.make("swept", LOG_SETTINGS, 3))


def truncate_everything(world: World) -> None:
    """Remove all events of a partition, through a new segment."""
    if not world.models():
        return
    model = world.models()[0]
    partition = world.partition(model)
    model.drop_limit = max(model.drop_limit, partition.committed_offset)
    partition.truncate(partition.committed_offset, lambda error: None)
    world.store.flush()


def delete_fixed_log(world: World) -> None:
    """Delete a log, and with it all that is under way."""
    if "swept" in world.logs and world.logs["swept"].fate == "present":
        world.logs["swept"].fate = "deleting"
        world.store.delete_log("swept")
        del world.logs["swept"]
        world.deleted.add("swept")


SCHEDULE: tuple[Step, ...] = (
    create_fixed_log,
    *(steps.append_everywhere, steps.publish, steps.turn) * 2,
    steps.store_offset,
    *(steps.publish, steps.turn, steps.append, steps.turn) * 4,
    steps.put_state,
    *(steps.append_everywhere, steps.flush) * 3,
    *STAGING_STEPS,
    steps.flush,
    truncate_everything,
    *(steps.publish, steps.append_everywhere, steps.turn) * 2,
    steps.close_and_open,
    *(steps.publish, steps.turn) * 2,
    delete_fixed_log,
    create_fixed_log,
    steps.append_everywhere,
    steps.flush,
)


def run_with_crash(
    operation: int | None, phase: Phase, opening_crash: tuple[int, Phase] | None = None
) -> World:
    """Run the schedule with one crash, and perhaps another one while that is recovered from."""
    world = World.make(SEED)
    world.settings = SETTINGS
    world.crashes_while_opening_max = 0
    if operation is not None:
        world.disk.crash_in(operation, phase)
    for step in (open_first, *SCHEDULE):
        take_step(world, step)
        if opening_crash is not None and step is open_first:
            world.opening_crashes = [opening_crash]
    steps.settle(world)
    world.close()
    return world


def count_operations() -> int:
    """Operations from the first opening to the first closing."""
    world = World.make(SEED)
    world.settings = SETTINGS
    world.crashes_while_opening_max = 0
    first = world.disk
    for step in (open_first, *SCHEDULE):
        take_step(world, step)
    return first.operations


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("phase", list(Phase))
def test_a_crash_at_any_operation_breaks_no_promise(phase: Phase, part: int) -> None:
    count = count_operations()
    assert count > 100
    for operation in range(part, count, PARTS):
        with noting(f"crashed {phase.value} operation {operation + 1} of {count}"):
            run_with_crash(operation, phase)


@pytest.mark.parametrize("phase", list(Phase))
def test_a_crash_at_any_operation_of_a_recovery_breaks_no_promise(phase: Phase) -> None:
    for operation in range(20, count_operations(), 17):
        for opening_operation in range(OPENING_OPERATIONS):
            with noting(f"crashed in operation {operation + 1}, then {phase.value} {opening_operation + 1}"):
                run_with_crash(operation, Phase.MIDDLE, (opening_operation, phase))


@contextmanager
def noting(text: str) -> Iterator[None]:
    """Whatever is raised says where the crash was."""
    try:
        yield
    except Exception as error:
        error.add_note(text)
        raise

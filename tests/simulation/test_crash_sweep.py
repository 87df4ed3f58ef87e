"""One short schedule, crashed at every single one of its operations, before, in the middle of, and after it."""

from __future__ import annotations

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


def run_with_crash(operation: int | None, phase: Phase) -> int:
    """Run the schedule with one crash; gives the number of operations that it takes without one."""
    world = World.make(SEED)
    world.settings = SETTINGS
    world.crashes_while_opening_max = 0
    if operation is not None:
        world.disk.crash_in(operation, phase)
    first = world.disk
    for step in (open_first, *SCHEDULE):
        take_step(world, step)
    steps.settle(world)
    world.close()
    return first.operations


def operations() -> int:
    return run_with_crash(None, Phase.BEFORE)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("phase", list(Phase))
def test_a_crash_at_any_operation_breaks_no_promise(phase: Phase, part: int) -> None:
    count = operations()
    assert count > 100
    for operation in range(part, count, PARTS):
        try:
            run_with_crash(operation, phase)
        except Exception as error:
            error.add_note(f"crashed {phase.value} operation {operation + 1} of {count}")
            raise

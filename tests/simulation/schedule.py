"""A schedule: a seed becomes a machine, a settings file and some dozens of steps, with crashes wherever they come."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.simulation.faulty_files import Crashed
from tests.simulation.staging_steps import STAGING_STEPS
from tests.simulation.steps import STEPS, Step, create_log, settle
from tests.simulation.world import World

__all__ = ["run_schedule", "run_steps", "take_step"]

STEPS_MIN, STEPS_MAX = 25, 55
ALL_STEPS: dict[Step, int] = STEPS | STAGING_STEPS


def run_schedule(seed: int, tell: Callable[[str], None] | None = None) -> World:
    """Run the schedule of a seed; raises `Violation` where the engine breaks a promise."""
    world = World.make(seed)
    world.tell = tell
    if tell is not None:
        tell(f"seed {seed}: {world.settings}")
    rng = world.rng
    # Each schedule does much of some things and nothing of others: what needs a few rare steps together comes sooner.
    weights = [weight * rng.choice((0, 1, 1, 5)) for weight in ALL_STEPS.values()]
    steps = rng.choices(list(ALL_STEPS), weights, k=rng.randint(STEPS_MIN, STEPS_MAX))
    run_steps(world, [create_log, *steps])
    return world


def run_steps(world: World, steps: Sequence[Step]) -> None:
    """Open, take the steps, and see that everything comes to a good end."""
    world.open(clean=False)
    for step in steps:
        take_step(world, step)
    take_step(world, _finish)


def take_step(world: World, step: Step) -> None:
    """Take a step; if the crash comes in it, open again."""
    try:
        step(world)
        world.observe()
    except Crashed:
        world.crash()
    if world.rng.random() < 0.05:
        world.check_descriptors()


def _finish(world: World) -> None:
    """Without faults everything is answered, can be sent again, and survives one more opening and one more crash."""
    world.note("-- the end")
    world.disk.heal()
    world.disk.crash_at = None
    world.close()
    world.open(clean=True)
    settle(world)
    world.flush()
    world.crash(machine=True)
    world.close()

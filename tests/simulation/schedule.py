"""A schedule: a seed becomes a machine, a settings file and some dozens of steps, with crashes wherever they come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from tests.simulation import steps
from tests.simulation.faulty_files import Crashed
from tests.simulation.staging_steps import STAGING_STEPS
from tests.simulation.steps import STEPS, Step, create_log, settle
from tests.simulation.world import World

__all__ = ["run_schedule", "run_steps", "take_step"]

STEPS_MIN, STEPS_MAX = 25, 55
ALL_STEPS: dict[Step, int] = STEPS | STAGING_STEPS


THEMES: list[dict[Step, int]] = [
    {
        steps.append_everywhere: 10,
        steps.append: 5,
        steps.turn: 12,
        steps.dispatch: 2,
        steps.run_job: 4,
        steps.collect: 2,
        steps.fail_sync: 4,
        steps.crash: 2,
    },
    {
        **dict.fromkeys(STAGING_STEPS, 8),
        steps.turn: 8,
        steps.run_job: 4,
        steps.collect: 2,
        steps.arm_crash: 4,
        steps.fail_write: 1,
        steps.heal: 2,
    },
    {
        steps.publish: 10,
        steps.turn: 12,
        steps.truncate: 6,
        steps.retention: 4,
        steps.follow: 4,
        steps.fail_other: 2,
        steps.arm_crash: 3,
        steps.close_and_open: 1,
        steps.crash_with_damage: 1,
    },
]
"""Schedules of few kinds of steps, for what needs several of them together."""


def run_schedule(seed: int, tell: Callable[[str], None] | None = None) -> World:
    """Run the schedule of a seed; raises `Violation` where the engine breaks a promise."""
    world = World.make(seed)
    world.tell = tell
    if tell is not None:
        tell(f"seed {seed}: {world.settings}")
    rng = world.rng
    weights = rng.choice(THEMES) if rng.random() < 0.3 else _uneven(rng)
    chosen = rng.choices(list(weights), list(weights.values()), k=rng.randint(STEPS_MIN, STEPS_MAX))
    run_steps(world, [create_log, *chosen])
    return world


def _uneven(rng: Random) -> dict[Step, int]:
    """Much of some steps and nothing of others: what needs a few rare ones together comes sooner."""
    return {step: weight * rng.choice((0, 1, 1, 5)) for step, weight in ALL_STEPS.items()}


def run_steps(world: World, sequence: Sequence[Step]) -> None:
    """Open, take the steps, and see that everything comes to a good end."""
    world.open(clean=False)
    for step in sequence:
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

"""Thousands of seeded schedules: what was confirmed survives, what was not is whole or absent."""

from __future__ import annotations

import os

import pytest

from tests.simulation.schedule import run_schedule

BATCHES, SEEDS_PER_BATCH = 20, 100


@pytest.mark.skipif("HEADWATER_SIM_SEED" in os.environ, reason="HEADWATER_SIM_SEED asks for one seed")
@pytest.mark.parametrize("batch", range(BATCHES))
def test_schedules_of_appends_faults_and_crashes_hold(batch: int) -> None:
    for seed in range(batch * SEEDS_PER_BATCH, (batch + 1) * SEEDS_PER_BATCH):
        try:
            run_schedule(seed)
        except Exception as error:
            error.add_note(f"repeat it with: python -m tests.simulation.run --seed {seed} --trace")
            raise


@pytest.mark.skipif("HEADWATER_SIM_SEED" not in os.environ, reason="HEADWATER_SIM_SEED names no seed")
def test_the_schedule_of_one_seed_holds() -> None:
    run_schedule(int(os.environ["HEADWATER_SIM_SEED"]), print)

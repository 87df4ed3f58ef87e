"""Runs fresh seeds until time is up: `python -m tests.simulation.soak --seconds 60`."""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
import traceback

from tests.simulation.consumer_kinds import KINDS, live
from tests.simulation.schedule import run_schedule

_PROGRESS_SECONDS = 5.0


def main() -> int:
    """Zero if no seed failed; else the seed and the command that repeats it are told."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("SOAK_SECONDS", "60")))
    parser.add_argument("--first-seed", type=int, default=random.SystemRandom().randrange(10**9))
    arguments = parser.parse_args()
    return soak(arguments.first_seed, arguments.seconds)


def soak(first_seed: int, seconds: float) -> int:
    """Run seeds from the first one on; the exit code."""
    started = told = time.monotonic()
    seed = first_seed
    while (now := time.monotonic()) - started < seconds:
        if now - told >= _PROGRESS_SECONDS:
            told = now
            print(f"{seed - first_seed} schedules in {now - started:.0f} s, all hold", flush=True)
        try:
            run_schedule(seed)
            for kind in KINDS:
                live(kind, seed)
        except Exception:  # noqa: BLE001 - whatever a schedule raises is a finding
            traceback.print_exc()
            print(f"seed {seed} fails; repeat it with: python -m tests.simulation.run --seed {seed} --trace")
            return 1
        seed += 1
    print(f"{seed - first_seed} schedules from seed {first_seed} hold")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The searches for faults until time is up, each with fresh seeds: `python -m tests.soak --seconds 3600`.

The simulation crashes the log at every operation on files it makes. Beside it, in turns, the checker kills a real
server under real clients, and members of a consumer group come, go and are killed.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.checker.run import SECONDS, run_seed
from tests.rebalance.run import BINDINGS, run

SIMULATION = (sys.executable, "-m", "tests.simulation.soak")
SIMULATION_ENDS_S = 120.0
REBALANCE_S, REBALANCE_S_MIN = 60.0, 3.0


def main() -> int:
    """Zero if no seed of either failed; else the seed and the command that repeats it are told."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("SOAK_SECONDS", "300")))
    seconds = parser.parse_args().seconds
    with subprocess.Popen([*SIMULATION, "--seconds", str(seconds)]) as simulation:
        try:
            held = check_until(time.monotonic() + seconds, simulation)
            return 0 if held and simulation.wait(SIMULATION_ENDS_S) == 0 else 1
        finally:
            simulation.terminate()


def check_until(deadline: float, simulation: subprocess.Popen[bytes]) -> bool:
    """Run one seed of the checker after the other; false at the first that fails."""
    count = 0
    while time.monotonic() < deadline and simulation.poll() in (None, 0):
        folder = Path(tempfile.mkdtemp(prefix="headwater-checker-"))
        report = run_seed(
            folder, random.randrange(10**9), min(SECONDS, max(1.0, deadline - time.monotonic()))
        )
        print(f"checker: {report}", flush=True)
        if report.violations:
            return False
        shutil.rmtree(folder)
        count += 1
        if not rebalance_until(deadline):
            return False
    print(f"checker: {count} seeds hold")
    return True


def rebalance_until(deadline: float) -> bool:
    """Run one seed of the rebalance under load, with a server that is killed or not."""
    seconds = min(REBALANCE_S, deadline - time.monotonic())
    if seconds < REBALANCE_S_MIN:
        return True
    with tempfile.TemporaryDirectory(prefix="headwater-rebalance-") as folder:
        binding = random.choice(BINDINGS)
        kills, hastens = random.random() < 0.5, random.random() < 0.5
        seed = random.randrange(10**9)
        report = run(Path(folder), seed, seconds, binding, kills=kills, hastens=hastens)
    print(f"rebalance: {report}", flush=True)
    return not report.violations


if __name__ == "__main__":
    sys.exit(main())

"""Runs one seed and tells what happens: `python -m tests.simulation.run --seed 7 --trace`."""

from __future__ import annotations

import argparse
import sys

from tests.simulation.consumer_kinds import KINDS, live
from tests.simulation.schedule import run_schedule


def main() -> int:
    """Zero if the schedule of the seed holds."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.run", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--trace", action="store_true", help="tell every step")
    arguments = parser.parse_args()
    tell = (lambda text: print(text, flush=True)) if arguments.trace else None
    run_schedule(arguments.seed, tell)
    for kind in KINDS:
        live(kind, arguments.seed)
    print(f"seed {arguments.seed} holds")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m bench [NAME ...]`: what this machine does, in figures."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import platform
import sys
import time
import traceback
from pathlib import Path

import msgspec

from bench.disk import filesystem_of
from bench.figure import Figure, Options, say, table
from headwater.encoding._kernel import COMPILED

CASES = (
    "kernel",
    "expression",
    "cloudevents",
    "filters",
    "append",
    "append_1k",
    "partitions",
    "read",
    "lookup",
    "memory",
    "opening",
    "sustained",
)
ONLY_BY_NAME = frozenset({"sustained"})
DATA = Path(__file__).resolve().parents[1] / "bench-data"


def main() -> int:
    """Run the cases, print the table."""
    options = _parser().parse_args()
    names = options.names or [name for name in CASES if name not in ONLY_BY_NAME]
    if options.sustained and "sustained" not in names:
        names.append("sustained")
    data: Path = options.data
    was_there = data.exists()
    data.mkdir(parents=True, exist_ok=True)
    kind, is_memory = filesystem_of(data)
    if is_memory:
        say(
            f"bench: {data} lies in memory ({kind}), which syncs nothing; name a folder on a disk with --data"
        )
        return 2
    taken = Options(options.seconds, options.rounds, data, options.scale, options.large)
    say(_machine(kind))
    figures: list[Figure] = []
    failed = 0
    for name in names:
        try:
            figures += _run(name, taken)
        except Exception:  # noqa: BLE001 - what the other cases found is shown all the same
            traceback.print_exc()
            say(f"{name} failed")
            failed = 1
    if not was_there:
        with contextlib.suppress(OSError):  # another run may be using it
            data.rmdir()
    if options.json:
        print(json.dumps({"machine": _machine(kind), "figures": msgspec.to_builtins(figures)}, indent=2))
    else:
        print(table(figures))
    return failed


def _run(name: str, options: Options) -> list[Figure]:
    say(f"{name} ...")
    started = time.perf_counter()
    figures: list[Figure] = importlib.import_module(f"bench.{name}").run(options)
    load = os.getloadavg()[0]
    say(f"{name} took {time.perf_counter() - started:.1f} s; load average {load:.1f}")
    return figures


def _machine(filesystem: str) -> str:
    kernels = "compiled" if COMPILED else "NOT compiled"
    return (
        f"{os.cpu_count()} cores, Linux {platform.release()}, {filesystem}, Python {platform.python_version()}, "
        f"kernels {kernels}, load average {os.getloadavg()[0]:.1f}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *CASES], help=", ".join(CASES))
    parser.add_argument(
        "--seconds",
        type=float,
        default=float(os.environ.get("BENCH_SECONDS", "10")),
        help="how long the load of each case lasts, all rounds together (BENCH_SECONDS, 10)",
    )
    parser.add_argument("--rounds", type=int, default=5, help="best and median are of so many rounds (5)")
    parser.add_argument("--scale", type=float, default=1.0, help="below 1: smaller counts, for a trial")
    parser.add_argument("--data", type=Path, default=DATA, help="a folder on a disk (./bench-data)")
    parser.add_argument("--large", action="store_true", help="open a partition of 20 GB instead of 4 GB")
    parser.add_argument("--sustained", action="store_true", help="append for half a minute, too")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser


if __name__ == "__main__":
    sys.exit(main())

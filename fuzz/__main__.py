"""`python -m fuzz [TARGET ...] [--seconds N] [--seed N]`, or `--input FILE` to run one target on one file again."""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from pathlib import Path

from fuzz import (  # noqa: F401 - they register their targets
    amqp_connection_targets,
    amqp_kernel_targets,
    amqp_targets,
    cloudevents_targets,
    expression_targets,
    filter_targets,
    log_targets,
    stream_targets,
)
from fuzz.loop import execute, fuzz, save
from fuzz.targets import TARGETS, Target

CRASHES = Path(__file__).parent / "crashes"
EXECUTIONS_MAX = 1 << 62


def main(arguments: list[str]) -> int:
    """Fuzz the targets named, or all; 1 as soon as one breaks."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if unknown := set(options.targets) - TARGETS.keys():
        parser.error(f"there is no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    targets = [TARGETS[name] for name in options.targets or TARGETS]
    if options.input is not None:
        return _repeat(targets, options.input)
    for target in targets:
        if not _fuzzed(target, options.seed, options.seconds):
            return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz", description="Any bytes parse, or raise the one error."
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"one of: {', '.join(TARGETS)}")
    seconds = float(os.environ.get("FUZZ_SECONDS", "10"))
    parser.add_argument("--seconds", type=float, default=seconds, help="for each target (FUZZ_SECONDS, 10)")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (0)")
    parser.add_argument("--input", type=Path, help="run one target on this file alone")
    return parser


def _fuzzed(target: Target, seed: int, seconds: float) -> bool:
    started = time.monotonic()
    outcome = fuzz(target, seed, EXECUTIONS_MAX, seconds)
    elapsed = time.monotonic() - started
    line = (
        f"{target.name:<24} {outcome.executions:>9} executions {outcome.accepted:>9} parsed {elapsed:>6.1f} s"
    )
    if outcome.failure is None:
        print(line, flush=True)
        return True
    data, error = outcome.failure
    traceback.print_exception(error)
    path = os.path.relpath(save(CRASHES, target, data))
    print(f"{line}  BROKEN: {type(error).__name__}: {error}")
    print(f"repeat it with: python -m fuzz {target.name} --input {path}")
    return False


def _repeat(targets: list[Target], path: Path) -> int:
    if len(targets) != 1:
        print("--input needs exactly one target")
        return 2
    parsed = execute(targets[0], path.read_bytes())
    print(f"{targets[0].name}: {'parsed' if parsed else f'refused with {targets[0].error.__name__}'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

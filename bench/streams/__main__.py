"""`python -m bench.streams`: the stream door and RabbitMQ under the same load, one after the other."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.disk import filesystem_of, scratch
from bench.figure import say
from bench.streams import crowds, latency, publishing, replaying
from bench.streams.case import Bench, Case, Values
from bench.streams.loading import Loader, LoadFailed, build_loader
from bench.streams.report import Row, rows_of, table
from bench.streams.servers import NotHere, Server, headwater, rabbitmq

__all__ = ["main"]

CASES = {case.name: case for case in (*crowds.CASES, *publishing.CASES, *replaying.CASES, *latency.CASES)}
ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "bench-data"
TOOLS = ROOT.parent / "shared" / "bench"
_CANNOT = 2


def main() -> int:
    """Run the cases, print the table; 1 if one failed, 2 if nothing can be measured here."""
    options = _parser().parse_args()
    if not (options.tools / "streamload.c").exists():
        say(
            f"bench: there is no load generator in {options.tools} (streamload.c); "
            "name its folder: make bench-streams LOAD_TOOLS=DIR"
        )
        return _CANNOT
    options.data.mkdir(parents=True, exist_ok=True)
    kind, is_memory = filesystem_of(options.data)
    if is_memory:
        say(f"bench: {options.data} lies in memory ({kind}), which syncs nothing; name a folder on a disk")
        return _CANNOT
    try:
        loader = build_loader(options.tools, options.data)
    except (OSError, subprocess.CalledProcessError) as error:
        say(f"bench: the load generator does not compile: {error}")
        return _CANNOT
    with scratch(options.data, "streams") as folder, contextlib.ExitStack() as stack:
        servers = [stack.enter_context(headwater(folder))]
        if not options.ours_only:
            try:
                servers.append(stack.enter_context(rabbitmq(options.tools, folder)))
            except NotHere as reason:
                say(f"bench: ours alone is measured: {reason}")
        return _measure(options, servers, loader, kind)


def _measure(options: argparse.Namespace, servers: Sequence[Server], loader: Loader, filesystem: str) -> int:
    conditions = _conditions(servers, filesystem)
    say(conditions)
    bench = Bench(loader, options.seconds, options.scale)
    rows: list[Row] = []
    failed = 0
    for case in (CASES[name] for name in options.cases):
        say(f"{case.name} ...")
        loader.other_cores.clear()
        try:
            ours, theirs = _rounds(
                case, bench, servers, min(options.rounds, case.rounds_max or options.rounds)
            )
        except LoadFailed as error:
            say(f"{case.name} failed: {error}")
            failed = 1
            continue
        found = rows_of(case, ours, theirs)
        rows += found
        say(table(found))
        others = (
            f", others took {statistics.median(loader.other_cores):.1f} cores" if loader.other_cores else ""
        )
        say(f"load average {os.getloadavg()[0]:.1f}{others}\n")
    if options.json:
        print(json.dumps({"conditions": conditions, "rows": msgspec.to_builtins(rows)}, indent=2))
    else:
        print(f"{conditions}\n\n{table(rows)}")
    return failed


def _rounds(
    case: Case, bench: Bench, servers: Sequence[Server], rounds: int
) -> tuple[list[Values], list[Values]]:
    """What each round gave, ours and theirs; the servers take turns, so that both meet the same machine."""
    values: list[list[Values]] = [[], []]
    running = list(enumerate(servers))
    for _, server in running:
        case.prepare(bench, server)
    try:
        for _ in range(rounds):
            for number, server in list(running):
                try:
                    values[number].append(case.run(bench, server))
                except LoadFailed as error:
                    if number == 0:
                        raise
                    say(f"  {server.name} does not get through it: {error}")
                    running.pop()
    finally:
        for server in servers:
            case.clean(bench, server)
    return values[0], values[1]


def _conditions(servers: Sequence[Server], filesystem: str) -> str:
    return (
        f"{' and '.join(server.version for server in servers)}; {os.cpu_count()} cores, "
        f"Linux {platform.release()}, {filesystem}, Python {platform.python_version()}, "
        f"load average {os.getloadavg()[0]:.1f}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.streams", description=__doc__)
    parser.add_argument(
        "--cases", nargs="+", metavar="CASE", choices=CASES, default=list(CASES), help=", ".join(CASES)
    )
    parser.add_argument("--rounds", type=int, default=3, help="best and median are of so many rounds (3)")
    parser.add_argument("--seconds", type=float, default=4.0, help="about how long one round lasts (4)")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="below 1: smaller logs and crowds, for a trial"
    )
    parser.add_argument("--ours-only", action="store_true", help="without RabbitMQ")
    parser.add_argument("--data", type=Path, default=DATA, help="a folder on a disk (./bench-data)")
    parser.add_argument(
        "--tools", type=Path, default=TOOLS, help="where streamload.c and the scripts for RabbitMQ are"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser


if __name__ == "__main__":
    sys.exit(main())

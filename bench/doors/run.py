"""The command that measures a door: takes turns among the servers, prints the table of all cases."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from bench.disk import filesystem_of, scratch
from bench.doors.case import Bench, Case, Values
from bench.doors.loading import Loader, LoadFailed, build_program
from bench.doors.report import Row, rows_of, table
from bench.doors.servers import NotHere, Server
from bench.figure import say

__all__ = ["Door", "measure"]

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "bench-data"
TOOLS = ROOT.parent / "shared" / "bench"
_CANNOT = 2

Start = Callable[[Path, Path], contextlib.AbstractContextManager[Server]]
"""Starts a server; gets the folder of the tools and one for its data."""


class Door(msgspec.Struct, frozen=True):
    """What of a door is measured, and beside which servers."""

    name: str
    program: str
    """The load generator among the tools, without its ending."""
    loader: Callable[[Path], Loader]
    cases: Mapping[str, Case]
    ours: Start
    peers: Sequence[Start]
    settings: str
    """What is the same in all cases, for the table."""


def measure(door: Door, arguments: Sequence[str] | None = None) -> int:
    """Run the cases, print the table; 1 if one failed, 2 if nothing can be measured here."""
    options = _parser(door).parse_args(arguments)
    if not (options.tools / f"{door.program}.c").exists():
        say(
            f"bench: there is no load generator in {options.tools} ({door.program}.c); "
            f"name its folder: make bench-{door.name} LOAD_TOOLS=DIR"
        )
        return _CANNOT
    options.data.mkdir(parents=True, exist_ok=True)
    kind, is_memory = filesystem_of(options.data)
    if is_memory:
        say(f"bench: {options.data} lies in memory ({kind}), which syncs nothing; name a folder on a disk")
        return _CANNOT
    try:
        loader = door.loader(build_program(options.tools, options.data, door.program))
    except (OSError, subprocess.CalledProcessError) as error:
        say(f"bench: the load generator does not compile: {error}")
        return _CANNOT
    with scratch(options.data, door.name) as folder, contextlib.ExitStack() as stack:
        servers = list(_servers(door, options, folder, stack))
        return _measure(door, options, servers, loader, kind)


def _servers(
    door: Door, options: argparse.Namespace, folder: Path, stack: contextlib.ExitStack
) -> Iterator[Server]:
    yield stack.enter_context(door.ours(options.tools, folder))
    for start in () if options.ours_only else door.peers:
        try:
            yield stack.enter_context(start(options.tools, folder))
        except NotHere as reason:
            say(f"bench: measured without one: {reason}")


def _measure(
    door: Door, options: argparse.Namespace, servers: Sequence[Server], loader: Loader, filesystem: str
) -> int:
    conditions = f"{_machine(servers, filesystem)}\n{door.settings}"
    say(conditions)
    bench = Bench(loader, options.seconds, options.scale)
    rows: list[Row] = []
    failed = 0
    for case in (door.cases[name] for name in options.cases):
        say(f"{case.name} ...")
        loader.other_cores.clear()
        try:
            values = _rounds(case, bench, servers, min(options.rounds, case.rounds_max or options.rounds))
        except LoadFailed as error:
            say(f"{case.name} failed: {error}")
            failed = 1
            continue
        found = rows_of(case, values)
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


def _rounds(case: Case, bench: Bench, servers: Sequence[Server], rounds: int) -> dict[str, list[Values]]:
    """What each round gave, by server, ours first; they take turns, so that all meet the same machine."""
    values: dict[str, list[Values]] = {server.name: [] for server in servers}
    failed: dict[str, LoadFailed] = {}

    def on_each(step: Callable[[Server], None]) -> None:
        for number, server in enumerate(servers):
            if server.name in failed:
                continue
            try:
                step(server)
            except LoadFailed as error:
                if number == 0:
                    raise
                say(f"  {server.name} does not get through it: {error}")
                failed[server.name] = error

    try:
        on_each(lambda server: case.prepare(bench, server))
        for _ in range(rounds):
            on_each(lambda server: values[server.name].append(case.run(bench, server)))
    finally:
        failed.clear()
        on_each(lambda server: case.clean(bench, server))
    return values


def _machine(servers: Sequence[Server], filesystem: str) -> str:
    return (
        f"{' and '.join(server.version for server in servers)}; {os.cpu_count()} cores, "
        f"Linux {platform.release()}, {filesystem}, Python {platform.python_version()}, "
        f"load average {os.getloadavg()[0]:.1f}"
    )


def _parser(door: Door) -> argparse.ArgumentParser:
    names = list(door.cases)
    parser = argparse.ArgumentParser(
        prog=f"python -m bench.{door.name}", description=f"The {door.name} door beside other servers."
    )
    parser.add_argument(
        "--cases", nargs="+", metavar="CASE", choices=names, default=names, help=", ".join(names)
    )
    parser.add_argument("--rounds", type=int, default=3, help="best and median are of so many rounds (3)")
    parser.add_argument("--seconds", type=float, default=4.0, help="about how long one round lasts (4)")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="below 1: smaller logs and crowds, for a trial"
    )
    parser.add_argument("--ours-only", action="store_true", help="without other servers")
    parser.add_argument("--data", type=Path, default=DATA, help="a folder on a disk (./bench-data)")
    parser.add_argument(
        "--tools",
        type=Path,
        default=TOOLS,
        help=f"where {door.program}.c and the scripts for RabbitMQ are",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser

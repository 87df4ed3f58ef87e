"""Links with an account of their own: in groups, of shared subscriptions, with selectors; and what idle ones cost."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys

from bench.amqp.filled import CLOUD_EVENTS, PLAIN, count_in, filled, removed
from bench.amqp.logs import address_of, delete_log, make_log
from bench.amqp.publishing import rate, share
from bench.doors.case import Bench, Case, Metric, Values, cpu_ratio, memory
from bench.doors.loading import LoadFailed
from bench.doors.servers import Server
from bench.figure import at_least, at_most

__all__ = ["CASES"]

SUBSCRIPTIONS = 10_000
SHARING = 4
QUIET = "quiet"
LARGE = "large"
LARGE_BYTES = 10 << 30
LARGE_MESSAGE_BYTES = 1_000
ATTACHES = 300
SELECTOR = "cloudEvents_type <> 'none'"
_numbers = itertools.count()


def _program(server: Server, name: str, *options: str) -> dict[str, float]:
    """Run a program of ours beside the server; gives what it reports."""
    if not server.has_event_streams:
        raise LoadFailed("it has no groups and no shared subscriptions on what it stores")
    command = [sys.executable, "-m", f"bench.amqp.{name}", "--port", str(server.port), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LoadFailed(f"{name} ended with {done.returncode}: {done.stderr[-300:]}")
    report: dict[str, float] = json.loads(done.stdout)
    return report


def _received(server: Server, log: str, *options: str) -> dict[str, float]:
    count = count_in(server, log)
    source = ("--source", address_of(server, log), "--offset", "first", "--n", str(count))
    report = _program(server, "receiver", "--pid", str(server.pid), *source, *options)
    if report["consumed"] < count:
        raise LoadFailed(f"{report['consumed']} of {count} messages were consumed")
    return {
        "rate": report["con_msgs_s"] / 1e3,
        "CPU": report["broker_cpu_s_per_M"],
        "memory": server.resident_mib,
    }


def _beside_plain(server: Server, log: str, *options: str) -> Values:
    plain = _received(server, log)
    values = _received(server, log, *options)
    values["of plain"] = values["rate"] / plain["rate"]
    # The clock of a process ticks every 10 ms: a trial on small logs may see none of it.
    values["CPU of plain"] = values["CPU"] / plain["CPU"] if plain["CPU"] else math.nan
    return values


def _grouped(_bench: Bench, server: Server) -> Values:
    return _beside_plain(server, PLAIN, "--group", f"group-{next(_numbers)}")


def _durable(_bench: Bench, server: Server) -> Values:
    return _beside_plain(server, PLAIN, "--durable", "--link", f"durable-{next(_numbers)}")


def _shared(_bench: Bench, server: Server) -> Values:
    name = f"shared-{next(_numbers)}"
    return _beside_plain(server, PLAIN, "--shared", "--durable", "--cons", str(SHARING), "--link", name)


def _selected(_bench: Bench, server: Server) -> Values:
    return _beside_plain(server, CLOUD_EVENTS, "--selector", SELECTOR)


def _idle(bench: Bench, server: Server) -> Values:
    before = server.resident_mib
    count = bench.scaled(SUBSCRIPTIONS)
    _program(server, "attacher", "--source", address_of(server, QUIET), "--subscriptions", str(count))
    return {"more memory": server.resident_mib - before}


def _make_quiet(_bench: Bench, server: Server) -> None:
    make_log(server, QUIET)


def _delete_quiet(_bench: Bench, server: Server) -> None:
    delete_log(server, QUIET)


def _make_large(bench: Bench, server: Server) -> None:
    delete_log(server, LARGE)
    make_log(server, LARGE)
    count = bench.scaled(LARGE_BYTES // LARGE_MESSAGE_BYTES)
    address = ("--address", address_of(server, LARGE), "--size", str(LARGE_MESSAGE_BYTES))
    bench.loader.run(server, "publish", *address, "--n", str(count))


def _delete_large(_bench: Bench, server: Server) -> None:
    delete_log(server, LARGE)


def _attach(bench: Bench, server: Server) -> Values:
    end = bench.scaled(LARGE_BYTES // LARGE_MESSAGE_BYTES)
    source = ("--source", address_of(server, LARGE), "--end", str(end), "--attaches", str(ATTACHES))
    report = _program(server, "attacher", *source)
    return {
        "attached p50": report["attached_p50_ms"],
        "attached p99": report["attached_p99_ms"],
        "first message p50": report["first_p50_ms"],
    }


def _case(name: str, title: str, run: object, log: str, *metrics: Metric) -> Case:
    assert callable(run), "a case is run"
    cost = Metric("CPU of plain", "ratio", smaller_is_better=True)
    return Case(name, title, (*metrics, cost, cpu_ratio(), memory()), run, filled(log), removed(log))


CASES = (
    _case(
        "grouped",
        "consume 100 B in a group of one, unsettled",
        _grouped,
        PLAIN,
        rate(),
        share(at_least(0.9)),
    ),
    _case(
        "durable", "consume 100 B from a durable subscription, unsettled", _durable, PLAIN, rate(), share()
    ),
    _case(
        "shared",
        f"consume 100 B from a durable subscription with {SHARING} consumers, unsettled",
        _shared,
        PLAIN,
        rate(300),
        share(),
    ),
    _case(
        "selected",
        "consume CloudEvents of 320 B with a selector over a property that all have",
        _selected,
        CLOUD_EVENTS,
        rate(300),
        share(),
    ),
    Case(
        "idle-subscriptions",
        f"{SUBSCRIPTIONS:,} durable subscriptions to which nobody is attached",
        (Metric("more memory", "MiB", smaller_is_better=True, aim=at_most(100)),),
        _idle,
        _make_quiet,
        _delete_quiet,
        rounds_max=1,
    ),
    Case(
        "attach",
        f"attach at an offset of a log of {LARGE_BYTES >> 30} GiB, {ATTACHES} times",
        (
            Metric("attached p50", "ms", smaller_is_better=True, aim=at_most(5)),
            Metric("attached p99", "ms", smaller_is_better=True, aim=at_most(5)),
            Metric("first message p50", "ms", smaller_is_better=True),
        ),
        _attach,
        _make_large,
        _delete_large,
        rounds_max=2,
    ),
)

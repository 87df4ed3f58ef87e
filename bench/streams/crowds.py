"""What is connected and does nothing: an idle server, a thousand idle consumers, fifty that stopped reading."""

from __future__ import annotations

import os
import signal

from bench.doors.case import Bench, Case, Metric, Values
from bench.doors.crowd import FOR_EVER, idle_values, wait_connected
from bench.doors.loading import LoadFailed
from bench.doors.servers import Server, connections_to
from bench.doors.timing import delivered_p99_ms, latency_load
from bench.figure import at_most
from bench.streams.latency import TICKS
from bench.streams.replaying import remove

__all__ = ["CASES"]

STREAM = "quiet"
IDLE_S = 60
IDLE_CONSUMERS = 1_000
STOPPED_CONSUMERS = 50
STOPPED_CREDIT = "65535"
FILLING_MESSAGES = 2_000_000
"""Of 100 bytes: more than fifty sockets hold."""
RATE = 10_000


def _make_stream(bench: Bench, server: Server) -> None:
    bench.loader.run(server, "publish", "--fresh", "--stream", STREAM, "--n", "1000")


def _idle(_bench: Bench, server: Server) -> Values:
    return {"memory": server.resident_mib}


def _thousand(bench: Bench, server: Server) -> Values:
    count = bench.scaled(IDLE_CONSUMERS)
    seconds = IDLE_S * min(1.0, bench.scale)
    return idle_values(bench, server, count, seconds, "--stream", STREAM, "--cons", str(count))


def _fifty(bench: Bench, server: Server) -> Values:
    live = ("--stream", STREAM, "--offset", "next", *TICKS)
    alone = delivered_p99_ms(latency_load(bench, server, RATE, *live))
    before = server.resident_mib
    count = bench.scaled(STOPPED_CONSUMERS)
    options = ("--stream", STREAM, "--cons", str(count), "--offset", "next", "--n", FOR_EVER)
    with bench.loader.beside(server, "consume", "--credit", STOPPED_CREDIT, *options) as process:
        wait_connected(server, count)
        os.kill(process.pid, signal.SIGSTOP)
        filling = str(bench.scaled(FILLING_MESSAGES))
        bench.loader.run(server, "publish", "--stream", STREAM, "--n", filling)
        filled = server.resident_mib
        beside = delivered_p99_ms(latency_load(bench, server, RATE, *live))
        more = max(filled, server.resident_mib) - before
        if connections_to(server.port) < count:
            raise LoadFailed(f"of {count} stopped consumers {connections_to(server.port)} are left")
    return {"more memory": more, "p99 alone": alone, "p99 beside": beside, "p99 ratio": beside / alone}


def _small(name: str, unit: str, bound: float | None = None) -> Metric:
    return Metric(name, unit, smaller_is_better=True, aim=None if bound is None else at_most(bound))


CASES = (
    Case("idle", "idle server, just started", (_small("memory", "MiB", 80),), _idle, rounds_max=1),
    Case(
        "idle-1000",
        f"{IDLE_CONSUMERS:,} idle consumers for {IDLE_S} s",
        (_small("more memory", "MiB", 100), _small("CPU", "% of a core", 2)),
        _thousand,
        _make_stream,
        remove(STREAM),
        rounds_max=1,
    ),
    Case(
        "stopped",
        f"{STOPPED_CONSUMERS} consumers stopped, credit {STOPPED_CREDIT}",
        (
            _small("more memory", "MiB", 100),
            _small("p99 alone", "ms"),
            _small("p99 beside", "ms"),
            _small("p99 ratio", "", 2),
        ),
        _fifty,
        _make_stream,
        remove(STREAM),
    ),
)

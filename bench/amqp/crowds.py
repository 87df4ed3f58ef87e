"""Links that are attached and do nothing."""

from __future__ import annotations

from bench.amqp.logs import address_of, delete_log, make_log
from bench.doors.case import Bench, Case, Metric, Values
from bench.doors.crowd import idle_values
from bench.doors.servers import Server
from bench.figure import at_most

__all__ = ["CASES"]

LOG = "quiet"
CONNECTIONS = 100
LINKS_EACH = 10
IDLE_S = 30


def _prepare(_bench: Bench, server: Server) -> None:
    make_log(server, LOG)


def _clean(_bench: Bench, server: Server) -> None:
    delete_log(server, LOG)


def _idle(bench: Bench, server: Server) -> Values:
    count = bench.scaled(CONNECTIONS)
    seconds = IDLE_S * min(1.0, bench.scale)
    options = ("--cons", str(count), "--links", str(LINKS_EACH), "--idle-timeout", "30000")
    return idle_values(bench, server, count, seconds, "--source", address_of(server, LOG), *options)


CASES = (
    Case(
        "idle-links",
        f"{CONNECTIONS * LINKS_EACH:,} idle links on {CONNECTIONS} connections for {IDLE_S} s",
        (
            Metric("more memory", "MiB", smaller_is_better=True, aim=at_most(100)),
            Metric("CPU", "% of a core", smaller_is_better=True, aim=at_most(2)),
        ),
        _idle,
        _prepare,
        _clean,
        rounds_max=1,
    ),
)

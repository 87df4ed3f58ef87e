"""At a given rate, each message when it is due: how long it takes to be accepted and to be delivered."""

from __future__ import annotations

from collections.abc import Callable

from bench.doors.case import Bench, Case, Metric, Values, cpu_ratio, memory
from bench.doors.servers import Server
from bench.doors.timing import latency_load, latency_values
from bench.figure import at_most

__all__ = ["CASES"]


def _at(rate: int) -> Callable[[Bench, Server], Values]:
    def run(bench: Bench, server: Server) -> Values:
        return latency_values(latency_load(bench, server, rate, *bench.loader.fresh(server)))

    return run


def _metrics(p99_ms: float) -> tuple[Metric, ...]:
    return (
        Metric("confirmed p99", "ms", smaller_is_better=True, aim=at_most(p99_ms)),
        Metric("delivered p99", "ms", smaller_is_better=True, aim=at_most(p99_ms)),
        Metric("delivered p50", "ms", smaller_is_better=True),
        cpu_ratio(),
        memory(),
    )


CASES = (
    Case("1k", "1,000/s one by one", _metrics(1.5), _at(1_000)),
    Case("10k", "10,000/s one by one", _metrics(4), _at(10_000)),
)

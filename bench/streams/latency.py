"""At a given rate: how long confirms and deliveries take, counted from the moment when a message was due."""

from __future__ import annotations

from bench.doors.case import Bench, Case, Metric, Values, cpu_ratio, memory
from bench.doors.servers import Server
from bench.doors.timing import latency_load, latency_values
from bench.figure import at_most
from bench.streams.replaying import LARGE_LOG, LARGE_LOG_MESSAGES, make_large_log, remove

__all__ = ["CASES", "TICKS"]

ONE_BY_ONE = ("--batch", "1", "--credit", "200")
"""Each message goes out when it is due, in a frame of its own."""
TICKS = ("--tick-us", "1000")
"""Messages go out on each millisecond, those of one in one frame."""
REPLAYS_BESIDE = 3


def _one_by_one(bench: Bench, server: Server) -> Values:
    return latency_values(latency_load(bench, server, 10_000, "--fresh", *ONE_BY_ONE))


def _beside_replay(bench: Bench, server: Server) -> Values:
    """The same number of replays for both servers, or the one that replays more slowly would seem to work less."""
    count = str(bench.scaled(LARGE_LOG_MESSAGES))
    replay = ("consume", "--stream", LARGE_LOG, "--n", count)
    with bench.loader.repeated_beside(server, REPLAYS_BESIDE, *replay) as replays:
        values = dict(latency_values(latency_load(bench, server, 10_000, "--fresh", *ONE_BY_ONE)))
    values["replay beside"] = sum(load.con_msgs_s for load in replays) / len(replays) / 1e3
    return values


def _ticks(bench: Bench, server: Server) -> Values:
    return latency_values(latency_load(bench, server, 10_000, "--fresh", *TICKS))


def _faster(bench: Bench, server: Server) -> Values:
    return latency_values(latency_load(bench, server, 50_000, "--fresh", *ONE_BY_ONE))


def _faster_ticks(bench: Bench, server: Server) -> Values:
    return latency_values(latency_load(bench, server, 50_000, "--fresh", *TICKS))


def _metrics(p99_ms: float | None, cpu: float | None) -> tuple[Metric, ...]:
    aim = None if p99_ms is None else at_most(p99_ms)
    return (
        Metric("delivered p99", "ms", smaller_is_better=True, aim=aim),
        Metric("delivered p50", "ms", smaller_is_better=True),
        Metric("confirmed p99", "ms", smaller_is_better=True),
        cpu_ratio(cpu),
        memory(),
    )


CASES = (
    Case("10k", "10,000/s one by one", _metrics(5, 1 / 3), _one_by_one),
    Case(
        "10k-replay",
        f"10,000/s one by one, {REPLAYS_BESIDE} replays of 1 GB beside",
        (*_metrics(5, 1 / 3), Metric("replay beside", "k/s")),
        _beside_replay,
        make_large_log,
        remove(LARGE_LOG),
    ),
    Case("10k-ticks", "10,000/s, ten each millisecond", _metrics(None, None), _ticks),
    Case("50k", "50,000/s one by one", _metrics(10, None), _faster),
    Case("50k-ticks", "50,000/s, fifty each millisecond", _metrics(10, None), _faster_ticks),
)

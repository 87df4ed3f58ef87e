"""At a given rate: how long confirms and deliveries take, counted from the moment when a message was due."""

from __future__ import annotations

from bench.figure import at_most
from bench.streams.case import Bench, Case, Metric, Values, cpu_ratio, memory
from bench.streams.loading import Load, LoadFailed
from bench.streams.replaying import LARGE_LOG, LARGE_LOG_MESSAGES, make_large_log, remove
from bench.streams.servers import Server

__all__ = ["CASES", "TICKS", "delivered_p99_ms", "latency_load"]

ONE_BY_ONE = ("--batch", "1", "--credit", "200")
"""Each message goes out when it is due, in a frame of its own."""
TICKS = ("--tick-us", "1000")
"""Messages go out on each millisecond, those of one in one frame."""
WARM_S = 1
REPLAYS_BESIDE = 3


def latency_load(bench: Bench, server: Server, rate: int, *options: str) -> Load:
    """One run at a rate; the first second does not count."""
    seconds = bench.seconds + WARM_S
    timing = ("--rate", str(rate), "--duration", f"{seconds:.1f}", "--warmup", str(WARM_S))
    return bench.loader.run(server, "latency", *timing, *options)


def delivered_p99_ms(load: Load) -> float:
    """From due to delivered."""
    if load.deliver_us is None or load.confirm_us is None:
        raise LoadFailed("no message of the latency run was timed")
    return load.deliver_us.p99 / 1e3


def _values(load: Load) -> Values:
    p99 = delivered_p99_ms(load)
    assert load.confirm_us is not None
    assert load.deliver_us is not None
    return {
        "delivered p99": p99,
        "delivered p50": load.deliver_us.p50 / 1e3,
        "confirmed p99": load.confirm_us.p99 / 1e3,
        "CPU": load.broker_cpu_s_per_million,
        "memory": load.broker_rss_mib,
    }


def _one_by_one(bench: Bench, server: Server) -> Values:
    return _values(latency_load(bench, server, 10_000, "--fresh", *ONE_BY_ONE))


def _beside_replay(bench: Bench, server: Server) -> Values:
    """The same number of replays for both servers, or the one that replays more slowly would seem to work less."""
    count = str(bench.scaled(LARGE_LOG_MESSAGES))
    replay = ("consume", "--stream", LARGE_LOG, "--n", count)
    with bench.loader.repeated_beside(server, REPLAYS_BESIDE, *replay) as replays:
        values = dict(_values(latency_load(bench, server, 10_000, "--fresh", *ONE_BY_ONE)))
    values["replay beside"] = sum(load.con_msgs_s for load in replays) / len(replays) / 1e3
    return values


def _ticks(bench: Bench, server: Server) -> Values:
    return _values(latency_load(bench, server, 10_000, "--fresh", *TICKS))


def _faster(bench: Bench, server: Server) -> Values:
    return _values(latency_load(bench, server, 50_000, "--fresh", *ONE_BY_ONE))


def _faster_ticks(bench: Bench, server: Server) -> Values:
    return _values(latency_load(bench, server, 50_000, "--fresh", *TICKS))


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

"""At a given rate: how long confirms and deliveries take, counted from the moment when a message was due."""

from __future__ import annotations

from bench.doors.case import Bench, Values
from bench.doors.loading import Load, LoadFailed
from bench.doors.servers import Server

__all__ = ["delivered_p99_ms", "latency_load", "latency_values"]

WARM_S = 1


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


def latency_values(load: Load) -> Values:
    """What a run at a rate gives."""
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

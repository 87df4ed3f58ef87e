"""As fast as it goes: publishing, with and without consumers."""

from __future__ import annotations

from collections.abc import Callable

from bench.doors.case import Bench, Case, Values, cpu_ratio, memory, no_slower
from bench.doors.loading import Load
from bench.doors.servers import Server

__all__ = ["CASES"]

PILOT = 100_000
SUSTAINED_S = 30
STREAMS = 100
CONSUMERS = 4


def _values(load: Load) -> Values:
    return {
        "rate": load.pub_msgs_s / 1e3,
        "CPU": load.broker_cpu_s_per_million,
        "memory": load.broker_rss_mib,
    }


def _publish(bench: Bench, server: Server) -> Values:
    return _values(bench.loader.run_for(server, bench.seconds, "publish", pilot=PILOT))


def _publish_1k(bench: Bench, server: Server) -> Values:
    load = bench.loader.run_for(server, bench.seconds, "publish", "--size", "1024", pilot=PILOT)
    return _values(load)


def _publish_and_consume(bench: Bench, server: Server) -> Values:
    return _values(bench.loader.run_for(server, bench.seconds, "both", pilot=PILOT))


def _publish_named(bench: Bench, server: Server) -> Values:
    return _values(bench.loader.run_for(server, bench.seconds, "publish", "--ref", "bench", pilot=PILOT))


def _sustained(bench: Bench, server: Server) -> Values:
    seconds = max(bench.seconds, SUSTAINED_S * bench.scale)
    return _values(bench.loader.run_for(server, seconds, "publish", pilot=PILOT))


def _fan_out(bench: Bench, server: Server) -> Values:
    options = ("--cons", str(CONSUMERS))
    load = bench.loader.run_for(server, bench.seconds, "both", *options, pilot=PILOT, each=CONSUMERS)
    return _values(load)


def _many_streams(bench: Bench, server: Server) -> Values:
    count = bench.scaled(STREAMS, 2)
    options = ("--streams", str(count), "--stream", "many", "--delete")
    return _values(bench.loader.run_for(server, bench.seconds, "both", *options, pilot=PILOT // count))


def _case(
    name: str, title: str, run: Callable[[Bench, Server], Values], aim: float, goal: float | None = None
) -> Case:
    metrics = (no_slower(aim, goal=goal), cpu_ratio(), memory())
    return Case(name, title, metrics, run)


CASES = (
    _case("publish", "publish 100 B in batches of 100", _publish, 6, 10),
    _case("publish-1k", "publish 1 KiB in batches of 100", _publish_1k, 3, 5),
    _case("both", "publish and consume 100 B at once", _publish_and_consume, 5),
    _case("named", "publish 100 B, named, with deduplication", _publish_named, 6),
    _case("fan-out", f"publish 100 B, {CONSUMERS} consumers", _fan_out, 1),
    _case("streams", f"publish and consume, {STREAMS} streams at once", _many_streams, 1),
    _case("sustained", f"publish 100 B for {SUSTAINED_S} s", _sustained, 6),
)

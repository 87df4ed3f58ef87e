"""As fast as it goes over one link: unsettled, settled, CloudEvents, with a consumer at the head."""

from __future__ import annotations

from collections.abc import Callable

from bench.doors.case import Bench, Case, Metric, Values, cpu_ratio, memory
from bench.doors.loading import Load
from bench.doors.servers import Server
from bench.figure import Aim, at_least

__all__ = ["CASES", "CLOUD_EVENT", "CLOUD_EVENTS_AIM", "CREDIT", "rate", "share"]

PILOT = 20_000
CREDIT = ("--credit", "10000")
CLOUD_EVENT = ("--cloudevent", "--size", "80")
"""With attributes and body 320 bytes."""
CLOUD_EVENTS_AIM = 700
"""Seven tenths of what is asked of plain messages at most."""


def rate(aim: float | None = None, goal: float | None = None) -> Metric:
    """Thousands of messages a second."""
    return Metric("rate", "k/s", aim=None if aim is None else at_least(aim), goal=goal)


def share(aim: Aim | None = None) -> Metric:
    """What of the rate of plain messages, in the same round, is left."""
    return Metric("of plain", "ratio", aim=aim)


def _values(load: Load) -> dict[str, float]:
    return {
        "rate": load.pub_msgs_s / 1e3,
        "CPU": load.broker_cpu_s_per_million,
        "memory": load.broker_rss_mib,
    }


def _publish(bench: Bench, server: Server, *options: str) -> dict[str, float]:
    return _values(bench.loader.run_for(server, bench.seconds, "publish", *options, pilot=PILOT))


def _unsettled(bench: Bench, server: Server) -> Values:
    return _publish(bench, server)


def _settled(bench: Bench, server: Server) -> Values:
    return _publish(bench, server, "--settled")


def _cloud_events(bench: Bench, server: Server) -> Values:
    plain = _publish(bench, server)
    values = _publish(bench, server, *CLOUD_EVENT)
    values["of plain"] = values["rate"] / plain["rate"]
    return values


def _both(bench: Bench, server: Server) -> Values:
    return _values(bench.loader.run_for(server, bench.seconds, "both", *CREDIT, pilot=PILOT))


def _case(name: str, title: str, run: Callable[[Bench, Server], Values], *metrics: Metric) -> Case:
    return Case(name, title, (*metrics, cpu_ratio(), memory()), run)


CASES = (
    _case("publish", "publish 100 B, unsettled", _unsettled, rate(400, 1000)),
    _case("publish-settled", "publish 100 B, settled by the sender", _settled, rate(1000)),
    _case(
        "publish-ce",
        "publish CloudEvents of 320 B, unsettled",
        _cloud_events,
        rate(CLOUD_EVENTS_AIM),
        share(),
    ),
    _case("both", "publish and consume 100 B at once, unsettled", _both, rate()),
)

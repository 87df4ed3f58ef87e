"""Reading a log from its first message, over one link."""

from __future__ import annotations

from collections.abc import Callable

from bench.amqp.filled import CLOUD_EVENTS, PLAIN, SIZES, count_in, fill, filled, removed
from bench.amqp.logs import address_of
from bench.amqp.publishing import CLOUD_EVENTS_AIM, CREDIT, rate, share
from bench.doors.case import Bench, Case, Metric, Values, cpu_ratio, memory
from bench.doors.loading import Load, LoadFailed
from bench.doors.servers import Server
from bench.figure import at_least

__all__ = ["CASES"]

FIRST_OFFSET = "0" * 16


def _consume(bench: Bench, server: Server, log: str, *options: str) -> dict[str, float]:
    count = count_in(server, log)
    source = ("--source", address_of(server, log), "--offset", "first", *CREDIT, *SIZES[log])
    load = bench.loader.run(server, "consume", *source, *options, "--n", str(count))
    if load.consumed != count:
        raise LoadFailed(f"{load.consumed} of {count} messages were consumed")
    if not server.keeps_what_was_read:
        fill(bench, server, log)
    return _values(load)


def _values(load: Load) -> dict[str, float]:
    return {
        "rate": load.con_msgs_s / 1e3,
        "CPU": load.broker_cpu_s_per_million,
        "memory": load.broker_rss_mib,
    }


def _unsettled(bench: Bench, server: Server) -> Values:
    return _consume(bench, server, PLAIN)


def _settled(bench: Bench, server: Server) -> Values:
    return _consume(bench, server, PLAIN, "--settled")


def _cloud_events(bench: Bench, server: Server) -> Values:
    plain = _consume(bench, server, PLAIN)
    values = _consume(bench, server, CLOUD_EVENTS)
    values["of plain"] = values["rate"] / plain["rate"]
    return values


def _filtered(bench: Bench, server: Server) -> Values:
    """All but the first message, by the filter of Event Streams; nobody else has it."""
    if not server.has_event_streams:
        raise LoadFailed("it has no filters of Event Streams")
    plain = _consume(bench, server, PLAIN)
    count = count_in(server, PLAIN) - 1
    source = ("--source", address_of(server, PLAIN), "--es-offset", FIRST_OFFSET, *CREDIT)
    load = bench.loader.run(server, "consume", *source, "--n", str(count))
    values = _values(load)
    values["of plain"] = values["rate"] / plain["rate"]
    return values


def _case(
    name: str, title: str, run: Callable[[Bench, Server], Values], logs: tuple[str, ...], *metrics: Metric
) -> Case:
    return Case(name, title, (*metrics, cpu_ratio(), memory()), run, filled(*logs), removed(*logs))


CASES = (
    _case(
        "consume-filtered",
        "consume 100 B behind an offset, by a filter, unsettled",
        _filtered,
        (PLAIN,),
        rate(),
        share(at_least(0.9)),
    ),
    _case("consume", "consume 100 B from the first, unsettled", _unsettled, (PLAIN,), rate(600, 1500)),
    _case("consume-settled", "consume 100 B from the first, settled", _settled, (PLAIN,), rate(1000)),
    _case(
        "consume-ce",
        "consume CloudEvents of 320 B, unsettled",
        _cloud_events,
        (PLAIN, CLOUD_EVENTS),
        rate(CLOUD_EVENTS_AIM),
        share(),
    ),
)

"""Reading a log from its first message, over one link."""

from __future__ import annotations

from collections.abc import Callable

from bench.amqp.logs import address_of, delete_log, make_log
from bench.amqp.publishing import CLOUD_EVENT, CLOUD_EVENTS_AIM, CREDIT, PILOT, rate, share
from bench.doors.case import Bench, Case, Metric, Values, cpu_ratio, memory
from bench.doors.loading import Load, LoadFailed
from bench.doors.servers import Server
from bench.figure import at_least

__all__ = ["CASES"]

MESSAGES_MAX = 4_000_000
FIRST_OFFSET = "0" * 16
PLAIN, CLOUD_EVENTS = "plain", "cloud-events"
SIZES = {PLAIN: (), CLOUD_EVENTS: CLOUD_EVENT}
_filled: dict[tuple[str, str], int] = {}
"""By server and log, the messages in it."""


def _fill(bench: Bench, server: Server, log: str) -> None:
    """As many messages as the server takes in one round."""
    make_log(server, log, kind="stream" if server.keeps_what_was_read else "classic")
    address = ("--address", address_of(server, log), *SIZES[log])
    pilot = bench.loader.run(server, "publish", *address, "--n", str(PILOT))
    count = min(int(pilot.pub_msgs_s * bench.seconds), bench.scaled(MESSAGES_MAX, PILOT)) + 1
    bench.loader.run(server, "publish", *address, "--n", str(count))
    _filled[server.name, log] = PILOT + count


def _remove(*logs: str) -> Callable[[Bench, Server], None]:
    def clean(_bench: Bench, server: Server) -> None:
        for log in logs:
            if _filled.pop((server.name, log), None) is not None:
                delete_log(server, log)

    return clean


def _prepare(*logs: str) -> Callable[[Bench, Server], None]:
    def prepare(bench: Bench, server: Server) -> None:
        for log in logs:
            delete_log(server, log)  # that of a run which was interrupted
            _fill(bench, server, log)

    return prepare


def _consume(bench: Bench, server: Server, log: str, *options: str) -> dict[str, float]:
    count = _filled[server.name, log]
    source = ("--source", address_of(server, log), "--offset", "first", *CREDIT, *SIZES[log])
    load = bench.loader.run(server, "consume", *source, *options, "--n", str(count))
    if load.consumed != count:
        raise LoadFailed(f"{load.consumed} of {count} messages were consumed")
    if not server.keeps_what_was_read:
        _fill(bench, server, log)
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
    count = _filled[server.name, PLAIN] - 1
    source = ("--source", address_of(server, PLAIN), "--es-offset", FIRST_OFFSET, *CREDIT)
    load = bench.loader.run(server, "consume", *source, "--n", str(count))
    values = _values(load)
    values["of plain"] = values["rate"] / plain["rate"]
    return values


def _case(
    name: str, title: str, run: Callable[[Bench, Server], Values], logs: tuple[str, ...], *metrics: Metric
) -> Case:
    return Case(name, title, (*metrics, cpu_ratio(), memory()), run, _prepare(*logs), _remove(*logs))


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

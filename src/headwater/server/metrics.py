"""What the server counts and measures, in the text format of Prometheus; put together when it is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from headwater import __version__
from headwater.log.figures import LATENCY_BOUNDS_S
from headwater.log.log import Log
from headwater.log.partition import Partition, PartitionState
from headwater.log.store import Store
from headwater.server.amqp.door import Door as AmqpDoor
from headwater.server.consumers.consumers import Consumers
from headwater.server.http.listener import HttpListener
from headwater.server.lag import kept_lags, live_lags
from headwater.server.management.turns import in_turns
from headwater.server.security.authenticator import Authenticator
from headwater.server.streams.door import Door as StreamDoor

if TYPE_CHECKING:  # at run time the library is imported when somebody asks
    from prometheus_client.core import Metric

__all__ = ["CONSUMERS_MAX", "LOGS_MAX", "Measured", "metrics_text"]

CONSUMERS_MAX = 10_000
"""Groups and subscriptions with series of their own."""
LOGS_MAX = 2_000
"""Logs with series of their own; of more than these the rest is in the totals alone."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What is asked for its figures."""

    store: Store
    consumers: Consumers
    streams: StreamDoor
    amqp: AmqpDoor
    http: HttpListener
    authenticator: Authenticator


async def metrics_text(measured: Measured) -> bytes:
    """All figures of this moment. Logs are gone through in turns, and the text is made on a thread."""
    found = [*await _of_logs(measured), *_of_server(measured)]
    return await asyncio.get_running_loop().run_in_executor(None, _text, found)


def _text(found: list[Metric]) -> bytes:
    from prometheus_client import ProcessCollector, generate_latest

    class Collected:
        def collect(self) -> Iterator[Metric]:
            yield from found
            yield from ProcessCollector(registry=None).collect()

    return generate_latest(Collected())


async def _of_logs(measured: Measured) -> list[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    of_log, of_consumer = ("vhost", "log"), ("vhost", "log", "kind", "consumer")
    appended = CounterMetricFamily("headwater_log_events", "Events that a log ever took.", labels=of_log)
    written = CounterMetricFamily(
        "headwater_log_written_bytes", "Bytes written for a log since the server started.", labels=of_log
    )
    kept = GaugeMetricFamily("headwater_log_kept_events", "Events that a log holds.", labels=of_log)
    size = GaugeMetricFamily("headwater_log_size_bytes", "Bytes of a log on disk.", labels=of_log)
    refused = CounterMetricFamily(
        "headwater_log_refused_events",
        "What a log of CloudEvents refused since the server started.",
        labels=of_log,
    )
    dropped = CounterMetricFamily(
        "headwater_log_dropped_duplicates",
        "CloudEvents that a log had already, and did not take again, since the server started.",
        labels=of_log,
    )
    lag = GaugeMetricFamily(
        "headwater_consumer_lag_events",
        "Events that a group or a subscription has not settled; of live readers of a kind, the most of one.",
        labels=of_consumer,
    )
    store, live = measured.store, live_lags(measured.streams, measured.amqp)
    keys, named_left = sorted(store.logs), CONSUMERS_MAX
    async for key in in_turns(keys[:LOGS_MAX]):
        log = store.logs.get(key)
        if log is None:
            continue
        appended.add_metric(key, sum(each.committed_offset for each in log.partitions))
        written.add_metric(key, store.commit_figures.bytes_by_log[log.definition.id])
        kept.add_metric(key, sum(each.committed_offset - each.first_offset for each in log.partitions))
        size.add_metric(key, sum(each.size_bytes for each in log.partitions))
        admissions = [each.intake.admission for each in log.partitions]
        if log.definition.settings.content == "cloudevents":
            refused.add_metric(key, sum(each.refused_count for each in admissions if each))
            dropped.add_metric(key, sum(each.dropped_count for each in admissions if each))
        kept_of_log = await kept_lags(log, measured.consumers, named_left)
        named_left = max(named_left - len(kept_of_log), 0)
        for of, events in kept_of_log.items():
            lag.add_metric((*key, *of), events)
        for kind, events in _live(log, live).items():
            lag.add_metric((*key, kind, ""), events)
    left_out = GaugeMetricFamily(
        "headwater_metrics_logs_left_out",
        f"Logs beyond {LOGS_MAX}, which have no series of their own.",
        value=max(len(keys) - LOGS_MAX, 0),
    )
    return [appended, written, kept, size, refused, dropped, lag, left_out]


def _live(log: Log, live: dict[Partition, dict[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for partition in log.partitions:
        for kind, events in live.get(partition, {}).items():
            found[kind] = max(found.get(kind, 0), events)
    return found


def _of_server(measured: Measured) -> Iterable[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    store = measured.store
    info = GaugeMetricFamily("headwater_build_info", "The version that runs.", labels=("version",))
    info.add_metric((__version__,), 1)
    yield info
    for name, text, value in (
        ("ready", "Whether nothing that is stored is damaged or read-only.", not store.is_degraded),
        ("logs", "Logs.", len(store.logs)),
        ("uncommitted_bytes", "Bytes that were taken and are not on disk yet.", store.uncommitted_bytes),
        ("tail_bytes", "Bytes of newest events that are kept in memory.", store.tails.bytes_held),
        ("index_bytes", "Bytes of indexes that are kept in memory.", store.indexes.bytes_held),
    ):
        yield GaugeMetricFamily(f"headwater_{name}", text, value=float(value))
    partitions = GaugeMetricFamily(
        "headwater_partitions", "Partitions by state, also the server's own.", labels=("state",)
    )
    for state in PartitionState:
        partitions.add_metric((state.value,), store.count_in(state))
    yield partitions
    yield CounterMetricFamily(
        "headwater_authentication_failures",
        "Peers that were not let in.",
        value=measured.authenticator.failure_count,
    )
    yield from _of_commits(store)
    yield from _of_doors(measured)
    yield from _of_http(measured.http)


def _of_commits(store: Store) -> Iterable[Metric]:
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

    figures = store.commit_figures
    bounds = [*map(str, LATENCY_BOUNDS_S), "+Inf"]
    yield HistogramMetricFamily(
        "headwater_commit_seconds",
        "Time from sealing events for a write until the disk had answered.",
        buckets=list(zip(bounds, accumulate(figures.by_latency), strict=True)),
        sum_value=figures.latency_s_sum,
    )
    yield CounterMetricFamily(
        "headwater_commit_failures", "Writes and syncs that failed.", value=figures.failed_count
    )


def _of_doors(measured: Measured) -> Iterable[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    of_door = ("door",)
    count = GaugeMetricFamily("headwater_connections", "Connections that are open.", labels=of_door)
    bound = GaugeMetricFamily("headwater_connections_max", "Connections that are taken.", labels=of_door)
    received = CounterMetricFamily("headwater_received_bytes", "Bytes that clients sent.", labels=of_door)
    sent = CounterMetricFamily("headwater_sent_bytes", "Bytes that were sent to clients.", labels=of_door)
    for name, door in (("stream", measured.streams), ("amqp", measured.amqp)):
        received_bytes, sent_bytes = door.traffic.total(door.connections)
        count.add_metric((name,), len(door.connections))
        bound.add_metric((name,), door.limits.connections_max)
        received.add_metric((name,), received_bytes)
        sent.add_metric((name,), sent_bytes)
    http = measured.http
    count.add_metric(("http",), http.connection_count)
    bound.add_metric(("http",), http.limits.connections_max)
    received.add_metric(("http",), http.figures.received_bytes)
    sent.add_metric(("http",), http.figures.sent_bytes)
    return count, bound, received, sent


def _of_http(listener: HttpListener) -> Iterable[Metric]:
    from prometheus_client.core import CounterMetricFamily, SummaryMetricFamily

    figures = listener.figures
    answered = CounterMetricFamily(
        "headwater_http_requests", "Requests that were answered.", labels=("method", "path", "status")
    )
    for (method, path, status), count in figures.answered.items():
        answered.add_metric((method, path, str(status)), count)
    took = SummaryMetricFamily(
        "headwater_http_request_seconds", "Time that requests took.", labels=("method", "path")
    )
    for (method, path), seconds in figures.seconds.items():
        took.add_metric((method, path), figures.count_of(method, path), seconds)
    return answered, took

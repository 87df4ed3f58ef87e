"""Appends of small events with deduplication, CRC, index, and confirms from disk."""

from __future__ import annotations

import statistics
from pathlib import Path

from bench.disk import scratch
from bench.figure import Figure, Options, at_least, figure_of, say
from bench.load import BATCH_ENTRIES, Load, generator_ns, make_appenders, open_store, run_in_loop, run_load
from headwater.log.log import Log, PartitionDefinition
from headwater.log.store import Store

__all__ = ["add_log", "load_figures", "run", "run_rounds"]

MESSAGE_BYTES = 100
APPENDERS = 4
WARM_SECONDS = 0.3
AIM_M_PER_S = 6.0


def run(options: Options) -> list[Figure]:
    """Four publishers on one partition, then on one each."""
    alone = 1e3 / generator_ns(MESSAGE_BYTES, options.scaled(20_000, 600))
    say(f"  the load generator alone: {alone:.0f} M entries/s")
    figures = []
    for partitions in (1, 4):
        name = f"append, 100 B, {partitions} partition{'s' if partitions > 1 else ''}"
        with scratch(options.data, "append") as folder:
            rounds = run_rounds(options, folder, partitions, APPENDERS // partitions)
            figures += load_figures(name, run_in_loop(rounds), f"generator alone {alone:.0f}")
    return figures


async def run_rounds(
    options: Options, folder: Path, partitions: int, per_partition: int, message_bytes: int = MESSAGE_BYTES
) -> list[Load]:
    """Rounds of load on one log of a new data folder."""
    store, committer = open_store(folder)
    log = add_log(store, "events", partitions)
    appenders = make_appenders(log.partitions, per_partition, message_bytes)
    await run_load(committer, appenders, min(WARM_SECONDS, options.round_seconds))
    before = sum(partition.committed_offset for partition in log.partitions)
    loads = [await run_load(committer, appenders, options.round_seconds) for _ in range(options.rounds)]
    stored = sum(partition.committed_offset for partition in log.partitions) - before
    assert stored == BATCH_ENTRIES * sum(len(load.latencies_ns) for load in loads), "not all is stored once"
    store.close()
    return loads


def add_log(store: Store, name: str, partitions: int) -> Log:
    """A log with so many partitions."""
    definitions = [PartitionDefinition(f"{name}-{number}") for number in range(partitions)]
    return store.create_log(name, kind="super_stream", partitions=definitions)


def load_figures(name: str, loads: list[Load], yardstick: str) -> list[Figure]:
    """Rate, latency and cost of a load."""
    rates = [load.entries_per_s / 1e6 for load in loads]
    cpu = [load.cpu_seconds / load.entries * 1e6 for load in loads]
    syncs = statistics.median(load.syncs / load.seconds for load in loads)
    size = statistics.median(load.bytes_per_sync for load in loads) / 1e6
    figures = [
        figure_of(name, rates, "M entries/s", yardstick=yardstick, aim=at_least(AIM_M_PER_S)),
        figure_of("  CPU", cpu, "s per M entries", smaller_is_better=True),
        figure_of("  commits", [syncs], "per s", yardstick=f"of {size:.2f} MB on average"),
    ]
    for label, share in (("p50", 0.5), ("p99", 0.99)):
        latencies = [load.latency_ms(share) for load in loads]
        figures.append(figure_of(f"  confirm {label}", latencies, "ms", smaller_is_better=True))
    return figures

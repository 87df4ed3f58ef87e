"""Appends with deduplication, CRC, index, and confirms from disk, beside a bare loop of write and fdatasync."""

from __future__ import annotations

import statistics
from pathlib import Path

import msgspec

from bench.disk import BareWriter, scratch, touch_memory
from bench.figure import Aim, Figure, Options, at_least, figure_of, say
from bench.load import BATCH_ENTRIES, Load, generator_ns, make_appenders, open_store, run_in_loop, run_load
from headwater.log.log import Log, PartitionDefinition
from headwater.log.store import Store

__all__ = [
    "APPENDERS",
    "MESSAGE_BYTES",
    "Round",
    "add_log",
    "cost_figures",
    "rate_figure",
    "run",
    "run_rounds",
]

MESSAGE_BYTES = 100
APPENDERS = 4
WARM_SECONDS = 0.3
BARE_SECONDS_MAX = 0.5
WRITTEN_BYTES_PER_S = 1_500_000_000
AIM_M_PER_S = 6.0


class Round(msgspec.Struct, frozen=True):
    """A while of our load, and a while of the bare loop with commits of the same average size."""

    load: Load
    bare_bytes_per_s: float

    @property
    def bytes_per_s(self) -> float:
        """What we wrote."""
        return self.load.byte_count / self.load.seconds

    @property
    def ratio(self) -> float:
        """Ours to the bare loop's."""
        return self.bytes_per_s / self.bare_bytes_per_s


def run(options: Options) -> list[Figure]:
    """Four publishers on one partition, then on one each."""
    alone = 1e3 / generator_ns(MESSAGE_BYTES, options.scaled(20_000, 600))
    say(f"  the load generator alone: {alone:.0f} M entries/s")
    figures = []
    for partitions in (1, 4):
        name = f"append, 100 B, {partitions} partition{'s' if partitions > 1 else ''}"
        with scratch(options.data, "append") as folder:
            rounds = run_in_loop(run_rounds(options, folder, partitions, APPENDERS // partitions))
        figures += [rate_figure(name, rounds, at_least(AIM_M_PER_S)), *cost_figures(rounds)]
    return [*figures, Figure("  load generator alone", alone, alone, "M entries/s")]


async def run_rounds(
    options: Options, folder: Path, partitions: int, per_partition: int, message_bytes: int = MESSAGE_BYTES
) -> list[Round]:
    """Rounds on one log of a new data folder, ours and the bare loop in turns, so that both meet the same disk."""
    store, committer = open_store(folder / "data")
    log = add_log(store, "events", partitions)
    appenders = make_appenders(log.partitions, per_partition, message_bytes)
    seconds = options.round_seconds
    bare_seconds = min(BARE_SECONDS_MAX, seconds)
    await run_load(committer, appenders, min(WARM_SECONDS, seconds))
    before = sum(partition.committed_offset for partition in log.partitions)
    rounds = []
    with BareWriter(folder / "bare") as bare:
        for _ in range(options.rounds):
            touch_memory(int((seconds + bare_seconds) * WRITTEN_BYTES_PER_S))
            load = await run_load(committer, appenders, seconds)
            rounds.append(Round(load, bare.run(load.bytes_per_sync, bare_seconds).bytes_per_s))
    stored = sum(partition.committed_offset for partition in log.partitions) - before
    assert stored == BATCH_ENTRIES * sum(len(each.load.latencies_ns) for each in rounds), "not stored once"
    store.close()
    return rounds


def add_log(store: Store, name: str, partitions: int) -> Log:
    """A log with so many partitions."""
    definitions = [PartitionDefinition(f"{name}-{number}") for number in range(partitions)]
    return store.create_log(name, kind="super_stream", partitions=definitions)


def rate_figure(name: str, rounds: list[Round], aim: Aim) -> Figure:
    """Entries, beside the bytes of the bare loop."""
    size = statistics.median(each.load.bytes_per_sync for each in rounds) / 1e6
    bare = statistics.median(each.bare_bytes_per_s for each in rounds) / 1e6
    return figure_of(
        name,
        [each.load.entries_per_s / 1e6 for each in rounds],
        "M entries/s",
        yardstick=f"write + fdatasync of {size:.1f} MB: {bare:.0f} MB/s",
        ratio=statistics.median(each.ratio for each in rounds),
        aim=aim,
    )


def cost_figures(rounds: list[Round]) -> list[Figure]:
    """Bytes, CPU, commits and latency."""
    loads = [each.load for each in rounds]
    cpu = [load.cpu_seconds / load.entries * 1e6 for load in loads]
    return [
        figure_of("  bytes to disk", [each.bytes_per_s / 1e6 for each in rounds], "MB/s"),
        figure_of("  CPU", cpu, "s per M entries", smaller_is_better=True),
        figure_of("  commits", [load.syncs / load.seconds for load in loads], "per s"),
        *(
            figure_of(
                f"  confirm {label}", [load.latency_ms(share) for load in loads], "ms", smaller_is_better=True
            )
            for label, share in (("p50", 0.5), ("p99", 0.99))
        ),
    ]

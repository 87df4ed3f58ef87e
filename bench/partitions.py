"""Many partitions: a little on each of a thousand, and all that goes on a hundred."""

from __future__ import annotations

import asyncio
import statistics
import time
from array import array
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.append import APPENDERS, MESSAGE_BYTES, WARM_SECONDS, add_log
from bench.disk import scratch
from bench.figure import Figure, Options, at_most, figure_of, percentile, ratio_of
from bench.load import CountingCommitter, make_appenders, open_store, run_in_loop, run_load
from headwater.errors import StorageError
from headwater.log.partition import Partition
from headwater.log.store import Store

__all__ = ["run"]

TRICKLE_PARTITIONS = 1000
FULL_PARTITIONS = 100
EVENT_BYTES = 1024
APPENDS_PER_S_AND_PARTITION = 1
AIM_P99_MS = 20.0
AIM_RATIO = 0.5

_ENTRY = EVENT_BYTES.to_bytes(4, "big") + bytes(EVENT_BYTES)


def run(options: Options) -> list[Figure]:
    """Both."""
    with scratch(options.data, "trickle") as folder:
        figures = _trickle_figures(options, run_in_loop(_trickle(options, folder)))
    with scratch(options.data, "full") as folder:
        return figures + run_in_loop(_full(options, folder))


class _Trickle(msgspec.Struct, frozen=True):
    latencies_ns: list[int]
    seconds: float
    cpu_seconds: float
    syncs: int


class _Confirms:
    """Appends single events, and notes how long after they were due they were confirmed."""

    def __init__(self) -> None:
        self.latencies_ns = array("q")
        self.waiting = 0

    def append(self, partition: Partition, due_ns: int) -> None:
        def confirmed(error: StorageError | None) -> None:
            assert error is None
            self.waiting -= 1
            self.latencies_ns.append(time.perf_counter_ns() - due_ns)

        self.waiting += 1
        partition.append(_ENTRY, 1, 1, confirmed)


def _trickle_figures(options: Options, rounds: list[_Trickle]) -> list[Figure]:
    count = options.scaled(TRICKLE_PARTITIONS, 10)
    rate = statistics.median(len(each.latencies_ns) / each.seconds for each in rounds)
    name = f"{count:,} partitions at 1 KiB/s each, confirm"
    aims = {0.5: None, 0.99: at_most(AIM_P99_MS)}
    latencies = {
        share: [percentile(each.latencies_ns, share) / 1e6 for each in rounds] for share in (0.5, 0.99)
    }
    return [
        *(
            figure_of(
                f"{name} p{share * 100:.0f}",
                latencies[share],
                "ms",
                smaller_is_better=True,
                yardstick=f"{rate:.0f} confirms/s",
                aim=aims[share],
            )
            for share in latencies
        ),
        figure_of("  commits", [each.syncs / each.seconds for each in rounds], "per s"),
        figure_of(
            "  CPU", [each.cpu_seconds / each.seconds for each in rounds], "cores", smaller_is_better=True
        ),
    ]


async def _trickle(options: Options, folder: Path) -> list[_Trickle]:
    store, committer = open_store(folder)
    log = add_log(store, "events", options.scaled(TRICKLE_PARTITIONS, 10))
    _fill(store, log.partitions)
    rounds = [
        await _trickle_round(committer, log.partitions, options.round_seconds) for _ in range(options.rounds)
    ]
    total = len(log.partitions) + sum(len(each.latencies_ns) for each in rounds)
    assert sum(partition.committed_offset for partition in log.partitions) == total
    store.close()
    return rounds


def _fill(store: Store, partitions: Sequence[Partition]) -> None:
    """One event each, so that all segments are there."""
    confirms = _Confirms()
    for partition in partitions:
        confirms.append(partition, 0)
    store.flush()
    assert confirms.waiting == 0


async def _trickle_round(
    committer: CountingCommitter, partitions: Sequence[Partition], seconds: float
) -> _Trickle:
    """Append to each partition in turn, evenly over time."""
    confirms, count, sent = _Confirms(), len(partitions), 0
    interval_ns = 1_000_000_000 // (count * APPENDS_PER_S_AND_PARTITION)
    syncs, cpu = committer.syncs, time.process_time()
    started = time.perf_counter_ns()
    while (now := time.perf_counter_ns() - started) < seconds * 1e9:
        while sent * interval_ns <= now:
            confirms.append(partitions[sent % count], started + sent * interval_ns)
            sent += 1
        await asyncio.sleep(0.001 if interval_ns < 1_000_000 else interval_ns / 1e9)
    cpu, syncs = time.process_time() - cpu, committer.syncs - syncs
    while confirms.waiting:  # noqa: ASYNC110 - this wait is not measured
        await asyncio.sleep(0.001)
    return _Trickle(sorted(confirms.latencies_ns), now / 1e9, cpu, syncs)


async def _full(options: Options, folder: Path) -> list[Figure]:
    store, committer = open_store(folder)
    count = options.scaled(FULL_PARTITIONS, 10)
    one, many = add_log(store, "one", 1), add_log(store, "many", count)
    _fill(store, many.partitions)
    alone = make_appenders(one.partitions, APPENDERS, MESSAGE_BYTES)
    spread = make_appenders(many.partitions, 1, MESSAGE_BYTES)
    for appenders in (alone, spread):
        await run_load(committer, appenders, min(WARM_SECONDS, options.round_seconds))
    pairs = []
    for _ in range(options.rounds):
        first = await run_load(committer, alone, options.round_seconds / 2)
        pairs.append((first, await run_load(committer, spread, options.round_seconds / 2)))
    store.close()
    bare = statistics.median(first.entries_per_s for first, _ in pairs) / 1e6
    loads = [load for _, load in pairs]
    return [
        figure_of(
            f"{count} partitions at full load, 100 B",
            [load.entries_per_s / 1e6 for load in loads],
            "M entries/s",
            yardstick=f"one partition {bare:.2f}",
            ratio=statistics.median(load.entries_per_s / first.entries_per_s for first, load in pairs),
            aim=ratio_of(AIM_RATIO),
        ),
        figure_of(
            "  CPU",
            [load.cpu_seconds / load.entries * 1e6 for load in loads],
            "s per M entries",
            smaller_is_better=True,
        ),
        figure_of("  commits", [load.syncs / load.seconds for load in loads], "rounds per s"),
        figure_of("  confirm p50", [load.latency_ms(0.5) for load in loads], "ms", smaller_is_better=True),
        figure_of("  confirm p99", [load.latency_ms(0.99) for load in loads], "ms", smaller_is_better=True),
    ]

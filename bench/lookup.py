"""Finding the chunk of an offset, and the first one at a time, among many."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Sequence

from bench.build import append_chunks, entries_of
from bench.disk import scratch
from bench.figure import Figure, Options, at_most, figure_of
from headwater.log.partition import Partition
from headwater.log.reader import find_timestamp, locate
from headwater.log.settings import LogSettings
from headwater.log.store import Store

__all__ = ["run"]

CHUNKS = 100_000
CHUNK_DATA_BYTES = 64
SEGMENT_BYTES = 2 << 20
CHUNKS_PER_COMMIT = 50
LOOKUPS = 20_000
AIM_US = 10.0
START_MS = 1_700_000_000_000


def run(options: Options) -> list[Figure]:
    """Random offsets and times in a log of many small chunks and some segments."""
    chunks = options.scaled(CHUNKS, 1_000)
    lookups = options.scaled(LOOKUPS, 100)
    with scratch(options.data, "lookup") as folder:
        times = itertools.count(START_MS)
        store = Store.open(folder, clock=lambda: next(times))
        settings = LogSettings(
            durability="memory", segment_bytes=SEGMENT_BYTES, chunk_data_bytes_max=CHUNK_DATA_BYTES
        )
        partition = store.create_log("events", settings=settings).partitions[0]
        entry = entries_of(CHUNK_DATA_BYTES, 1)
        for _ in range(chunks // CHUNKS_PER_COMMIT):
            append_chunks(store, partition, entry, 1, CHUNKS_PER_COMMIT)
        figures = _figures(options, partition, lookups)
        store.close()
    return figures


def _figures(options: Options, partition: Partition, lookups: int) -> list[Figure]:
    started = time.perf_counter()
    for segment in partition.segments:
        partition.owner.indexes.entries(segment)
    load_ms = (time.perf_counter() - started) * 1e3
    offsets = [random.randrange(partition.committed_offset) for _ in range(lookups)]
    stamps = [random.randint(START_MS, partition.timestamp_ms_max) for _ in range(lookups)]
    for offset in offsets[:100]:
        segment, _, first_offset = locate(partition, offset)
        assert segment.first_offset <= first_offset <= offset
    note = f"{partition.committed_offset:,} chunks in {len(partition.segments)} segments"
    by_offset = _microseconds(options, offsets, lambda offset: locate(partition, offset))
    by_time = _microseconds(options, stamps, lambda stamp: find_timestamp(partition, stamp))
    return [
        figure_of(
            "look-up by offset", by_offset, "us", smaller_is_better=True, yardstick=note, aim=at_most(AIM_US)
        ),
        figure_of(
            "look-up by time", by_time, "us", smaller_is_better=True, yardstick=note, aim=at_most(AIM_US)
        ),
        figure_of("  loading their indexes once", [load_ms], "ms", smaller_is_better=True),
    ]


def _microseconds(options: Options, keys: Sequence[int], call: Callable[[int], object]) -> list[float]:
    rounds = []
    for _ in range(options.rounds):
        started = time.perf_counter_ns()
        for key in keys:
            call(key)
        rounds.append((time.perf_counter_ns() - started) / len(keys) / 1e3)
    return rounds

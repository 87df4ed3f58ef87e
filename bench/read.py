"""Reading a log from its start to its end, from the page cache and from the disk, beside bare reads of its files."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

from bench.build import build_log
from bench.disk import cached_share, drop_cached, log_files, read_bare, scratch
from bench.figure import Figure, Options, figure_of, ratio_of, say
from headwater.log.partition import Partition
from headwater.log.reader import READ_BYTES, Reader
from headwater.log.store import Store

__all__ = ["run"]

LOG_BYTES = 512 << 20
CHUNK_DATA_BYTES = {2_000: 10, 20_000: 100}
"""And entries in each."""
AIM_RATIO = 0.8
COLD_SHARE_MAX = 0.01


def run(options: Options) -> list[Figure]:
    """Both sizes of chunks, warm and cold."""
    figures = []
    for data_bytes, entries in CHUNK_DATA_BYTES.items():
        chunks = options.scaled(LOG_BYTES, 1 << 20) // data_bytes
        with scratch(options.data, "read") as folder:
            build_log(folder, chunk_data_bytes=data_bytes, entries=entries, chunks=chunks)
            store = Store.open(folder)  # afresh, so that its tail in memory is empty
            partition = store.log("events-0").partitions[0]
            assert partition.committed_offset == chunks * entries
            name = f"read, chunks of {data_bytes // 1000} kB"
            figures += _figures(options, name, partition, chunks)
            store.close()
    return figures


def _figures(options: Options, name: str, partition: Partition, chunks: int) -> list[Figure]:
    paths = log_files(partition.folder)
    buffer = memoryview(bytearray(READ_BYTES))
    total = read_bare(paths, buffer)

    def runs() -> None:
        assert _read_runs(partition) == partition.committed_offset

    def slices() -> None:
        assert _read_deliveries(partition) == chunks

    def bare() -> None:
        assert read_bare(paths, buffer) == total

    measured = _Measured(options, paths, total, bare)
    return [
        measured.figure(f"{name}, warm", runs, is_cold=False, has_aim=True),
        measured.figure("  and each chunk sliced out", slices, is_cold=False, has_aim=False),
        measured.figure(f"{name}, cold", runs, is_cold=True, has_aim=True),
    ]


class _Measured:
    """Rounds of a reader and of bare reads in turns."""

    def __init__(self, options: Options, paths: list[Path], total: int, bare: Callable[[], None]) -> None:
        self._options = options
        self._paths = paths
        self._total = total
        self._bare = bare

    def figure(self, name: str, read: Callable[[], None], *, is_cold: bool, has_aim: bool) -> Figure:
        """Bytes a second beside those of bare reads."""
        ours: list[float] = []
        theirs: list[float] = []
        for number in range(self._options.rounds):
            # Who goes second may find what the disk itself cached for the first, so they take turns.
            pairs = [(read, ours), (self._bare, theirs)]
            for call, seconds in pairs if number % 2 else reversed(pairs):
                seconds.append(self._timed(call, is_cold=is_cold))
        bare = statistics.median(self._total / seconds for seconds in theirs) / 1e9
        return figure_of(
            name,
            [self._total / seconds / 1e9 for seconds in ours],
            "GB/s",
            yardstick=f"preadv {bare:.2f}",
            ratio=statistics.median(their / our for our, their in zip(ours, theirs, strict=True)),
            aim=ratio_of(AIM_RATIO) if has_aim else None,
        )

    def _timed(self, call: Callable[[], None], *, is_cold: bool) -> float:
        if is_cold:
            drop_cached(self._paths)
            share = cached_share(self._paths)
            if share > COLD_SHARE_MAX:
                say(f"  {share:.0%} of the log is still in memory: this round is not cold")
        started = time.perf_counter()
        call()
        return time.perf_counter() - started


def _read_runs(partition: Partition) -> int:
    """Read all; gives the offset behind the last record."""
    with Reader(partition, partition.first_offset) as reader:
        while reader.read() is not None:
            pass
        return reader.offset


def _read_deliveries(partition: Partition) -> int:
    """Read all, and take each chunk as Deliver would carry it."""
    count = 0
    with Reader(partition, partition.first_offset) as reader:
        while (run := reader.read()) is not None:
            for _ in run.deliveries:
                count += 1
    return count

"""Half a minute of appends without a pause: what each of its seconds brought."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from bench.append import APPENDERS, MESSAGE_BYTES, WARM_SECONDS, add_log
from bench.disk import BareWriter, BareWrites, scratch
from bench.figure import Figure, Options, figure_of
from bench.load import BATCH_ENTRIES, Appender, drain, make_appenders, open_store, run_in_loop, run_load

__all__ = ["run"]

SECONDS = 30
BARE_SECONDS = 10


def run(options: Options) -> list[Figure]:
    """The first append case, sampled each second."""
    with scratch(options.data, "sustained") as folder:
        rates, byte_rate, bare = run_in_loop(_sample(options, folder))
    return [
        figure_of(
            f"sustained, 100 B, 1 partition, {len(rates)} s",
            rates,
            "M entries/s",
            yardstick=f"write + fdatasync for {BARE_SECONDS} s: {bare.bytes_per_s / 1e6:.0f} MB/s",
            ratio=byte_rate / bare.bytes_per_s,
        ),
        figure_of("  worst second", [min(rates)], "M entries/s"),
    ]


async def _sample(options: Options, folder: Path) -> tuple[list[float], float, BareWrites]:
    """Entries of each second, bytes a second, and the bare loop right after it with commits of the same size."""
    store, committer = open_store(folder / "data")
    log = add_log(store, "events", 1)
    appenders = make_appenders(log.partitions, APPENDERS, MESSAGE_BYTES)
    await run_load(committer, appenders, min(WARM_SECONDS, options.round_seconds))
    syncs, byte_count, started = committer.syncs, committer.byte_count, time.perf_counter()
    for appender in appenders:
        appender.start()
    sample_seconds = options.scale
    rates = []
    before, before_s = 0, time.perf_counter()
    for _ in range(SECONDS):
        await asyncio.sleep(sample_seconds)
        now, now_s = _confirmed(appenders), time.perf_counter()
        rates.append((now - before) / (now_s - before_s) / 1e6)
        before, before_s = now, now_s
    syncs, byte_count = committer.syncs - syncs, committer.byte_count - byte_count
    byte_rate = byte_count / (time.perf_counter() - started)
    await drain(appenders)
    store.close()
    with BareWriter(folder / "bare") as bare:
        return rates, byte_rate, bare.run(byte_count // max(1, syncs), BARE_SECONDS * options.scale)


def _confirmed(appenders: list[Appender]) -> int:
    return BATCH_ENTRIES * sum(len(appender.latencies_ns) for appender in appenders)

"""Appends of 1 KiB events beside a bare loop of write and fdatasync with commits of the same size."""

from __future__ import annotations

import statistics
from pathlib import Path

import msgspec

from bench.append import WARM_SECONDS, add_log
from bench.disk import BareWriter, scratch
from bench.figure import Figure, Options, figure_of, ratio_of
from bench.load import Load, make_appenders, open_store, run_in_loop, run_load

__all__ = ["run"]

MESSAGE_BYTES = 1024
APPENDERS = 4
AIM_RATIO = 0.8


class _Round(msgspec.Struct, frozen=True):
    load: Load
    bare_bytes_per_s: float

    @property
    def bytes_per_s(self) -> float:
        return self.load.byte_count / self.load.seconds

    @property
    def ratio(self) -> float:
        return self.bytes_per_s / self.bare_bytes_per_s


def run(options: Options) -> list[Figure]:
    """Rounds of ours and of the bare loop in turns, so that both meet the same disk."""
    with scratch(options.data, "append-1k") as folder:
        rounds = run_in_loop(_run_rounds(options, folder))
    rates = [each.load.entries_per_s / 1e6 for each in rounds]
    cpu = [each.load.cpu_seconds / each.load.entries * 1e6 for each in rounds]
    size = statistics.median(each.load.bytes_per_sync for each in rounds)
    bare = statistics.median(each.bare_bytes_per_s for each in rounds) / 1e6
    return [
        figure_of(
            "append, 1 KiB, bytes to disk",
            [each.bytes_per_s / 1e6 for each in rounds],
            "MB/s",
            yardstick=f"write + fdatasync of {size / 1e6:.2f} MB: {bare:.0f}",
            ratio=statistics.median(each.ratio for each in rounds),
            aim=ratio_of(AIM_RATIO),
        ),
        figure_of("  events", rates, "M entries/s"),
        figure_of("  CPU", cpu, "s per M entries", smaller_is_better=True),
        *(
            figure_of(
                f"  confirm {label}",
                [each.load.latency_ms(share) for each in rounds],
                "ms",
                smaller_is_better=True,
            )
            for label, share in (("p50", 0.5), ("p99", 0.99))
        ),
    ]


async def _run_rounds(options: Options, folder: Path) -> list[_Round]:
    store, committer = open_store(folder / "data")
    log = add_log(store, "events", 1)
    appenders = make_appenders(log.partitions, APPENDERS, MESSAGE_BYTES)
    load = await run_load(committer, appenders, min(WARM_SECONDS, options.round_seconds))
    rounds = []
    with BareWriter(folder / "bare") as bare:
        for _ in range(options.rounds):
            load = await run_load(committer, appenders, options.round_seconds)
            yardstick = bare.run(load.bytes_per_sync, options.round_seconds)
            rounds.append(_Round(load, yardstick.bytes_per_s))
    store.close()
    return rounds

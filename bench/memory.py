"""The memory of a process that has many idle partitions open."""

from __future__ import annotations

from bench.build import build_log
from bench.disk import scratch
from bench.figure import Figure, Options, at_most, figure_of
from bench.opening import open_afresh

__all__ = ["run"]

PARTITIONS = 1000
EVENTS = 5
EVENT_BYTES = 100
AIM_MB = 100.0


def run(options: Options) -> list[Figure]:
    """Resident memory after opening, and what of it is there before."""
    partitions = options.scaled(PARTITIONS, 10)
    with scratch(options.data, "memory") as folder:
        build_log(
            folder,
            chunk_data_bytes=EVENTS * EVENT_BYTES,
            entries=EVENTS,
            chunks=1,
            partitions=partitions,
        )
        rounds = [open_afresh(folder, closes=True) for _ in range(options.rounds)]
    assert all(each.partitions == partitions for each in rounds)
    before = sum(each.resident_before_kib for each in rounds) / len(rounds) / 1e3 * 1.024
    return [
        figure_of(
            f"memory, {partitions:,} idle partitions",
            [each.resident_kib * 1.024 / 1e3 for each in rounds],
            "MB",
            smaller_is_better=True,
            yardstick=f"{before:.0f} before it opens any",
            aim=at_most(AIM_MB),
        )
    ]

"""How long a data folder takes to open: many partitions, and one partition of many segments."""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

import msgspec

from bench.build import build_log
from bench.disk import drop_cached, log_files, scratch
from bench.figure import Figure, Options, figure_of

__all__ = ["Opened", "open_afresh", "run"]

LOGS = 10
PARTITIONS_PER_LOG = 1000
EVENT_BYTES = 100
EVENTS = 5
PARTITION_BYTES = 4_000_000_000
PARTITION_BYTES_LARGE = 20_000_000_000
CHUNK_ENTRIES = 1000
STATES = {True: "closed in order", False: "abandoned"}
ROOT = Path(__file__).resolve().parents[1]


class Opened(msgspec.Struct, frozen=True):
    """What a fresh process tells of opening a data folder."""

    seconds: float
    read_bytes: int
    resident_kib: int
    resident_before_kib: int
    partitions: int
    records: int
    damaged: int


def open_afresh(folder: Path, *, closes: bool = False) -> Opened:
    """Open in a process of its own, which leaves the folder as after a crash, or closes it in order."""
    command = [sys.executable, "-m", "bench.opened", str(folder), *(["--close"] if closes else [])]
    finished = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(finished.stdout, type=Opened)


def run(options: Options) -> list[Figure]:
    """Many partitions, then many segments."""
    return _many_partitions(options) + _many_segments(options)


def _many_partitions(options: Options) -> list[Figure]:
    partitions = options.scaled(PARTITIONS_PER_LOG, 3)
    count = LOGS * partitions
    figures = []
    for closes, state in STATES.items():
        with scratch(options.data, "partitions") as folder:
            build_log(
                folder,
                chunk_data_bytes=EVENTS * EVENT_BYTES,
                entries=EVENTS,
                chunks=1,
                partitions=partitions,
                logs=LOGS,
                closes=closes,
            )
            rounds = [open_afresh(folder, closes=closes) for _ in range(options.rounds)]
        _check(rounds, count, count * EVENTS)
        figures.append(_seconds(f"open {count:,} partitions, {state}", rounds))
    return figures


def _seconds(name: str, rounds: list[Opened]) -> Figure:
    read = statistics.median(each.read_bytes for each in rounds)
    return figure_of(
        name,
        [each.seconds for each in rounds],
        "s",
        smaller_is_better=True,
        yardstick=f"{read / 1e6:.2f} MB read",
    )


def _many_segments(options: Options) -> list[Figure]:
    size = options.scaled(PARTITION_BYTES_LARGE if options.large else PARTITION_BYTES, 4_000_000)
    chunk_bytes = CHUNK_ENTRIES * EVENT_BYTES
    chunks = size // chunk_bytes
    figures = []
    for closes, state in STATES.items():
        with scratch(options.data, "segments") as folder:
            build_log(
                folder, chunk_data_bytes=chunk_bytes, entries=CHUNK_ENTRIES, chunks=chunks, closes=closes
            )
            rounds = []
            for _ in range(options.rounds):
                drop_cached(log_files(folder))
                rounds.append(open_afresh(folder, closes=closes))
        _check(rounds, 1, chunks * CHUNK_ENTRIES)
        figures.append(_seconds(f"open 1 partition of {size / 1e9:.2g} GB, {state}, cold", rounds))
    return figures


def _check(rounds: list[Opened], partitions: int, records: int) -> None:
    for each in rounds:
        assert (each.partitions, each.records, each.damaged) == (partitions, records, 0)

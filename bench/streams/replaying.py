"""Replays: a consumer reads a log, larger than what a server keeps in memory, from its first offset."""

from __future__ import annotations

from collections.abc import Callable

from bench.disk import cached_share, drop_cached
from bench.doors.case import Bench, Case, Values, cpu_ratio, memory, no_slower
from bench.doors.loading import LoadFailed
from bench.doors.servers import Server
from bench.figure import say

__all__ = ["CASES", "LARGE_LOG", "LARGE_LOG_MESSAGES", "make_large_log", "remove"]

LARGE_LOG = "large"
SMALL_CHUNKS_LOG = "small-chunks"
LARGE_LOG_MESSAGES = 9_000_000
"""Of 100 bytes: 1 GB in all."""
SMALL_CHUNKS_MESSAGES = 440_000
SMALL_CHUNK_MESSAGES = 20
"""A window of one batch: each chunk holds one, 2 kB. The log is 48 MB, again more than a tail in memory."""
CREDIT = "100"
COLD_SHARE_MAX = 0.01


def make_large_log(bench: Bench, server: Server) -> None:
    """Fill the log that is replayed."""
    count = bench.scaled(LARGE_LOG_MESSAGES)
    bench.loader.run(server, "publish", "--fresh", "--stream", LARGE_LOG, "--n", str(count))
    # Once with every CRC and every record checked.
    _replay(bench, server, LARGE_LOG, count, "--crc", "--verify")


def _make_small_chunks(bench: Bench, server: Server) -> None:
    batch = str(SMALL_CHUNK_MESSAGES)
    options = ("--stream", SMALL_CHUNKS_LOG, "--batch", batch, "--window", batch)
    bench.loader.run(server, "publish", "--fresh", *options, "--n", str(bench.scaled(SMALL_CHUNKS_MESSAGES)))


def remove(stream: str) -> Callable[[Bench, Server], None]:
    """What deletes a stream."""

    def clean(bench: Bench, server: Server) -> None:
        options = ("--stream", stream, "--n", "1", "--batch", "1", "--delete")
        bench.loader.run(server, "publish", "--create", *options)

    return clean


def _replay(bench: Bench, server: Server, stream: str, count: int, *options: str) -> Values:
    load = bench.loader.run(
        server, "consume", "--stream", stream, "--n", str(count), "--credit", CREDIT, *options
    )
    if not count <= load.consumed:
        raise LoadFailed(f"{load.consumed} of {count} messages were replayed")
    return {
        "rate": load.con_msgs_s / 1e3,
        "CPU": load.broker_cpu_s_per_million,
        "memory": load.broker_rss_mib,
    }


def _warm(bench: Bench, server: Server) -> Values:
    return _replay(bench, server, LARGE_LOG, bench.scaled(LARGE_LOG_MESSAGES))


def _cold(bench: Bench, server: Server) -> Values:
    drop_cached(server.segments)
    share = cached_share(server.segments)
    if share > COLD_SHARE_MAX:
        say(f"  {share:.0%} of the segments is still in memory: this round is not cold")
    return _warm(bench, server)


def _small_chunks(bench: Bench, server: Server) -> Values:
    return _replay(bench, server, SMALL_CHUNKS_LOG, bench.scaled(SMALL_CHUNKS_MESSAGES))


_METRICS = (no_slower(1.3, goal=2), cpu_ratio(1.5), memory())

CASES = (
    Case("replay", "replay 1 GB, in the page cache", _METRICS, _warm, make_large_log, remove(LARGE_LOG)),
    Case("replay-cold", "replay 1 GB, cold", _METRICS, _cold, make_large_log, remove(LARGE_LOG)),
    Case(
        "replay-small",
        "replay of 2 kB chunks, in the page cache",
        _METRICS,
        _small_chunks,
        _make_small_chunks,
        remove(SMALL_CHUNKS_LOG),
    ),
)

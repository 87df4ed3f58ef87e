"""Latencies, counted in buckets: recorded in a few nanoseconds each, and exact to 1/64."""

from __future__ import annotations

from array import array

import msgspec

from headwater.cli._kernel import BUCKETS, record

__all__ = ["Histogram", "Latency"]

_EXACT_US = 128
_PER_POWER = 64


class Latency(msgspec.Struct, frozen=True):
    """What is said of many latencies."""

    count: int
    p50_ms: float
    p99_ms: float
    p99_9_ms: float
    max_ms: float


class Histogram:
    """Counts of microseconds; `_kernel.py` draws the buckets."""

    def __init__(self) -> None:
        self.counts = array("q", bytes(8 * BUCKETS))

    def record(self, nanoseconds: int, count: int = 1) -> None:
        """Count a latency so many times."""
        record(self.counts, max(0, nanoseconds) // 1000, count)

    def add(self, other: Histogram) -> None:
        """Count all that the other one has counted."""
        for bucket, count in enumerate(other.counts):
            if count:
                self.counts[bucket] += count

    def latency(self) -> Latency | None:
        """The percentiles, or None if nothing was counted."""
        total = sum(self.counts)
        if not total:
            return None
        largest = max(bucket for bucket, count in enumerate(self.counts) if count)
        return Latency(
            total,
            self._percentile_ms(0.5, total),
            self._percentile_ms(0.99, total),
            self._percentile_ms(0.999, total),
            upper_us(largest) / 1000,
        )

    def _percentile_ms(self, share: float, total: int) -> float:
        wanted, seen = share * total, 0
        for bucket, count in enumerate(self.counts):
            seen += count
            if seen >= wanted:
                return upper_us(bucket) / 1000
        raise AssertionError("the counts do not add up")


def upper_us(bucket: int) -> int:
    """The largest value that a bucket counts."""
    if bucket < _EXACT_US:
        return bucket
    shift, place = divmod(bucket - _PER_POWER, _PER_POWER)
    return ((place + _PER_POWER + 1) << shift) - 1

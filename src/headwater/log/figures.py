"""What became of commits since the folder was opened: how many, how much, how long. Nothing is done per event."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter

from headwater.log.commit import Commit

__all__ = ["LATENCY_BOUNDS_S", "CommitFigures"]

LATENCY_BOUNDS_S = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    10.0,
)
"""Upper ends of the spans that commits are counted in by how long they took; one more has no upper end."""


class CommitFigures:
    """Counts commits of all partitions."""

    def __init__(self) -> None:
        self.by_latency = [0] * (len(LATENCY_BOUNDS_S) + 1)
        """Commits that succeeded, in each span of time from their sealing to the answer of the disk."""
        self.latency_s_sum = 0.0
        self.failed_count = 0
        self.bytes_by_log: Counter[int] = Counter()
        """Written for each log, headers and all, by its id."""

    def note(self, commit: Commit) -> None:
        """A commit came back from the disk."""
        if commit.error is not None:
            self.failed_count += 1
            return
        latency_s = time.monotonic() - commit.sealed_at_s
        self.by_latency[bisect_left(LATENCY_BOUNDS_S, latency_s)] += 1
        self.latency_s_sum += latency_s
        self.bytes_by_log[commit.partition_id.log_id] += commit.byte_count

    def forget(self, log_id: int) -> None:
        """A log was deleted."""
        self.bytes_by_log.pop(log_id, None)

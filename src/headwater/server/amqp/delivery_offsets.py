"""Which offsets the deliveries of a link are of, as runs: deliveries in a row of messages in a row in a partition."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable

import msgspec

from headwater.encoding.ranges import IdRange

__all__ = ["DeliveryOffsets", "PartitionRange"]

TIDY_RUNS_MIN = 64


class PartitionRange(msgspec.Struct, frozen=True, gc=False):
    """Offsets of one partition."""

    partition: int
    first: int
    end: int


class DeliveryOffsets:
    """Runs in ascending order of their delivery ids; at most twice as many as hold something that is unsettled."""

    __slots__ = ("_ends", "_firsts", "_offsets", "_partitions", "_tidy_at")

    def __init__(self) -> None:
        self._firsts = array("q")
        self._ends = array("q")
        self._partitions = array("q")
        self._offsets = array("q")
        self._tidy_at = TIDY_RUNS_MIN

    def __len__(self) -> int:
        return len(self._firsts)

    def note(
        self, id_: int, partition: int, first: int, end: int, is_unsettled: Callable[[int, int], bool]
    ) -> None:
        """Deliveries from an id on, above all before it, are of these offsets.

        Now and then runs without an unsettled delivery go; `is_unsettled` says whether a range of ids has one.
        """
        number = len(self._firsts) - 1
        if (
            number >= 0
            and self._ends[number] == id_
            and self._partitions[number] == partition
            and self._offsets[number] + id_ - self._firsts[number] == first
        ):
            self._ends[number] += end - first
            return
        if number + 1 >= self._tidy_at:
            self._keep(lambda each: is_unsettled(self._firsts[each], self._ends[each]))
            self._tidy_at = max(TIDY_RUNS_MIN, 2 * len(self._firsts))
        self._firsts.append(id_)
        self._ends.append(id_ + end - first)
        self._partitions.append(partition)
        self._offsets.append(first)

    def of(self, first: int, end: int) -> list[PartitionRange]:
        """The offsets of a range of deliveries, as far as they are known."""
        found = []
        number = max(bisect_right(self._firsts, first) - 1, 0)
        while number < len(self._firsts) and self._firsts[number] < end:
            start, stop = max(self._firsts[number], first), min(self._ends[number], end)
            if start < stop:
                before = self._offsets[number] - self._firsts[number]
                found.append(PartitionRange(self._partitions[number], before + start, before + stop))
            number += 1
        return found

    def missing(self, first: int, end: int) -> list[IdRange]:
        """Those of a range of deliveries of which no offsets are known."""
        found: list[IdRange] = []
        number = max(bisect_right(self._firsts, first) - 1, 0)
        while number < len(self._firsts) and self._firsts[number] < end:
            if first < self._firsts[number]:
                found.append((first, self._firsts[number]))
            first = max(first, self._ends[number])
            number += 1
        return [*found, (first, end)] if first < end else found

    def forget(self, partition: int) -> None:
        """Nothing that is said of deliveries of a partition matters any more."""
        self._keep(lambda each: self._partitions[each] != partition)

    def _keep(self, is_kept: Callable[[int], bool]) -> None:
        kept = [number for number in range(len(self._firsts)) if is_kept(number)]
        for name in ("_firsts", "_ends", "_partitions", "_offsets"):
            numbers: array[int] = getattr(self, name)
            setattr(self, name, array("q", [numbers[each] for each in kept]))

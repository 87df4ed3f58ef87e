"""Sets of delivery ids as ranges: what a million unsettled deliveries cost is a few integers, not a million objects."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

__all__ = ["IdRange", "IdRanges"]

IdRange = tuple[int, int]
"""From the first id up to and excluding the end."""


class IdRanges:
    """Disjoint ranges in ascending order; neighbours are joined."""

    __slots__ = ("_ends", "_firsts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __iter__(self) -> Iterator[IdRange]:
        return zip(self._firsts, self._ends, strict=True)

    def __contains__(self, id_: int) -> bool:
        number = bisect_right(self._firsts, id_) - 1
        return number >= 0 and id_ < self._ends[number]

    @property
    def count(self) -> int:
        """Ids in all ranges."""
        return sum(self._ends) - sum(self._firsts)

    @property
    def range_count(self) -> int:
        """Ranges, which is what the set costs."""
        return len(self._firsts)

    def add(self, first: int, end: int) -> None:
        """Put the ids of a range in; those that are there already stay."""
        if first >= end:
            return
        if not self._ends or first > self._ends[-1]:
            self._firsts.append(first)
            self._ends.append(end)
            return
        low = bisect_left(self._ends, first)
        high = bisect_right(self._firsts, end)
        if low < high:
            first, end = min(first, self._firsts[low]), max(end, self._ends[high - 1])
        self._firsts[low:high] = [first]
        self._ends[low:high] = [end]

    def within(self, first: int, end: int) -> list[IdRange]:
        """The ids of a range that are there, as ranges."""
        low = bisect_right(self._ends, first)
        high = bisect_left(self._firsts, end)
        found = zip(self._firsts[low:high], self._ends[low:high], strict=True)
        return [(max(one, first), min(other, end)) for one, other in found]

    def take(self, first: int, end: int) -> list[IdRange]:
        """Take the ids of a range out; gives those that were there, as ranges."""
        low = bisect_right(self._ends, first)
        high = bisect_left(self._firsts, end)
        if low >= high:
            return []
        taken = self.within(first, end)
        left = [(self._firsts[low], first)] if self._firsts[low] < first else []
        if self._ends[high - 1] > end:
            left.append((end, self._ends[high - 1]))
        self._firsts[low:high] = [one for one, _ in left]
        self._ends[low:high] = [other for _, other in left]
        return taken

"""AMQP 1.0 part 3, section 3.2.1, delivery-count: how often each message failed to be taken, where it did at all."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge

from headwater.encoding.ranges import IdRanges, RangeBudget

__all__ = ["COUNT_MAX", "CountedRange", "DeliveryCounts"]

COUNT_MAX = 255
"""A count stays there: what failed so often needs no finer difference."""

CountedRange = tuple[int, int, int]
"""From the first offset up to and excluding the end, and the count that all of them have."""


class DeliveryCounts:
    """A count for each offset, kept as ranges of equal counts; 0 is not kept."""

    __slots__ = ("_budget", "_levels")

    def __init__(self, budget: RangeBudget | None = None) -> None:
        self._levels: dict[int, IdRanges] = {}
        self._budget = budget

    def __iter__(self) -> Iterator[CountedRange]:
        """All ranges with a count above 0, in order."""
        return merge(*(_counted(ranges, count) for count, ranges in self._levels.items()))

    def set(self, first: int, end: int, count: int) -> None:
        """Give all offsets of a range the same count."""
        self.forget(first, end)
        self._raise(first, end, count)

    def increase(self, first: int, end: int) -> None:
        """Each offset of a range failed once more."""
        for one, other, count in self.within(first, end):
            if count:
                self._levels[count].take(one, other)
            self._raise(one, other, count + 1)
        self._forget_empty_levels()

    def forget(self, first: int, end: int) -> None:
        """The messages of a range are done with."""
        for ranges in self._levels.values():
            ranges.take(first, end)
        self._forget_empty_levels()

    def within(self, first: int, end: int) -> list[CountedRange]:
        """All offsets of a range in order, as ranges of equal counts."""
        raised = [
            (one, other, count)
            for count, ranges in self._levels.items()
            for one, other in ranges.within(first, end)
        ]
        raised.sort()
        found = []
        for one, other, count in raised:
            if first < one:
                found.append((first, one, 0))
            found.append((one, other, count))
            first = other
        if first < end:
            found.append((first, end, 0))
        return found

    def clear(self) -> None:
        """Nothing failed."""
        for ranges in self._levels.values():
            ranges.clear()
        self._levels.clear()

    def _raise(self, first: int, end: int, count: int) -> None:
        count = min(count, COUNT_MAX)
        if count > 0 and first < end:
            if count not in self._levels:
                self._levels[count] = IdRanges(self._budget)
            self._levels[count].add(first, end)

    def _forget_empty_levels(self) -> None:
        for count in [count for count, ranges in self._levels.items() if not ranges]:
            del self._levels[count]


def _counted(ranges: IdRanges, count: int) -> Iterator[CountedRange]:
    return ((first, end, count) for first, end in ranges)

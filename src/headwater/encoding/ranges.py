"""Sets of delivery ids, or of offsets, as ranges: a million unsettled cost a few integers, not a million objects."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

__all__ = ["IdRange", "IdRanges", "RangeBudget"]

IdRange = tuple[int, int]
"""From the first id up to and excluding the end."""


class RangeBudget:
    """What the sets of a connection may cost together: whoever settles with gaps makes many ranges of few."""

    __slots__ = ("_has_room_again", "count", "count_max", "is_full")

    def __init__(self, count_max: int) -> None:
        self.count = 0
        self.count_max = count_max
        self.is_full = False
        """Whether nothing is to be added that can wait; until a quarter is free again."""
        self._has_room_again = False

    def change(self, by: int) -> None:
        """So many ranges came or went."""
        self.count += by
        if self.count >= self.count_max:
            self.is_full = True
        elif self.is_full and 4 * self.count <= 3 * self.count_max:
            self.is_full = False
            self._has_room_again = True

    def has_room_again(self) -> bool:
        """Whether what had to wait may go on: said once."""
        said, self._has_room_again = self._has_room_again, False
        return said


_NONE = array("q")


class IdRanges:
    """Disjoint ranges in ascending order; neighbours are joined."""

    __slots__ = ("_budget", "_ends", "_firsts")

    def __init__(self, budget: RangeBudget | None = None) -> None:
        # Arrays, for a range then costs 16 bytes where it would cost 80: peers choose how many there are.
        # Most sets are empty, and these share theirs, which nothing is ever put into.
        self._firsts = _NONE
        self._ends = _NONE
        self._budget = budget

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __iter__(self) -> Iterator[IdRange]:
        return zip(self._firsts, self._ends, strict=True)

    def __contains__(self, id_: int) -> bool:
        return self.has_any(id_, id_ + 1)

    @property
    def count(self) -> int:
        """Ids in all ranges."""
        return sum(self._ends) - sum(self._firsts)

    @property
    def range_count(self) -> int:
        """Ranges, which is what the set costs."""
        return len(self._firsts)

    @property
    def first(self) -> int | None:
        """The lowest id that is there."""
        return self._firsts[0] if self._firsts else None

    def has_any(self, first: int, end: int) -> bool:
        """Whether an id of a range is there."""
        number = bisect_right(self._ends, first)
        return first < end and number < len(self._firsts) and self._firsts[number] < end

    def add(self, first: int, end: int) -> None:
        """Put the ids of a range in; those that are there already stay."""
        if first >= end:
            return
        if not self._ends:
            self._firsts, self._ends = array("q", (first,)), array("q", (end,))
            if self._budget is not None:
                self._budget.change(1)
            return
        if first > self._ends[-1]:
            self._firsts.append(first)
            self._ends.append(end)
            if self._budget is not None:
                self._budget.change(1)
            return
        low = bisect_left(self._ends, first)
        high = bisect_right(self._firsts, end)
        if low < high:
            first, end = min(first, self._firsts[low]), max(end, self._ends[high - 1])
        self._replace(low, high, [(first, end)])

    def within(self, first: int, end: int) -> list[IdRange]:
        """The ids of a range that are there, as ranges."""
        if first >= end:
            return []
        low = bisect_right(self._ends, first)
        if low == len(self._firsts) or self._firsts[low] >= end:
            return []
        high = bisect_left(self._firsts, end)
        found = zip(self._firsts[low:high], self._ends[low:high], strict=True)
        return [(max(one, first), min(other, end)) for one, other in found]

    def missing(self, first: int, end: int) -> list[IdRange]:
        """The ids of a range that are not there, as ranges."""
        found = []
        for one, other in self.within(first, end):
            if first < one:
                found.append((first, one))
            first = other
        if first < end:
            found.append((first, end))
        return found

    def take(self, first: int, end: int) -> list[IdRange]:
        """Take the ids of a range out; gives those that were there, as ranges."""
        low = bisect_right(self._ends, first)
        if low < len(self._firsts) and self._firsts[low] == first < end < self._ends[low]:
            self._firsts[low] = end  # most settle in order
            return [(first, end)]
        taken = self.within(first, end)
        if not taken:
            return []
        high = bisect_left(self._firsts, end)
        left = [(self._firsts[low], first)] if self._firsts[low] < first else []
        if self._ends[high - 1] > end:
            left.append((end, self._ends[high - 1]))
        self._replace(low, high, left)
        return taken

    def clear(self) -> None:
        """Take all ids out."""
        self._replace(0, len(self._firsts), [])

    def _replace(self, low: int, high: int, ranges: list[IdRange]) -> None:
        firsts = array("q", [first for first, _ in ranges])
        ends = array("q", [end for _, end in ranges])
        if high - low == len(self._firsts):
            self._firsts, self._ends = (firsts, ends) if ranges else (_NONE, _NONE)
        else:
            self._firsts[low:high], self._ends[low:high] = firsts, ends
        if self._budget is not None:
            self._budget.change(len(ranges) - (high - low))

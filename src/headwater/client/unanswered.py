"""Publishing ids that were sent and neither confirmed nor refused yet: ranges, for there may be many."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

__all__ = ["Unanswered"]


class Unanswered:
    """A set of rising ids, kept as its ranges; usually there is one."""

    __slots__ = ("_firsts", "_lasts", "count")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self.count = 0

    @property
    def lowest(self) -> int | None:
        """The lowest id that waits for an answer."""
        return self._firsts[0] if self._firsts else None

    def add(self, first: int, count: int) -> None:
        """Ids above all that were added before."""
        assert not self._lasts or first > self._lasts[-1]
        if self._lasts and first == self._lasts[-1] + 1:
            self._lasts[-1] = first + count - 1
        else:
            self._firsts.append(first)
            self._lasts.append(first + count - 1)
        self.count += count

    def remove(self, first: int, count: int) -> int:
        """Take these ids out, as far as they are there; gives how many were."""
        last = first + count - 1
        # The ranges that this one touches: those that do not end before it, nor begin behind it.
        low, high = bisect_left(self._lasts, first), bisect_right(self._firsts, last)
        if low >= high:
            return 0
        removed = sum(
            min(last, self._lasts[at]) - max(first, self._firsts[at]) + 1 for at in range(low, high)
        )
        firsts, lasts = [], []
        if self._firsts[low] < first:
            firsts.append(self._firsts[low])
            lasts.append(first - 1)
        if self._lasts[high - 1] > last:
            firsts.append(last + 1)
            lasts.append(self._lasts[high - 1])
        self._firsts[low:high] = firsts
        self._lasts[low:high] = lasts
        self.count -= removed
        return removed

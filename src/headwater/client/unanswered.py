"""Publishing ids that were sent and neither confirmed nor refused yet: ranges, for there may be many."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

__all__ = ["Unanswered"]

_GONE_MIN = 1024
"""So many answered ranges may stand before the first unanswered one until the lists are cut."""


class Unanswered:
    """A set of rising ids, kept as its ranges; unless ids have gaps there is one."""

    __slots__ = ("_firsts", "_gone", "_lasts", "count")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._gone = 0
        """Ranges at the beginning of the lists that do not count any more."""
        self.count = 0

    @property
    def lowest(self) -> int | None:
        """The lowest id that waits for an answer."""
        return self._firsts[self._gone] if self._gone < len(self._firsts) else None

    def add(self, first: int, count: int) -> None:
        """Ids above all that were added before."""
        if self.count and first == self._lasts[-1] + 1:
            self._lasts[-1] = first + count - 1
        else:
            self._firsts.append(first)
            self._lasts.append(first + count - 1)
        self.count += count

    def remove(self, first: int, count: int) -> int:
        """Take these ids out, as far as they are there; gives how many were."""
        last = first + count - 1
        firsts, lasts = self._firsts, self._lasts
        # The ranges that this one touches: those that do not end before it, nor begin behind it.
        low = bisect_left(lasts, first, self._gone)
        high = bisect_right(firsts, last, self._gone)
        if low >= high:
            return 0
        removed = sum(min(last, lasts[at]) - max(first, firsts[at]) + 1 for at in range(low, high))
        left = [(firsts[low], first - 1)] if firsts[low] < first else []
        if lasts[high - 1] > last:
            left.append((last + 1, lasts[high - 1]))
        if low == self._gone and not left:
            self._drop(high)
        else:
            firsts[low:high] = [start for start, _ in left]
            lasts[low:high] = [end for _, end in left]
        self.count -= removed
        return removed

    def _drop(self, gone: int) -> None:
        # Confirms come in order: cutting the lists each time would make long ones quadratic.
        self._gone = gone
        if gone > _GONE_MIN and 2 * gone > len(self._firsts):
            del self._firsts[:gone]
            del self._lasts[:gone]
            self._gone = 0

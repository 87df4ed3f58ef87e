"""Which link a delivery is of: delivery ids are of a session (AMQP 1.0 part 2, section 2.6.12), as runs of one link."""

from __future__ import annotations

from bisect import bisect_right
from typing import Generic, Protocol, TypeVar

__all__ = ["Owners"]

TIDY_RUNS_MIN = 64


class _Holder(Protocol):
    def holds(self, first: int, end: int) -> bool:
        """Whether something of a range of deliveries is not settled."""
        ...


Owner = TypeVar("Owner", bound=_Holder)


class Owners(Generic[Owner]):
    """Runs of deliveries in ascending order, each up to the next; at most twice as many as there are unsettled ranges.

    Links that take turns make a run of each delivery. When runs have doubled, those that are settled go.
    """

    __slots__ = ("_firsts", "_links", "_tidy_at")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._links: list[Owner] = []
        self._tidy_at = TIDY_RUNS_MIN

    def __len__(self) -> int:
        return len(self._links)

    def note(self, first: int, link: Owner) -> None:
        """Deliveries from an id on, above all before it, are of a link."""
        if self._links and self._links[-1] is link:
            return
        if len(self._links) >= self._tidy_at:
            self._tidy(first)
        self._firsts.append(first)
        self._links.append(link)

    def of(self, first: int, end: int) -> list[tuple[Owner, int, int]]:
        """The links of which deliveries in a range may be, each with its part."""
        found: list[tuple[Owner, int, int]] = []
        if first >= end:
            return found
        number = max(bisect_right(self._firsts, first) - 1, 0)
        while number < len(self._links) and self._firsts[number] < end:
            start = max(self._firsts[number], first)
            found.append((self._links[number], start, min(self._end(number, end), end)))
            number += 1
        return found

    def _tidy(self, end: int) -> None:
        firsts, links = self._firsts, self._links
        runs = [(each, links[number], self._end(number, end)) for number, each in enumerate(firsts)]
        self._firsts, self._links = [], []
        for first, link, behind in runs:
            if link.holds(first, behind) and not (self._links and self._links[-1] is link):
                self._firsts.append(first)
                self._links.append(link)
        self._tidy_at = max(TIDY_RUNS_MIN, 2 * len(self._links))

    def _end(self, number: int, end: int) -> int:
        return self._firsts[number + 1] if number + 1 < len(self._firsts) else end

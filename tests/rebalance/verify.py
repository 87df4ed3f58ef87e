"""What must hold for a group whose members come, go and are killed."""

from __future__ import annotations

import enum
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from tests.rebalance.history import History

__all__ = ["Kind", "Violation", "verify"]

PER_KIND_MAX = 5


class Kind(enum.Enum):
    """What was found."""

    LOST = "a confirmed event was never settled by anybody"
    UNEXPLAINED = "an event came again after the server had settled it"
    TWICE = "two deliveries of an event say that as many were before them"
    ORDER = "a link got events of a partition out of order"
    CONTENT = "an offset had another event, or an event another offset"
    FAULT = "a member or a producer met what nothing excuses"


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that must not be."""

    kind: Kind
    words: str


def verify(history: History) -> list[Violation]:
    """All that is wrong, some of each kind."""
    found = [
        *(Violation(Kind.FAULT, words) for words in history.faults),
        *_lost(history),
        *_unexplained(history),
        *_twice(history),
        *_out_of_order(history),
        *_other_content(history),
    ]
    counts: Counter[Kind] = Counter()
    kept = []
    for violation in found:
        counts[violation.kind] += 1
        if counts[violation.kind] <= PER_KIND_MAX:
            kept.append(violation)
    return kept


def _lost(history: History) -> Iterator[Violation]:
    seen = {history.deliveries[message][0].body for message in history.said}
    for partition, bodies in history.confirmed.items():
        for body in bodies:
            if body not in seen:
                yield Violation(Kind.LOST, f"partition {partition}: {body!r}")


def _unexplained(history: History) -> Iterator[Violation]:
    for settled in history.settled:
        for delivery in history.deliveries[settled.message]:
            if delivery.place > settled.place:
                yield Violation(Kind.UNEXPLAINED, f"{settled.message} came to {delivery.link} again")


def _twice(history: History) -> Iterator[Violation]:
    """Every delivery that was not settled raises the count, so no two deliveries of an event have the same."""
    for message, deliveries in history.deliveries.items():
        for place, times in Counter(each.place for each in deliveries).items():
            if times > 1:
                links = [each.link for each in deliveries if each.place == place]
                yield Violation(Kind.TWICE, f"{message} with {place[1]} before: {links}")


def _out_of_order(history: History) -> Iterator[Violation]:
    for (link, partition), tenure in history.tenures.items():
        offsets = [each for each in tenure.offsets if each not in tenure.given_back]
        for before, after in itertools.pairwise(offsets):
            if after <= before:
                yield Violation(Kind.ORDER, f"{link}, partition {partition}: {after} after {before}")


def _other_content(history: History) -> Iterator[Violation]:
    offsets: dict[bytes, set[int]] = defaultdict(set)
    for (partition, offset), deliveries in history.deliveries.items():
        if len({each.body for each in deliveries}) > 1:
            yield Violation(Kind.CONTENT, f"offset {offset} of partition {partition}")
        offsets[deliveries[0].body].add(offset)
        if int(deliveries[0].body.split()[0]) != partition:
            yield Violation(Kind.CONTENT, f"{deliveries[0].body!r} in partition {partition}")
    for partition, bodies in history.confirmed.items():
        placed = [min(offsets[body]) for body in bodies if body in offsets]
        if placed != sorted(placed) or any(len(offsets[body]) > 1 for body in bodies):
            yield Violation(Kind.CONTENT, f"partition {partition} is not in the order of its producer")

"""What consumers were sent, held against what the log has; and stored offsets against what was stored."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from tests.checker.content import ChunkFound, StreamContent, holds
from tests.checker.history import Event, QueriedOffset, Received, StoredOffset, Subscribed
from tests.checker.plan import Consumer, Publisher
from tests.checker.violation import Kind, Violation

__all__ = ["Deliveries", "check_consumer", "check_offsets", "filters_of"]


class Deliveries:
    """Follows what one subscription after the other gets of a stream, chunk by chunk."""

    def __init__(
        self,
        who: str,
        content: StreamContent,
        publishers: Sequence[Publisher] = (),
        wanted: Sequence[str | None] = (),
    ) -> None:
        self.end = 0
        """Behind what was delivered last, or where the subscription begins."""
        self._who = who
        self._content = content
        self._publishers = publishers
        self._wanted = wanted
        self._firsts = [chunk.first for chunk in content.chunks]
        self._is_first = True

    def begin(self, offset: int) -> None:
        """A subscription begins here."""
        self.end = offset
        self._is_first = True

    def take(self, chunk: Received) -> Iterator[Violation]:
        """A chunk came."""
        where = f"{self._who}: the chunk at {chunk.first} of {chunk.records} records"
        if chunk.crc != chunk.announced_crc:
            yield Violation(Kind.DAMAGED, f"{where} does not have its CRC")
        index = bisect_left(self._firsts, chunk.first)
        found = self._content.chunks[index] if index < len(self._firsts) else None
        if found is None or found.first != chunk.first:
            yield Violation(Kind.VANISHED, where)
        elif (found.records, found.crc) != (chunk.records, chunk.crc):
            yield Violation(Kind.CHANGED, where)
        yield from self._check_place(where, chunk, index)
        self.end = chunk.first + chunk.records
        self._is_first = False

    def close(self, target: int) -> Iterator[Violation]:
        """Nothing more came, and this much should have."""
        if self.end < target:
            yield Violation(Kind.UNDELIVERED, f"{self._who}: {self.end} to {target - 1}")

    def _check_place(self, where: str, chunk: Received, index: int) -> Iterator[Violation]:
        behind = chunk.first + chunk.records
        # The first chunk of a subscription holds the offset that was asked for, anywhere in it.
        if behind <= self.end if self._is_first else chunk.first < self.end:
            yield Violation(Kind.REPEATED, f"{where} comes behind {self.end - 1}")
        elif chunk.first > self.end:
            skipped = self._content.chunks[self._index_of(self.end) : index]
            if any(self._is_wanted(each) for each in skipped):
                yield Violation(Kind.SKIPPED, f"{where} comes behind {self.end - 1}")

    def _index_of(self, offset: int) -> int:
        """The chunk that holds an offset."""
        index = bisect_left(self._firsts, offset + 1) - 1
        chunks = self._content.chunks
        return index + 1 if index >= 0 and chunks[index].end <= offset else max(index, 0)

    def _is_wanted(self, chunk: ChunkFound) -> bool:
        return not self._wanted or holds(chunk, self._publishers, self._wanted)


def filters_of(consumer: Consumer) -> tuple[str | None, ...]:
    """What a message's filter value may be for this consumer; empty if it wants all."""
    return (*consumer.filters, None) if consumer.match_unfiltered else consumer.filters


def check_consumer(
    consumer: Consumer,
    history: Iterable[Event],
    content: StreamContent,
    publishers: Sequence[Publisher],
    target: int,
) -> Iterator[Violation]:
    """Offsets rise without gaps from where each subscription begins, with the content that the log has."""
    deliveries = Deliveries(consumer.name, content, publishers, filters_of(consumer))
    for event in history:
        if isinstance(event, Subscribed):
            deliveries.begin(event.offset)
        elif isinstance(event, Received):
            yield from deliveries.take(event)
    yield from deliveries.close(target)


def check_offsets(histories: Iterable[Iterable[Event]]) -> Iterator[Violation]:
    """For every reference on a stream: what a query answers was stored, and is not below what is known to be there."""
    stores: dict[tuple[str, str], list[StoredOffset]] = defaultdict(list)
    queries: dict[tuple[str, str], list[QueriedOffset]] = defaultdict(list)
    for history in histories:
        for event in history:
            if isinstance(event, StoredOffset):
                stores[event.reference, event.stream].append(event)
            elif isinstance(event, QueriedOffset):
                queries[event.reference, event.stream].append(event)
    for key, asked in queries.items():
        yield from _check_reference(stores[key], asked)


def _check_reference(stores: list[StoredOffset], queries: list[QueriedOffset]) -> Iterator[Violation]:
    stored_at: dict[int, float] = {}
    for store in sorted(stores, key=lambda store: store.at):
        stored_at.setdefault(store.offset, store.at)
    answered = sorted(queries, key=lambda query: query.at)
    answered_at = [query.at for query in answered]
    highest = [-1]
    for query in answered:
        highest.append(max(highest[-1], -1 if query.offset is None else query.offset))
    for query in queries:
        where = f"{query.who} asked for {query.reference} on {query.stream} and got {query.offset}"
        told = -1 if query.offset is None else query.offset
        if query.offset is not None and stored_at.get(query.offset, query.at + 1) > query.at:
            yield Violation(Kind.OFFSET_AHEAD, where)
        known = highest[bisect_left(answered_at, query.asked_at)]
        if told < known:
            yield Violation(Kind.OFFSET_BEHIND, f"{where}, after {known} had been answered")
        own = max((store.offset for store in stores if _is_before(store, query)), default=-1)
        if told < own:
            yield Violation(Kind.OFFSET_BEHIND, f"{where}, after it had stored {own} on the same connection")


def _is_before(store: StoredOffset, query: QueriedOffset) -> bool:
    return (store.who, store.attempt) == (query.who, query.attempt) and store.at < query.asked_at

"""Groups of single active consumers: one at a time, nothing left out, and each goes on behind what was stored."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tests.checker.content import StreamContent
from tests.checker.history import Answered, Connected, Event, QueriedOffset, Received, Subscribed, Updated
from tests.checker.turns import ServerFacts, Turn, turns_of
from tests.checker.verify_consuming import Deliveries
from tests.checker.violation import Kind, Violation

__all__ = ["check_group"]


def check_group(
    reference: str,
    stream: str,
    histories: Mapping[str, Sequence[Event]],
    content: StreamContent,
    facts: ServerFacts,
) -> Iterator[Violation]:
    """All rules for one stream of a group; histories are those of all members, by name."""
    where = f"{reference} on {stream}"
    delivered: set[int] = set()
    for who, history in histories.items():
        for events in _memberships(history, reference, stream):
            yield from _check_membership(f"{who} in {where}", events, content)
            delivered.update(event.first for event in events if isinstance(event, Received))
    missing = [chunk.first for chunk in content.chunks if chunk.first not in delivered]
    if missing:
        yield Violation(Kind.UNDELIVERED, f"{where}: {len(missing)} chunks, the first at {missing[0]}")
    turns = turns_of(reference, stream, histories, facts)
    yield from _check_one_at_a_time(where, turns)
    for who, history in histories.items():
        yield from _check_starts(where, who, history, (reference, stream), turns)


def _memberships(history: Iterable[Event], reference: str, stream: str) -> Iterator[list[Event]]:
    """What happened to each subscription that is of this group."""
    found: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in history:
        if isinstance(event, Subscribed | Received | Updated | Answered) and event.stream == stream:
            found[event.attempt, event.join].append(event)
    for events in found.values():
        # A server that tells nobody anything must not pass for one without members.
        references = {event.reference for event in events if isinstance(event, Updated)}
        if not references or reference in references:
            yield events


def _check_membership(where: str, events: Iterable[Event], content: StreamContent) -> Iterator[Violation]:
    """A member gets chunks only between its answer that it is active and the word that it is not any more."""
    deliveries = Deliveries(where, content)
    last_word = may_read = False
    for event in events:
        if isinstance(event, Updated):
            last_word = event.active
            may_read = may_read and event.active
        elif isinstance(event, Answered):
            may_read = event.active and last_word
            if event.active:
                deliveries.begin(event.offset)
        elif isinstance(event, Received):
            if not may_read:
                yield Violation(Kind.INACTIVE_READS, f"{where}: the chunk at {event.first}")
            yield from deliveries.take(event)


def _check_one_at_a_time(where: str, turns: Iterable[Turn]) -> Iterator[Violation]:
    longest: dict[int, Turn] = {}
    for turn in turns:
        before = longest.get(turn.life)
        if before is not None and before.begin <= turn.begin < before.end and turn.end > turn.begin:
            yield Violation(
                Kind.TWO_ACTIVE,
                f"{where}: {turn.who} from {turn.begin:.3f} on, {before.who} until {before.end:.3f}",
            )
        if before is None or turn.end > before.end:
            longest[turn.life] = turn


def _check_starts(
    where: str, who: str, history: Iterable[Event], group: tuple[str, str], turns: Iterable[Turn]
) -> Iterator[Violation]:
    """Who takes over from a member that stepped down in order is told all that this one has stored."""
    handed_over = sorted((turn for turn in turns if turn.stepped_down), key=lambda turn: turn.end)
    ends = [turn.end for turn in handed_over]
    lives: dict[int, int] = {}
    told_at = 0.0
    for event in history:
        if isinstance(event, Connected):
            lives[event.attempt] = event.life
        elif isinstance(event, Updated) and event.active and (event.reference, event.stream) == group:
            told_at = event.at
        elif isinstance(event, QueriedOffset) and (event.reference, event.stream) == group:
            index = bisect_right(ends, told_at) - 1
            if index < 0:
                continue
            before = handed_over[index]
            offset = -1 if event.offset is None else event.offset
            # What a connection that ended since has sent may never have arrived.
            is_sure = before.life == lives[event.attempt] and before.connection_end > told_at
            if is_sure and offset < before.stored:
                yield Violation(
                    Kind.OFFSET_BEHIND,
                    f"{where}: {who} got {offset}, {before.who} had stored {before.stored} before",
                )

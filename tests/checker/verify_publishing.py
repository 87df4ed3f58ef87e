"""What publishers were told, held against what the log has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tests.checker.content import Run, StreamContent
from tests.checker.history import Confirmed, Event, Refused, Sent, SequenceTold
from tests.checker.plan import Publisher
from tests.checker.violation import Kind, Violation

__all__ = ["check_content", "check_publisher"]

IDS_SHOWN = 3


def check_content(content: StreamContent, publishers: Sequence[Publisher]) -> Iterator[Violation]:
    """Offsets without gaps, and messages of those alone who publish to this stream."""
    for fault in content.faults:
        yield Violation(Kind.DAMAGED, f"{content.name}: {fault}")
    end = 0
    for chunk in content.chunks:
        if chunk.first != end:
            yield Violation(Kind.NOT_DENSE, f"{content.name}: {chunk.first} comes behind {end - 1}")
        end = chunk.end
    own = {publisher.number for publisher in publishers if publisher.stream == content.name}
    for number in {run.publisher for run in content.runs()} - own:
        yield Violation(Kind.INVENTED, f"{content.name}: messages of publisher {number}")


def check_publisher(
    publisher: Publisher, history: Sequence[Event], content: StreamContent
) -> Iterator[Violation]:
    """Everything confirmed is there, once and in order if the publisher is named, and nothing else is."""
    name = f"publisher {publisher.number} on {publisher.stream}"
    stored = [run for run in content.runs() if run.publisher == publisher.number]
    sent = _sent(history)
    yield from _check_told(name, history, sent)
    yield from _check_sent(name, publisher, stored, sent)
    if publisher.reference is None:
        yield from _check_anonymous(name, history, stored, sent)
    else:
        yield from _check_named(name, history, stored)


def _check_told(name: str, history: Iterable[Event], sent: Mapping[int, range]) -> Iterator[Violation]:
    """Confirms are of what was sent, and sequences lie between what was confirmed and what was sent."""
    promised = highest_sent = 0
    for event in history:
        if isinstance(event, Sent):
            highest_sent = max(highest_sent, event.last)
        elif isinstance(event, Confirmed):
            for first, count in event.runs:
                last = first + count - 1
                promised = max(promised, last)
                ids = sent.get(event.attempt, range(0))
                if first not in ids or last not in ids:
                    yield Violation(
                        Kind.CONFIRMED_UNSENT, f"{name}: {first} to {last} on attempt {event.attempt}"
                    )
        elif isinstance(event, SequenceTold):
            if event.sequence < promised:
                yield Violation(
                    Kind.SEQUENCE_BEHIND, f"{name}: {event.sequence} was told, {promised} was promised"
                )
            if event.sequence > highest_sent:
                yield Violation(
                    Kind.SEQUENCE_AHEAD, f"{name}: {event.sequence} was told, {highest_sent} was sent"
                )
            promised = max(promised, event.sequence)


def _check_sent(
    name: str, publisher: Publisher, stored: Iterable[Run], sent: Mapping[int, range]
) -> Iterator[Violation]:
    for run in stored:
        ids = sent.get(run.attempt, range(0))
        if run.first not in ids or run.last not in ids:
            yield Violation(Kind.INVENTED, f"{name}: {run}")
        if run.records_per_id != publisher.records_per_id:
            yield Violation(Kind.DAMAGED, f"{name}: {run} has other sub-batches than were sent")


def _check_named(name: str, history: Iterable[Event], stored: Iterable[Run]) -> Iterator[Violation]:
    """The log has ids from 1 on without gaps, each once and in order, up to the highest that was promised."""
    ids = [id_ for run in stored for id_ in range(run.first, run.last + 1)]
    yield from _check_order(name, ids)
    there = set(ids)
    promised = max(there, default=0)
    for event in history:
        if isinstance(event, SequenceTold):
            promised = max(promised, event.sequence)
        elif isinstance(event, Confirmed):
            promised = max(promised, *(first + count - 1 for first, count in event.runs))
    if missing := set(range(1, promised + 1)) - there:
        yield Violation(Kind.LOST, f"{name}: {_shown(missing)}")


def _check_anonymous(
    name: str, history: Iterable[Event], stored: Iterable[Run], sent: Mapping[int, range]
) -> Iterator[Violation]:
    """Of each attempt the log has a beginning of what was sent, and all that was confirmed."""
    by_attempt: dict[int, list[int]] = defaultdict(list)
    for run in stored:
        by_attempt[run.attempt] += range(run.first, run.last + 1)
    with_holes = {event.attempt for event in history if isinstance(event, Refused)}
    for attempt, ids in by_attempt.items():
        on_attempt = f"{name}, attempt {attempt}"
        yield from _check_order(on_attempt, ids)
        begun = sent.get(attempt, range(0))[: max(ids) - sent[attempt].start + 1] if attempt in sent else ()
        if attempt not in with_holes and (missing := set(begun) - set(ids)):
            yield Violation(Kind.LOST, f"{on_attempt}: {_shown(missing)}")
    for event in history:
        if isinstance(event, Confirmed):
            there = by_attempt[event.attempt]
            confirmed = {id_ for first, count in event.runs for id_ in range(first, first + count)}
            if missing := confirmed.difference(there):
                yield Violation(Kind.LOST, f"{name}, attempt {event.attempt}: {_shown(missing)}")


def _check_order(name: str, ids: Sequence[int]) -> Iterator[Violation]:
    seen: set[int] = set()
    highest = 0
    twice: set[int] = set()
    late: set[int] = set()
    for id_ in ids:
        if id_ in seen:
            twice.add(id_)
        elif id_ < highest:
            late.add(id_)
        seen.add(id_)
        highest = max(highest, id_)
    if twice:
        yield Violation(Kind.DUPLICATED, f"{name}: {_shown(twice)}")
    if late:
        yield Violation(Kind.REORDERED, f"{name}: {_shown(late)}")


def _sent(history: Iterable[Event]) -> dict[int, range]:
    """What was sent on each attempt, which is one run of ids."""
    sent: dict[int, range] = {}
    for event in history:
        if isinstance(event, Sent):
            first = sent[event.attempt].start if event.attempt in sent else event.first
            sent[event.attempt] = range(first, event.last + 1)
    return sent


def _shown(ids: set[int]) -> str:
    shown = ", ".join(map(str, sorted(ids)[:IDS_SHOWN]))
    return shown if len(ids) <= IDS_SHOWN else f"{shown} and {len(ids) - IDS_SHOWN} more"

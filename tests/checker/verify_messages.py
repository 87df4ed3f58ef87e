"""What consumers of single messages were sent, held against what the log has under the same offsets."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from tests.checker.content import StreamContent
from tests.checker.history import Event, ReceivedMessages, Subscribed
from tests.checker.payload import Identity, digest_of
from tests.checker.violation import Kind, Violation

__all__ = ["check_message_run", "check_messages"]


def check_messages(
    who: str, history: Iterable[Event], content: StreamContent, target: int
) -> Iterator[Violation]:
    """From where each subscription begins every offset comes, once, with the message that the log has."""
    firsts = [chunk.first for chunk in content.chunks]
    end = 0
    for event in history:
        if isinstance(event, Subscribed):
            end = event.offset
        elif isinstance(event, ReceivedMessages):
            behind = event.first + event.count
            where = f"{who}: {event.first} to {behind - 1}"
            if event.first != end:
                kind = Kind.SKIPPED if event.first > end else Kind.REPEATED
                yield Violation(kind, f"{where} comes behind {end - 1}")
            yield from check_message_run(who, event, content, firsts)
            end = behind
    if end < target:
        yield Violation(Kind.UNDELIVERED, f"{who}: {end} to {target - 1}")


def check_message_run(
    who: str, event: ReceivedMessages, content: StreamContent, firsts: list[int] | None = None
) -> Iterator[Violation]:
    """Messages are those that the log has under their offsets; `firsts` are the offsets of its chunks, if known."""
    behind = event.first + event.count
    where = f"{who}: {event.first} to {behind - 1}"
    firsts = [chunk.first for chunk in content.chunks] if firsts is None else firsts
    if behind > content.end:
        yield Violation(Kind.VANISHED, where)
    elif digest_of(_identities(content, firsts, event.first, behind)) != event.digest:
        yield Violation(Kind.CHANGED, where)


def _identities(content: StreamContent, firsts: list[int], offset: int, end: int) -> Iterator[Identity]:
    """The messages of these offsets."""
    number = bisect_right(firsts, offset) - 1
    while offset < end:
        chunk = content.chunks[number]
        first = chunk.first
        for run in chunk.runs:
            behind = first + (run.last - run.first + 1) * run.records_per_id
            for at in range(max(offset, first), min(end, behind)):
                steps, place = divmod(at - first, run.records_per_id)
                yield Identity(run.publisher, run.attempt, run.first + steps, place, run.records_per_id)
            first = behind
        offset = chunk.end
        number += 1

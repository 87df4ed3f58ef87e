"""Durable shared subscriptions: nothing is lost, nothing that was settled comes back, each repeat has a reason."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence

from headwater.encoding.ranges import IdRanges
from tests.checker.content import StreamContent
from tests.checker.history import Disposed, Event, OutcomeKept, ReceivedMessages, Subscribed
from tests.checker.subscriber import ACCEPTED
from tests.checker.verify_messages import check_message_run
from tests.checker.violation import Kind, Violation

__all__ = ["check_subscription"]


def check_subscription(
    name: str, histories: Mapping[str, Sequence[Event]], content: StreamContent
) -> Iterator[Violation]:
    """All rules; histories are those of the consumers of the subscription, by name."""
    for who, history in histories.items():
        yield from _check_consumer(f"{who} of {name}", history, content)
    yield from _check_nothing_lost(name, histories.values(), content)
    yield from _check_nothing_comes_back(name, histories, content)


def _check_consumer(where: str, history: Iterable[Event], content: StreamContent) -> Iterator[Violation]:
    """What comes is what the log has, and on one connection once, unless it was given back."""
    held, firsts = IdRanges(), [chunk.first for chunk in content.chunks]
    for event in history:
        if isinstance(event, Subscribed):
            held.clear()
        elif isinstance(event, ReceivedMessages):
            first, end = event.first, event.first + event.count
            yield from check_message_run(where, event, content, firsts)
            for again in held.within(first, end):
                yield Violation(Kind.REPEATED, f"{where}: {again[0]} to {again[1] - 1}, which it holds")
            for fresh in held.missing(first, end):
                held.add(*fresh)
        elif isinstance(event, Disposed) and event.outcome != ACCEPTED:
            held.take(event.first, event.first + event.count)


def _check_nothing_lost(
    name: str, histories: Iterable[Iterable[Event]], content: StreamContent
) -> Iterator[Violation]:
    """In the end somebody has accepted each message."""
    accepted = IdRanges()
    for history in histories:
        for event in history:
            if isinstance(event, Disposed) and event.outcome == ACCEPTED:
                for fresh in accepted.missing(event.first, event.first + event.count):
                    accepted.add(*fresh)
    for first, end in accepted.missing(0, content.end):
        yield Violation(Kind.UNDELIVERED, f"{name}: {first} to {end - 1}")


def _check_nothing_comes_back(
    name: str, histories: Mapping[str, Sequence[Event]], content: StreamContent
) -> Iterator[Violation]:
    """What the server has settled is settled once, and comes on no connection on which a link was attached later."""
    kept_at = array("d", [math.inf]) * content.end
    for who, history in histories.items():
        for event in history:
            if isinstance(event, OutcomeKept):
                for offset in range(event.first, min(event.first + event.count, content.end)):
                    if kept_at[offset] != math.inf:
                        yield Violation(Kind.SETTLED_CAME_BACK, f"{name}: {offset}, settled again for {who}")
                    kept_at[offset] = min(kept_at[offset], event.at)
    for who, history in histories.items():
        attached_at = 0.0
        for event in history:
            if isinstance(event, Subscribed):
                attached_at = event.at
            elif isinstance(event, ReceivedMessages):
                for offset in range(event.first, min(event.first + event.count, content.end)):
                    if kept_at[offset] < attached_at:
                        yield Violation(Kind.SETTLED_CAME_BACK, f"{name}: {offset}, delivered to {who}")

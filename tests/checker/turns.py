"""When which member of a group was active for certain, as the books of the server must have it.

A turn begins when a member reads that it is active: the server has decided so before. It ends just before the member
says that it is not, leaves, or cuts its connection: the server learns of it later. So turns are too short rather than
too long, and those of one group on one stream, in one life of the server, never overlap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.checker.history import (
    Answered,
    ClientKilled,
    Connected,
    Event,
    Lost,
    Released,
    StoredOffset,
    Updated,
)

__all__ = ["ServerFacts", "Turn", "turns_of"]


class ServerFacts(NamedTuple):
    """What the runner knows of the lives of the server."""

    ended_at: Mapping[int, float]
    given_up: frozenset[tuple[int, int]]
    """Connections that were ended for want of heartbeats, by life and the client's port: nobody told us when."""


class Turn(NamedTuple):
    """One member's time."""

    life: int
    begin: float
    end: float
    who: str
    stepped_down: bool
    """Whether it ended by an answer, in order."""
    connection_end: float
    stored: int
    """The highest offset that the member stored on this connection until the end; -1 for none."""


def turns_of(
    reference: str, stream: str, histories: Mapping[str, Sequence[Event]], facts: ServerFacts
) -> list[Turn]:
    """All turns of all members, in the order in which they began."""
    turns = [
        turn
        for who, history in histories.items()
        for connection in _connections(history)
        for turn in _turns_on(connection, who, (reference, stream), facts)
    ]
    return sorted(turns, key=lambda turn: turn.begin)


def _connections(history: Iterable[Event]) -> Iterator[list[Event]]:
    """The events of each connection; what ended it is the last one."""
    events: list[Event] = []
    for event in history:
        if isinstance(event, Connected):
            events = [event]
        elif events:
            events.append(event)
            if isinstance(event, Lost | ClientKilled):
                yield events
                events = []
    if events:
        yield events


def _turns_on(
    connection: Sequence[Event], who: str, group: tuple[str, str], facts: ServerFacts
) -> Iterator[Turn]:
    connected = connection[0]
    assert isinstance(connected, Connected)
    connection_end = _end_of(connection, connected, facts)
    stored = -1
    for index, event in enumerate(connection):
        if isinstance(event, StoredOffset) and (event.reference, event.stream) == group:
            stored = max(stored, event.offset)
        if not (isinstance(event, Updated) and event.active and (event.reference, event.stream) == group):
            continue
        if any(isinstance(each, Released) and _ends(each, event) for each in connection[:index]):
            continue  # it was told as it left, of which the server may have known a moment later
        ending = next((each for each in connection[index:] if _ends(each, event)), None)
        end = connection_end if ending is None else min(ending.at, connection_end)
        own = [each for each in connection[index:] if isinstance(each, StoredOffset) and each.at < end]
        offsets = [each.offset for each in own if (each.reference, each.stream) == group]
        yield Turn(
            connected.life,
            event.at,
            max(end, event.at),
            who,
            isinstance(ending, Answered),
            connection_end,
            max([stored, *offsets]),
        )


def _ends(event: Event, update: Updated) -> bool:
    """Whether the member gave up its turn by this."""
    if isinstance(event, Released) or (isinstance(event, Answered) and not event.active):
        return (event.stream, event.join) == (update.stream, update.join)
    return False


def _end_of(connection: Sequence[Event], connected: Connected, facts: ServerFacts) -> float:
    """Until when the server cannot have known that the connection is at its end."""
    last = connection[-1]
    if (connected.life, connected.port) in facts.given_up:
        return -math.inf
    if isinstance(last, ClientKilled) or (isinstance(last, Lost) and last.by_client):
        return last.at
    if not isinstance(last, Lost):
        return math.inf
    if last.reason.startswith("PeerSilent"):
        return -math.inf  # it was ended by the client just before this was written
    return min(last.at, facts.ended_at.get(connected.life, last.at))

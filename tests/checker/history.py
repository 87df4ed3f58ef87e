"""What happened, as each process saw it: one event a line, written before what it announces and after what it saw."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

__all__ = [
    "Answered",
    "ClientKilled",
    "Confirmed",
    "Connected",
    "Denied",
    "Disposed",
    "Event",
    "Finished",
    "Lost",
    "OutcomeKept",
    "QueriedOffset",
    "Received",
    "ReceivedMessages",
    "Recorder",
    "Refused",
    "Released",
    "Sent",
    "SequenceTold",
    "ServerEnded",
    "ServerStarted",
    "SideRead",
    "SideStep",
    "StoredOffset",
    "Subscribed",
    "Updated",
    "load",
    "now",
]


class _Event(msgspec.Struct, frozen=True, gc=False, tag_field="event"):
    """`at` is the monotonic clock, which all processes of a machine share."""

    who: str
    at: float


class _OnConnection(_Event, frozen=True, gc=False):
    """Attempts count the connections of a client, over all its processes."""

    attempt: int


class Connected(_OnConnection, frozen=True, gc=False):
    life: int
    """Which life of the server it has reached."""
    port: int
    """Its own, by which the server's log calls it."""


class Lost(_OnConnection, frozen=True, gc=False):
    reason: str
    by_client: bool
    """Whether the client cut it; this is written before it does."""


class Denied(_OnConnection, frozen=True, gc=False):
    """Something that no fault excuses: a request was refused, or the server broke the protocol."""

    reason: str


# Publishing


class Sent(_OnConnection, frozen=True, gc=False):
    first: int
    last: int


class Confirmed(_OnConnection, frozen=True, gc=False):
    runs: tuple[tuple[int, int], ...]
    """First id and count of each."""


class Refused(_OnConnection, frozen=True, gc=False):
    ids: tuple[int, ...]
    code: int


class SequenceTold(_OnConnection, frozen=True, gc=False):
    """What QueryPublisherSequence answered."""

    sequence: int


class Finished(_Event, frozen=True, gc=False):
    """All that was sent is confirmed."""


# Consuming


class Subscribed(_OnConnection, frozen=True, gc=False):
    stream: str
    offset: int
    """From where on; a single active consumer is told later where it begins."""
    join: int = 0
    """Counts the subscriptions of a member of groups, as below."""


class Received(_OnConnection, frozen=True, gc=False):
    """A chunk; the CRC was computed from what came."""

    stream: str
    first: int
    records: int
    crc: int
    announced_crc: int
    join: int = 0


class ReceivedMessages(_OnConnection, frozen=True, gc=False):
    """Messages with consecutive offsets; the digest is of what each says of itself."""

    stream: str
    first: int
    count: int
    digest: int


class Disposed(_OnConnection, frozen=True, gc=False):
    """What a subscriber is about to say of messages: `accepted`, `released` or `failed`."""

    stream: str
    first: int
    count: int
    outcome: str


class OutcomeKept(_OnConnection, frozen=True, gc=False):
    """The server has settled messages that were accepted: it says that this is on its disk."""

    stream: str
    first: int
    count: int


class StoredOffset(_OnConnection, frozen=True, gc=False):
    """Written before StoreOffset, which nobody answers."""

    reference: str
    stream: str
    offset: int


class QueriedOffset(_OnConnection, frozen=True, gc=False):
    """What QueryOffset answered; `asked_at` is before the question."""

    reference: str
    stream: str
    offset: int | None
    asked_at: float


# Single active consumers


class Updated(_OnConnection, frozen=True, gc=False):
    """A ConsumerUpdate came."""

    reference: str
    stream: str
    join: int
    active: bool


class Answered(_OnConnection, frozen=True, gc=False):
    """Written before the answer to a ConsumerUpdate."""

    reference: str
    stream: str
    join: int
    active: bool
    offset: int
    """Where it begins, if it is active."""


class Released(_OnConnection, frozen=True, gc=False):
    """Written before Unsubscribe."""

    reference: str
    stream: str
    join: int


# Streams that come and go


class SideStep(_Event, frozen=True, gc=False):
    """A step with a side stream: what was asked, or what was found when looking."""

    stream: str
    incarnation: int
    step: str
    """`create`, `created`, `delete`, `deleted`, `exists` or `missing`."""


class SideRead(_Event, frozen=True, gc=False):
    """All that was read of an incarnation, from offset 0 on; `confirmed` is how many ids were confirmed before."""

    stream: str
    incarnation: int
    first_offset: int
    confirmed: int
    runs: tuple[tuple[int, int, int], ...]
    """Incarnation, first id and count, in the order of the stream."""


# The runner


class ServerStarted(_Event, frozen=True, gc=False):
    life: int


class ServerEnded(_Event, frozen=True, gc=False):
    """Written before the signal."""

    life: int
    how: str
    """`kill`, `kill in recovery` or `term`."""
    in_flight: int


class ClientKilled(_Event, frozen=True, gc=False):
    """`who` is the process; written before the signal."""


Event: TypeAlias = (
    Connected
    | Lost
    | Denied
    | Sent
    | Confirmed
    | Refused
    | SequenceTold
    | Finished
    | Subscribed
    | Received
    | ReceivedMessages
    | Disposed
    | OutcomeKept
    | StoredOffset
    | QueriedOffset
    | Updated
    | Answered
    | Released
    | SideStep
    | SideRead
    | ServerStarted
    | ServerEnded
    | ClientKilled
)

_DECODER = msgspec.json.Decoder(Event)


class Recorder:
    """Appends to the history of one process; what `record` has returned from survives a kill of this process."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._encoder = msgspec.json.Encoder()

    def record(self, event: Event) -> None:
        """Write one event."""
        os.write(self._fd, self._encoder.encode(event) + b"\n")

    def close(self) -> None:
        """Give the file back."""
        os.close(self._fd)


def load(path: Path) -> Iterator[Event]:
    """The events of one process, whole ones alone: a kill does not cut a short write to a file."""
    if path.exists():
        with path.open("rb") as lines:
            yield from map(_DECODER.decode, lines)


def now() -> float:
    """The time that events carry."""
    return time.monotonic()

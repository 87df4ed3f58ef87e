"""What a run can show to be wrong."""

from __future__ import annotations

import enum

import msgspec

__all__ = ["Kind", "Violation"]


class Kind(enum.Enum):
    """One name for each promise that does not hold."""

    LOST = "confirmed, or followed by later ones, and not in the log"
    DUPLICATED = "in the log twice"
    REORDERED = "in the log in another order than sent"
    INVENTED = "in the log and never sent"
    DAMAGED = "not the bytes that were sent"
    NOT_DENSE = "offsets with gaps or overlaps"
    CONFIRMED_UNSENT = "confirmed and never sent"
    SEQUENCE_BEHIND = "a publisher's sequence below what was confirmed or told before"
    SEQUENCE_AHEAD = "a publisher's sequence above what was sent"
    VANISHED = "delivered, and not in the log"
    CHANGED = "delivered with other content than the log has"
    SKIPPED = "not delivered though what follows was"
    REPEATED = "delivered again"
    UNDELIVERED = "in the log and not delivered"
    SETTLED_CAME_BACK = "settled, told so, and delivered or settled again"
    OFFSET_AHEAD = "a stored offset that nobody stored"
    OFFSET_BEHIND = "a stored offset below one that was answered or stored before"
    TWO_ACTIVE = "two active consumers at once"
    INACTIVE_READS = "delivered to a consumer that is not active"
    STREAM_LOST = "a stream that was created is not there"
    STREAM_CAME_BACK = "a stream, or what was in it, that was deleted is there"
    DENIED = "refused without a reason"
    SERVER = "the server, or a client, ended badly or told of an error"
    STUCK = "nothing goes on"
    FOLDER = "the data folder is not what was read from the server"


class Violation(msgspec.Struct, frozen=True):
    """A promise that does not hold, and where."""

    kind: Kind
    what: str

    def __str__(self) -> str:
        return f"{self.kind.name.lower().replace('_', ' ')}: {self.what} ({self.kind.value})"

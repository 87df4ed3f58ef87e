"""What can go wrong for an AMQP client besides what all clients meet: links and sessions that end, and outcomes."""

from __future__ import annotations

import msgspec

from headwater.amqp.definitions import ErrorValue
from headwater.amqp.messaging import DeliveryState, Modified, Rejected, Released
from headwater.errors import CallerError, HeadwaterError, PeerError

__all__ = [
    "LinkEnded",
    "LinkRefused",
    "ManagementRefused",
    "MessageRefused",
    "ProtocolBroken",
    "Refusal",
    "SessionEnded",
]


class ProtocolBroken(PeerError):
    """The server sent what AMQP does not allow; `condition` is what it was told."""

    def __init__(self, address: str, condition: str, reason: str) -> None:
        self.address, self.condition, self.reason = address, condition, reason
        super().__init__(f"{address} broke the protocol: {reason} ({condition}); the server needs mending")


class LinkRefused(CallerError):
    """The server does not take a link; `condition` says why."""

    def __init__(self, what: str, error: ErrorValue | None) -> None:
        self.what = what
        self.condition, self.description = _parts(error)
        super().__init__(f"the server refused {what}: {_said(error)}; check name and permissions")


class _Ended(HeadwaterError):
    """Something that was open has ended; `condition` and `description` say why, where the server did."""

    def __init__(self, what: str, error: ErrorValue | str | None) -> None:
        self.what = what
        self.condition, self.description = (None, error) if isinstance(error, str) else _parts(error)
        reason = error if isinstance(error, str) else _said(error)
        super().__init__(f"{what} has ended: {reason}; open another one when that is mended")


class LinkEnded(_Ended):
    """The server detached a link that was in use: its node was deleted, or another took the link over, say."""


class SessionEnded(_Ended):
    """The server ended a session, and all its links with it."""


class Refusal(msgspec.Struct, frozen=True):
    """What became of messages that were not accepted: which of a batch, and how."""

    first: int
    """Number of the first one in its batch, from 0 on."""
    count: int
    outcome: DeliveryState | None
    """None: it was settled without a word of what became of it."""


class MessageRefused(HeadwaterError):
    """The node did not accept messages; `refusals` says which, and how each ended."""

    def __init__(self, what: str, refusals: list[Refusal], count: int) -> None:
        self.what, self.refusals, self.count = what, refusals, count
        reasons = "; ".join(dict.fromkeys(_outcome_said(each.outcome) for each in refusals))
        super().__init__(f"{count} messages of {what} were not accepted: {reasons}")


class ManagementRefused(CallerError):
    """A management node answered with a status that is no success."""

    def __init__(self, operation: str, status: int, description: str) -> None:
        self.operation, self.status, self.description = operation, status, description
        super().__init__(f"{operation} was refused: {description or 'no reason given'} (status {status})")


def _parts(error: ErrorValue | None) -> tuple[str | None, str]:
    return (None, "") if error is None else (str(error.condition), error.description or "")


def _said(error: ErrorValue | None) -> str:
    if error is None:
        return "it gave no reason"
    return f"{error.description} ({error.condition})" if error.description else str(error.condition)


def _outcome_said(outcome: DeliveryState | None) -> str:
    match outcome:
        case Rejected(error):
            return f"rejected: {_said(error)}"
        case Released():
            return "released, as if never sent; send them again"
        case Modified(delivery_failed, undeliverable_here):
            failed = ", its delivery failed" if delivery_failed else ""
            elsewhere = ", not to be delivered here again" if undeliverable_here else ""
            return f"modified{failed}{elsewhere}"
        case None:
            return "settled without an outcome"
        case _:
            return f"ended as {type(outcome).__name__}"

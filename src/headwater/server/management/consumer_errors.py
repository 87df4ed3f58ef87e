"""What is refused about consumer groups and subscriptions."""

from __future__ import annotations

from headwater.errors import CallerError

__all__ = [
    "GroupExists",
    "GroupNotMade",
    "InvalidTarget",
    "NotDurable",
    "UnknownGroup",
    "UnknownSubscription",
]

SHOWN_CHARS_MAX = 200


class UnknownGroup(CallerError):
    """The log has no consumer group of this name."""

    def __init__(self, log: str, name: str) -> None:
        self.log, self.name = log, name
        super().__init__(
            f"log {log!r} has no consumer group {name!r:.{SHOWN_CHARS_MAX}}; make it, or check the name"
        )


class GroupExists(CallerError):
    """An operator has made this group already."""

    def __init__(self, log: str, name: str) -> None:
        self.log, self.name = log, name
        super().__init__(
            f"consumer group {name!r:.{SHOWN_CHARS_MAX}} of log {log!r} is there already; reset it, or end it first"
        )


class GroupNotMade(CallerError):
    """A consumer group cannot be made."""

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        super().__init__(
            f"consumer group {name!r:.{SHOWN_CHARS_MAX}} is not made: {reason}; end others, or choose another name"
        )


class UnknownSubscription(CallerError):
    """There is no subscription with this id."""

    def __init__(self, id_: str) -> None:
        self.id = id_
        super().__init__(
            f"there is no subscription {id_!r:.{SHOWN_CHARS_MAX}}; ask for the id of one that is listed"
        )


class NotDurable(CallerError):
    """A subscription that ends with its consumers keeps no position to be changed."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"subscription {name!r:.{SHOWN_CHARS_MAX}} is not durable: it ends with its consumers, and a new one "
            "begins where its filter says; end it, and have them attach anew"
        )


class InvalidTarget(CallerError):
    """What is no place in a log to go on from."""

    def __init__(self, given: object) -> None:
        self.given = given
        super().__init__(
            f"{given!r:.{SHOWN_CHARS_MAX}} is no place to go on from; say earliest, latest, an offset, "
            "or a time such as 2030-01-31T12:00:00Z"
        )

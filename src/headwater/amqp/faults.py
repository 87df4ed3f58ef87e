"""AMQP 1.0 part 2, section 2.8.15 to 2.8.18: what a peer does wrong, by the smallest thing that ends because of it."""

from __future__ import annotations

from headwater.amqp.definitions import Condition, ErrorValue
from headwater.errors import CallerError, PeerError

__all__ = [
    "AmqpFault",
    "ConnectionFault",
    "EndpointGone",
    "LinkFault",
    "LinkNameInUse",
    "NoNumberLeft",
    "SessionFault",
]


class AmqpFault(PeerError):
    """A fault of the peer, with the condition that it is told."""

    def __init__(self, condition: Condition, description: str) -> None:
        self.condition, self.description = condition, description
        super().__init__(f"{condition}: {description}")

    @property
    def value(self) -> ErrorValue:
        """The same as it goes over the wire."""
        return ErrorValue(self.condition, self.description)


class LinkFault(AmqpFault):
    """The link is detached."""


class SessionFault(AmqpFault):
    """The session is ended, with all its links."""


class ConnectionFault(AmqpFault):
    """The connection is closed."""


class EndpointGone(CallerError):
    """Something was asked of a link, a session or a connection that is no longer there."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"{what} has ended; open another one")


class NoNumberLeft(CallerError):
    """The peer takes no more sessions, or no more links."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(
            f"the peer leaves us no {what}; end what is no longer needed, or open another connection"
        )


class LinkNameInUse(CallerError):
    """A link of this name waits for the peer's answer, which could not be told from that to another one."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"a link {name!r} is being attached already; choose another name, or wait for the answer"
        )

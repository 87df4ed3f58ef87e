"""What goes to consumers, and what comes of it."""

from __future__ import annotations

import enum

import msgspec

__all__ = ["DeadLetter", "Outcome", "Reason", "Run"]


class Outcome(enum.Enum):
    """What a consumer says of messages (AMQP 1.0 part 3, section 3.4)."""

    ACCEPTED = enum.auto()
    REJECTED = enum.auto()
    RELEASED = enum.auto()
    """Due again, as if nothing had been: `modified` without `delivery-failed` is one, too."""
    FAILED = enum.auto()
    """`modified` with `delivery-failed`: due again, with the delivery count raised."""


class Reason(enum.Enum):
    """Why a message is a dead letter."""

    DELIVERY_COUNT = "delivery-count"
    REJECTED = "rejected"


class Run(msgspec.Struct, frozen=True, gc=False):
    """Offsets to deliver, all with one delivery count."""

    first: int
    end: int
    delivery_count: int


class DeadLetter(msgspec.Struct, frozen=True, gc=False):
    """Offsets to append to the dead-letter log."""

    first: int
    end: int
    reason: Reason
    delivery_count: int

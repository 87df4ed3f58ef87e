"""AMQP 1.0 part 2, section 2.8: the definitions that performatives are made of."""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from headwater.encoding.amqp_composite import Composite
from headwater.encoding.amqp_fields import Enumeration, boolean, field_map, string, symbol, ubyte
from headwater.encoding.amqp_types import Symbol

__all__ = [
    "CHANNEL_MAX_DEFAULT",
    "DELIVERY_TAG_BYTES_MAX",
    "ERROR",
    "FRAME_SIZE_BYTES_MAX_DEFAULT",
    "FRAME_SIZE_BYTES_MIN_MAX",
    "HANDLE_MAX_DEFAULT",
    "RECEIVER_SETTLE_MODE",
    "ROLE",
    "SENDER_SETTLE_MODE",
    "Condition",
    "ErrorValue",
    "ReceiverSettleMode",
    "Role",
    "SenderSettleMode",
]

FRAME_SIZE_BYTES_MIN_MAX = 512
"""The least that a peer may announce as its largest frame (2.8.19); until its open nothing larger may be sent."""
FRAME_SIZE_BYTES_MAX_DEFAULT = 0xFFFFFFFF
CHANNEL_MAX_DEFAULT = 0xFFFF
HANDLE_MAX_DEFAULT = 0xFFFFFFFF
DELIVERY_TAG_BYTES_MAX = 32


class Role(enum.IntEnum):
    """Which end of a link (2.8.1); on the wire a boolean, true for the receiver."""

    SENDER = 0
    RECEIVER = 1


class SenderSettleMode(enum.IntEnum):
    """How a sender settles (2.8.2)."""

    UNSETTLED = 0
    SETTLED = 1
    MIXED = 2


class ReceiverSettleMode(enum.IntEnum):
    """Whether a receiver settles at once, or after the sender has (2.8.3)."""

    FIRST = 0
    SECOND = 1


class Condition(Symbol, enum.ReprEnum):
    """Why a delivery, a link, a session or a connection ended (2.8.15 to 2.8.18, 4.5.8)."""

    INTERNAL_ERROR = "amqp:internal-error"
    NOT_FOUND = "amqp:not-found"
    UNAUTHORIZED_ACCESS = "amqp:unauthorized-access"
    DECODE_ERROR = "amqp:decode-error"
    RESOURCE_LIMIT_EXCEEDED = "amqp:resource-limit-exceeded"
    NOT_ALLOWED = "amqp:not-allowed"
    INVALID_FIELD = "amqp:invalid-field"
    NOT_IMPLEMENTED = "amqp:not-implemented"
    RESOURCE_LOCKED = "amqp:resource-locked"
    PRECONDITION_FAILED = "amqp:precondition-failed"
    RESOURCE_DELETED = "amqp:resource-deleted"
    ILLEGAL_STATE = "amqp:illegal-state"
    FRAME_SIZE_TOO_SMALL = "amqp:frame-size-too-small"
    CONNECTION_FORCED = "amqp:connection:forced"
    CONNECTION_FRAMING_ERROR = "amqp:connection:framing-error"
    CONNECTION_REDIRECT = "amqp:connection:redirect"
    SESSION_WINDOW_VIOLATION = "amqp:session:window-violation"
    SESSION_ERRANT_LINK = "amqp:session:errant-link"
    SESSION_HANDLE_IN_USE = "amqp:session:handle-in-use"
    SESSION_UNATTACHED_HANDLE = "amqp:session:unattached-handle"
    LINK_DETACH_FORCED = "amqp:link:detach-forced"
    LINK_TRANSFER_LIMIT_EXCEEDED = "amqp:link:transfer-limit-exceeded"
    LINK_MESSAGE_SIZE_EXCEEDED = "amqp:link:message-size-exceeded"
    LINK_REDIRECT = "amqp:link:redirect"
    LINK_STOLEN = "amqp:link:stolen"


class ErrorValue(msgspec.Struct, frozen=True, gc=False):
    """The `error` of 2.8.14: a condition (of the specification or a peer's own), a sentence, and details."""

    condition: Symbol
    description: str | None = None
    info: dict[Symbol, Any] | None = None


ROLE = Enumeration(Role, boolean)
SENDER_SETTLE_MODE = Enumeration(SenderSettleMode, ubyte)
RECEIVER_SETTLE_MODE = Enumeration(ReceiverSettleMode, ubyte)
ERROR = Composite(0x1D, "error", ErrorValue, condition=symbol, description=string, info=field_map)

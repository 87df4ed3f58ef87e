"""AMQP 1.0 part 3, sections 3.4 and 3.5: delivery states, sources and targets.

A delivery state or a terminus that is not known here stays a Described.
"""

from __future__ import annotations

import enum
from typing import Any, TypeAlias

import msgspec

from headwater.amqp.definitions import ERROR, ErrorValue
from headwater.amqp.transactions import COORDINATOR, Coordinator
from headwater.encoding.amqp_composite import Composite, OneOf
from headwater.encoding.amqp_fields import (
    Enumeration,
    annotation_map,
    boolean,
    capabilities,
    field_map,
    string,
    symbol,
    symbols,
    uint,
    ulong,
)
from headwater.encoding.amqp_types import Described, Symbol

__all__ = [
    "DELIVERY_STATE",
    "SOURCE",
    "TARGET",
    "Accepted",
    "DeliveryState",
    "Modified",
    "Received",
    "Rejected",
    "Released",
    "Source",
    "Target",
    "Terminus",
    "TerminusDurability",
    "TerminusExpiryPolicy",
]


class Received(msgspec.Struct, frozen=True, gc=False):
    """How far a delivery that is not finished has come (3.4.1)."""

    section_number: int
    section_offset: int


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """Processed (3.4.2)."""


class Rejected(msgspec.Struct, frozen=True, gc=False):
    """Invalid, and not to be processed (3.4.3)."""

    error: ErrorValue | None = None


class Released(msgspec.Struct, frozen=True, gc=False):
    """Not processed, as if it had not been sent (3.4.4)."""


class Modified(msgspec.Struct, frozen=True, gc=False):
    """Not processed, and to be changed before it is sent again (3.4.5)."""

    delivery_failed: bool = False
    undeliverable_here: bool = False
    message_annotations: dict[Symbol, Any] | None = None


DeliveryState: TypeAlias = Received | Accepted | Rejected | Released | Modified | Described


class TerminusDurability(enum.IntEnum):
    """What of a terminus outlives its container (3.5.5)."""

    NONE = 0
    CONFIGURATION = 1
    UNSETTLED_STATE = 2


class TerminusExpiryPolicy(Symbol, enum.ReprEnum):
    """When the time to live of a terminus begins (3.5.6)."""

    LINK_DETACH = "link-detach"
    SESSION_END = "session-end"
    CONNECTION_CLOSE = "connection-close"
    NEVER = "never"


class Source(msgspec.Struct, frozen=True, gc=False):
    """Where messages come from (3.5.3); the filters are kept as they came, described or not, to be echoed."""

    address: str | None = None
    durable: TerminusDurability = TerminusDurability.NONE
    expiry_policy: TerminusExpiryPolicy = TerminusExpiryPolicy.SESSION_END
    timeout: int = 0
    dynamic: bool = False
    dynamic_node_properties: dict[Symbol, Any] | None = None
    distribution_mode: Symbol | None = None
    filter: dict[Symbol, Any] | None = None
    default_outcome: DeliveryState | None = None
    outcomes: tuple[Symbol, ...] = ()
    capabilities: tuple[Symbol, ...] = ()


class Target(msgspec.Struct, frozen=True, gc=False):
    """Where messages go to (3.5.4)."""

    address: str | None = None
    durable: TerminusDurability = TerminusDurability.NONE
    expiry_policy: TerminusExpiryPolicy = TerminusExpiryPolicy.SESSION_END
    timeout: int = 0
    dynamic: bool = False
    dynamic_node_properties: dict[Symbol, Any] | None = None
    capabilities: tuple[Symbol, ...] = ()


Terminus: TypeAlias = Source | Target | Coordinator | Described

# fmt: off
DELIVERY_STATE = OneOf(
    Composite(0x23, "received", Received, section_number=uint, section_offset=ulong),
    Composite(0x24, "accepted", Accepted),
    Composite(0x25, "rejected", Rejected, error=ERROR),
    Composite(0x26, "released", Released),
    Composite(0x27, "modified", Modified, delivery_failed=boolean, undeliverable_here=boolean,
              message_annotations=annotation_map),
)
_DURABILITY = Enumeration(TerminusDurability, uint)
_EXPIRY_POLICY = Enumeration(TerminusExpiryPolicy, symbol)
SOURCE = OneOf(
    Composite(0x28, "source", Source, address=string, durable=_DURABILITY, expiry_policy=_EXPIRY_POLICY,
              timeout=uint, dynamic=boolean, dynamic_node_properties=field_map, distribution_mode=symbol,
              filter=field_map, default_outcome=DELIVERY_STATE, outcomes=symbols, capabilities=capabilities),
)
TARGET = OneOf(
    Composite(0x29, "target", Target, address=string, durable=_DURABILITY, expiry_policy=_EXPIRY_POLICY,
              timeout=uint, dynamic=boolean, dynamic_node_properties=field_map, capabilities=capabilities),
    COORDINATOR,
)
# fmt: on

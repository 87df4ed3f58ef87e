"""AMQP 1.0 part 2, section 2.7: performatives, and how each is read and written.

Fields have the specification's names and order. None is null; a field with a default has the default for null. A field
of `multiple` values is a tuple, empty for null.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.amqp.definitions import (
    CHANNEL_MAX_DEFAULT,
    FRAME_SIZE_BYTES_MAX_DEFAULT,
    HANDLE_MAX_DEFAULT,
    ErrorValue,
    ReceiverSettleMode,
    Role,
    SenderSettleMode,
)
from headwater.amqp.messaging import DeliveryState, Source, Target
from headwater.amqp.transactions import Coordinator
from headwater.encoding.amqp_types import Described, Symbol

__all__ = [
    "Attach",
    "Begin",
    "Close",
    "Detach",
    "Disposition",
    "End",
    "Flow",
    "Open",
    "Performative",
    "Transfer",
]


class Performative(msgspec.Struct, frozen=True, gc=False):
    """The body of a frame."""


class Open(Performative, frozen=True, gc=False):
    """2.7.1: negotiates a connection; the idle time-out is in milliseconds."""

    container_id: str
    hostname: str | None = None
    max_frame_size: int = FRAME_SIZE_BYTES_MAX_DEFAULT
    channel_max: int = CHANNEL_MAX_DEFAULT
    idle_time_out: int | None = None
    outgoing_locales: tuple[Symbol, ...] = ()
    incoming_locales: tuple[Symbol, ...] = ()
    offered_capabilities: tuple[Symbol, ...] = ()
    desired_capabilities: tuple[Symbol, ...] = ()
    properties: dict[Symbol, Any] | None = None


class Begin(Performative, frozen=True, gc=False):
    """2.7.2: begins a session; whoever begins first has no remote channel to name."""

    remote_channel: int | None
    next_outgoing_id: int
    incoming_window: int
    outgoing_window: int
    handle_max: int = HANDLE_MAX_DEFAULT
    offered_capabilities: tuple[Symbol, ...] = ()
    desired_capabilities: tuple[Symbol, ...] = ()
    properties: dict[Symbol, Any] | None = None


class Attach(Performative, frozen=True, gc=False):
    """2.7.3: attaches a link to a session; an unsettled map has delivery tags for keys, None for no state yet."""

    name: str
    handle: int
    role: Role
    snd_settle_mode: SenderSettleMode = SenderSettleMode.MIXED
    rcv_settle_mode: ReceiverSettleMode = ReceiverSettleMode.FIRST
    source: Source | Described | None = None
    target: Target | Coordinator | Described | None = None
    unsettled: dict[bytes, DeliveryState | None] | None = None
    incomplete_unsettled: bool = False
    initial_delivery_count: int | None = None
    max_message_size: int | None = None
    offered_capabilities: tuple[Symbol, ...] = ()
    desired_capabilities: tuple[Symbol, ...] = ()
    properties: dict[Symbol, Any] | None = None


class Flow(Performative, frozen=True, gc=False):
    """2.7.4: the state of a session, and of a link if it names a handle."""

    next_incoming_id: int | None
    incoming_window: int
    next_outgoing_id: int
    outgoing_window: int
    handle: int | None = None
    delivery_count: int | None = None
    link_credit: int | None = None
    available: int | None = None
    drain: bool = False
    echo: bool = False
    properties: dict[Symbol, Any] | None = None


class Transfer(Performative, frozen=True, gc=False):
    """2.7.5: a message, or a part of one, in the payload behind it."""

    handle: int
    delivery_id: int | None = None
    delivery_tag: bytes | None = None
    message_format: int | None = None
    settled: bool | None = None
    more: bool = False
    rcv_settle_mode: ReceiverSettleMode | None = None
    state: DeliveryState | None = None
    resume: bool = False
    aborted: bool = False
    batchable: bool = False


class Disposition(Performative, frozen=True, gc=False):
    """2.7.6: the state of deliveries `first` to `last`, or of `first` alone."""

    role: Role
    first: int
    last: int | None = None
    settled: bool = False
    state: DeliveryState | None = None
    batchable: bool = False


class Detach(Performative, frozen=True, gc=False):
    """2.7.7: detaches a link, for good if it is closed."""

    handle: int
    closed: bool = False
    error: ErrorValue | None = None


class End(Performative, frozen=True, gc=False):
    """2.7.8: ends a session."""

    error: ErrorValue | None = None


class Close(Performative, frozen=True, gc=False):
    """2.7.9: closes a connection."""

    error: ErrorValue | None = None

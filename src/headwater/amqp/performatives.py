"""AMQP 1.0 part 2, section 2.7: performatives, and how each is read and written.

Fields have the specification's names and order. None is null; a field with a default has the default for null. A field
of `multiple` values is a tuple, empty for null.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.amqp.definitions import (
    CHANNEL_MAX_DEFAULT,
    ERROR,
    FRAME_SIZE_BYTES_MAX_DEFAULT,
    HANDLE_MAX_DEFAULT,
    RECEIVER_SETTLE_MODE,
    ROLE,
    SENDER_SETTLE_MODE,
    ErrorValue,
    ReceiverSettleMode,
    Role,
    SenderSettleMode,
)
from headwater.amqp.messaging import DELIVERY_STATE, SOURCE, TARGET, DeliveryState, Rejected, Source, Target
from headwater.amqp.transactions import Coordinator
from headwater.encoding.amqp_composite import Composite, OneOf, read_descriptor
from headwater.encoding.amqp_encoder import encoded
from headwater.encoding.amqp_fields import (
    Map,
    binary,
    boolean,
    capabilities,
    field_map,
    string,
    symbols,
    uint,
    ulong,
    ushort,
)
from headwater.encoding.amqp_types import Described, Symbol
from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import MalformedValue

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
    "decode_performative",
    "encode_performative",
    "without_words",
]


def decode_performative(buffer: ReadableBuffer, position: int, end: int) -> tuple[Performative, int]:
    """The performative at the position, and the position behind it, where the payload of a transfer begins.

    Raises MalformedValue unless a whole and valid one stands before `end`.
    """
    descriptor, position = read_descriptor(buffer, position, end)
    composite = _PERFORMATIVES.find(descriptor)
    if composite is None:
        raise MalformedValue("a frame begins with no performative")
    return composite.decode(buffer, position, end)


def encode_performative(performative: Performative) -> bytes:
    """The bytes of a performative; raises InvalidValue if a field has none."""
    return encoded(_PERFORMATIVES.write, performative)


def without_words(performative: Performative) -> Performative:
    """The same, but an error in it is its condition alone."""
    if isinstance(performative, Detach | End | Close) and performative.error is not None:
        return msgspec.structs.replace(performative, error=ErrorValue(performative.error.condition))
    state = performative.state if isinstance(performative, Disposition) else None
    if isinstance(state, Rejected) and state.error is not None:
        return msgspec.structs.replace(performative, state=Rejected(ErrorValue(state.error.condition)))
    return performative


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


# fmt: off
_PERFORMATIVES = OneOf(
    Composite(0x10, "open", Open, container_id=string, hostname=string, max_frame_size=uint, channel_max=ushort,
              idle_time_out=uint, outgoing_locales=symbols, incoming_locales=symbols,
              offered_capabilities=capabilities, desired_capabilities=capabilities, properties=field_map),
    Composite(0x11, "begin", Begin, remote_channel=ushort, next_outgoing_id=uint, incoming_window=uint,
              outgoing_window=uint, handle_max=uint, offered_capabilities=capabilities,
              desired_capabilities=capabilities, properties=field_map),
    Composite(0x12, "attach", Attach, name=string, handle=uint, role=ROLE, snd_settle_mode=SENDER_SETTLE_MODE,
              rcv_settle_mode=RECEIVER_SETTLE_MODE, source=SOURCE, target=TARGET,
              unsettled=Map(binary, (bytes,), DELIVERY_STATE), incomplete_unsettled=boolean,
              initial_delivery_count=uint, max_message_size=ulong, offered_capabilities=capabilities,
              desired_capabilities=capabilities, properties=field_map),
    Composite(0x13, "flow", Flow, next_incoming_id=uint, incoming_window=uint, next_outgoing_id=uint,
              outgoing_window=uint, handle=uint, delivery_count=uint, link_credit=uint, available=uint,
              drain=boolean, echo=boolean, properties=field_map),
    Composite(0x14, "transfer", Transfer, handle=uint, delivery_id=uint, delivery_tag=binary, message_format=uint,
              settled=boolean, more=boolean, rcv_settle_mode=RECEIVER_SETTLE_MODE, state=DELIVERY_STATE,
              resume=boolean, aborted=boolean, batchable=boolean),
    Composite(0x15, "disposition", Disposition, role=ROLE, first=uint, last=uint, settled=boolean,
              state=DELIVERY_STATE, batchable=boolean),
    Composite(0x16, "detach", Detach, handle=uint, closed=boolean, error=ERROR),
    Composite(0x17, "end", End, error=ERROR),
    Composite(0x18, "close", Close, error=ERROR),
)
# fmt: on

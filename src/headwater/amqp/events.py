"""What a connection tells its owner: one event for whatever the peer did, one for a whole run of transfers."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from headwater.amqp.definitions import ErrorValue
from headwater.amqp.messaging import DeliveryState
from headwater.amqp.performatives import Open
from headwater.encoding.chunk import ReadableBuffer
from headwater.encoding.ranges import IdRange

if TYPE_CHECKING:
    from headwater.amqp.link import Link
    from headwater.amqp.receiver_link import ReceiverLink
    from headwater.amqp.sender_link import SenderLink
    from headwater.amqp.session import Session

__all__ = [
    "Closed",
    "Deliveries",
    "Event",
    "LinkAttached",
    "LinkDetached",
    "LinkFlow",
    "Opened",
    "SessionBegun",
    "SessionEnded",
    "Settled",
    "WindowOpened",
]


class Opened(msgspec.Struct, frozen=True):
    """The peer opened; who is asked answers with `open` or `close`."""

    open: Open


class Closed(msgspec.Struct, frozen=True):
    """The connection ends: the peer closed it, or broke it; `is_answered` if our close is on its way already."""

    error: ErrorValue | None
    is_answered: bool


class SessionBegun(msgspec.Struct, frozen=True):
    """A session is there, whoever began it."""

    session: Session


class SessionEnded(msgspec.Struct, frozen=True):
    """A session ends: the peer ended it, or broke it; its links are gone. Unless `is_answered`, it waits for `end`."""

    session: Session
    error: ErrorValue | None
    is_answered: bool


class LinkAttached(msgspec.Struct, frozen=True):
    """The peer attached a link: a new one, which waits for `accept` or `refuse`, or it answered ours."""

    link: Link


class LinkDetached(msgspec.Struct, frozen=True):
    """The peer detached a link, or broke it; unless `is_answered`, it waits for `detach`."""

    link: Link
    is_closed: bool
    error: ErrorValue | None
    is_answered: bool


class Deliveries(msgspec.Struct, frozen=True):
    """Messages of a link with consecutive delivery ids, and where they lie in a buffer (`_amqp_kernel.py` draws spans).

    Buffer and spans are good until the next event is asked for.
    """

    link: ReceiverLink
    first_id: int
    count: int
    is_settled: bool
    message_format: int
    buffer: ReadableBuffer
    spans: array[int]
    annotated_count: int
    """How many have delivery annotations."""


class Settled(msgspec.Struct, frozen=True):
    """The peer said what became of deliveries of ours; unless `is_settled`, it waits for us to settle them."""

    parts: list[tuple[SenderLink, list[IdRange]]]
    state: DeliveryState | None
    is_settled: bool


class LinkFlow(msgspec.Struct, frozen=True):
    """A link of ours got other credit or is asked to drain; or the sender told a receiver of ours where it stands."""

    link: Link


class WindowOpened(msgspec.Struct, frozen=True):
    """The peer takes transfers of a session again; what its links were told with it counts already."""

    session: Session


Event: TypeAlias = (
    Opened
    | Closed
    | SessionBegun
    | SessionEnded
    | LinkAttached
    | LinkDetached
    | Deliveries
    | Settled
    | LinkFlow
    | WindowOpened
)

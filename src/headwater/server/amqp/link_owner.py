"""What links of the AMQP door and the connection that they are of ask of one another."""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Callable, Sequence
from typing import Protocol

from headwater.amqp.definitions import ErrorValue
from headwater.amqp.events import Deliveries
from headwater.amqp.link import Link
from headwater.amqp.messaging import DeliveryState
from headwater.encoding.ranges import IdRange
from headwater.engine.subscriptions import Departure
from headwater.errors import StorageError
from headwater.log.partition import Partition

__all__ = ["LinkHandler", "LinkOwner"]


class LinkHandler:
    """What a link does; each kind of node has its own."""

    link: Link

    def start(self) -> None:
        """The link is attached."""

    def deliveries(self, event: Deliveries, index: int) -> int:
        """Messages came: take those from a number on; gives the number of the first that has to wait for room."""
        return event.count

    def flow(self) -> None:
        """Credit, a window, or where the sender stands has changed."""

    def settled(self, ranges: Sequence[IdRange], state: DeliveryState | None, *, is_settled: bool) -> None:
        """The client said what became of our deliveries."""

    def when_settled(self, call: Callable[[], None]) -> bool:
        """Call back when all that came is settled; False if it is already."""
        return False

    def depart(self, how: Departure) -> None:
        """The link goes, in this way; told before `close`, and again as its session and connection end."""

    @property
    def awaits_more(self) -> bool:
        """Whether it matters to what the link consumed from when its session, or its connection, ends."""
        return False

    def close(self) -> None:
        """The link is gone: let go of everything."""

    def pump(self) -> None:
        """The socket takes more."""


class LinkOwner(Protocol):
    """The connection of a link."""

    @property
    def name(self) -> str:
        """From where to where."""

    @property
    def credit_count(self) -> int:
        """Deliveries that a sender may have on their way to us."""

    @property
    def information_interval_s(self) -> float:
        """So long it takes from one message that tells of a log to the next."""

    def may_read(self, name: str) -> bool:
        """Whether the user may read at this moment."""

    def may_write(self, name: str) -> bool:
        """Whether the user may write at this moment."""

    def answered(self) -> None:
        """There is something to send: with all that this turn of the loop brings."""

    def can_deliver(self) -> bool:
        """Whether more messages may be queued for the socket."""

    def flush(self) -> int:
        """Hand what is queued to the socket; gives its bytes."""
        ...

    def call_soon(self, call: Callable[[], None]) -> None:
        """Call in the next turn of the loop."""

    def call_later(self, seconds: float, call: Callable[[], None]) -> TimerHandle:
        """Call when so much time has passed, unless that is cancelled."""
        ...

    def guarded(self, call: Callable[[], None]) -> None:
        """Call now; a fault of ours ends this connection, and nothing else."""

    def call_when_room(self, call: Callable[[], None]) -> None:
        """Call once, when commits have made room for more."""

    def break_link(self, link: Link, error: ErrorValue) -> None:
        """Detach a link because of this."""

    def end_link(self, link: Link) -> None:
        """Detach a link gracefully."""

    def note_failure(self, partition: Partition, error: StorageError) -> None:
        """A partition could not be read or written."""

"""AMQP 1.0 part 2, section 2.4: an opened connection: who is at its other end, and what its links do."""

from __future__ import annotations

import logging
from asyncio import TimerHandle
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from headwater.amqp.connection import Connection
from headwater.amqp.definitions import Condition, ErrorValue
from headwater.amqp.events import (
    Deliveries,
    Event,
    LinkAttached,
    LinkDetached,
    LinkFlow,
    SessionEnded,
    Settled,
    WindowOpened,
)
from headwater.amqp.link import Link
from headwater.engine.subscriptions import Departure
from headwater.errors import StorageError
from headwater.log.partition import Partition
from headwater.server.amqp.door import Door, LinkKey
from headwater.server.amqp.dynamic_node import DynamicNode
from headwater.server.amqp.intake import error_of
from headwater.server.amqp.link_owner import LinkHandler
from headwater.server.amqp.management.conversation import Conversation
from headwater.server.amqp.nodes import LogNode, Refused
from headwater.server.amqp.termini import handler_for
from headwater.server.security.identity import Identity

__all__ = ["Container", "Outlet"]

logger = logging.getLogger("headwater.amqp")


class Outlet(Protocol):
    """What a container asks of its socket."""

    def answered(self) -> None:
        """There is something to send: with all that this turn of the loop brings."""

    def guarded(self, call: Callable[[], None]) -> None:
        """Call now; a fault of ours ends this connection, and nothing else."""

    def can_deliver(self) -> bool:
        """Whether more messages may be queued for the socket."""
        ...

    def flush(self) -> int:
        """Hand what is queued to the socket; gives its bytes."""
        ...


class Container:
    """The peer of an opened connection, with its links."""

    def __init__(
        self, door: Door, machine: Connection, outlet: Outlet, identity: Identity, vhost: str, name: str
    ) -> None:
        assert machine.remote is not None, "the peer has opened"
        self.door = door
        self.machine = machine
        self.identity = identity
        self.vhost = vhost
        self.name = name
        self.container_id = machine.remote.container_id
        self.links: dict[Link, LinkHandler] = {}
        self._departed: list[LinkHandler] = []
        """Those of links that are gone, to which it matters when their session or the connection ends."""
        self.conversation = Conversation(self, door.agent)
        self._outlet = outlet
        self._events: dict[type[Event], Callable[[Any], None]] = {
            LinkFlow: self._flow,
            WindowOpened: self._window_opened,
            Settled: self._settled,
            LinkAttached: self._attached,
            LinkDetached: self._detached,
            SessionEnded: self._session_ended,
        }

    def handle(self, event: Event, index: int = 0) -> int | None:
        """Act on an event; gives the number of the first message that has to wait for room, if one has to."""
        if isinstance(event, Deliveries):
            handler = self.links.get(event.link)
            following = event.count if handler is None else handler.deliveries(event, index)
            return None if following >= event.count else following
        act = self._events.get(type(event))
        if act is not None:
            act(event)
        if self.machine.unsettled_budget.has_room_again():
            self._room_again()
        return None

    def pump(self) -> None:
        """The socket has room again."""
        for handler in list(self.links.values()):
            handler.pump()

    def when_settled(self, call: Callable[[], None]) -> None:
        """Call when all that came is settled."""
        self._when_settled(list(self.links.values()), call)

    def close(self) -> None:
        """The connection is gone, or about to be."""
        for link in list(self.links):
            self._forget(link, Departure.CONNECTION_CLOSE)
        for handler in self._departed:
            handler.depart(Departure.CONNECTION_CLOSE)
        self._departed.clear()
        self.conversation.close()

    def bound(self, link: Link, node: LogNode) -> LogNode:
        """The node with the partition that its log has a link bound to which asked for none, if it has."""
        return self.door.bound(self._keys(link)[0], link, node)

    def make_way_for(self, link: Link, node: LogNode | None = None, *, shares: bool = False) -> None:
        """A link is about to be accepted: another one of its name, wherever that is, is its past and goes first.

        Of those that share a subscription each connection may have one (Topic Subscriptions, examples d to g).
        """
        alone, sharing = self._keys(link)
        for key in (alone, sharing):
            self.door.evict(key)
        self.door.enter(sharing if shares else alone, self, link)
        if node is not None:
            self.door.bound_links.add(link, node)

    # Of links

    @property
    def credit_count(self) -> int:
        return self.door.limits.credit_count

    @property
    def information_interval_s(self) -> float:
        return self.door.limits.information_interval_s

    def may_read(self, name: str) -> bool:
        return self.door.access.may_read(self.identity, self.vhost, name)

    def may_write(self, name: str) -> bool:
        return self.door.access.may_write(self.identity, self.vhost, name)

    def reply_partition(self, address: str) -> Partition:
        """The partition of a log to which an answer may go, a dynamic node of this connection's; raises `Refused`."""
        handlers = self.links.values()
        is_own = any(isinstance(each, DynamicNode) and each.name == address for each in handlers)
        return self.door.nodes.to_reply(self.identity, self.vhost, address, is_own=is_own).partitions[0]

    def answered(self) -> None:
        self._outlet.answered()

    def can_deliver(self) -> bool:
        return self._outlet.can_deliver()

    def flush(self) -> int:
        return self._outlet.flush()

    def call_soon(self, call: Callable[[], None]) -> None:
        self.door.loop.call_soon(self._outlet.guarded, call)

    def call_later(self, seconds: float, call: Callable[[], None]) -> TimerHandle:
        return self.door.loop.call_later(seconds, self._outlet.guarded, call)

    def guarded(self, call: Callable[[], None]) -> None:
        self._outlet.guarded(call)

    def call_when_room(self, call: Callable[[], None]) -> None:
        self.door.store.call_when_room(lambda: self._outlet.guarded(call))

    def break_link(self, link: Link, error: ErrorValue) -> None:
        self.end_link(link, error)

    def end_link(self, link: Link, error: ErrorValue | None = None) -> None:
        self._forget(link, Departure.DETACH)
        link.detach(error)
        self._outlet.answered()

    def note_failure(self, partition: Partition, error: StorageError) -> None:
        self.door.note_failure(partition, error)

    # Events

    def _flow(self, event: LinkFlow) -> None:
        handler = self.links.get(event.link)
        if handler is not None:
            handler.flow()

    def _window_opened(self, event: WindowOpened) -> None:
        for link in list(event.session.links.values()):
            if link in self.links:
                self.links[link].flow()

    def _room_again(self) -> None:
        """The client has settled so much that links which waited for that may send."""
        for handler in list(self.links.values()):
            handler.flow()

    def _settled(self, event: Settled) -> None:
        for link, ranges in event.parts:
            handler = self.links.get(link)
            if handler is not None:
                handler.settled(ranges, event.state, is_settled=event.is_settled)

    def _attached(self, event: LinkAttached) -> None:
        link = event.link
        try:
            if len(self.links) >= self.door.limits.connection_links_max:
                raise Refused(
                    Condition.RESOURCE_LIMIT_EXCEEDED,
                    f"a connection has {self.door.limits.connection_links_max} links at most",
                )
            handler = handler_for(self, link)
        except (Refused, StorageError) as error:
            logger.info("%s: link %.100r refused: %s", self.name, link.name, error)
            link.refuse(error.value if isinstance(error, Refused) else error_of(error))
            return
        self.links[link] = handler
        handler.start()

    def _detached(self, event: LinkDetached) -> None:
        if event.error is not None:
            logger.info("%s: link %.100r detached: %s", self.name, event.link.name, event.error)
        link, handler = event.link, self.links.get(event.link)
        self._forget(link, Departure.CLOSE if event.is_closed else Departure.DETACH)
        if event.is_answered:
            return

        def answer() -> None:
            link.detach(is_closed=event.is_closed)
            self._outlet.answered()

        # What was sent before the detach is settled before the answer.
        if handler is None or not handler.when_settled(answer):
            answer()

    def _session_ended(self, event: SessionEnded) -> None:
        session = event.session
        handlers = [self.links[link] for link in session.links.values() if link in self.links]
        for handler in handlers:
            self._forget(handler.link, Departure.SESSION_END)
        for handler in self._departed:
            if handler.link.session is session:
                handler.depart(Departure.SESSION_END)
        if not event.is_answered:
            self._when_settled(handlers, session.end)

    def _when_settled(self, handlers: Iterable[LinkHandler], call: Callable[[], None]) -> None:
        """Call when all that came on these links is settled."""
        left = 1

        def settled() -> None:
            nonlocal left
            left -= 1
            if not left:
                call()
                self._outlet.answered()

        for handler in handlers:
            left += handler.when_settled(settled)
        settled()

    def _forget(self, link: Link, how: Departure) -> None:
        handler = self.links.pop(link, None)
        if handler is not None:
            handler.depart(how)
            handler.close()
            for key in self._keys(link):
                self.door.leave(key, link)
            self._departed = [each for each in (*self._departed, handler) if each.awaits_more]

    def _keys(self, link: Link) -> tuple[LinkKey, LinkKey]:
        """What a link is known by: one that is alone, and one of those that share a subscription."""
        named = (self.vhost, self.identity.user, self.container_id, link.name, link.role)
        return (*named, None), (*named, self)

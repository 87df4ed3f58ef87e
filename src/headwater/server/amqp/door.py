"""The AMQP door as a whole: its connections, the links across them, and what all of them share."""

from __future__ import annotations

import asyncio
import logging
import uuid
from array import array
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakKeyDictionary

from headwater import __version__
from headwater.amqp.connection import Limits as MachineLimits
from headwater.amqp.connection import PartialBudget
from headwater.amqp.definitions import Condition, ErrorValue, Role
from headwater.amqp.event_streams import EVENT_STREAMS
from headwater.amqp.link import Link
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.amqp_types import Symbol
from headwater.errors import PartitionDeleted, StorageError
from headwater.log.partition import Partition
from headwater.log.store import Store
from headwater.server.amqp.bound_links import BoundLinks
from headwater.server.amqp.dealing import Dealers
from headwater.server.amqp.limits import Limits
from headwater.server.amqp.management.agent import Agent
from headwater.server.amqp.management.replies import WaitingBytes
from headwater.server.amqp.nodes import AutoCreate, LogNode, Nodes
from headwater.server.config import Settings
from headwater.server.consumers.consumers import Consumers
from headwater.server.management.clients import Traffic
from headwater.server.security.access import Access
from headwater.server.security.name_pattern import compile_pattern
from headwater.server.security.sasl import Sasl

if TYPE_CHECKING:
    from headwater.server.amqp.connection import AmqpProtocol
    from headwater.server.amqp.container import Container

__all__ = ["Door", "LinkKey", "make_amqp_door", "make_nodes"]

READ_BUFFER_BYTES = 1 << 20
OFFERED_CAPABILITIES = (Symbol("ANONYMOUS-RELAY"), EVENT_STREAMS, Symbol("SHARED-SUBS"))

LinkKey: TypeAlias = "tuple[str, str, str, str, Role, Container | None]"
"""Section 2.6.1: a link is named by its containers, its name and its direction; nobody takes another user's.

One that shares a subscription is named by its connection, too.
"""

logger = logging.getLogger("headwater.amqp")


def make_amqp_door(
    store: Store,
    access: Access,
    sasl: Sasl,
    loop: asyncio.AbstractEventLoop,
    settings: Settings,
    consumers: Consumers,
    agent: Agent | None = None,
) -> Door:
    """The door as the settings want it; `agent` answers for the whole server where there are other doors too."""
    limits = Limits(
        connections_max=settings.amqp_connections_max,
        frame_size_bytes_max=settings.amqp_frame_bytes_max,
        credit_count=settings.amqp_credit_count,
        idle_timeout_s=settings.amqp_idle_timeout_s,
        step_timeout_s=settings.amqp_handshake_timeout_s,
        failure_delay_s=settings.sasl_failure_delay_s,
    )
    container_id = f"headwater-{uuid.uuid4()}"
    nodes = make_nodes(store, access, settings, "amqp")
    nodes.delete_left_over()
    return Door(store, access, sasl, loop, limits, nodes, consumers, container_id, agent)


def make_nodes(store: Store, access: Access, settings: Settings, door: str) -> Nodes:
    """Logs by address, made when they are missing as the settings want it."""
    pattern = settings.auto_create_pattern
    auto_create = AutoCreate(
        settings.auto_create,
        settings.auto_create_partitions,
        None if pattern is None else compile_pattern(pattern),
    )
    return Nodes(store, access, auto_create, door)


class Door:
    """What the connections of the AMQP door share."""

    def __init__(
        self,
        store: Store,
        access: Access,
        sasl: Sasl,
        loop: asyncio.AbstractEventLoop,
        limits: Limits,
        nodes: Nodes,
        consumers: Consumers,
        container_id: str,
        agent: Agent | None = None,
    ) -> None:
        self.store = store
        self.consumers = consumers
        self.dealers = Dealers(loop)
        self.access = access
        self.sasl = sasl
        self.loop = loop
        self.limits = limits
        self.nodes = nodes
        self.container_id = container_id
        self.connections: set[AmqpProtocol] = set()
        self.traffic = Traffic()
        self.agent = agent or Agent([])
        """Answers what comes to `$management`."""
        self.waiting_responses = WaitingBytes(limits.responses_bytes_max)
        self.read_buffer = bytearray(READ_BUFFER_BYTES)
        """One for all connections: what is in it was dealt with when the next one reads."""
        self.read_view = memoryview(self.read_buffer)
        self.budget = PartialBudget(limits.partial_bytes_max)
        self.machine_limits = MachineLimits(
            frame_size_bytes_max=limits.frame_size_bytes_max,
            channel_max=limits.sessions_max - 1,
            handle_max=limits.links_max - 1,
            incoming_window=limits.incoming_window,
            idle_time_out_ms=int(limits.idle_timeout_s * 1000 / 2) or None,
            message_size_bytes_max=limits.message_size_bytes_max,
        )
        self.spans = array("q", bytes(8 * SPAN_FIELDS * self.machine_limits.run_count_max))
        self.offered_capabilities = OFFERED_CAPABILITIES
        self.properties: dict[Symbol, object] = {
            Symbol("product"): "Headwater",
            Symbol("version"): __version__,
            Symbol("platform"): "Python",
        }
        self.bound_links = BoundLinks()
        self._links: dict[LinkKey, tuple[Container, Link]] = {}
        self._told_again_at: WeakKeyDictionary[Partition, float] = WeakKeyDictionary()

    def evict(self, key: LinkKey) -> None:
        """Detach the link that has this name, if there is one: its container attaches it again."""
        found = self._links.get(key)
        if found is not None:
            container, old = found
            container.break_link(
                old, ErrorValue(Condition.LINK_STOLEN, f"link {old.name!r} was attached again")
            )

    def bound(self, key: LinkKey, link: Link, node: LogNode) -> LogNode:
        """The node with the partition that its log has a link of this name bound to."""
        found = self._links.get(key)
        return self.bound_links.choose(link, node, None if found is None else found[1])

    def enter(self, key: LinkKey, container: Container, link: Link) -> None:
        """A link is attached."""
        self._links[key] = container, link

    def leave(self, key: LinkKey, link: Link) -> None:
        """A link is gone."""
        self.bound_links.discard(link)
        found = self._links.get(key)
        if found is not None and found[1] is link:
            del self._links[key]

    def note_failure(self, partition: Partition, error: StorageError) -> None:
        """A partition could not be read or written; told once in a while, as clients try again."""
        now = self.loop.time()
        if now >= self._told_again_at.get(partition, 0.0) and not isinstance(error, PartitionDeleted):
            self._told_again_at[partition] = now + self.limits.failure_told_every_s
            logger.error("%s: %s", partition.name, error)

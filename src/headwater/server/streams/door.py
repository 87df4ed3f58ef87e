"""The stream door as a whole: its connections, the groups across them, and what all of them are told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import msgspec

from headwater import __version__
from headwater.engine.single_active import GroupId, SingleActive, Update
from headwater.errors import InvalidCloudEvent, PartitionDeleted, StorageError
from headwater.log.partition import Partition
from headwater.log.store import Store
from headwater.server.management.clients import Traffic
from headwater.server.security.access import Access
from headwater.server.security.sasl import Sasl
from headwater.server.streams.limits import Limits
from headwater.server.streams.topology import Topology

if TYPE_CHECKING:
    from headwater.server.streams.connection import StreamProtocol
    from headwater.server.streams.session import Session

__all__ = ["Door", "Endpoint"]

READ_BUFFER_BYTES = 1 << 20

logger = logging.getLogger("headwater.streams")


class Endpoint(msgspec.Struct, frozen=True):
    """Where clients are told to connect to; what is left out is what they have connected to already."""

    host: str = ""
    port: int = 0

    def or_else(self, reached: object) -> Endpoint:
        """The same, completed by the address of our end of a connection."""
        if not isinstance(reached, tuple):
            return Endpoint(self.host or "localhost", self.port)
        return Endpoint(self.host or reached[0], self.port or reached[1])


class Door:
    """What the connections of the stream door share."""

    def __init__(
        self,
        store: Store,
        access: Access,
        sasl: Sasl,
        loop: asyncio.AbstractEventLoop,
        limits: Limits,
        announced_version: str,
    ) -> None:
        self.store = store
        self.access = access
        self.sasl = sasl
        self.loop = loop
        self.limits = limits
        self.peer_properties = _peer_properties(announced_version)
        self.topology = Topology(store)
        self.connections: set[StreamProtocol] = set()
        self.traffic = Traffic()
        self.read_buffer = bytearray(READ_BUFFER_BYTES)
        """One for all connections: what is in it was dealt with when the next one reads."""
        self.read_view = memoryview(self.read_buffer)
        self._groups: SingleActive[tuple[Session, int]] = SingleActive()
        self._told_again_at: WeakKeyDictionary[Partition, float] = WeakKeyDictionary()
        self._refusal_told_again_at: WeakKeyDictionary[Partition, float] = WeakKeyDictionary()

    # Groups

    def join_group(self, group: GroupId, session: Session, subscription_id: int, index: int | None) -> None:
        """A single active consumer subscribed."""
        self._tell(self._groups.join(group, (session, subscription_id), index))

    def leave_group(self, group: GroupId, session: Session, subscription_id: int) -> None:
        """A single active consumer is gone."""
        self._tell(self._groups.leave(group, (session, subscription_id)))

    def stepped_down(self, group: GroupId, session: Session, subscription_id: int) -> None:
        """A consumer that was active answered that it stopped."""
        self._tell(self._groups.stepped_down(group, (session, subscription_id)))

    def _tell(self, updates: list[Update[tuple[Session, int]]]) -> None:
        for update in updates:
            session, subscription_id = update.member
            session.set_active(subscription_id, update.active)

    # Streams that go

    def partitions_of(self, vhost: str, name: str) -> list[Partition]:
        """The partitions that go with a log, before it is deleted."""
        log = self.store.logs.get((vhost, name))
        return [] if log is None else log.own_partitions

    def delete_log(self, vhost: str, name: str) -> None:
        """Delete a log, and tell who uses it; raises `UnknownLog` or `StorageError`."""
        gone = self.partitions_of(vhost, name)
        self.store.delete_log(name, vhost)
        self.streams_deleted(vhost, gone)

    def delete_unused_partition(self, vhost: str, name: str) -> None:
        """Take a partition from a super stream that was never used, and tell who uses it; raises `PartitionUsed`."""
        partition = self.store.stream(name, vhost)
        self.store.delete_unused_partition(name, vhost)
        if partition is not None:
            self.streams_deleted(vhost, [partition])

    def streams_deleted(self, vhost: str, partitions: list[Partition]) -> None:
        """Tell every connection that publishes to one of these or reads it."""
        for partition in partitions:
            self._groups.disband(vhost, partition.name)
        for connection in list(self.connections):
            if connection.session is not None:
                for partition in partitions:
                    connection.session.drop_stream(partition)

    def note_failure(self, partition: Partition, error: StorageError) -> None:
        """A partition could not be read or written; told once in a while, as clients try again."""
        now = self.loop.time()
        if now >= self._told_again_at.get(partition, 0.0) and not isinstance(error, PartitionDeleted):
            self._told_again_at[partition] = now + self.limits.failure_told_every_s
            logger.error("%s: %s", partition.name, error)

    def note_refused_event(self, partition: Partition, error: InvalidCloudEvent) -> None:
        """A log of CloudEvents was sent something else; told once in a while, for the protocol has no words for it."""
        now = self.loop.time()
        if now >= self._refusal_told_again_at.get(partition, 0.0):
            self._refusal_told_again_at[partition] = now + self.limits.failure_told_every_s
            logger.warning("%s: a message was refused: %s", partition.name, error)


def _peer_properties(announced_version: str) -> Mapping[str, str]:
    """What clients are told. They decide by product and version what they dare to ask."""
    return {
        "cluster_name": "headwater",
        "copyright": "The Headwater authors",
        "information": "Licensed under the Apache License 2.0",
        "platform": "Python",
        "product": "RabbitMQ",
        "version": announced_version,
        "headwater_version": __version__,
    }

"""The stream door as a whole: its connections, the groups across them, and what all of them are told."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from headwater.engine.single_active import GroupId, SingleActive, Update
from headwater.errors import StorageError
from headwater.log.partition import Partition
from headwater.log.store import Store
from headwater.server.security.access import Access
from headwater.server.security.sasl import Sasl
from headwater.server.streams.topology import Topology
from headwater.streams.commands import ResponseCode

if TYPE_CHECKING:
    from headwater.server.streams.connection import StreamProtocol
    from headwater.server.streams.session import Session

__all__ = ["Door"]

CONSUMER_UPDATE_ANSWER_S = 60

logger = logging.getLogger("headwater.streams")


class Door:
    """What the connections of the stream door share."""

    def __init__(self, store: Store, access: Access, sasl: Sasl, loop: asyncio.AbstractEventLoop) -> None:
        self.store = store
        self.access = access
        self.sasl = sasl
        self.loop = loop
        self.topology = Topology(store)
        self.advertised_host = "127.0.0.1"
        self.advertised_port = 5552
        self.connections: set[StreamProtocol] = set()
        self.read_buffer = bytearray(1 << 20)
        """One for all connections: what is in it was dealt with when the next one reads."""
        self._groups: SingleActive[tuple[Session, int]] = SingleActive()

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

    def expect_answer(self, session: Session, correlation_id: int) -> None:
        """Close the connection of a client that does not answer a ConsumerUpdate in time."""

        def check() -> None:
            if session.awaits(correlation_id):
                for connection in self.connections:
                    if connection.session is session:
                        reason = f"no answer to a ConsumerUpdate within {CONSUMER_UPDATE_ANSWER_S} s"
                        connection.close(ResponseCode.PRECONDITION_FAILED, reason)

        self.loop.call_later(CONSUMER_UPDATE_ANSWER_S, check)

    def _tell(self, updates: list[Update[tuple[Session, int]]]) -> None:
        for update in updates:
            session, subscription_id = update.member
            session.set_active(subscription_id, update.active)

    # Streams that go

    def partitions_of(self, vhost: str, name: str) -> list[Partition]:
        """The partitions of a log, before it is deleted."""
        log = self.store.logs.get((vhost, name))
        return [] if log is None else list(log.partitions)

    def streams_deleted(self, partitions: list[Partition]) -> None:
        """Tell every connection that publishes to one of these or reads it."""
        for connection in list(self.connections):
            if connection.session is not None:
                for partition in partitions:
                    connection.session.drop_stream(partition)

    def note_failure(self, partition: Partition, error: StorageError) -> None:
        """A partition could not be read or written."""
        logger.error("%s: %s", partition.name, error)

"""The AMQP door beside the stream door, over one store: real listeners, whose limits a test may set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from headwater.log.log import PartitionDefinition
from headwater.log.settings import LogSettings
from headwater.server.amqp.door import Door
from headwater.server.amqp.limits import Limits
from headwater.server.amqp.listener import AmqpListener, close_connections
from headwater.server.amqp.nodes import AutoCreate, Nodes
from headwater.server.consumers.consumers import Consumers
from headwater.server.consumers.log_events import follow_logs
from tests.conformance.amqp_wire import AmqpWire, opened_amqp
from tests.conformance.listening import HOST, ListeningDoor

__all__ = ["CONTAINER_ID", "ListeningAmqp"]

CONTAINER_ID = "headwater-under-test"


class ListeningAmqp(ListeningDoor):
    """Both doors; `limits` are those of the AMQP door."""

    def __init__(
        self,
        data: Path,
        limits: Limits | None = None,
        *,
        auto_create: AutoCreate | None = None,
        cursor_flush_s: float = 0.01,
        **options: Any,
    ) -> None:
        super().__init__(data, **options)
        self.limits = limits or Limits(failure_delay_s=0.05)
        self._auto_create = auto_create or AutoCreate()
        self._cursor_flush_s = cursor_flush_s
        self.consumers: Consumers
        self.amqp: Door
        self.amqp_port = 0

    def connect(self, **how: Any) -> AmqpWire:
        """A connection that is open, with a session."""
        return opened_amqp(HOST, self.amqp_port, **how)

    def raw(self, **how: Any) -> AmqpWire:
        """A connection on which nothing was said yet."""
        return AmqpWire(HOST, self.amqp_port, **how)

    def super_stream(self, name: str, count: int, **settings: Any) -> None:
        """Make a log of so many partitions, whose ids are their numbers."""
        parts = [PartitionDefinition(f"{name}-{number}", str(number)) for number in range(count)]
        found = LogSettings(**settings)
        self.call(lambda: self.store.create_log(name, kind="super_stream", partitions=parts, settings=found))

    def change_settings(self, name: str, **changes: Any) -> None:
        """Give a log other settings."""

        def change() -> None:
            settings = self.store.log(name).definition.settings
            self.store.change_settings(name, msgspec.structs.replace(settings, **changes))

        self.call(change)

    def counts(self, name: str) -> list[int]:
        """How many messages each partition of a log has."""
        return self.call(lambda: [each.committed_offset for each in self.store.log(name).partitions])

    def lose(self, wire: AmqpWire) -> None:
        """End a connection by a reset, and wait until the server knows."""
        port = wire.local_port
        found = self.call(
            lambda: next(each for each in self.amqp.connections if each.address("peername")[1] == port)
        )
        wire.vanish()

        async def wait() -> None:
            await found.closed.wait()

        self.run(wait())

    def unsent_bytes_max(self) -> int:
        """The most that waits in the AMQP door for one socket."""

        def look() -> int:
            return max(each._transport.get_write_buffer_size() for each in self.amqp.connections)

        return self.call(look)

    async def _open(self) -> None:
        await super()._open()
        nodes = Nodes(self.store, self._access, self._auto_create)
        self.consumers = consumers = Consumers(self.store, self._loop, self._cursor_flush_s)
        follow_logs(self.store, consumers)
        self.amqp = Door(
            self.store, self._access, self._sasl, self._loop, self.limits, nodes, consumers, CONTAINER_ID
        )
        self._amqp_listener = AmqpListener(self.amqp, self._tls)
        (address,) = await self._amqp_listener.open(HOST, 0)
        self.amqp_port = int(address.rpartition(":")[2])

    async def _close(self) -> None:
        self._amqp_listener.close()
        await close_connections(self.amqp)
        self.consumers.close()
        await super()._close()

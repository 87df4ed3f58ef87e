"""The listening ports of the AMQP door, and how it ends."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Collection

from headwater.amqp.definitions import Condition, ErrorValue
from headwater.server.amqp.connection import AmqpProtocol
from headwater.server.amqp.door import Door
from headwater.server.listening import ListenFailed, address_of

__all__ = ["AmqpListener", "close_connections"]


class AmqpListener:
    """One listening port of the door."""

    def __init__(self, door: Door, tls: ssl.SSLContext | None = None) -> None:
        self._door = door
        self._tls = tls
        self._server: asyncio.Server | None = None

    async def open(self, host: str, port: int) -> list[str]:
        """Listen; gives the addresses, which say the port if 0 was asked for."""
        try:
            self._server = await self._door.loop.create_server(
                lambda: AmqpProtocol(self._door),
                host,
                port,
                ssl=self._tls,
                ssl_handshake_timeout=self._door.limits.step_timeout_s if self._tls else None,
            )
        except (OSError, UnicodeError) as error:
            raise ListenFailed("amqp-tls" if self._tls else "amqp", host, port, error) from error
        addresses = [socket.getsockname()[:2] for socket in self._server.sockets]
        return [address_of(address, number) for address, number in addresses]

    def close(self) -> None:
        """Take no more connections."""
        if self._server is not None:
            self._server.close()


async def close_connections(door: Door, those: Collection[AmqpProtocol] | None = None) -> None:
    """Take nothing more, settle what was taken, tell clients that the server stops, and give them a moment.

    All clients, or those that came another way than by a listener.
    """
    connections = list(door.connections if those is None else those)
    for connection in connections:
        connection.stop_taking()
    door.store.flush()
    stopping = ErrorValue(Condition.CONNECTION_FORCED, "the server is stopping")
    for connection in connections:
        connection.close(stopping)
    waits = [asyncio.create_task(connection.closed.wait()) for connection in connections]
    if not waits:
        return
    _, left = await asyncio.wait(waits, timeout=door.limits.stop_timeout_s)
    for connection in connections:
        if not connection.closed.is_set():
            connection.abort()
    if left:
        await asyncio.wait(left)

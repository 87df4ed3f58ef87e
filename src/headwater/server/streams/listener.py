"""The listeners of the stream door: the sockets, and what their clients are told to connect to."""

from __future__ import annotations

import asyncio
import ssl

from headwater.server.listening import ListenFailed, address_of
from headwater.server.streams.connection import StreamProtocol
from headwater.server.streams.door import Door, Endpoint
from headwater.streams.commands import ResponseCode

__all__ = ["StreamListener", "close_connections"]


class StreamListener:
    """One listening port of the door; `advertised` is what its clients are told."""

    def __init__(self, door: Door, advertised: Endpoint, tls: ssl.SSLContext | None = None) -> None:
        self._advertised = advertised
        self._door = door
        self._tls = tls
        self._server: asyncio.Server | None = None

    async def open(self, host: str, port: int) -> list[str]:
        """Listen; gives the addresses, which say the port if 0 was asked for."""
        try:
            self._server = await self._door.loop.create_server(
                lambda: StreamProtocol(self._door, self._advertised),
                host,
                port,
                ssl=self._tls,
                ssl_handshake_timeout=self._door.limits.step_timeout_s if self._tls else None,
            )
        except (OSError, UnicodeError) as error:
            raise ListenFailed("stream-tls" if self._tls else "stream", host, port, error) from error
        addresses = [socket.getsockname()[:2] for socket in self._server.sockets]
        return [address_of(address, number) for address, number in addresses]

    def close(self) -> None:
        """Take no more connections."""
        if self._server is not None:
            self._server.close()


async def close_connections(door: Door) -> None:
    """Take nothing more, confirm what was taken, tell all clients that the server stops, and give them a moment."""
    for connection in list(door.connections):
        connection.stop_taking()
    door.store.flush()
    for connection in list(door.connections):
        connection.close(ResponseCode.OK, "the server is stopping")
    waits = [asyncio.create_task(connection.closed.wait()) for connection in door.connections]
    if not waits:
        return
    _, left = await asyncio.wait(waits, timeout=door.limits.stop_timeout_s)
    for connection in list(door.connections):
        connection.abort()
    if left:
        await asyncio.wait(left)

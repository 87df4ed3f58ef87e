"""The listener of the stream door."""

from __future__ import annotations

import asyncio

from headwater.server.listening import ListenFailed, address_of
from headwater.server.streams.connection import StreamProtocol
from headwater.server.streams.door import Door
from headwater.streams.commands import ResponseCode

__all__ = ["StreamListener"]

STOP_TIMEOUT_S = 2.0


class StreamListener:
    """Listens, and at the end tells all clients so."""

    def __init__(self, door: Door, failure_delay_s: float) -> None:
        self._door = door
        self._failure_delay_s = failure_delay_s
        self._server: asyncio.Server | None = None

    async def open(self, host: str, port: int) -> list[str]:
        """Listen; gives the addresses, which say the port if 0 was asked for."""
        try:
            self._server = await self._door.loop.create_server(
                lambda: StreamProtocol(self._door, self._failure_delay_s), host, port
            )
        except (OSError, UnicodeError) as error:
            raise ListenFailed("stream", host, port, error) from error
        addresses = [socket.getsockname()[:2] for socket in self._server.sockets]
        self._door.advertised_host, self._door.advertised_port = host, addresses[0][1]
        return [address_of(address, number) for address, number in addresses]

    async def close(self) -> None:
        """Take no more connections, tell those that are there, and give them a moment."""
        if self._server is None:
            return
        self._server.close()
        for connection in list(self._door.connections):
            connection.close(ResponseCode.OK, "the server is stopping")
        waits = [asyncio.create_task(connection.closed.wait()) for connection in self._door.connections]
        if waits:
            await asyncio.wait(waits, timeout=STOP_TIMEOUT_S)
        for connection in list(self._door.connections):
            connection.abort()

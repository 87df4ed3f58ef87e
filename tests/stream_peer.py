"""A stream server that does what a test says: the sans-IO server end on a socket, for what no good server does."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

from headwater.client.address import Address, Credentials
from headwater.client.stream_connection import StreamConnection
from headwater.streams import commands as c
from headwater.streams.commands import Command, ResponseCode
from headwater.streams.connection import Event
from headwater.streams.deliver import deliver_header
from headwater.streams.server_connection import ServerConnection

__all__ = ["OK", "Peer", "accept", "chunk", "run", "talk", "wait_for"]

OK = ResponseCode.OK
WAIT_S = 10.0

Answer: TypeAlias = Callable[["Peer", Command, bytes], None]
"""Given what came and, of a Publish, its messages."""


class Peer:
    """One connection; the handshake goes well, and requests get OK unless `answer` says otherwise."""

    def __init__(self, answer: Answer | None, mechanisms: tuple[str, ...], heartbeat_s: int) -> None:
        self.machine = ServerConnection({"version": "4.0.5"}, mechanisms, heartbeat_s=heartbeat_s)
        self.came: list[Command] = []
        self.heard = b""
        self.credit = 0
        self.gone = asyncio.Event()
        self.reads = asyncio.Event()
        """Cleared, it takes no more bytes."""
        self.reads.set()
        self.writer: asyncio.StreamWriter
        self._answer = answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        kept = b""
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 20):
                kept += data
                self.heard = (self.heard + data)[-4096:]
                consumed = 1
                while consumed and kept:
                    consumed, events = self.machine.receive(kept)
                    for event in events:
                        self._handle(event, kept)
                    kept = kept[consumed:]
                self.flush()
                await self.reads.wait()
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        self.gone.set()

    def send(self, command: Command) -> None:
        self.machine.send(command)
        self.flush()

    def deliver(self, subscription_id: int, data: bytes, committed: int | None = 7) -> None:
        self.write(deliver_header(subscription_id, len(data), committed) + data)

    def write(self, data: bytes) -> None:
        self.flush()
        self.writer.write(data)

    def flush(self) -> None:
        self.writer.write(self.machine.data_to_send())

    def _handle(self, event: Event, buffer: bytes) -> None:
        if isinstance(event, c.SaslAuthenticateRequest):
            self.machine.authenticated()
        elif isinstance(event, c.OpenRequest):
            self.machine.opened({"advertised_host": "h", "advertised_port": "1"})
        elif isinstance(event, Command):
            self.came.append(event)
            if isinstance(event, c.PeerPropertiesRequest | c.TuneResponse | c.CloseRequest | c.CloseResponse):
                return
            if isinstance(event, c.Credit):
                self.credit += event.credit
            span = buffer[event.start : event.end] if isinstance(event, c.Publish) else b""
            if self._answer is None:
                accept(self, event, span)
            else:
                self._answer(self, event, span)


def accept(peer: Peer, command: Command, _: bytes) -> None:
    """The answers of a server that says yes to everything."""
    if isinstance(command, c.QueryPublisherSequenceRequest):
        peer.machine.send(c.QueryPublisherSequenceResponse(command.correlation_id, OK, 0))
    elif isinstance(command, c.QueryOffsetRequest):
        peer.machine.send(c.QueryOffsetResponse(command.correlation_id, OK, 41))
    elif isinstance(command, c.Request):
        kind = getattr(c, type(command).__name__.replace("Request", "Response"))
        peer.machine.send(kind(command.correlation_id, OK))


def chunk(first_offset: int, *entries: bytes, records: int | None = None, timestamp_ms: int = 5) -> bytes:
    """Header and data of a chunk of single records, or of `records` in the entries as they are."""
    from zlib import crc32

    if records is None:
        data = b"".join(struct.pack(">I", len(entry)) + entry for entry in entries)
        records = len(entries)
    else:
        data = b"".join(entries)
    head = struct.pack(
        ">BBHIqQQIIII",
        0x50,
        0,
        len(entries),
        records,
        timestamp_ms,
        1,
        first_offset,
        crc32(data),
        len(data),
        0,
        0,
    )
    return head + data


@contextlib.asynccontextmanager
async def talk(
    answer: Answer | None = None,
    *,
    mechanisms: tuple[str, ...] = ("PLAIN",),
    heartbeat_s: int = 60,
    request_timeout_s: float = WAIT_S,
) -> AsyncIterator[tuple[StreamConnection, Peer]]:
    """A connection of our client, and the peer at its other end."""
    peer = Peer(answer, mechanisms, heartbeat_s)
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
    try:
        connection = await StreamConnection.connect(
            address, Credentials(), request_timeout_s=request_timeout_s, connect_timeout_s=WAIT_S
        )
        try:
            yield connection, peer
        finally:
            await connection.close()
    finally:
        server.close()
        await peer.gone.wait()


async def wait_for(holds: Callable[[], object]) -> None:
    """Return when this holds; a test whose time is up fails."""
    async with asyncio.timeout(WAIT_S):
        while not holds():
            await asyncio.sleep(0.005)


def run(work: Callable[[], Awaitable[None]]) -> None:
    """Carry out a test in a loop of its own."""

    async def main() -> None:
        async with asyncio.timeout(3 * WAIT_S):
            await work()

    asyncio.run(main())

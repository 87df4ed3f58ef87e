"""An AMQP node that does what a test says: the engine's server end on a socket, for what no good server does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

from headwater.amqp.connection import Connection, Limits
from headwater.amqp.events import (
    Closed,
    Deliveries,
    Event,
    LinkAttached,
    LinkDetached,
    Opened,
    SessionEnded,
    Settled,
)
from headwater.amqp.link import Link
from headwater.amqp.messaging import Accepted, Source, Target
from headwater.amqp.performatives import Performative
from headwater.amqp.receiver_link import ReceiverLink
from headwater.amqp.sasl import SaslEvent, SaslServer
from headwater.amqp.sasl_frames import SaslCode, SaslInit
from headwater.amqp.sender_link import SenderLink
from headwater.client.address import Address, Credentials
from headwater.client.amqp_connection import AmqpConnection
from tests.stream_peer import wait_for

__all__ = ["AmqpNode", "Answer", "listening", "talk", "wait_for"]

WAIT_S = 10.0
CREDIT = 100

Answer: TypeAlias = Callable[["AmqpNode", Event | SaslEvent], object]
"""Given what came; whatever is true means that this was the answer to it."""


class AmqpNode:
    """One connection. Everybody is let in, links are accepted, messages too, unless `answer` does something else."""

    def __init__(
        self,
        answer: Answer | None = None,
        limits: Limits | None = None,
        mechanisms: tuple[str, ...] = ("PLAIN",),
    ) -> None:
        self.machine = Connection("peer", limits)
        self.sasl: SaslServer | None = SaslServer(mechanisms)
        self.events: list[Event | SaslEvent] = []
        self.heard = b""
        self.bodies: list[bytes] = []
        self.gone = asyncio.Event()
        self.reads = asyncio.Event()
        """Cleared, it takes no more bytes."""
        self.reads.set()
        self.writer: asyncio.StreamWriter
        self._answer = answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        kept = bytearray()
        try:
            while data := await reader.read(1 << 20):
                self.heard = (self.heard + data)[-4096:]
                kept += data
                position = self._take(kept)
                self.flush()
                kept = kept[position:]
                await self.reads.wait()
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            self.gone.set()

    def links(self, kind: type[Link]) -> list[Any]:
        """The links of a kind that were attached."""
        return [
            event.link
            for event in self.events
            if isinstance(event, LinkAttached) and isinstance(event.link, kind)
        ]

    @property
    def sender(self) -> SenderLink:
        """The one link on which the client receives."""
        (link,) = self.links(SenderLink)
        assert isinstance(link, SenderLink)
        return link

    @property
    def receiver(self) -> ReceiverLink:
        """The one link on which the client sends."""
        (link,) = self.links(ReceiverLink)
        assert isinstance(link, ReceiverLink)
        return link

    def came(self, kind: type[Event]) -> bool:
        """Whether such an event came."""
        return any(isinstance(event, kind) for event in self.events)

    def write(self, channel: int, performative: Performative, payload: bytes = b"") -> None:
        """Send a frame that the engine would not."""
        self.machine.write(channel, performative, payload)
        self.flush()

    def flush(self) -> None:
        """Send what there is to send."""
        if self.sasl is not None:
            self.writer.write(self.sasl.data_to_send())
        else:
            self.writer.write(self.machine.data_to_send())

    def let_in(self) -> None:
        """Say that the client is who it says."""
        assert self.sasl is not None
        self.sasl.finish(SaslCode.OK)
        self.flush()
        self.sasl = None

    def accept(self, link: Link) -> None:
        """Grant a link what it asks for, and credit."""
        source, target = link.remote.source, link.remote.target
        assert source is None or isinstance(source, Source)
        assert target is None or isinstance(target, Target)
        link.accept(source, target)
        if isinstance(link, ReceiverLink):
            link.grant(CREDIT)

    def _take(self, kept: bytearray) -> int:
        position = 0
        while True:
            event: Event | SaslEvent | None
            if self.sasl is not None:
                event, position = self.sasl.next_event(kept, position, len(kept))
            else:
                event, position = self.machine.next_event(kept, position, len(kept))
            if event is None:
                return position
            if isinstance(event, Deliveries):
                self._keep(event)
            self.events.append(event)
            if self._answer is None or not self._answer(self, event):
                self._be_good(event)

    def _keep(self, event: Deliveries) -> None:
        for number in range(event.count):
            start, end = event.spans[4 * number + 2], event.spans[4 * number + 3]
            self.bodies.append(bytes(memoryview(event.buffer)[start:end]))

    def _be_good(self, event: Event | SaslEvent) -> None:
        match event:
            case SaslInit():
                self.let_in()
            case Opened():
                self.machine.open()
            case LinkAttached(link):
                if not link.is_attached:
                    self.accept(link)
            case Deliveries(link, first, count):
                link.settle(first, first + count, Accepted())
                link.grant(CREDIT)
            case Settled(parts, state, False):
                for link, ranges in parts:
                    for ids in ranges:
                        link.settle(ids, state)
            case LinkDetached(link, is_closed, _, False):
                link.detach(is_closed=is_closed)
            case SessionEnded(session, _, False):
                session.end()
            case Closed(is_answered=False):
                self.machine.close()


@contextlib.asynccontextmanager
async def listening(peer: AmqpNode) -> AsyncIterator[Address]:
    """Where a peer takes its one connection."""
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    try:
        yield Address("127.0.0.1", server.sockets[0].getsockname()[1])
    finally:
        server.close()
        async with asyncio.timeout(WAIT_S):
            await peer.gone.wait()


@contextlib.asynccontextmanager
async def talk(
    answer: Answer | None = None,
    *,
    limits: Limits | None = None,
    mechanisms: tuple[str, ...] = ("PLAIN",),
    credentials: Credentials | None = None,
    **options: Any,
) -> AsyncIterator[tuple[AmqpConnection, AmqpNode]]:
    """A connection of our client, and the peer at its other end."""
    peer = AmqpNode(answer, limits, mechanisms)
    async with listening(peer) as address:
        options = {"connect_timeout_s": WAIT_S, "request_timeout_s": WAIT_S} | options
        connection = await AmqpConnection.connect(address, credentials, **options)
        try:
            yield connection, peer
        finally:
            await connection.close()

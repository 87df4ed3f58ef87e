"""Connections of the checker's clients: made with patience wherever the server is now, and cut without a word."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeAlias, TypeVar

from headwater.amqp.definitions import Condition
from headwater.client.address import Address, Credentials
from headwater.client.amqp_connection import AmqpConnection
from headwater.client.errors import (
    AuthenticationFailed,
    ClosedByPeer,
    ConnectionLost,
    PeerSilent,
    PeerUnreachable,
    RequestTimedOut,
)
from headwater.client.stream_connection import StreamConnection
from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import HeadwaterError
from headwater.streams.commands import ResponseCode
from headwater.streams.connection import HEARTBEAT_S
from tests.checker.board import Board, Phase, ServerAddress
from tests.checker.history import Connected, Denied, Event, Lost, Recorder, load, now
from tests.checker.payload import Payloads
from tests.checker.plan import Plan

__all__ = ["AmqpClient", "AmqpLink", "AnyClient", "Client", "Link", "LinkT", "Place", "StreamClient"]

BACKOFF_S = (0.01, 0.5)
CREDENTIALS = Credentials(mechanism="PLAIN")


class AnyLink(Protocol):
    """A connection that can be cut."""

    error: HeadwaterError | None

    @property
    def own_port(self) -> int:
        """Our end of the connection."""

    def cut(self) -> None:
        """End the connection as a crash of the client would."""


LinkT = TypeVar("LinkT", bound=AnyLink)


class Link(StreamConnection):
    """One to the stream door."""

    @property
    def own_port(self) -> int:
        return _own_port(self._protocol._transport)

    def cut(self) -> None:
        self._protocol.abort()

    async def cut_within(self, frame: ReadableBuffer) -> None:
        """Send the beginning of a frame, and end the connection."""
        await self.publish_frame(memoryview(frame)[: max(1, len(frame) * 2 // 3)])
        await asyncio.sleep(0.002)  # else what was written would be thrown away with the connection
        self.cut()


class AmqpLink(AmqpConnection):
    """One to the AMQP door."""

    @property
    def own_port(self) -> int:
        return _own_port(self.protocol._transport)

    def cut(self) -> None:
        self.protocol.abort()


class Place:
    """What the clients of one process share."""

    def __init__(self, folder: Path, plan: Plan, process: str) -> None:
        self.plan = plan
        self.process = process
        self.board = Board(folder / "board", plan.gauges())
        path = folder / "history" / f"{process}.jsonl"
        self.earlier: list[Event] = list(load(path))
        """What this process did before it was killed and started again."""
        self.recorder = Recorder(path)
        self.payloads = Payloads(plan.seed)

    def earlier_of(self, who: str) -> list[Event]:
        """The events of one client of this process, before a kill."""
        return [event for event in self.earlier if event.who == who]


class Client(Generic[LinkT]):
    """Somebody who is connected most of the time; subclasses say what it does on a connection."""

    def __init__(self, place: Place, who: str) -> None:
        self.place = place
        self.who = who
        self.board = place.board
        self.record: Callable[[Event], None] = place.recorder.record
        self.attempt = max((getattr(event, "attempt", 0) for event in place.earlier_of(who)), default=0)
        self.rng = random.Random(f"{who} {place.plan.seed} {self.attempt}")
        self._is_cut = False

    async def run(self) -> None:
        """Connect, be served, and connect again, until `serve` says that all is done."""
        while not await self._one_connection():
            await asyncio.sleep(self.rng.uniform(*BACKOFF_S) / 4)

    async def open_link(self, address: ServerAddress) -> LinkT:
        """Connect once."""
        raise NotImplementedError

    async def serve(self, link: LinkT) -> bool:
        """What happens on one connection; true if this client is done."""
        raise NotImplementedError

    def cut(self, link: LinkT, reason: str) -> None:
        """End the connection from here."""
        self._note_cut(reason)
        link.cut()

    def is_draining(self) -> bool:
        """Whether faults of its own are over."""
        return self.board.phase >= Phase.DRAIN

    def _note_cut(self, reason: str) -> None:
        self._is_cut = True
        self.record(Lost(self.who, now(), self.attempt, reason, by_client=True))

    async def _one_connection(self) -> bool:
        link = await self._connect()
        try:
            if await self.serve(link):
                return True
        except asyncio.CancelledError:
            self._note_cut("the run stops")
            raise
        except HeadwaterError as error:
            self._note_end(error)
        else:
            self._note_end(link.error)
        finally:
            link.cut()
        return False

    def _note_end(self, error: HeadwaterError | None) -> None:
        """A connection may end by faults, and by nothing else."""
        if self._is_cut:
            return
        reason = f"{type(error).__name__}: {error}"
        if _is_excused(error):
            self.record(Lost(self.who, now(), self.attempt, reason, by_client=False))
        else:
            self.record(Denied(self.who, now(), self.attempt, reason))

    async def _connect(self) -> LinkT:
        """A new connection; tries for as long as it takes."""
        delay_s, longest_s = BACKOFF_S
        while True:
            address = self.board.address
            try:
                link = await self.open_link(address)
            except AuthenticationFailed as error:
                self.record(Denied(self.who, now(), self.attempt, str(error)))
            except HeadwaterError:
                pass  # the server is not there, or went away again
            else:
                self._is_cut = False
                self.attempt += 1
                self.record(Connected(self.who, now(), self.attempt, address.life, link.own_port))
                return link
            await asyncio.sleep(delay_s * self.rng.uniform(0.5, 1.5))
            delay_s = min(2 * delay_s, longest_s)


class StreamClient(Client[Link]):
    """One of the stream door."""

    heartbeat_s = HEARTBEAT_S

    async def open_link(self, address: ServerAddress) -> Link:
        link = await Link.connect(
            Address(port=address.port), CREDENTIALS, connection_name=self.who, heartbeat_s=self.heartbeat_s
        )
        assert isinstance(link, Link)
        return link

    async def cut_within(self, link: Link, frame: ReadableBuffer) -> None:
        """End the connection from here, with the beginning of a frame as the last that is sent."""
        self._note_cut("cut within a frame")
        await link.cut_within(frame)


class AmqpClient(Client[AmqpLink]):
    """One of the AMQP door."""

    async def open_link(self, address: ServerAddress) -> AmqpLink:
        link = await AmqpLink.connect(Address(port=address.amqp_port), CREDENTIALS)
        assert isinstance(link, AmqpLink)
        return link


AnyClient: TypeAlias = StreamClient | AmqpClient


def _own_port(transport: asyncio.Transport | None) -> int:
    assert transport is not None, "it is connected"
    return int(transport.get_extra_info("sockname")[1])


def _is_excused(error: HeadwaterError | None) -> bool:
    """Whether a fault explains this end of a connection."""
    if isinstance(error, ClosedByPeer):
        return error.code in (ResponseCode.OK, Condition.CONNECTION_FORCED)  # a server that stops says so
    return isinstance(error, ConnectionLost | PeerSilent | PeerUnreachable | RequestTimedOut)

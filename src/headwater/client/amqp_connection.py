"""AMQP 1.0 part 2, section 2.4: one connection of a client, and who is told what comes on its sessions and links."""

from __future__ import annotations

import asyncio
import platform
import secrets
import ssl
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, TypeVar

import msgspec

from headwater import __version__
from headwater.amqp.connection import Connection, Limits, State
from headwater.amqp.definitions import Condition, ErrorValue
from headwater.amqp.events import (
    Closed,
    Deliveries,
    Event,
    LinkAttached,
    LinkDetached,
    LinkFlow,
    Opened,
    SessionBegun,
    SessionEnded,
    Settled,
    WindowOpened,
)
from headwater.amqp.link import Link
from headwater.amqp.messaging import DeliveryState
from headwater.amqp.performatives import Open
from headwater.amqp.sasl import SaslEvent
from headwater.amqp.session import Session
from headwater.client.address import AMQP_PORT, AMQP_SCHEMES, Address, Credentials, parse_url
from headwater.client.amqp_errors import ProtocolBroken
from headwater.client.amqp_handshake import Handshake
from headwater.client.amqp_protocol import AmqpProtocol
from headwater.client.errors import (
    ClosedByPeer,
    ConnectionLost,
    PeerSilent,
    PeerUnreachable,
    RequestTimedOut,
)
from headwater.client.idle_timer import IdleTimer
from headwater.client.socket_protocol import open_transport
from headwater.encoding.amqp_types import Symbol
from headwater.encoding.ranges import IdRange
from headwater.errors import HeadwaterError, PeerError

__all__ = [
    "CLOSE_TIMEOUT_S",
    "CONNECT_TIMEOUT_S",
    "IDLE_TIMEOUT_S",
    "REQUEST_TIMEOUT_S",
    "AmqpConnection",
]

CONNECT_TIMEOUT_S = 10.0
REQUEST_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 5.0
IDLE_TIMEOUT_S = 60.0
"""A server of which nothing is heard for this long is held to be gone; it is told half of it."""
MESSAGE_BYTES_MAX = 64 << 20
HELD_BYTES_MAX = 256 << 20
"""While so much was received and not taken by the program, nothing more is read."""

_PEER_IDLE_S_MIN = 0.1
"""A server that wants to hear of us more often than twice in this time will not."""
_WRITE_BYTES = 64 << 10
_PROPERTIES = {
    Symbol("product"): "headwater",
    Symbol("version"): __version__,
    Symbol("platform"): f"Python {platform.python_version()}",
}
_NOT_OURS = ErrorValue(Condition.NOT_ALLOWED, "this client begins its sessions and links itself")

_Result = TypeVar("_Result")


class SessionEvents(Protocol):
    """What a connection tells a session."""

    def session_ended(self, error: ErrorValue | None) -> None:
        """The server ended it, or answered our end."""

    def ended(self, error: HeadwaterError) -> None:
        """The connection is gone."""


class LinkEvents(Protocol):
    """What a connection tells a link."""

    def attached(self) -> None:
        """The server answered our attach."""

    def detached(self, error: ErrorValue | None) -> None:
        """The server detached it, or answered our detach."""

    def flow(self) -> None:
        """Credit or windows have changed."""

    def delivered(self, event: Deliveries) -> None:
        """Messages came; their buffer is good until this returns."""

    def settled(self, ranges: Sequence[IdRange], state: DeliveryState | None, *, is_settled: bool) -> None:
        """The server said what became of deliveries."""


class AmqpConnection:
    """Opened by `connect`, ended by `close`; whatever ends it before is raised by all that wait on it."""

    def __init__(self, address: Address, machine: Connection, request_timeout_s: float) -> None:
        self.address = address
        self.request_timeout_s = request_timeout_s
        """How long the server may take to answer an attach, a detach, an end, or a drain."""
        self.held_bytes_max = HELD_BYTES_MAX
        self.error: HeadwaterError | None = None
        """Why the connection ended, once it has."""
        self.remote: Open
        """What the server opened with: its name, capabilities, properties and limits."""
        self.machine = machine
        self._loop = asyncio.get_running_loop()
        self.protocol = AmqpProtocol(machine, self._handle, self._handle_sasl, self._transport_lost)
        self._handshake: Handshake | None = Handshake(machine)
        """Until it is over."""
        self._sessions: dict[Session, SessionEvents] = {}
        self._links: dict[Link, LinkEvents] = {}
        self._idle: IdleTimer | None = None
        self._idle_timeout_s = IDLE_TIMEOUT_S
        self._held_bytes = 0
        self._is_paused = False
        self._close_error: HeadwaterError | None = None
        self._transport_ended = self._loop.create_future()

    # Opening and closing

    @classmethod
    async def connect(
        cls,
        address: Address | None = None,
        credentials: Credentials | None = None,
        *,
        vhost: str = "/",
        container_id: str | None = None,
        limits: Limits | None = None,
        desired_capabilities: Sequence[str] = (),
        properties: Mapping[str, Any] | None = None,
        idle_timeout_s: float = IDLE_TIMEOUT_S,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> AmqpConnection:
        """Connect, authenticate and open; raises a HeadwaterError that says what failed. A time-out of 0 is none."""
        address = address or Address(port=AMQP_PORT)
        limits = limits or Limits(message_size_bytes_max=MESSAGE_BYTES_MAX)
        if idle_timeout_s:
            limits = msgspec.structs.replace(limits, idle_time_out_ms=int(idle_timeout_s * 500))
        machine = Connection(container_id or f"headwater-{secrets.token_hex(8)}", limits)
        connection = cls(address, machine, request_timeout_s)
        connection._idle_timeout_s = idle_timeout_s
        hostname = address.server_hostname or address.host if vhost == "/" else f"vhost:{vhost}"
        said = _PROPERTIES | {Symbol(name): value for name, value in (properties or {}).items()}
        desired = tuple(map(Symbol, desired_capabilities))
        try:
            async with asyncio.timeout(connect_timeout_s or None):
                await connection._open(credentials or Credentials(), hostname, desired, said)
        except TimeoutError:
            assert connection._handshake is not None, "it is what took so long"
            step = connection._handshake.step
            error = PeerUnreachable(str(address), f"{step} was not over within {connect_timeout_s:g} s")
            await connection._give_up(error)
            raise error from None
        except BaseException as error:
            await connection._give_up(error)
            raise
        return connection

    @classmethod
    async def connect_url(
        cls,
        url: str,
        *,
        tls: ssl.SSLContext | None = None,
        mechanism: str | None = None,
        **options: Any,  # noqa: ANN401 - those of `connect`
    ) -> AmqpConnection:
        """Connect to `amqp://user:password@host:port/vhost`, or `amqps://`; without a user as `guest`."""
        parts = parse_url(url, AMQP_SCHEMES)
        if parts.is_encrypted and tls is None:
            tls = ssl.create_default_context()
        who = Credentials(mechanism=mechanism)
        if parts.user is not None:
            who = Credentials(parts.user, parts.password or "", mechanism)
        address = Address(parts.host, parts.port, tls=tls)
        return await cls.connect(address, who, vhost=parts.vhost or "/", **options)

    async def close(self, error: ErrorValue | None = None) -> None:
        """Close in good order; without effect when it has ended. Raises the error with which the server answers."""
        if self.error is None:
            self.machine.close(error)
            self.protocol.flush()
            self._end(ConnectionLost(str(self.address), "it was closed here"))
        await self._left()
        if self._close_error is not None:
            refusal, self._close_error = self._close_error, None
            raise refusal

    async def __aenter__(self) -> AmqpConnection:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def check_alive(self) -> None:
        """Raises what ended the connection, if something has."""
        if self.error is not None:
            # Raised many times, it would gather tracebacks.
            raise self.error.with_traceback(None)

    # For sessions and links

    def begin(self, events: SessionEvents) -> Session:
        """Begin a session; what is asked on it may follow at once."""
        self.check_alive()
        session = self.machine.begin()
        self._sessions[session] = events
        self.protocol.flush_soon()
        return session

    def watch(self, link: Link, events: LinkEvents) -> None:
        """Tell what comes on a link, until it is gone."""
        self.check_alive()
        self._links[link] = events

    def forget(self, link: Link) -> None:
        """Tell nothing any more of a link."""
        self._links.pop(link, None)

    def wrote(self) -> None:
        """Something is to be sent: at once if it is much, else with all that this turn of the loop brings."""
        if self.machine.pending_bytes >= _WRITE_BYTES:
            self.protocol.flush()
        else:
            self.protocol.flush_soon()

    async def answer(self, waiter: asyncio.Future[_Result], what: str) -> _Result:
        """What the server answers; raises RequestTimedOut."""
        try:
            async with asyncio.timeout(self.request_timeout_s or None):
                return await waiter
        except TimeoutError:
            raise RequestTimedOut(what, self.request_timeout_s) from None

    def hold(self, byte_count: int) -> None:
        """So much was received and waits for the program; at a bound nothing more is read."""
        self._held_bytes += byte_count
        if self._held_bytes > self.held_bytes_max and not self._is_paused:
            self._is_paused = True
            self.protocol.pause_reading()

    def let_go(self, byte_count: int) -> None:
        """So much of it was taken."""
        self._held_bytes -= byte_count
        if self._is_paused and 2 * self._held_bytes <= self.held_bytes_max:
            self._is_paused = False
            self.protocol.resume_reading()

    # Handshake

    async def _open(
        self,
        credentials: Credentials,
        hostname: str,
        desired_capabilities: tuple[Symbol, ...],
        properties: Mapping[Symbol, Any],
    ) -> None:
        handshake = self._handshake
        assert handshake is not None, "this is it"
        await open_transport(self.protocol, self.address)
        self.remote = await handshake.run(
            self.protocol, credentials, hostname, desired_capabilities, properties
        )
        self._handshake = None
        self.check_alive()
        asked_s = (self.remote.idle_time_out or 0) / 1000
        self._idle = IdleTimer(
            self._loop,
            max(asked_s, _PEER_IDLE_S_MIN) if asked_s else 0.0,
            self._idle_timeout_s,
            self._send_heartbeat,
            self._silent,
        )
        self.protocol.heard = self._heard

    async def _give_up(self, error: BaseException) -> None:
        self._end(
            error if isinstance(error, HeadwaterError) else ConnectionLost(str(self.address), "given up")
        )
        self.protocol.abort()
        await self._left()

    async def _left(self) -> None:
        """Wait until the socket is given back, so that nothing of a closed connection is left in the loop."""
        if self.protocol.is_connected:
            await asyncio.wait([self._transport_ended], timeout=CLOSE_TIMEOUT_S)
            self.protocol.abort()

    # Events

    def _handle_sasl(self, step: SaslEvent | PeerError) -> None:
        if self._handshake is not None:
            self._handshake.took(step)

    def _handle(self, event: Event) -> None:
        if isinstance(event, Deliveries):
            events = self._links.get(event.link)
            if events is not None:
                events.delivered(event)
        elif isinstance(event, Settled):
            self._settled(event)
        elif isinstance(event, LinkFlow):
            if event.link in self._links:
                self._links[event.link].flow()
        elif isinstance(event, WindowOpened):
            for link, events in list(self._links.items()):
                if link.session is event.session:
                    events.flow()
        else:
            self._handle_rare(event)

    def _settled(self, event: Settled) -> None:
        for sender, ranges in event.parts:
            if sender in self._links:
                self._links[sender].settled(ranges, event.state, is_settled=event.is_settled)
        if self.machine.unsettled_budget.has_room_again():
            for events in list(self._links.values()):
                events.flow()

    def _handle_rare(self, event: Event) -> None:
        if isinstance(event, LinkAttached):
            events = self._links.get(event.link)
            if events is None:
                event.link.refuse(_NOT_OURS)
            else:
                events.attached()
        elif isinstance(event, LinkDetached):
            self._detached(event)
        elif isinstance(event, SessionBegun):
            if event.session not in self._sessions:
                event.session.end(_NOT_OURS)
        elif isinstance(event, SessionEnded):
            self._session_ended(event)
        elif isinstance(event, Closed):
            self._closed(event)
        elif self._handshake is not None:
            assert isinstance(event, Opened), "there are no other events"
            self._handshake.took(event)

    def _detached(self, event: LinkDetached) -> None:
        events = self._links.pop(event.link, None)
        if not event.is_answered:
            event.link.detach(is_closed=event.is_closed)
        if events is not None:
            events.detached(event.error)

    def _session_ended(self, event: SessionEnded) -> None:
        events = self._sessions.pop(event.session, None)
        if not event.is_answered:
            event.session.end()
        if events is not None:
            events.session_ended(event.error)

    def _closed(self, event: Closed) -> None:
        address, error = str(self.address), event.error
        condition = str(error.condition) if error else "without an error"
        reason = (error.description or "") if error else ""
        if self.error is not None:
            # The answer to our close.
            if error is not None and self.machine.state is State.END:
                self._close_error = ClosedByPeer(address, condition, reason)
        elif event.is_answered:
            self._end(ProtocolBroken(address, condition, reason))
        else:
            self.machine.close()
            self._end(ClosedByPeer(address, condition, reason))

    def _heard(self) -> None:
        if self._idle is not None:
            self._idle.heard = True

    def _send_heartbeat(self) -> None:
        if self.error is None:
            self.machine.heartbeat()
            self.protocol.flush()

    def _silent(self) -> None:
        if not self._is_paused and self.error is None:
            self.machine.close(ErrorValue(Condition.RESOURCE_LIMIT_EXCEEDED, "nothing was heard in time"))
            self.protocol.flush()
            self._end(PeerSilent(str(self.address), self._idle_timeout_s))
            self.protocol.abort()

    def _transport_lost(self, error: Exception | None) -> None:
        if not self._transport_ended.done():
            self._transport_ended.set_result(None)
        self.machine.drop()
        self._end(ConnectionLost(str(self.address), str(error) if error else "the server ended it"))

    def _end(self, error: HeadwaterError) -> None:
        """Whoever waits on this connection is told why it ended; the first reason counts."""
        if self.error is not None:
            return
        self.error = error
        if self._idle is not None:
            self._idle.cancel()
        if self._handshake is not None:
            self._handshake.took(error)
        sessions = list(self._sessions.values())
        self._sessions.clear()
        self._links.clear()
        for session in sessions:
            session.ended(error)
        self._leave()

    def _leave(self) -> None:
        """Give the socket back: when our close was answered, or not in time, or at once where nothing is to be said."""
        if self.machine.state is State.CLOSE_SENT:
            self._loop.call_later(CLOSE_TIMEOUT_S, self.protocol.abort)
        elif self.machine.state is not State.END:
            self.protocol.abort()

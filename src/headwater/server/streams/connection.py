"""One connection of the stream door: bytes in and out, and when to stop reading.

    socket ──> read buffer ──> ServerConnection ──> events ──> Handshake, then Session ──> answers ──> socket

A read buffer is dealt with to its end before the next one is filled. Where that cannot be (no room in a partition, a
client that does not read its answers) the rest is held, and nothing more is read from this client.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Sequence
from typing import Literal, cast

from headwater.errors import LogBusy, PeerError
from headwater.log.reader import last_chunk_offset
from headwater.server.security.identity import Peer, certificate_user, is_loopback
from headwater.server.streams.consuming import Subscription
from headwater.server.streams.door import Door, Endpoint
from headwater.server.streams.handshake import Handshake
from headwater.server.streams.heartbeat import HeartbeatTimer
from headwater.server.streams.session import Session
from headwater.streams import commands as c
from headwater.streams.commands import ResponseCode
from headwater.streams.connection import Event, Failed, State
from headwater.streams.server_connection import ServerConnection

__all__ = ["StreamProtocol"]

ROOM_BYTES_MIN = 4096
SMALL_READ_BYTES_MAX = 16 * 1024

logger = logging.getLogger("headwater.streams")


class _Held:
    """Events that wait, with the buffer that they point into, and where what was not parsed yet begins."""

    __slots__ = ("buffer", "end", "events", "rest")

    def __init__(self, events: Sequence[Event], buffer: bytearray, rest: int, end: int) -> None:
        self.events = events
        self.buffer = buffer
        self.rest = rest
        self.end = end


class StreamProtocol(asyncio.BufferedProtocol):
    """Feeds the machine of a connection, and carries out what it says."""

    def __init__(self, door: Door, advertised: Endpoint) -> None:
        self.name = ""
        self.session: Session | None = None
        self.closed = asyncio.Event()
        self.connected_at_ms = 0
        self.received_bytes = 0
        self.sent_bytes = 0
        """Handed to the socket."""
        self._door = door
        self._advertised = advertised
        self._transport: asyncio.Transport
        self._machine: ServerConnection
        self._handshake: Handshake
        self._authenticating: asyncio.Task[None] | None = None
        self._kept: bytearray | None = None
        """A frame that was cut, and room for the rest of it."""
        self._kept_bytes = 0
        self._held: _Held | None = None
        self._is_writable = True
        self._is_reading = True
        self._awaits_commit = False
        self._write_due = False
        self._is_closing = False
        self._timeout: asyncio.TimerHandle | None = None
        self._heartbeat: HeartbeatTimer | None = None

    @property
    def machine(self) -> ServerConnection:
        """What was agreed on, and what the client said of itself."""
        return self._machine

    @property
    def is_encrypted(self) -> bool:
        """Whether the client came by TLS."""
        return self._transport.get_extra_info("ssl_object") is not None

    def address(self, end: Literal["peername", "sockname"]) -> tuple[str, int]:
        """Host and port of the client's end, or of ours; nothing and 0 where the end has none."""
        found = self._transport.get_extra_info(end)
        return (str(found[0]), int(found[1])) if isinstance(found, tuple) else ("", 0)

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have all of the interface and none of the class.
        self._transport = transport = cast("asyncio.Transport", transport)
        door, limits = self._door, self._door.limits
        if len(door.connections) >= limits.connections_max:
            logger.warning("closed a new connection: there are %d already", limits.connections_max)
            self._is_closing = True
            transport.abort()
            return
        self.name = _name_of(transport)
        self.connected_at_ms = time.time_ns() // 1_000_000
        peer = _peer_of(transport)
        self._machine = ServerConnection(
            door.peer_properties,
            door.sasl.mechanisms(peer),
            frame_size_bytes_max=limits.frame_size_bytes_max,
            heartbeat_s=limits.heartbeat_s,
        )
        self._advertised = self._advertised.or_else(transport.get_extra_info("sockname"))
        self._handshake = Handshake(door, self._machine, peer, self.name, self._advertised)
        transport.set_write_buffer_limits(high=limits.delivery_bytes_high)
        door.connections.add(self)
        self._expect(limits.step_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self._held = self._kept = None
        self.closed.set()
        self._door.connections.discard(self)
        for timer in (self._timeout, self._heartbeat, self._authenticating):
            if timer is not None:
                timer.cancel()
        if self.session is not None:
            self.session.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._kept is None:
            return self._door.read_view
        return memoryview(self._kept)[self._kept_bytes :]

    def buffer_updated(self, nbytes: int) -> None:
        self.received_bytes += nbytes
        if self._heartbeat is not None:
            self._heartbeat.heard = True
        unanswered = 0 if self.session is None else self.session.publishers.unanswered
        if self._kept is None:
            buffer, end = self._door.read_buffer, nbytes
        else:
            buffer, end, self._kept = self._kept, self._kept_bytes + nbytes, None
        self._receive(buffer, end)
        if unanswered and end < min(len(buffer), SMALL_READ_BYTES_MAX):
            self._await_commit()

    def pause_writing(self) -> None:
        self._is_writable = False

    def resume_writing(self) -> None:
        self._is_writable = True
        self._go_on()
        if self.session is not None:
            self.session.pump()

    # Bytes in

    def _receive(self, buffer: bytearray, end: int) -> None:
        consumed, events = self._machine.receive(buffer, 0, end)
        self._handle_all(_Held(events, buffer, consumed, end))

    def _handle_all(self, taken: _Held) -> None:
        """Act on the events, one by one, and keep what is behind them for the next call."""
        per_write = self._door.limits.commands_per_write
        for number, event in enumerate(taken.events):
            if self._is_closing:
                return
            if number and number % per_write == 0:
                self._write()
                if not self._may_answer():
                    self._hold(taken, number)
                    return
            try:
                self._handle(event, taken.buffer)
            except LogBusy:
                self._hold(taken, number)
                self._door.store.call_when_room(self._go_on)
                return
        self._keep(taken.buffer, taken.rest, taken.end)
        self._write()
        if self._machine.is_waiting or not self._may_answer():
            self._stop_reading()

    def _hold(self, taken: _Held, number: int) -> None:
        """Go on with the events from `number` on later; until then nothing more is read."""
        buffer = taken.buffer
        if buffer is self._door.read_buffer:
            buffer = bytearray(memoryview(buffer)[: taken.end])
        self._held = _Held(taken.events[number:], buffer, taken.rest, taken.end)
        self._stop_reading()
        self._write()

    def _keep(self, buffer: bytearray, start: int, end: int) -> None:
        """Hold what is left of the buffer until more of its frame comes."""
        rest = end - start
        if rest:
            room = max(self._machine.frame_bytes_missing(buffer, start, end), ROOM_BYTES_MIN)
            kept = bytearray(rest + room)
            kept[:rest] = memoryview(buffer)[start:end]
            self._kept, self._kept_bytes = kept, rest

    def _go_on(self) -> None:
        """What was waited for is there: read on, and take what was held or kept first."""
        if self._is_closing or self._is_reading or not self._may_answer() or self._machine.is_waiting:
            return
        self._read_on()
        held, self._held = self._held, None
        if held is not None:
            self._handle_all(held)
        elif self._kept is not None:
            kept, self._kept = self._kept, None
            self._receive(kept, self._kept_bytes)

    def _handle(self, event: Event, buffer: bytearray) -> None:
        session = self.session
        if isinstance(event, c.Publish):
            assert session is not None, "Publish comes after Open"
            try:
                session.publishers.publish(event, buffer)
            except PeerError as error:
                self._failed(error)
                self._machine.fail(error)
        elif isinstance(event, Failed):
            self._failed(event.error)
        elif session is None:
            self._handle_handshake(event)
        elif isinstance(event, c.CloseRequest):
            logger.debug("%s: closed by the client: %s", self.name, event.closing_reason)
        elif not isinstance(event, c.CloseResponse):
            session.handle(event)

    def _failed(self, error: PeerError) -> None:
        logger.info("%s: %s", self.name, error)
        self._expect(self._door.limits.close_timeout_s)

    def _handle_handshake(self, event: Event) -> None:
        self._expect(self._door.limits.step_timeout_s)
        if isinstance(event, c.SaslAuthenticateRequest):
            self._authenticating = self._door.loop.create_task(self._authenticate(event))
        elif isinstance(event, c.OpenRequest):
            self._open(event)

    async def _authenticate(self, command: c.SaslAuthenticateRequest) -> None:
        await self._handshake.authenticate(command)
        self._write()
        self._go_on()

    def _open(self, command: c.OpenRequest) -> None:
        identity = self._handshake.open(command)
        if identity is None:
            return
        self.session = Session(
            self._door, self._machine, self, identity, command.virtual_host, self._advertised
        )
        if self._timeout is not None:
            self._timeout.cancel()
        if self._machine.heartbeat_s:
            self._heartbeat = HeartbeatTimer(
                self._door.loop, self._machine.heartbeat_s, self._send_heartbeat, self._give_up
            )
        # What stood behind the question is taken when the answer has gone out, and before anything else is read.
        self._stop_reading()
        self._door.loop.call_soon(self._go_on)

    # Bytes out

    def answered(self) -> None:
        """There is something to send: once for all that this turn of the loop brings."""
        if not self._write_due:
            self._write_due = True
            self._door.loop.call_soon(self._write)

    def can_deliver(self) -> bool:
        """Whether more chunks may be queued for the socket."""
        return self._is_writable and not self._is_closing

    def deliver(self, subscription: Subscription, chunk: memoryview) -> None:
        """Queue one chunk behind all answers."""
        machine = self._machine
        last = last_chunk_offset(subscription.partition) if machine.takes_committed_chunk_id else None
        header = machine.deliver_header(subscription.id, len(chunk), last or 0)
        self._write()
        self.sent_bytes += len(header) + len(chunk)
        self._transport.writelines((header, chunk))

    def call_soon(self, subscription: Subscription) -> None:
        """Go on with a subscription in the next turn of the loop."""
        self._door.loop.call_soon(subscription.pump)

    def close(self, code: ResponseCode, reason: str) -> None:
        """Tell the client that the connection ends, and why."""
        self._machine.close(code, reason)
        self._expect(self._door.limits.close_timeout_s)
        self._write()

    def force_close(self, reason: str) -> None:
        """The same, for a client that somebody wants gone: it has a moment to answer, and none to go on."""
        self.close(ResponseCode.OK, reason)
        self._door.loop.call_later(self._door.limits.forced_close_timeout_s, self._end)

    def abort(self) -> None:
        """End the connection without a word."""
        self._transport.abort()

    def _write(self) -> None:
        self._write_due = False
        if self._is_closing:
            return
        if self.session is not None:
            self.session.publishers.write_confirms()
        if self._awaits_commit:
            self._awaits_commit = False
            self._door.loop.call_soon(self._go_on)
        data = self._machine.data_to_send()
        if data:
            self.sent_bytes += len(data)
            self._transport.write(data)
        if self._machine.state is State.CLOSED:
            self._end()

    def _end(self) -> None:
        """Close the socket when what was sent has gone out."""
        if not self._is_closing:
            self._is_closing = True
            self._expect(self._door.limits.close_timeout_s)
            self._transport.close()

    def _may_answer(self) -> bool:
        """Whether the client reads what it asked for."""
        return self._is_writable or (
            self._transport.get_write_buffer_size() < self._door.limits.answer_bytes_max
        )

    # Time

    def _expect(self, seconds: float) -> None:
        """End a connection that does not come to its next step in time."""
        if self._timeout is not None:
            self._timeout.cancel()
        self._timeout = self._door.loop.call_later(seconds, self.abort)

    def _send_heartbeat(self) -> None:
        if not self._is_reading and self._heartbeat is not None:
            self._heartbeat.heard = True  # it may have sent what we did not read
        self._machine.send(c.Heartbeat())
        self._write()

    def _give_up(self) -> None:
        logger.info("%s: no heartbeat for %d s, closed", self.name, 2 * self._machine.heartbeat_s)
        self.abort()

    # When not to read

    def _await_commit(self) -> None:
        """Read on when the commit under way is done. Until then what comes could only gather, at a wake-up for each
        message; a client that sends the next message when the last one was confirmed is never made to wait."""
        self._awaits_commit = True
        self._stop_reading()

    def _stop_reading(self) -> None:
        if self._is_reading and not self._is_closing:
            self._is_reading = False
            self._transport.pause_reading()

    def _read_on(self) -> None:
        if not self._is_reading and not self._is_closing:
            self._is_reading = True
            self._transport.resume_reading()


def _name_of(transport: asyncio.Transport) -> str:
    """As RabbitMQ names connections: from where, and to where."""
    ends = (transport.get_extra_info("peername"), transport.get_extra_info("sockname"))
    return " -> ".join(f"{end[0]}:{end[1]}" if isinstance(end, tuple) else "unix" for end in ends)


def _peer_of(transport: asyncio.Transport) -> Peer:
    address = transport.get_extra_info("peername")
    host = str(address[0]) if isinstance(address, tuple) else ""
    encrypted: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    if encrypted is None:
        return Peer(is_loopback(host))
    certificate = encrypted.getpeercert()
    user = certificate_user(certificate["subject"]) if certificate else None  # type: ignore[arg-type]
    return Peer(is_loopback(host), is_encrypted=True, certificate_user=user)

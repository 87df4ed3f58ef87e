"""One connection of the stream door: bytes in and out, and when to stop reading.

    socket ──> read buffer ──> ServerConnection ──> events ──> Handshake, then Session ──> answers ──> socket

A read buffer is dealt with to its end before the next one is filled. Where that cannot be (no room in a partition, a
client that does not read its answers, others whose turn it is) the rest is held, and nothing more is read from this
client.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Literal, cast

from headwater.errors import PeerError
from headwater.log.file_span import FileSpan
from headwater.server.peers import connection_name, peer_of
from headwater.server.read_buffer import ReadBuffer
from headwater.server.streams.consuming import Subscription, committed_chunk_id
from headwater.server.streams.door import Door, Endpoint
from headwater.server.streams.file_sender import FileSender
from headwater.server.streams.handshake import Handshake
from headwater.server.streams.heartbeat import HeartbeatTimer
from headwater.server.streams.pacing import LATE_S, ReadPace
from headwater.server.streams.session import Session
from headwater.streams import commands as c
from headwater.streams.commands import ResponseCode
from headwater.streams.connection import Event, Failed, State
from headwater.streams.server_connection import ServerConnection

__all__ = ["StreamProtocol"]

HANDSHAKE_READ_BYTES = 16 * 1024
SMALL_READ_BYTES_MAX = 16 * 1024

logger = logging.getLogger("headwater.streams")


class _Work:
    """Events to act on, with the buffer that they point into, and where what was not parsed yet begins."""

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
        self._read_buffer = ReadBuffer(door.read_buffer, door.read_view)
        self._held: _Work | None = None
        self._file_sender: FileSender | None = None
        """Made when the first chunk may go from its file to the socket."""
        self._is_writable = True
        self._is_reading = True
        self._awaits_room = False
        self._awaits_commit = False
        self._pace = ReadPace()
        self._write_due = False
        self._is_stopping = False
        self._is_winding_up = False
        self._is_ending = False
        self._is_closing = False
        self._timeout: asyncio.TimerHandle | None = None
        self._heartbeat: HeartbeatTimer | None = None
        self._unread_bytes = 0
        """What the client had not read when the last heartbeat went out."""

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
        self.name = connection_name(transport)
        self.connected_at_ms = time.time_ns() // 1_000_000
        peer = peer_of(transport)
        self._machine = ServerConnection(
            door.peer_properties,
            door.sasl.mechanisms(peer),
            frame_size_bytes_max=limits.frame_size_bytes_max,
            heartbeat_s=limits.heartbeat_s,
        )
        self._advertised = self._advertised.or_else(transport.get_extra_info("sockname"))
        self._handshake = Handshake(door, self._machine, peer, self.name, self._advertised)
        # Writing goes on when all is out: the socket alone holds enough, and a file waits for no less.
        # Behind TLS there is a second buffer, which holds a chunk already; with 0 it would never begin again.
        transport.set_write_buffer_limits(high=1 if self.is_encrypted else limits.delivery_bytes_high, low=0)
        door.connections.add(self)
        self._expect(limits.step_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self._held = None
        self._read_buffer.drop()
        self.closed.set()
        if self in self._door.connections:
            self._door.connections.discard(self)
            self._door.traffic.gone(self)
        for timer in (self._timeout, self._heartbeat, self._authenticating):
            if timer is not None:
                timer.cancel()
        if self._file_sender is not None:
            self._file_sender.close()
        if self.session is not None:
            self.session.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._read_buffer.room(HANDSHAKE_READ_BYTES if self.session is None else None)

    def buffer_updated(self, nbytes: int) -> None:
        self.received_bytes += nbytes
        if self._heartbeat is not None:
            self._heartbeat.heard = True
        unanswered = 0 if self.session is None else self.session.publishers.unanswered
        buffer, end = self._read_buffer.filled(nbytes)
        self._receive(buffer, end)
        if unanswered and end < min(len(buffer), SMALL_READ_BYTES_MAX):
            self._await_commit()

    def pause_writing(self) -> None:
        self._is_writable = False

    def resume_writing(self) -> None:
        self._is_writable = True
        # Not at once: with TLS this comes in the middle of a write.
        self._door.loop.call_soon(self._writable_again)

    # Bytes in

    def _receive(self, buffer: bytearray, end: int) -> None:
        self._guarded(self._work_on, self._parsed(buffer, 0, end))

    def _parsed(self, buffer: bytearray, start: int, end: int) -> _Work:
        consumed, events = self._machine.receive(buffer, start, end, self._door.limits.commands_per_write)
        return _Work(events, buffer, start + consumed, end)

    def _work_on(self, work: _Work) -> None:
        """Deal with all that is in a buffer, or hold what has to wait."""
        turn_ends = time.monotonic() + self._door.limits.turn_s_max
        if not work.events and self._machine.has_more:
            work = self._parsed(
                work.buffer, work.rest, work.end
            )  # or a turn that is short would end before it began
        while self._act(work, turn_ends):
            if not self._machine.has_more:
                self._keep(work)
                if self._machine.is_waiting or not self._may_answer():
                    self._stop_reading()
                return
            work = self._parsed(work.buffer, work.rest, work.end)
        self._hold(work)

    def _act(self, work: _Work, turn_ends: float) -> bool:
        """Act on the events one by one; False if something has to wait, of which `work` holds what is left."""
        machine, loop = self._machine, self._door.loop
        for number, event in enumerate(work.events, 1):
            left = self._handle(event, work.buffer)
            if machine.has_ended:
                break
            if left is not None:
                work.events = (left, *work.events[number:])
                if self.session is not None and self.session.publishers.is_out_of_time:
                    loop.call_soon(self._go_on)
                else:
                    self._awaits_room = True
                    self._door.store.call_when_room(self._room_again)
                return False
            if number < len(work.events) and time.monotonic() > turn_ends:
                work.events = work.events[number:]
                loop.call_soon(self._go_on)
                return False
        work.events = ()
        self._write()
        if not machine.has_more:
            return True
        if time.monotonic() > turn_ends:
            loop.call_soon(self._go_on)
            return False
        return machine.has_ended or self._may_answer()

    def _hold(self, work: _Work) -> None:
        """Go on with this later; until then nothing more is read."""
        work.buffer = self._read_buffer.own(work.buffer, work.end)
        self._held = work
        self._stop_reading()
        self._write()

    def _keep(self, work: _Work) -> None:
        """Hold what is left of the buffer until more of its frame comes."""
        if work.rest < work.end:
            missing = self._machine.frame_bytes_missing(work.buffer, work.rest, work.end)
            self._read_buffer.keep(work.buffer, work.rest, work.end, missing)

    def _go_on(self) -> None:
        """What was waited for is there: read on, and take what was held or kept first."""
        if self._is_closing or self._is_reading or self._machine.is_waiting:
            return
        waits = self._awaits_room or self._is_stopping or not self._may_answer()
        if waits and not self._machine.has_ended:
            return
        self._read_on()
        held, self._held = self._held, None
        if held is not None:
            self._guarded(self._work_on, held)
        elif not self._read_buffer.is_empty:
            self._receive(*self._read_buffer.taken())

    def _room_again(self) -> None:
        self._awaits_room = False
        self._go_on()

    def _writable_again(self) -> None:
        self._go_on()
        if self.session is not None:
            self.session.pump()

    def _guarded(self, act: Callable[[_Work], None], work: _Work) -> None:
        """A fault of ours ends this connection, and nothing else."""
        try:
            act(work)
        except Exception:
            logger.exception("%s: a fault of the server", self.name)
            self.close(ResponseCode.INTERNAL_ERROR, "a fault of the server; its log says more")

    def _handle(self, event: Event, buffer: bytearray) -> c.Publish | None:
        """Act on an event; gives what is left of it while there is no room, or others have their turn."""
        session = self.session
        if isinstance(event, c.Publish):
            assert session is not None, "Publish comes after Open"
            try:
                return session.publishers.publish(event, buffer)
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
        return None

    def _failed(self, error: PeerError) -> None:
        logger.info("%s: %s", self.name, error)

    def _handle_handshake(self, event: Event) -> None:
        if not self._machine.has_ended:
            self._expect(self._door.limits.step_timeout_s)
        if isinstance(event, c.SaslAuthenticateRequest):
            self._expect_nothing()  # the next step is ours
            self._authenticating = self._door.loop.create_task(self._authenticate(event))
        elif isinstance(event, c.OpenRequest):
            self._open(event)

    async def _authenticate(self, command: c.SaslAuthenticateRequest) -> None:
        try:
            await self._handshake.authenticate(command)
        except Exception:
            logger.exception("%s: a fault of the server", self.name)
            self._machine.refuse_authentication(ResponseCode.INTERNAL_ERROR)
        if not self._machine.has_ended:
            self._expect(self._door.limits.step_timeout_s)
        self._write()
        self._go_on()

    def _open(self, command: c.OpenRequest) -> None:
        identity = self._handshake.open(command)
        if identity is None:
            return
        self.session = Session(
            self._door, self._machine, self, identity, command.virtual_host, self._advertised
        )
        self._expect_nothing()
        if self._machine.heartbeat_s:
            self._heartbeat = HeartbeatTimer(
                self._door.loop, self._machine.heartbeat_s, self._send_heartbeat, self._give_up
            )

    # Bytes out

    def answered(self) -> None:
        """There is something to send: once for all that this turn of the loop brings."""
        if not self._write_due:
            self._write_due = True
            self._door.loop.call_soon(self._write)

    def can_deliver(self) -> bool:
        """Whether more chunks may be queued for the socket."""
        return self._is_writable and not self._sends_file and not self._machine.has_ended

    def deliver(self, subscription: Subscription, chunk: memoryview) -> None:
        """Queue one chunk behind all answers."""
        header = self._deliver_header(subscription, len(chunk))
        self._write()
        self._transport.writelines((header, chunk))

    def can_send_files(self) -> bool:
        """Whether the next chunk may go from its file to the socket: nothing encrypts it or waits before it."""
        self._write()
        if self._is_closing or self.is_encrypted or self._transport.get_write_buffer_size():
            return False
        if self._file_sender is None:
            fd = self._transport.get_extra_info("socket").fileno()
            self._file_sender = FileSender(self._door.loop, fd, self._file_sent, self.abort)
        return True

    def deliver_span(self, subscription: Subscription, span: FileSpan) -> None:
        """Send one chunk from its file; what is to be written meanwhile waits for it."""
        assert self._file_sender is not None, "can_send_files said that it may"
        self._file_sender.send(self._deliver_header(subscription, span.byte_count), span)

    def call_soon(self, subscription: Subscription) -> None:
        """Go on with a subscription in the next turn of the loop."""
        self._door.loop.call_soon(subscription.pump)

    def close(self, code: ResponseCode, reason: str) -> None:
        """Tell the client that the connection ends, and why."""
        self._write()
        self._machine.close(code, reason)
        if self._held is not None:
            self._held.events = ()
        self._write()
        self._go_on()  # to the answer

    def stop_taking(self) -> None:
        """Act on nothing that comes from now on."""
        self._is_stopping = True
        self._stop_reading()

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
            if self._pace.reads_late(time.monotonic(), self.received_bytes):
                self._door.loop.call_later(LATE_S, self._go_on)
            else:
                self._door.loop.call_soon(self._go_on)
        data = self._machine.data_to_send()
        if data:
            self.sent_bytes += len(data)
            if self._file_sender is not None and self._file_sender.is_busy:
                self._file_sender.put_behind(data)
            else:
                self._transport.write(data)
        if self._machine.has_ended:
            self._wind_up()

    def _wind_up(self) -> None:
        """The last word is said: nothing more is delivered, and the client has a moment to read and to answer."""
        if not self._is_winding_up:
            self._is_winding_up = True
            self._expect(self._door.limits.close_timeout_s)
            if self.session is not None:
                self.session.close()
        if self._machine.state is State.CLOSED:
            self._end()

    def _end(self) -> None:
        """Close the socket when what was sent has gone out."""
        self._is_ending = True
        if not self._is_closing and not self._sends_file:
            self._is_closing = True
            self._transport.close()

    def _file_sent(self) -> None:
        """The socket has taken the rest of a chunk."""
        assert self._file_sender is not None
        self._transport.write(self._file_sender.take_behind())
        if self._is_ending:
            self._end()
        else:
            self._writable_again()

    def _deliver_header(self, subscription: Subscription, chunk_bytes: int) -> bytes:
        machine = self._machine
        last = committed_chunk_id(subscription.partition) if machine.takes_committed_chunk_id else 0
        header = machine.deliver_header(subscription.id, chunk_bytes, last)
        self.sent_bytes += len(header) + chunk_bytes
        return header

    @property
    def _sends_file(self) -> bool:
        return self._file_sender is not None and self._file_sender.is_busy

    @property
    def _unsent_bytes(self) -> int:
        """What waits for the socket."""
        of_file = 0 if self._file_sender is None else self._file_sender.unsent_bytes
        return of_file + self._transport.get_write_buffer_size()

    def _may_answer(self) -> bool:
        """Whether the client reads what it asked for."""
        if self._is_writable and not self._sends_file:
            return True
        return self._unsent_bytes < self._door.limits.answer_bytes_max

    # Time

    def _expect(self, seconds: float) -> None:
        """End a connection that does not come to its next step in time."""
        self._expect_nothing()
        self._timeout = self._door.loop.call_later(seconds, self.abort)

    def _expect_nothing(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    def _send_heartbeat(self) -> None:
        if not self._is_reading and self._heartbeat is not None:
            # It may have sent what we did not read: for reasons of ours, or while it reads what it asked for.
            unread = self._unsent_bytes
            self._heartbeat.heard = self._may_answer() or unread < self._unread_bytes
            self._unread_bytes = unread
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

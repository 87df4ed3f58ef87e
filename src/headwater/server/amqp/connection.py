"""One connection of the AMQP door: bytes in and out, and when to stop reading.

    socket ──> read buffer ──> SaslServer, then Connection ──> events ──> Container ──> frames ──> socket

A read buffer is dealt with to its end before the next one is filled. Where that cannot be (no room in a partition, a
client that does not read, others whose turn it is) the rest is held, and nothing more is read from this client.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from array import array
from collections.abc import Callable
from typing import Literal, cast

import msgspec

from headwater.amqp.connection import Connection, State
from headwater.amqp.definitions import Condition, ErrorValue
from headwater.amqp.events import Closed, Deliveries, Event, Opened
from headwater.amqp.frames import frame_bytes_missing
from headwater.amqp.performatives import Open
from headwater.client.idle_timer import IdleTimer
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.chunk import ReadableBuffer
from headwater.server.amqp.container import Container
from headwater.server.amqp.door import Door
from headwater.server.amqp.handshake import Handshake
from headwater.server.peers import connection_name, peer_of
from headwater.server.read_buffer import ReadBuffer

__all__ = ["AmqpProtocol"]

HANDSHAKE_READ_BYTES = 16 * 1024
WRITE_BYTES = 256 * 1024

logger = logging.getLogger("headwater.amqp")


class _Work:
    """A buffer, what of it was not looked at yet, and the event of it that goes on first."""

    __slots__ = ("buffer", "end", "event", "index", "position")

    def __init__(self, buffer: bytearray, position: int, end: int) -> None:
        self.buffer = buffer
        self.position = position
        self.end = end
        self.event: Deliveries | None = None
        self.index = 0


class AmqpProtocol(asyncio.BufferedProtocol):
    """Feeds the machines of a connection, and carries out what they say."""

    def __init__(self, door: Door) -> None:
        self.name = ""
        self.container: Container | None = None
        self.closed = asyncio.Event()
        self.connected_at_ms = 0
        self.received_bytes = 0
        self.sent_bytes = 0
        """Handed to the socket."""
        self._door = door
        self._transport: asyncio.Transport
        self._machine: Connection
        self._handshake: Handshake
        self._read_buffer = ReadBuffer(door.read_buffer, door.read_view)
        self._held: _Work | None = None
        self._is_writable = True
        self._is_reading = True
        self._unread_bytes = 0
        """Of answers, when it was last looked whether the client reads them; it has not been yet: the most."""
        self._awaits_room = False
        self._write_due = False
        self._is_stopping = False
        self._is_winding_up = False
        self._is_closing = False
        self._timeout: asyncio.TimerHandle | None = None
        self._idle: IdleTimer | None = None

    @property
    def machine(self) -> Connection:
        """What was agreed on, and what the client said of itself."""
        return self._machine

    @property
    def mechanism(self) -> str:
        """How the client proved who it is."""
        return self._handshake.mechanism

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
        door = self._door
        if len(door.connections) >= door.limits.connections_max:
            logger.warning("closed a new connection: there are %d already", door.limits.connections_max)
            self._is_closing = True
            transport.abort()
            return
        self.name = connection_name(transport)
        self.connected_at_ms = time.time_ns() // 1_000_000
        self._machine = Connection(
            door.container_id, door.machine_limits, budget=door.budget, spans=door.spans
        )
        self._handshake = Handshake(door, peer_of(transport), self.name, self._authenticated)
        transport.set_write_buffer_limits(high=door.limits.delivery_bytes_high)
        door.connections.add(self)
        self._expect(door.limits.step_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self._held = None
        self._read_buffer.drop()
        self.closed.set()
        if self not in self._door.connections:
            return
        self._door.connections.discard(self)
        self._door.traffic.gone(self)
        self._expect_nothing()
        self._handshake.cancel()
        if self._idle is not None:
            self._idle.cancel()
        self._machine.drop()
        if self.container is not None:
            self.guarded(self.container.close)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._read_buffer.room(HANDSHAKE_READ_BYTES if self.container is None else None)

    def buffer_updated(self, nbytes: int) -> None:
        self.received_bytes += nbytes
        if self._idle is not None:
            self._idle.heard = True
        buffer, end = self._read_buffer.filled(nbytes)
        work = _Work(buffer, 0, end)
        self.guarded(lambda: self._work_on(work))

    def pause_writing(self) -> None:
        self._is_writable = False

    def resume_writing(self) -> None:
        self._is_writable = True
        # Not at once: with TLS this comes in the middle of a write.
        self._door.loop.call_soon(self._writable_again)

    # Bytes in

    def guarded(self, call: Callable[[], None]) -> None:
        """Call now; a fault of ours ends this connection, and nothing else."""
        try:
            call()
        except Exception:
            logger.exception("%s: a fault of the server", self.name)
            # Nobody knows what of a frame was written, so there is no last word.
            self._is_closing = True
            self._transport.abort()

    def _work_on(self, work: _Work) -> None:
        """Deal with all that is in a buffer, or hold what has to wait."""
        turn_ends = time.monotonic() + self._door.limits.turn_s_max
        if work.event is not None and not self._handle_deliveries(work, work.event):
            self._hold(work)
            return
        while not self._is_closing:
            event = self._next_event(work)
            if self._handshake.is_busy:
                self._hold(work)
                return
            if event is None:
                break
            if isinstance(event, Deliveries):
                if not self._handle_deliveries(work, event):
                    self._hold(work)
                    return
            else:
                self._handle(event)
            if time.monotonic() > turn_ends or not self._may_answer():
                self._hold(work)
                if self._may_answer():
                    self._door.loop.call_soon(self._go_on)
                return
        self._write()
        self._keep(work)

    def _next_event(self, work: _Work) -> Event | None:
        if not self._handshake.is_over:
            work.position = self._handshake.receive(work.buffer, work.position, work.end)
            if not self._handshake.is_over:
                self._write()
                return None
        event, work.position = self._machine.next_event(work.buffer, work.position, work.end)
        return event

    def _handle_deliveries(self, work: _Work, event: Deliveries) -> bool:
        """Take messages; False if those from `work.index` on have to wait for room."""
        assert self.container is not None, "links come after open"
        following = self.container.handle(event, work.index)
        if following is None:
            work.event, work.index = None, 0
            return True
        work.event, work.index = event, following
        self._awaits_room = True
        self._door.store.call_when_room(self._room_again)
        return False

    def _hold(self, work: _Work) -> None:
        """Go on with this later; until then nothing more is read."""
        kept = self._read_buffer.own(work.buffer, work.end)
        if work.event is not None:
            work.event = _own(work.event, work.buffer, kept)
        work.buffer = kept
        self._held = work
        self._stop_reading()
        self._write()

    def _keep(self, work: _Work) -> None:
        if work.position < work.end and not self._is_closing:
            missing = frame_bytes_missing(work.buffer, work.position, work.end)
            self._read_buffer.keep(work.buffer, work.position, work.end, missing)

    def _go_on(self) -> None:
        """What was waited for is there: go on with what was held."""
        if self._is_closing or self._handshake.is_busy or self._is_reading:
            return
        if (self._awaits_room or self._is_stopping or not self._may_answer()) and not self._is_winding_up:
            return
        self._read_on()
        held_work, self._held = self._held, None
        if held_work is not None:
            self.guarded(lambda: self._work_on(held_work))

    def _room_again(self) -> None:
        self._awaits_room = False
        self._go_on()

    def _writable_again(self) -> None:
        self._go_on()
        if self.container is not None and not self._is_winding_up:
            self.guarded(self.container.pump)
            self._write()

    # Events

    def _authenticated(self) -> None:
        """The handshake has come a step further without new bytes."""
        self._write()
        if not self._handshake.is_over:
            self._expect(self._door.limits.step_timeout_s)
        self._go_on()

    def _handle(self, event: Event) -> None:
        if isinstance(event, Opened):
            self._open(event)
        elif isinstance(event, Closed):
            if event.error is not None:
                logger.info("%s: closed: %s", self.name, event.error)
            self._closed_by_peer(event)
        elif self.container is not None:
            self.container.handle(event)

    def _open(self, event: Opened) -> None:
        opened = self._refusal_of(event.open) or self._handshake.open(event.open)
        if isinstance(opened, ErrorValue):
            logger.warning("%s: refused: %s", self.name, opened.description)
            self._machine.close(opened)
            return
        identity, vhost = opened
        self._machine.open(
            offered_capabilities=self._door.offered_capabilities, properties=self._door.properties
        )
        self.container = Container(self._door, self._machine, self, identity, vhost, self.name)
        self._expect_nothing()
        self._idle = IdleTimer(
            self._door.loop,
            (event.open.idle_time_out or 0) / 1000,
            self._door.limits.idle_timeout_s,
            self._send_heartbeat,
            self._give_up,
        )

    def _refusal_of(self, opened: Open) -> ErrorValue | None:
        """Section 2.4.5: who cannot keep the peer's idle time-out says so."""
        least = self._door.limits.peer_idle_timeout_ms_min
        if 0 < (opened.idle_time_out or least) < least:
            words = (
                f"an idle time-out of {opened.idle_time_out} ms cannot be kept; ask for {least} ms or more"
            )
            return ErrorValue(Condition.NOT_IMPLEMENTED, words)
        return None

    def _closed_by_peer(self, event: Closed) -> None:
        container = self.container
        if container is None or event.is_answered:
            self._machine.close()
        else:
            # What was sent before the close is answered before it.
            container.when_settled(self._answer_close)

    def _answer_close(self) -> None:
        self._machine.close()
        self.answered()

    # Bytes out

    def answered(self) -> None:
        """There is something to send: once for all that this turn of the loop brings."""
        if not self._write_due:
            self._write_due = True
            self._door.loop.call_soon(self._write)

    def can_deliver(self) -> bool:
        """Whether more messages may be queued for the socket."""
        return self._is_writable and not self._is_closing

    def flush(self) -> int:
        """Hand what is queued to the socket; gives its bytes."""
        data = self._machine.data_to_send()
        if data and not self._is_closing:
            self.sent_bytes += len(data)
            self._transport.write(data)
        return len(data)

    def close(self, error: ErrorValue | None = None) -> None:
        """Tell the client that the connection ends, and why."""
        if self._is_closing:
            return
        if self.container is None:
            self._end()
            return
        self._machine.close(error)
        if self._held is not None:
            self._held.event = None
        self._write()
        self._go_on()  # to the answer

    def stop_taking(self) -> None:
        """Act on nothing that comes from now on."""
        self._is_stopping = True
        self._stop_reading()

    def abort(self) -> None:
        """End the connection without a word."""
        self._transport.abort()

    def _write(self) -> None:
        self._write_due = False
        if self._is_closing:
            return
        said = self._handshake.data_to_send()
        if said:
            self.sent_bytes += len(said)
            self._transport.write(said)
        self.flush()
        if self._handshake.has_failed or self._machine.state is State.END:
            self._wind_up()
            self._end()
        elif self._machine.state is State.CLOSE_SENT:
            self._wind_up()

    def _wind_up(self) -> None:
        """The last word is said: nothing more is delivered, and the client has a moment to read and to answer."""
        if not self._is_winding_up:
            self._is_winding_up = True
            self._expect(self._door.limits.close_timeout_s)
            if self.container is not None:
                self.container.close()

    def _end(self) -> None:
        """Close the socket when what was sent has gone out."""
        if not self._is_closing:
            self._is_closing = True
            self._transport.close()

    def _may_answer(self) -> bool:
        """Whether the client reads what it asked for."""
        return self._is_writable or (
            self._transport.get_write_buffer_size() < self._door.limits.answer_bytes_max
        )

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
        if not self._is_winding_up and self._is_writable:
            self._machine.heartbeat()
            self.flush()

    def _give_up(self) -> None:
        if self._is_winding_up:
            return
        if not self._is_reading:
            # It may have sent what we did not read: for reasons of ours, or while it reads what it asked for.
            unread, before = self._transport.get_write_buffer_size(), self._unread_bytes
            self._unread_bytes = unread
            if self._may_answer() or unread < before:
                return
        logger.info("%s: nothing heard for %g s, closed", self.name, self._door.limits.idle_timeout_s)
        self.close(
            ErrorValue(Condition.RESOURCE_LIMIT_EXCEEDED, "nothing was heard within the idle time-out")
        )

    # When not to read

    def _stop_reading(self) -> None:
        if self._is_reading and not self._is_closing:
            self._is_reading = False
            self._unread_bytes = sys.maxsize
            self._transport.pause_reading()

    def _read_on(self) -> None:
        if not self._is_reading and not self._is_closing:
            self._is_reading = True
            self._transport.resume_reading()
            if self._idle is not None:
                # What it sent meanwhile is still to be heard.
                self._idle.heard = True


def _own(event: Deliveries, read: ReadableBuffer, kept: ReadableBuffer) -> Deliveries:
    """The event for one that waits: with spans of its own, and what was read lies in another buffer now."""
    spans = array("q", event.spans[: SPAN_FIELDS * event.count])
    buffer = kept if event.buffer is read else event.buffer
    return msgspec.structs.replace(event, spans=spans, buffer=buffer)

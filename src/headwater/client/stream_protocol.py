"""RabbitMQ Streams protocol, Frame Structure: bytes between a socket and the client's end of a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from headwater.encoding.chunk import ReadableBuffer
from headwater.streams import commands as c
from headwater.streams.client_connection import ClientConnection
from headwater.streams.connection import Event, State
from headwater.streams.errors import ConnectionEnded

__all__ = ["READ_BUFFER_BYTES", "SILENT_INTERVALS_MAX", "WRITE_BYTES_HIGH", "StreamProtocol"]

READ_BUFFER_BYTES = 1 << 20
"""The read buffer; it grows to the largest frame that was agreed on when one comes."""
WRITE_BYTES_HIGH = 1 << 20
"""Publishers wait while so much is not taken by the socket."""
SILENT_INTERVALS_MAX = 2
"""After so many heartbeat intervals without a byte the server is held to be gone."""

_ROOM_BYTES_MIN = 64 << 10


class StreamProtocol(asyncio.BufferedProtocol):
    """Feeds the machine and hands on its events; `ended` is called once, with what the transport says."""

    def __init__(
        self,
        machine: ClientConnection,
        handle: Callable[[Event, ReadableBuffer], None],
        ended: Callable[[Exception | None], None],
        silent: Callable[[float], None],
    ) -> None:
        self.machine = machine
        self._handle = handle
        self._ended = ended
        self._silent = silent
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray(READ_BUFFER_BYTES)
        self._start = self._end = 0
        """What was read and not taken yet."""
        self._is_writable = True
        self._writable_waiters: list[asyncio.Future[None]] = []
        self._is_closing = False
        self._flush_due = False
        self._heartbeat: asyncio.TimerHandle | None = None
        self._heard = True
        self._silent_halves = 0

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have all of the interface and none of the class.
        self._transport = transport = cast("asyncio.Transport", transport)
        transport.set_write_buffer_limits(high=WRITE_BYTES_HIGH)
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        self._ended(exc)
        self.resume_writing()

    def get_buffer(self, sizehint: int) -> memoryview:
        self._make_room()
        return memoryview(self._buffer)[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._heard = True
        self._end += nbytes
        self.go_on()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._is_writable = False

    def resume_writing(self) -> None:
        self._is_writable = True
        waiters, self._writable_waiters = self._writable_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # What the connection calls

    @property
    def is_connected(self) -> bool:
        """Whether there ever was a transport."""
        return self._transport is not None

    def go_on(self) -> None:
        """Take what was read, as far as the machine takes it."""
        if self._is_closing:
            return
        consumed, events = self.machine.receive(self._buffer, self._start, self._end)
        for event in events:
            self._handle(event, self._buffer)
        self._start += consumed
        self.flush()

    def flush(self) -> None:
        """Write what the machine has to send, and close when that was the last."""
        self._flush_due = False
        if self._is_closing or self._transport is None:
            return
        data = self.machine.data_to_send()
        if data:
            self._transport.write(data)
        if self.machine.state is State.CLOSED:
            self._is_closing = True
            self._transport.close()

    def flush_soon(self) -> None:
        """Write at the end of this turn of the loop, together with what else it brings."""
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self.flush)

    def write_frame(self, frame: ReadableBuffer) -> None:
        """Write a frame behind all that is to be sent, without a copy; nobody may change it any more."""
        if self._is_closing or self.machine.has_ended or self._transport is None:
            raise ConnectionEnded("a frame")
        self.flush()
        self._transport.write(frame)

    async def drained(self) -> None:
        """Wait until the socket takes more."""
        if not self._is_writable and not self._is_closing:
            waiter = self._loop.create_future()
            self._writable_waiters.append(waiter)
            await waiter

    def beat(self) -> None:
        """Send a heartbeat every half interval, and say when the server is silent for too long."""
        interval_s = self.machine.heartbeat_s
        if not interval_s or self._is_closing:
            return
        self._silent_halves = 0 if self._heard else self._silent_halves + 1
        self._heard = False
        if self._silent_halves > 2 * SILENT_INTERVALS_MAX:
            self._silent(SILENT_INTERVALS_MAX * interval_s)
            return
        if not self.machine.has_ended:
            self.machine.send(c.Heartbeat())
            self.flush()
        self._heartbeat = self._loop.call_later(interval_s / 2, self.beat)

    def abort(self) -> None:
        """End it here and now."""
        self._is_closing = True
        if self._transport is not None:
            self._transport.abort()

    def _make_room(self) -> None:
        start, end = self._start, self._end
        if start == end:
            self._start = self._end = 0
            return
        room = max(_ROOM_BYTES_MIN, self.machine.frame_bytes_missing(self._buffer, start, end))
        if len(self._buffer) - end >= room:
            return
        kept = self._buffer[start:end]
        if len(kept) + room > len(self._buffer):
            self._buffer = bytearray(len(kept) + room)
        self._buffer[: len(kept)] = kept
        self._start, self._end = 0, len(kept)

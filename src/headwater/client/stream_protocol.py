"""RabbitMQ Streams protocol, Frame Structure: bytes between a socket and the client's end of a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headwater.client.socket_protocol import SocketProtocol
from headwater.encoding.chunk import ReadableBuffer
from headwater.streams import commands as c
from headwater.streams.client_connection import ClientConnection
from headwater.streams.connection import Event, State
from headwater.streams.errors import ConnectionEnded

__all__ = ["SILENT_INTERVALS_MAX", "StreamProtocol"]

SILENT_INTERVALS_MAX = 2
"""After so many heartbeat intervals without a byte the server is held to be gone."""


class StreamProtocol(SocketProtocol):
    """Feeds the machine and hands on its events."""

    def __init__(
        self,
        machine: ClientConnection,
        handle: Callable[[Event, ReadableBuffer], None],
        ended: Callable[[Exception | None], None],
        silent: Callable[[float], None],
    ) -> None:
        super().__init__(ended)
        self.machine = machine
        self._handle = handle
        self._silent = silent
        self._heartbeat: asyncio.TimerHandle | None = None
        self._is_heard = True
        self._silent_halves = 0

    def connection_lost(self, exc: Exception | None) -> None:
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        super().connection_lost(exc)

    # What the connection calls

    def write_frame(self, frame: ReadableBuffer) -> None:
        """Write a frame behind all that is to be sent, without a copy; nobody may change it any more."""
        if self._is_closing or self.machine.has_ended or self._transport is None:
            raise ConnectionEnded("a frame")
        self.flush()
        self._transport.write(frame)

    def beat(self) -> None:
        """Send a heartbeat every half interval, and say when the server is silent for too long."""
        interval_s = self.machine.heartbeat_s
        if not interval_s or self._is_closing:
            return
        self._silent_halves = 0 if self._is_heard else self._silent_halves + 1
        self._is_heard = False
        if self._silent_halves > 2 * SILENT_INTERVALS_MAX:
            self._silent(SILENT_INTERVALS_MAX * interval_s)
            return
        if not self.machine.has_ended:
            self.machine.send(c.Heartbeat())
            self.flush()
        self._heartbeat = self._loop.call_later(interval_s / 2, self.beat)

    # Bytes

    def _take(self) -> None:
        consumed, events = self.machine.receive(self._buffer, self._start, self._end)
        for event in events:
            self._handle(event, self._buffer)
        self._start += consumed

    def _bytes_missing(self) -> int:
        return self.machine.frame_bytes_missing(self._buffer, self._start, self._end)

    def _data_to_send(self) -> ReadableBuffer:
        return self.machine.data_to_send()

    def _has_said_all(self) -> bool:
        return self.machine.state is State.CLOSED

    def _heard(self) -> None:
        self._is_heard = True

"""A WebSocket as a transport of asyncio: a protocol that was written for sockets speaks over binary messages.

Messages are pieces of one stream of bytes; where one ends means nothing. What is written waits in a queue, of which the
protocol is told when it is long; while the protocol does not read, no message is taken from the socket.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any, cast

from aiohttp import WSCloseCode, WSMsgType, web

__all__ = ["WebSocketTransport"]

MESSAGE_BYTES_MAX = 65_535
"""What is sent in one message: clients on Netty take no more unless they are told to."""

logger = logging.getLogger("headwater.http.websocket")


class WebSocketTransport(asyncio.Transport):
    """Carries the bytes of one protocol; lives as long as `run`."""

    def __init__(
        self, socket: web.WebSocketResponse, below: asyncio.Transport, protocol: asyncio.BufferedProtocol
    ) -> None:
        super().__init__()
        self._socket = socket
        self._below = below
        self._protocol = protocol
        self._unsent: deque[bytes | bytearray] = deque()
        self._unsent_bytes = 0
        self._high, self._low = 64 * 1024, 16 * 1024
        self._is_paused = False
        self._is_closing = False
        self._has_work = asyncio.Event()
        """Whether there is something to send, or it is time to end."""
        self._may_read = asyncio.Event()
        self._may_read.set()

    async def run(self) -> None:
        """Tell the protocol of its connection, carry bytes both ways until one end closes, and tell it that too."""
        sending = asyncio.create_task(self._send())
        is_ours_to_end = False
        try:
            self._protocol.connection_made(self)
            await self._receive()
            is_ours_to_end = self._is_closing
        finally:
            self._end()
            if not is_ours_to_end:
                sending.cancel()
            await asyncio.wait([sending])
            self._protocol.connection_lost(None)

    # asyncio.Transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as asyncio has it
        return self._below.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return self._may_read.is_set()

    def pause_reading(self) -> None:
        if not self._is_closing:
            self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 * 1024 if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return self._unsent_bytes + self._below.get_write_buffer_size()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or not data:
            return
        self._unsent.append(bytes(data) if isinstance(data, memoryview) else data)
        self._unsent_bytes += len(data)
        self._has_work.set()
        # What the socket below holds is bounded by itself, and nobody tells of it becoming less.
        if not self._is_paused and self._unsent_bytes > self._high:
            self._is_paused = True
            self._protocol.pause_writing()

    def close(self) -> None:
        """Send what was written, then close."""
        self._end()

    def abort(self) -> None:
        """Close at once."""
        self._unsent_bytes -= sum(map(len, self._unsent))
        self._unsent.clear()
        self._end()
        self._below.abort()

    # Both ways

    def _end(self) -> None:
        self._is_closing = True
        self._has_work.set()
        self._may_read.set()

    async def _receive(self) -> None:
        while not self._is_closing:
            await self._may_read.wait()
            message = await self._socket.receive()
            if message.type is WSMsgType.BINARY:
                await self._hand_on(memoryview(message.data))
            elif message.type is WSMsgType.TEXT:
                logger.info("%s: a text message, where AMQP goes in binary ones", self._peer)
                await self._socket.close(code=WSCloseCode.UNSUPPORTED_DATA, message=b"AMQP is binary")
                return
            else:
                if message.type is WSMsgType.ERROR:
                    logger.info("%s: %s", self._peer, message.data)
                return

    async def _hand_on(self, data: memoryview) -> None:
        while data:
            await self._may_read.wait()
            if self._is_closing:
                return
            room = memoryview(self._protocol.get_buffer(len(data)))
            size = min(len(room), len(data))
            room[:size] = data[:size]
            self._protocol.buffer_updated(size)
            data = data[size:]
            if data:
                await asyncio.sleep(0)

    async def _send(self) -> None:
        try:
            while not self._is_closing or self._unsent:
                if not self._unsent:
                    await self._has_work.wait()
                    self._has_work.clear()
                    continue
                data = memoryview(self._unsent.popleft())
                for start in range(0, len(data), MESSAGE_BYTES_MAX):
                    piece = data[start : start + MESSAGE_BYTES_MAX]
                    await self._socket.send_bytes(cast("bytes", piece))  # any buffer will do
                    self._unsent_bytes -= len(piece)
                    self._go_on_writing()
            await self._socket.close()
        except ConnectionError as error:
            logger.debug("%s: %s", self._peer, error)
        finally:
            self._end()

    def _go_on_writing(self) -> None:
        if self._is_paused and self._unsent_bytes <= self._low:
            self._is_paused = False
            self._protocol.resume_writing()

    @property
    def _peer(self) -> object:
        return self.get_extra_info("peername")

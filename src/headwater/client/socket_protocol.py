"""Bytes between a socket and a client's end of a connection, whichever protocol it speaks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from headwater.client.address import Address
from headwater.client.errors import PeerUnreachable
from headwater.encoding.chunk import ReadableBuffer

__all__ = ["READ_BUFFER_BYTES", "WRITE_BYTES_HIGH", "SocketProtocol", "open_transport"]

READ_BUFFER_BYTES = 1 << 20
"""The read buffer; it grows to the largest frame that was agreed on when one comes."""
WRITE_BYTES_HIGH = 1 << 20
"""Whoever sends waits while so much is not taken by the socket."""

_ROOM_BYTES_MIN = 64 << 10


class SocketProtocol(asyncio.BufferedProtocol):
    """A read buffer and a transport; `ended` is called once, with what the transport says.

    A protocol takes what was read in `_take`, and gives what is to be sent in `_data_to_send`.
    """

    def __init__(self, ended: Callable[[Exception | None], None]) -> None:
        self._ended = ended
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray(READ_BUFFER_BYTES)
        self._start = self._end = 0
        """What was read and not taken yet."""
        self._is_writable = True
        self._writable_waiters: list[asyncio.Future[None]] = []
        self._is_closing = False
        self._flush_due = False

    # What a protocol says for itself

    def _take(self) -> None:
        """Take what was read, from `_start` to `_end`, as far as can be, and move `_start`."""
        raise NotImplementedError

    def _bytes_missing(self) -> int:
        """How many bytes must follow what is left for it to be a whole frame."""
        raise NotImplementedError

    def _data_to_send(self) -> ReadableBuffer:
        """What is to be sent, once."""
        raise NotImplementedError

    def _has_said_all(self) -> bool:
        """Whether the socket is to be closed behind what was written."""
        raise NotImplementedError

    def _heard(self) -> None:
        """Bytes came."""

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have all of the interface and none of the class.
        self._transport = transport = cast("asyncio.Transport", transport)
        transport.set_write_buffer_limits(high=WRITE_BYTES_HIGH)
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self._ended(exc)
        self.resume_writing()

    def get_buffer(self, sizehint: int) -> memoryview:
        self._make_room()
        return memoryview(self._buffer)[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._heard()
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

    @property
    def is_writable(self) -> bool:
        """Whether the socket takes more."""
        return self._is_writable

    def go_on(self) -> None:
        """Take what was read, as far as that can be done now, and write what comes of it."""
        if not self._is_closing:
            self._take()
            self.flush()

    def flush(self) -> None:
        """Write what there is to send, and close when that was the last."""
        self._flush_due = False
        if self._is_closing or self._transport is None:
            return
        data = self._data_to_send()
        if data:
            self._transport.write(data)
        if self._has_said_all():
            self._is_closing = True
            self._transport.close()

    def flush_soon(self) -> None:
        """Write at the end of this turn of the loop, together with what else it brings."""
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self.flush)

    async def drained(self) -> None:
        """Wait until the socket takes more."""
        if not self._is_writable and not self._is_closing:
            waiter = self._loop.create_future()
            self._writable_waiters.append(waiter)
            await waiter

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
        room = max(_ROOM_BYTES_MIN, self._bytes_missing())
        if len(self._buffer) - end >= room:
            return
        kept = self._buffer[start:end]
        if len(kept) + room > len(self._buffer):
            self._buffer = bytearray(len(kept) + room)
        self._buffer[: len(kept)] = kept
        self._start, self._end = 0, len(kept)


async def open_transport(protocol: SocketProtocol, address: Address) -> None:
    """Connect the protocol; raises PeerUnreachable."""
    loop = asyncio.get_running_loop()
    name = address.server_hostname
    try:
        if address.unix_path is not None:
            hostname = (name or "localhost") if address.tls else None
            await loop.create_unix_connection(
                lambda: protocol, address.unix_path, ssl=address.tls, server_hostname=hostname
            )
        else:
            hostname = name if address.tls else None
            await loop.create_connection(
                lambda: protocol, address.host, address.port, ssl=address.tls, server_hostname=hostname
            )
    except (OSError, UnicodeError) as error:
        # An SSLError is an OSError; its text says what the certificate lacks.
        raise PeerUnreachable(str(address), str(error) or type(error).__name__) from error

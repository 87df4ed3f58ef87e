"""A blocking socket of a peer that shows every byte, whatever is spoken over it."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
from types import TracebackType
from typing import Self

import pytest

__all__ = ["PeerSocket"]

STEP_TIMEOUT_S = 10.0
SEND_BYTES = 1 << 16


class PeerSocket:
    """Sends and takes bytes; waits for none of them longer than a limit."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        receive_buffer_bytes: int | None = None,
    ) -> None:
        raw = socket.socket()
        raw.settimeout(STEP_TIMEOUT_S)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer_bytes is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        try:
            raw.connect((host, port))
        except OSError:
            raw.close()
            raise
        self._socket = raw if tls is None else tls.wrap_socket(raw, server_hostname=host)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._socket.close()

    @property
    def local_port(self) -> int:
        """By which the server knows this end."""
        return int(self._socket.getsockname()[1])

    def vanish(self) -> None:
        """End the connection by a reset, as a machine that lost its power does sooner or later."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def send_bytes(self, data: bytes) -> None:
        """All of it in one write."""
        self._socket.sendall(data)

    def send_some(self, data: bytes, within_s: float = 0.2) -> int:
        """Send as much as the server takes until it takes nothing for this time; gives how many bytes that is."""
        sent = 0
        self._socket.settimeout(within_s)
        with contextlib.suppress(TimeoutError):
            while sent < len(data):
                sent += self._socket.send(data[sent : sent + SEND_BYTES])
        self._socket.settimeout(STEP_TIMEOUT_S)
        return sent

    def exactly(self, size: int) -> bytes:
        """The next bytes, so many."""
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(size - len(parts))
            assert part, f"the connection ended after {len(parts)} of {size} bytes"
            parts += part
        return bytes(parts)

    def discard(self) -> int:
        """Take what has come, whatever it is, or wait for it; gives how many bytes that was, 0 at the end."""
        self._socket.settimeout(None)
        return len(self._socket.recv(SEND_BYTES))

    def rest(self) -> bytes:
        """All that comes until the server closes the connection."""
        parts = bytearray()
        try:
            while part := self._socket.recv(1 << 16):
                parts += part
        except ConnectionError:
            pass
        return bytes(parts)

    def has_something(self, within_s: float) -> bool:
        """Whether bytes came, or the end, within this time."""
        return bool(select.select([self._socket], [], [], within_s)[0])

    def assert_silent(self) -> None:
        """Nothing has come so far."""
        self._socket.settimeout(0)
        with pytest.raises(BlockingIOError):
            self._socket.recv(1, socket.MSG_PEEK)
        self._socket.settimeout(STEP_TIMEOUT_S)

    def assert_ended(self) -> None:
        """The server closed the connection, and said nothing more."""
        assert self.rest() == b"", "the connection goes on"

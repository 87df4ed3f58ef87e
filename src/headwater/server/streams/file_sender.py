"""RabbitMQ Streams protocol, Deliver: a chunk on its way from its file to the socket, without passing through here."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable

from headwater.log.file_span import FileSpan

__all__ = ["FileSender"]


class FileSender:
    """Sends one chunk at a time past the transport, which must have nothing to send before it and nothing meanwhile.

    It writes to a descriptor of its own for the same socket, as the loop lets nobody wait for one of a transport's.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fd: int,
        on_sent: Callable[[], None],
        on_failed: Callable[[], None],
    ) -> None:
        """`on_sent` is called when a chunk is out that was not sent at once, `on_failed` if it never will be."""
        self._loop = loop
        self._socket = socket.socket(fileno=os.dup(fd))
        self._on_sent = on_sent
        self._on_failed = on_failed
        self._header = b""
        self._span: FileSpan | None = None
        self._position = 0
        self._end = 0
        self._behind: list[bytes] = []
        self.unsent_bytes = 0
        """Of the chunk and of what was put behind it."""

    @property
    def is_busy(self) -> bool:
        """Whether a chunk is on its way; nothing else may be written to the socket."""
        return self._span is not None

    def send(self, header: bytes, span: FileSpan) -> None:
        """Begin with a chunk and what goes before it; sends as much as the socket takes."""
        self._header, self._span = header, span
        self._position, self._end = span.position, span.position + span.byte_count
        self.unsent_bytes = len(header) + span.byte_count
        if not self._try_to_send():
            self._loop.add_writer(self._socket, self._go_on)

    def put_behind(self, data: bytes) -> None:
        """Hold what is to be sent when the chunk is out: `take_behind` gives it back."""
        self._behind.append(data)
        self.unsent_bytes += len(data)

    def take_behind(self) -> bytes:
        """What waited for the chunk, once."""
        behind, self._behind = self._behind, []
        self.unsent_bytes = 0
        return b"".join(behind)

    def close(self) -> None:
        """Send no more."""
        if self._span is not None:
            self._loop.remove_writer(self._socket)
            self._span.release()
            self._span = None
        self._socket.close()

    def _go_on(self) -> None:
        if self._try_to_send():
            self._loop.remove_writer(self._socket)
            if self._span is None:
                self._on_sent()

    def _try_to_send(self) -> bool:
        """Send what the socket takes; whether that was all there is to do."""
        assert self._span is not None
        try:
            self._send(self._span.fd)
        except BlockingIOError:
            return False
        except OSError:
            self._on_failed()  # half a chunk is out, so nothing else may follow
            return True
        self._span.release()
        self._span = None
        return True

    def _send(self, fd: int) -> None:
        while self._header:
            sent = self._socket.send(self._header, socket.MSG_MORE)  # not as a packet of its own
            self._header = self._header[sent:]
            self.unsent_bytes -= sent
        while self._position < self._end:
            sent = os.sendfile(self._socket.fileno(), fd, self._position, self._end - self._position)
            if not sent:
                raise OSError(errno.EIO, "the file is shorter than it was")
            self._position += sent
            self.unsent_bytes -= sent

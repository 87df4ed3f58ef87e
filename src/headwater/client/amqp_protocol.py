"""AMQP 1.0 part 2, section 2.2: bytes between a socket and the client's end of a connection, SASL first."""

from __future__ import annotations

from collections.abc import Callable

from headwater.amqp.connection import Connection, State
from headwater.amqp.errors import FramingError
from headwater.amqp.events import Event
from headwater.amqp.frames import frame_bytes_missing
from headwater.amqp.sasl import SaslClient, SaslEvent
from headwater.client.socket_protocol import SocketProtocol
from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import PeerError

__all__ = ["AmqpProtocol"]

_EARLY_BYTES_MAX = 64 << 10
"""What a server may send behind its outcome before we have begun with AMQP."""


class AmqpProtocol(SocketProtocol):
    """Feeds the machines and hands on what they say; a fault of the server in SASL is handed on as an error."""

    def __init__(
        self,
        machine: Connection,
        handle: Callable[[Event], None],
        handle_sasl: Callable[[SaslEvent | PeerError], None],
        ended: Callable[[Exception | None], None],
    ) -> None:
        super().__init__(ended)
        self.machine = machine
        self.sasl: SaslClient | None = SaslClient()
        """Until it is over."""
        self.heard: Callable[[], None] = lambda: None
        self._handle = handle
        self._handle_sasl = handle_sasl

    def begin_amqp(self) -> None:
        """SASL is over: what comes from now on is AMQP."""
        self.sasl = None
        self.machine.send_header()

    def pause_reading(self) -> None:
        """Read nothing for a while."""
        if self._transport is not None and not self._is_closing:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        if self._transport is not None and not self._is_closing:
            self._transport.resume_reading()

    def _take(self) -> None:
        if self.sasl is not None:
            self._take_sasl(self.sasl)
            return
        machine, buffer, end = self.machine, self._buffer, self._end
        while True:
            event, self._start = machine.next_event(buffer, self._start, end)
            if event is None:
                return
            self._handle(event)

    def _take_sasl(self, sasl: SaslClient) -> None:
        while not sasl.is_over:
            try:
                event, self._start = sasl.next_event(self._buffer, self._start, self._end)
            except PeerError as error:
                self._handle_sasl(error)
                return
            if event is None:
                return
            self._handle_sasl(event)
        if self._end - self._start > _EARLY_BYTES_MAX:
            self._handle_sasl(FramingError("the server goes on although it has not heard of us"))

    def _bytes_missing(self) -> int:
        # What comes before SASL is over was not looked at, so its size means nothing.
        return 0 if self.sasl is not None else frame_bytes_missing(self._buffer, self._start, self._end)

    def _data_to_send(self) -> ReadableBuffer:
        return self.machine.data_to_send() if self.sasl is None else self.sasl.data_to_send()

    def _has_said_all(self) -> bool:
        return self.machine.state is State.END

    def _heard(self) -> None:
        self.heard()

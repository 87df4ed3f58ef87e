"""A blocking stream client of one socket, as small as tests need: it asks, publishes, and keeps what else comes."""

from __future__ import annotations

import socket
import time
from types import TracebackType
from typing import Self

from headwater.encoding.sasl import PLAIN
from headwater.streams import commands as c
from headwater.streams.client_connection import ClientConnection
from headwater.streams.commands import Command, OffsetSpecification, OffsetType, ResponseCode
from headwater.streams.connection import Failed
from headwater.streams.publish import encode_publish

__all__ = ["StreamClient"]

TIMEOUT_S = 20.0
CREDIT = 10


class StreamClient:
    """An opened connection; whatever the server sends unasked is in `events`."""

    def __init__(
        self,
        port: int,
        user: str = "guest",
        password: str = "guest",
        *,
        vhost: str = "/",
        properties: dict[str, str] | None = None,
    ) -> None:
        self.events: list[Command] = []
        self._socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        ends = (self._socket.getsockname(), self._socket.getpeername())
        self.name = " -> ".join(f"{host}:{port}" for host, port in ends)
        """The connection as the server names it."""
        self._machine = ClientConnection({"product": "test", **(properties or {})}, vhost)
        self._kept = b""
        self._take(c.SaslHandshakeResponse)
        self._machine.authenticate(PLAIN, f"\0{user}\0{password}".encode())
        opened = self._take(c.OpenResponse)
        assert isinstance(opened, c.OpenResponse)
        assert opened.response_code == ResponseCode.OK, opened
        self.events.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def say_goodbye(self) -> None:
        """Close in order."""
        self._machine.close(ResponseCode.OK, "done")
        self._socket.sendall(self._machine.data_to_send())
        self.wait_until_closed()

    def next_id(self) -> int:
        """An id for a request."""
        return self._machine.next_correlation_id()

    def ask(self, request: c.Request) -> c.Response:
        """Send a request; gives its answer."""
        self._machine.send(request)
        while True:
            answer = self._take(c.Response)
            assert isinstance(answer, c.Response)
            if answer.correlation_id == request.correlation_id:
                return answer

    def ask_well(self, request: c.Request) -> None:
        """Send a request that must succeed."""
        answer = self.ask(request)
        assert answer.response_code == ResponseCode.OK, (request, answer)

    def tell(self, command: Command) -> None:
        """Send what has no answer."""
        self._machine.send(command)
        self._socket.sendall(self._machine.data_to_send())

    def declare_publisher(self, id_: int, stream: str, reference: str = "") -> None:
        """Make a publisher."""
        self.ask_well(c.DeclarePublisherRequest(self.next_id(), id_, reference, stream))

    def publish(self, publisher_id: int, count: int) -> None:
        """Publish so many messages, and wait until they are confirmed."""
        messages = [(number, b"\0\x53\x75\xa0\x01x") for number in range(1, count + 1)]
        self._machine.send_frame(encode_publish(publisher_id, messages))
        confirmed = 0
        while confirmed < count:
            event = self._take(c.PublishConfirm)
            assert isinstance(event, c.PublishConfirm)
            confirmed += event.count

    def subscribe(self, id_: int, stream: str, **properties: str) -> None:
        """Subscribe from the first message on, with some credit."""
        first = OffsetSpecification(OffsetType.FIRST)
        self.ask_well(c.SubscribeRequest(self.next_id(), id_, stream, first, CREDIT, properties))

    def wait_for(self, kind: type[Command]) -> Command:
        """The next command of a kind that the server sends by itself."""
        for event in self.events:
            if isinstance(event, kind):
                self.events.remove(event)
                return event
        return self._take(kind)

    def wait_until_closed(self) -> None:
        """Take what comes, and answer none of it, until the server has closed the socket."""
        while data := self._socket.recv(1 << 16):
            self._note(data)

    def _take(self, kind: type[Command]) -> Command:
        """Read until a command of this kind comes; others are kept in `events`."""
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            self._socket.sendall(self._machine.data_to_send())
            data = self._socket.recv(1 << 16)
            assert data, f"the server closed the connection while {kind.__name__} was due"
            before = len(self.events)
            self._note(data)
            for number, event in enumerate(self.events[before:], before):
                if isinstance(event, kind):
                    return self.events.pop(number)
        raise AssertionError(f"no {kind.__name__} within {TIMEOUT_S} s")

    def _note(self, data: bytes) -> None:
        buffer = self._kept + data
        consumed, events = self._machine.receive(buffer)
        self._kept = buffer[consumed:]
        for event in events:
            assert not isinstance(event, Failed), event
            self.events.append(event)

"""An AMQP client for the tests: the engine's client end over a socket, driven until something has come."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from headwater.amqp.connection import Connection, Limits
from headwater.amqp.events import (
    Closed,
    Deliveries,
    Event,
    LinkAttached,
    LinkDetached,
    Opened,
    SessionBegun,
    Settled,
)
from headwater.amqp.link import Link
from headwater.amqp.messaging import DeliveryState, Source, Target
from headwater.amqp.receiver_link import ReceiverLink
from headwater.amqp.sasl import SaslClient
from headwater.amqp.sasl_frames import SaslChallenge, SaslCode, SaslMechanisms, SaslOutcome
from headwater.amqp.sender_link import SenderLink
from headwater.amqp.session import Session
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.amqp_message import AmqpValue, Message, Properties, decode_message, encode_message
from headwater.encoding.amqp_types import Symbol

__all__ = ["AmqpClient", "Carrier", "connect", "plain"]

TIMEOUT_S = 20.0
RECEIVE_BYTES = 1 << 20

EventT = TypeVar("EventT")


class Carrier(Protocol):
    """What carries bytes: a socket, or what looks like one."""

    def sendall(self, data: bytes, /) -> None: ...

    def recv(self, bytes_max: int, /) -> bytes: ...

    def close(self) -> None: ...


def plain(user: str = "guest", password: str = "guest") -> bytes:
    """The message of SASL PLAIN."""
    return f"\0{user}\0{password}".encode()


class AmqpClient:
    """One connection; whatever it waits for comes within a time, or the test fails."""

    def __init__(self, carrier: Carrier, limits: Limits | None = None) -> None:
        self._carrier = carrier
        self._buffer = bytearray()
        self.machine = Connection(f"test-{uuid.uuid4()}", limits)
        self.events: list[Event] = []
        """What came and was not waited for."""
        self.messages: list[Message] = []
        self.mechanisms: tuple[str, ...] = ()
        self.session: Session

    def __enter__(self) -> AmqpClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Close the socket without a word."""
        self._carrier.close()

    # Opening

    def authenticate(
        self, mechanism: str, data: bytes | None, respond: Callable[[bytes], bytes] | None = None
    ) -> SaslOutcome:
        """Go through SASL."""
        sasl = SaslClient()
        while True:
            self._send(sasl.data_to_send())
            event, position = sasl.next_event(self._buffer, 0, len(self._buffer))
            del self._buffer[:position]
            if event is None:
                self._read()
            elif isinstance(event, SaslMechanisms):
                self.mechanisms = tuple(map(str, event.sasl_server_mechanisms))
                sasl.start(mechanism, data, None)
            elif isinstance(event, SaslChallenge):
                assert respond is not None
                sasl.respond(respond(event.challenge))
            else:
                assert isinstance(event, SaslOutcome)
                return event

    def open(self, hostname: str | None = None) -> AmqpClient:
        """Open the connection and a session."""
        self.machine.send_header()
        self.machine.open(hostname=hostname)
        self.wait_for(Opened)
        self.begin()
        return self

    def begin(self) -> None:
        """Begin a session, on which links are attached from now on."""
        self.session = self.machine.begin()
        self.wait_for(SessionBegun)

    # Links

    def sender(self, address: str | None, name: str = "up", **fields: Any) -> SenderLink:
        """A link on which we send, attached."""
        link = SenderLink(self.session, name)
        link.attach(Source(address), Target(address), **fields)
        self.wait_for(LinkAttached)
        return link

    def receiver(
        self,
        address: str,
        target: str | None = None,
        name: str = "down",
        credit: int = 100,
        filters: dict[Symbol, Any] | None = None,
    ) -> ReceiverLink:
        """A link on which we receive, attached and with credit."""
        link = ReceiverLink(self.session, name)
        link.attach(Source(address, filter=filters), Target(target))
        self.wait_for(LinkAttached)
        if credit:
            link.grant(credit)
            self.flush()
        return link

    def send(self, link: SenderLink, message: Message | bytes) -> int:
        """Send one message when there is credit for it; gives its delivery id."""
        while not link.may_send:
            self.receive()
        data = message if isinstance(message, bytes) else encode_message(message)
        id_ = link.send(data)
        self.flush()
        return id_

    def outcome(self) -> DeliveryState | None:
        """What became of what was sent, of one event of that."""
        return self.wait_for(Settled).state

    def message(self) -> Message:
        """The next message that comes."""
        while not self.messages:
            self.receive()
        return self.messages.pop(0)

    def detached(self, link: Link) -> LinkDetached:
        """How a link ends."""
        event = self.wait_for(LinkDetached)
        assert event.link is link
        return event

    # Management

    def ask(self, link: SenderLink, operation: str, type: str, body: object = None, **properties: Any) -> int:
        """Send a request; `reply_to` and `message_id` among the properties are the message's own."""
        own = {name: properties.pop(name) for name in ("reply_to", "message_id", "to") if name in properties}
        message = Message(
            properties=Properties(**own),
            application_properties={"operation": operation, "type": type, **properties},
            body=AmqpValue(body),
        )
        return self.send(link, message)

    # Bytes

    def wait_for(self, kind: type[EventT]) -> EventT:
        """The next event of a kind."""
        while True:
            for index, event in enumerate(self.events):
                if isinstance(event, kind):
                    del self.events[index]
                    return event
            self.receive()

    def wait_until_closed(self) -> None:
        """The server ends the socket."""
        while self._carrier.recv(RECEIVE_BYTES):
            pass

    def close(self) -> Closed:
        """Close, and see it answered."""
        self.machine.close()
        return self.wait_for(Closed)

    def flush(self) -> None:
        """Send what there is to send."""
        self._send(self.machine.data_to_send())

    def _send(self, data: bytearray) -> None:
        if data:
            self._carrier.sendall(bytes(data))

    def _read(self) -> None:
        data = self._carrier.recv(RECEIVE_BYTES)
        if not data:
            raise ConnectionError("the server has closed the socket")
        self._buffer += data

    def receive(self) -> None:
        """Send what there is to send, wait for bytes, and take in what they say."""
        self.flush()
        self._read()
        position = 0
        while True:
            event, position = self.machine.next_event(self._buffer, position, len(self._buffer))
            if event is None:
                break
            if isinstance(event, Deliveries):
                self.messages += [_message(event, index) for index in range(event.count)]
            else:
                self.events.append(event)
        del self._buffer[:position]


def connect(
    host: str, port: int, *, mechanism: str = "PLAIN", data: bytes | None = None, hostname: str | None = None
) -> AmqpClient:
    """A client that has opened; guest, unless the data of PLAIN says something else."""
    client = AmqpClient(socket.create_connection((host, port), TIMEOUT_S))
    if data is None and mechanism == "PLAIN":
        data = plain()
    try:
        assert client.authenticate(mechanism, data).code is SaslCode.OK
        return client.open(hostname)
    except BaseException:
        client.end()
        raise


def _message(event: Deliveries, index: int) -> Message:
    """A message from behind its delivery annotations."""
    _, _, start, end = event.spans[SPAN_FIELDS * index : SPAN_FIELDS * (index + 1)]
    return decode_message(event.buffer, start, end)

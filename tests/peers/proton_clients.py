"""What tests with Qpid Proton share: connections, where to begin to read, and messages as they came."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

from proton import Delivery, Described, Event, Handler, Message, symbol
from proton.reactor import Filter, ReceiverOption
from proton.utils import BlockingConnection, BlockingReceiver

from tests.peers.servers import HOST, PASSWORD, USER, Server

__all__ = [
    "STEP_TIMEOUT_S",
    "Raw",
    "bodies",
    "connected",
    "from_offset",
    "numbered",
    "receive_from",
    "send_all",
    "url_of",
]

STEP_TIMEOUT_S = 20.0
OFFSET_SPEC = symbol("rabbitmq:stream-offset-spec")

_LINKS = itertools.count(1)


class Raw(Handler):
    """Takes deliveries of a receiver as the bytes that came, and says what it is told to of each."""

    def __init__(self, state: int | None = Delivery.ACCEPTED) -> None:
        super().__init__()
        self.payloads: list[bytes] = []
        self.deliveries: list[Delivery] = []
        self.receiver: BlockingReceiver | None = None
        """Takes the handler off its link when it is forgotten."""
        self._state = state

    def on_delivery(self, event: Event) -> None:
        delivery = event.delivery
        if delivery.readable and not delivery.partial:
            self.payloads.append(delivery.link.recv(delivery.pending) or b"")
            self.deliveries.append(delivery)
            delivery.link.advance()
            if self._state is not None:
                delivery.update(self._state)
                delivery.settle()


def url_of(server: Server) -> str:
    return f"amqp://{USER}:{PASSWORD}@{HOST}:{server.amqp_port}"


@contextlib.contextmanager
def connected(server: Server, **options: Any) -> Iterator[BlockingConnection]:
    """A connection that is closed at the end."""
    connection = BlockingConnection(url_of(server), timeout=STEP_TIMEOUT_S, **options)
    try:
        yield connection
    finally:
        connection.close()


def from_offset(spec: object = "first") -> Filter:
    """Begin to read there: first, last, next, an offset, or a timestamp."""
    return Filter({OFFSET_SPEC: Described(OFFSET_SPEC, spec)})


def receive_from(
    connection: BlockingConnection,
    address: str,
    spec: object = "first",
    credit: int = 1,
    *options: ReceiverOption,
) -> BlockingReceiver:
    """Read a log from there on, by a link with a name of its own: Proton names them after addresses."""
    name = f"{address}-{next(_LINKS)}"
    return connection.create_receiver(
        address, credit=credit, name=name, options=[from_offset(spec), *options]
    )


def numbered(start: int, end: int) -> list[str]:
    return [f"message {number}" for number in range(start, end)]


def send_all(connection: BlockingConnection, address: str, texts: list[str]) -> None:
    """Send, and see all of it accepted."""
    sender = connection.create_sender(address, name=f"{address}-{next(_LINKS)}")
    deliveries = [sender.link.send(Message(body=text)) for text in texts]
    connection.wait(lambda: all(each.remote_state == Delivery.ACCEPTED for each in deliveries))
    for delivery in deliveries:
        delivery.settle()
    sender.close()


def bodies(receiver: BlockingReceiver, count: int) -> list[object]:
    """Of the next so many messages, each accepted."""
    found: list[object] = []
    for _ in range(count):
        body = receiver.receive().body
        assert not isinstance(body, memoryview), "Proton shows bytes where they may be gone: see `Raw`"
        found.append(body)
        if receiver.fetcher.unsettled:
            receiver.accept()
    return found

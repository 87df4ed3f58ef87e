"""Qpid Proton's receivers with an account: in a group, durable, shared; and messages for them."""

from __future__ import annotations

import pytest
from proton import Data, Link, Message, Terminus, symbol
from proton.reactor import Filter, LinkOption
from proton.utils import BlockingConnection, BlockingReceiver, LinkDetached

__all__ = [
    "Durable",
    "InGroup",
    "Shared",
    "detach",
    "first",
    "last_words",
    "publish",
    "receive",
    "receiver",
    "synced",
]

GROUP, PARTITION = symbol("event-streams-consumer-group"), symbol("event-streams-partition")


class InGroup(LinkOption):
    """Consumes in a group, from a partition or from one that is free."""

    def __init__(self, group: str, partition: str | None = None) -> None:
        self._properties: dict[symbol, object] = {GROUP: group}
        if partition is not None:
            self._properties[PARTITION] = symbol(partition)

    def apply(self, link: Link) -> None:
        link.properties = self._properties


class Durable(LinkOption):
    """Goes on where it was, until it is closed."""

    def apply(self, link: Link) -> None:
        link.source.durability = Terminus.DELIVERIES
        link.source.expiry_policy = Terminus.EXPIRE_NEVER


class Shared(LinkOption):
    """Divides its messages with others, of its container or of all."""

    def __init__(self, *, is_global: bool = False) -> None:
        self._names = ("shared", "global") if is_global else ("shared",)

    def apply(self, link: Link) -> None:
        capabilities = link.source.capabilities
        capabilities.put_array(False, Data.SYMBOL)
        capabilities.enter()
        for name in self._names:
            capabilities.put_symbol(symbol(name))
        capabilities.exit()


def first() -> Filter:
    """Begins with the first message that is there."""
    return Filter({symbol("rabbitmq:stream-offset-spec"): "first"})


def receiver(
    connection: BlockingConnection, log: str, name: str, *options: LinkOption, credit: int = 10
) -> BlockingReceiver:
    """A link that consumes, with so much credit in all."""
    return connection.create_receiver(log, name=name, credit=credit, options=list(options))


def publish(connection: BlockingConnection, log: str, start: int, end: int) -> None:
    """Messages whose bodies are their numbers."""
    sender = connection.create_sender(log)
    for number in range(start, end):
        sender.send(Message(body=number))
    sender.close()


def receive(taking: BlockingReceiver, count: int, *, accepted: int | None = None) -> list[object]:
    """The bodies of the next ones, of which the first ones, or all, are accepted."""
    bodies = []
    for number in range(count):
        bodies.append(taking.receive(timeout=10).body)
        if accepted is None or number < accepted:
            taking.accept()
    synced(taking.connection)
    return bodies


def detach(taking: BlockingReceiver) -> None:
    """Go, and leave what lasts."""
    taking.link.detach()
    synced(taking.connection)


def last_words(taking: BlockingReceiver) -> str:
    """What the server says as it detaches the link."""
    with pytest.raises(LinkDetached) as raised:
        taking.connection.wait(lambda: False, timeout=10, msg="the detach")
    return str(raised.value)


def synced(connection: BlockingConnection) -> None:
    """Return when the server has seen all that was said on this connection so far."""
    connection.create_receiver("$management", name="synced", credit=0).close()

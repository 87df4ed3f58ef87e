"""What tests with `rstream`, the Python client of RabbitMQ Streams, share: its clients, and what they were given."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import pytest
import rstream.client
from rstream import (
    ConfirmationStatus,
    Consumer,
    MessageContext,
    Producer,
    SuperStreamConsumer,
    SuperStreamProducer,
)
from rstream.connection import Connection

from tests.peers.servers import HOST, PASSWORD, USER, Server

__all__ = ["STEP_TIMEOUT_S", "Clients", "Confirms", "Gathered", "Inbox", "publish", "read", "run", "texts"]

TEST_TIMEOUT_S = 40.0
STEP_TIMEOUT_S = 15.0

ClientT = TypeVar("ClientT", Producer, Consumer, SuperStreamProducer, SuperStreamConsumer)


class Clients:
    """Makes clients of one server, and closes them all at once."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._closings: list[Callable[[], Awaitable[None]]] = []
        self._connections: list[Connection] = []
        self._patch = pytest.MonkeyPatch()

    async def __aenter__(self) -> Clients:
        # The client forgets the socket of a connection that broke, or whose stream was deleted, without closing it.
        self._patch.setattr(rstream.client, "Connection", self._connection)
        return self

    async def __aexit__(self, *_: object) -> None:
        async with asyncio.timeout(STEP_TIMEOUT_S):
            await asyncio.gather(*(close() for close in self._closings))
            self._patch.undo()
            closings = [connection.close() for connection in self._connections]
            # Of a connection that broke, the end is an error here.
            await asyncio.gather(*closings, return_exceptions=True)

    def producer(self, **options: Any) -> Producer:
        return self._made(Producer, options)

    def consumer(self, **options: Any) -> Consumer:
        return self._made(Consumer, options)

    async def super_producer(self, name: str, **options: Any) -> SuperStreamProducer:
        producer = self._made(SuperStreamProducer, {"super_stream": name, **options})
        await producer.start()
        return producer

    def super_consumer(self, name: str, **options: Any) -> SuperStreamConsumer:
        return self._made(SuperStreamConsumer, {"super_stream": name, **options})

    def _made(self, kind: Callable[..., ClientT], options: dict[str, Any]) -> ClientT:
        access = {"host": HOST, "port": self._server.stream_port, "username": USER, "password": PASSWORD}
        client = kind(**{**access, **options})
        self._closings.append(client.close)
        return client

    def _connection(self, *arguments: Any) -> Connection:
        connection = Connection(*arguments)
        self._connections.append(connection)
        return connection


class Gathered:
    """Things that come one by one, and can be waited for."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._grown = asyncio.Event()

    def add(self, item: Any) -> None:
        self.items.append(item)
        self._grown.set()

    async def wait_for(self, count: int) -> None:
        """Until there are so many; more than that is a fault at once."""
        async with asyncio.timeout(STEP_TIMEOUT_S):
            while len(self.items) < count:
                self._grown.clear()
                await self._grown.wait()
        assert len(self.items) == count


class Inbox(Gathered):
    """The messages that a consumer was given."""

    def take(self, message: Any, context: MessageContext) -> None:
        self.add((context.stream, context.offset, message, context.timestamp))

    @property
    def messages(self) -> list[Any]:
        return [message for _, _, message, _ in self.items]

    @property
    def offsets(self) -> list[int]:
        return [offset for _, offset, _, _ in self.items]


class Confirms(Gathered):
    """The ids that the server confirmed."""

    def take(self, status: ConfirmationStatus) -> None:
        assert status.is_confirmed, f"message {status.message_id}: code {status.response_code}"
        self.add(status.message_id)


def run(conversation: Awaitable[None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(TEST_TIMEOUT_S):
            await conversation

    asyncio.run(limited())


async def publish(
    producer: Producer, stream: str, messages: Sequence[Any], name: str | None = None
) -> list[int]:
    """Send a batch, and wait until all of it is confirmed."""
    confirms = Confirms()
    sent = await producer.send_batch(stream, messages, name, on_publish_confirm=confirms.take)
    await confirms.wait_for(len(sent))
    assert sorted(confirms.items) == sorted(sent)
    return sent


def texts(start: int, end: int) -> list[bytes]:
    return [b"message %d" % number for number in range(start, end)]


async def read(consumer: Consumer, stream: str, count: int, **options: Any) -> Inbox:
    """Subscribe, and wait for so many messages."""
    inbox = Inbox()
    await consumer.subscribe(stream, inbox.take, **options)
    await inbox.wait_for(count)
    return inbox

"""The AMQP client at a real server: what it sends is stored and comes back, and what cannot be is said so."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from headwater.amqp.definitions import SenderSettleMode
from headwater.amqp.messaging import Source
from headwater.client.address import Address
from headwater.client.amqp_connection import AmqpConnection
from headwater.client.amqp_receiver import AmqpReceiver, from_offset
from headwater.client.amqp_sender import AmqpSender
from headwater.encoding.amqp_message import Data, Message, Properties, body_of
from headwater.encoding.amqp_types import Symbol
from tests.peers.servers import HOST, Server
from tests.stream_peer import run

FIRST = from_offset("first")
WAIT_S = 20.0
names = (f"log-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("server") / "data")
    started.start()
    yield started
    assert started.stop() == 0
    assert not [line for line in started.lines if "Traceback" in line]


@pytest.fixture
def log() -> str:
    """The name of a log that no other test uses."""
    return next(names)


def connect(server: Server, **options: object) -> Awaitable[AmqpConnection]:
    return AmqpConnection.connect(Address(HOST, server.amqp_port), **options)  # type: ignore[arg-type]


@asynccontextmanager
async def connected(server: Server, **options: object) -> AsyncIterator[AmqpConnection]:
    async with await connect(server, **options) as connection:
        yield connection


def on(server: Server, work: Callable[[AmqpConnection], Awaitable[None]], **options: object) -> None:
    """Carry out a test on a connection of its own."""

    async def with_connection() -> None:
        async with connected(server, **options) as connection:
            await work(connection)

    run(with_connection)


async def taken(receiver: AmqpReceiver, count: int) -> list[bytes]:
    """The bodies of the next messages, which are accepted."""
    bodies: list[bytes] = []
    while len(bodies) < count:
        batch = await receiver.receive_batch(WAIT_S)
        assert batch is not None, f"{len(bodies)} of {count} came"
        if not batch.is_settled:
            receiver.accept(batch)
        bodies += [body_of(message) or b"" for message in batch.messages()]
    assert len(bodies) == count
    return bodies


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%06d" % number for number in range(first, first + count)]


def test_a_message_comes_back_as_it_was_sent(server: Server, log: str) -> None:
    message = Message(
        properties=Properties(message_id="7", subject="created"),
        application_properties={"shop": "north", "items": 3},
        body=Data((b"{}",)),
    )

    async def work(connection: AmqpConnection) -> None:
        async with await AmqpSender.open(connection, log) as sender:
            await sender.send(message)
            assert (sender.sent_count, sender.accepted_count, sender.unsettled_count) == (1, 1, 0)
        async with await AmqpReceiver.open(connection, Source(log, filter=FIRST)) as receiver:
            async for received in receiver:
                decoded = received.decode()
                assert (decoded.properties, decoded.application_properties) == (
                    message.properties,
                    message.application_properties,
                )
                assert decoded.body == message.body
                assert decoded.delivery_annotations is not None
                assert decoded.delivery_annotations[Symbol("event-streams-offset")] == "0" * 16
                receiver.accept(received)
                break

    on(server, work)


@pytest.mark.parametrize("mode", [SenderSettleMode.UNSETTLED, SenderSettleMode.SETTLED])
def test_all_of_many_batches_are_stored_in_order(server: Server, log: str, mode: SenderSettleMode) -> None:
    async def work(connection: AmqpConnection) -> None:
        sender = await AmqpSender.open(connection, log, settle_mode=mode, unsettled_max=700)
        sent = [await sender.post(numbered(500, first), as_data=True) for first in range(0, 20_000, 500)]
        await sender.flush()
        assert [await each.settled() for each in sent] == [[]] * 40
        assert [each.first_number for each in sent] == list(range(0, 20_000, 500))
        await sender.close()
        receiver = await AmqpReceiver.open(connection, Source(log, filter=FIRST), settle_mode=mode)
        assert await taken(receiver, 20_000) == numbered(20_000)
        assert receiver.unsettled_count == 0
        assert await receiver.receive_batch(0.01) is None
        await receiver.close()

    on(server, work)

"""The stream client against a server that runs as a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeAlias

import pytest

from headwater.client.address import Address
from headwater.client.stream_connection import StreamConnection
from headwater.client.stream_consumer import StreamConsumer, at_offset
from headwater.client.stream_publisher import StreamPublisher
from headwater.encoding.compression import Compression
from tests.peers.servers import HOST, Server

Use: TypeAlias = Callable[[StreamConnection], Awaitable[None]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("client") / "data")
    running.start()
    try:
        yield running
    finally:
        running.end()


def connected(server: Server, use: Use) -> None:
    async def run() -> None:
        async with await StreamConnection.connect(Address(HOST, server.stream_port)) as connection:
            await use(connection)

    asyncio.run(run())


async def read(consumer: StreamConsumer, until: int) -> list[tuple[int, bytes]]:
    """Offsets and bytes up to the offset `until`."""
    found: list[tuple[int, bytes]] = []
    while not found or found[-1][0] < until - 1:
        chunk = await consumer.next_chunk()
        assert chunk is not None
        chunk.check()
        found += chunk.messages()
    return found


def test_what_is_published_comes_back_whatever_it_was_packed_with(server: Server) -> None:
    async def use(connection: StreamConnection) -> None:
        await connection.create_stream("round trip")
        publisher = await StreamPublisher.open(connection, "round trip")
        sent = [b"message %d" % number for number in range(20)]
        await publisher.publish(sent)
        for compression in Compression:
            await publisher.publish_sub_batch(sent, compression)
        await publisher.flush()
        assert (publisher.confirmed_count, publisher.unconfirmed_count) == (25, 0)
        consumer = await StreamConsumer.open(connection, "round trip", at_offset(3))
        expected = list(enumerate(sent * 6))[3:]
        assert await read(consumer, 120) == expected

    connected(server, use)

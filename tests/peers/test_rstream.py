"""`rstream`, the Python client of RabbitMQ Streams: publishing, reading, restarts and refusals."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from rstream import (
    AMQPMessage,
    CompressionType,
    ConsumerOffsetSpecification,
    FilterConfiguration,
    OffsetNotFound,
    OffsetType,
    OnClosedErrorInfo,
    RawMessage,
    StreamDoesNotExist,
    amqp_decoder,
)
from rstream.exceptions import AuthenticationFailure, PreconditionFailed, StreamAlreadyExists
from rstream.recovery import BackOffRecoveryStrategy

from tests.peers.rstream_clients import Clients, Confirms, Gathered, Inbox, publish, read, run, texts
from tests.peers.servers import Server

# Publishing


def test_one_message_and_a_batch_arrive_in_order(server: Server, stream: str) -> None:
    async def conversation() -> None:
        async with Clients(server) as clients:
            producer, consumer = clients.producer(), clients.consumer()
            await consumer.create_stream(stream)
            await producer.send_wait(stream, b"message 0")
            await publish(producer, stream, texts(1, 5))
            confirms = Confirms()
            await producer.send(stream, AMQPMessage(body=b"six"), on_publish_confirm=confirms.take)
            await confirms.wait_for(1)
            inbox = await read(consumer, stream, 6)
            assert inbox.messages[:5] == texts(0, 5)
            assert bytes(amqp_decoder(inbox.messages[5])) == bytes(AMQPMessage(body=b"six"))
            assert inbox.offsets == list(range(6))

    run(conversation())


@pytest.mark.clause("SP-5")
def test_a_named_producer_writes_nothing_twice_over_restarts(own_server: Server, stream: str) -> None:
    async def send_numbered(end: int) -> None:
        async with Clients(own_server) as clients:
            numbered = [RawMessage(b"message %d" % number, number) for number in range(1, end)]
            await publish(clients.producer(), stream, numbered, "ada")

    async def check() -> None:
        async with Clients(own_server) as clients:
            producer, consumer = clients.producer(), clients.consumer()
            assert await publish(producer, stream, [b"message 31"], "ada") == [31]
            inbox = await read(consumer, stream, 31)
            assert inbox.messages == texts(1, 32)
            assert await consumer.query_offset(stream, "bob") == 17

    async def prepare() -> None:
        async with Clients(own_server) as clients:
            consumer = clients.consumer()
            await consumer.create_stream(stream)
            await consumer.store_offset(stream, "bob", 17)
            assert await consumer.query_offset(stream, "bob") == 17

    run(prepare())
    run(send_numbered(11))
    own_server.kill()
    own_server.start()
    run(send_numbered(21))
    assert own_server.stop() == 0
    own_server.start()
    run(send_numbered(31))
    run(check())


@pytest.mark.clause("SP-3")
def test_sub_batches_of_every_compression_arrive_between_other_messages(server: Server, stream: str) -> None:
    async def conversation() -> None:
        async with Clients(server) as clients:
            producer, consumer, late = clients.producer(), clients.consumer(), clients.consumer()
            await consumer.create_stream(stream)
            confirms = Confirms()
            send = producer.send_sub_entry
            await producer.send(stream, b"message 0", on_publish_confirm=confirms.take)
            await send(stream, texts(1, 31), CompressionType.Gzip, on_publish_confirm=confirms.take)
            await send(stream, texts(31, 51), CompressionType.No, on_publish_confirm=confirms.take)
            await producer.send(stream, b"message 51", on_publish_confirm=confirms.take)
            await send(stream, texts(52, 60), CompressionType.Gzip, on_publish_confirm=confirms.take)
            await confirms.wait_for(5)
            inbox = await read(consumer, stream, 60)
            assert inbox.messages == texts(0, 60)
            assert inbox.offsets == list(range(60))
            middle = ConsumerOffsetSpecification(OffsetType.OFFSET, 40)
            inbox = await read(late, stream, 20, offset_specification=middle)
            assert inbox.messages == texts(40, 60)

    run(conversation())


@pytest.mark.clause("SP-18")
def test_a_filter_lets_through_its_values_and_what_has_none_if_asked(server: Server, stream: str) -> None:
    async def region(message: Any) -> str:
        return bytes(message).decode().partition(" ")[0]

    async def conversation() -> None:
        async with Clients(server) as clients:
            filtered, plain = clients.producer(filter_value_extractor=region), clients.producer()
            strict, lenient = clients.consumer(), clients.consumer()
            await strict.create_stream(stream)
            north, south, none = (
                [b"%b %d" % (word, n) for n in range(20)] for word in (b"north", b"south", b"-")
            )
            await publish(filtered, stream, north)
            await publish(filtered, stream, south)
            await publish(plain, stream, none)
            # The last message shows that nothing else was on its way.
            await publish(filtered, stream, [b"north end"])
            wanted = FilterConfiguration(["north"])
            inbox = await read(strict, stream, 21, filter_input=wanted)
            assert inbox.messages == [*north, b"north end"]
            wanted = FilterConfiguration(["north"], match_unfiltered=True)
            inbox = await read(lenient, stream, 41, filter_input=wanted)
            assert inbox.messages == [*north, *none, b"north end"]

    run(conversation())


# Where consumers begin


@pytest.mark.clause("SP-10")
def test_a_consumer_goes_on_at_its_stored_offset(server: Server, stream: str) -> None:
    async def conversation() -> None:
        async with Clients(server) as clients:
            producer, consumer = clients.producer(), clients.consumer()
            await consumer.create_stream(stream)
            await publish(producer, stream, texts(0, 10))
            await read(consumer, stream, 10, subscriber_name="ada")
            with pytest.raises(OffsetNotFound):
                await consumer.query_offset(stream, "ada")
            await consumer.store_offset(stream, "ada", 6)
            assert await consumer.query_offset(stream, "ada") == 6
        async with Clients(server) as clients:
            again = clients.consumer()
            offset = await again.query_offset(stream, "ada")
            start = ConsumerOffsetSpecification(OffsetType.OFFSET, offset + 1)
            inbox = await read(again, stream, 3, subscriber_name="ada", offset_specification=start)
            assert inbox.messages == texts(7, 10)

    run(conversation())


async def until_the_clock_moves() -> None:
    """Until a chunk written now has a later timestamp than those before."""
    start = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 <= start:
        await asyncio.sleep(0.001)


@pytest.mark.clause("SP-7")
def test_consumers_begin_at_the_offset_they_name(server: Server, stream: str) -> None:
    async def conversation() -> None:
        async with Clients(server) as clients:
            producer, consumers = clients.producer(), [clients.consumer() for _ in range(7)]
            await consumers[0].create_stream(stream)
            for start in (0, 10, 20):
                await publish(producer, stream, texts(start, start + 10))
                await until_the_clock_moves()
            inbox = await read(consumers[0], stream, 30)
            stamps = [stamp for *_, stamp in inbox.items]
            cases: list[tuple[OffsetType, int | None, int]] = [
                (OffsetType.LAST, None, 20),
                (OffsetType.NEXT, None, 30),
                (OffsetType.OFFSET, 13, 13),
                (OffsetType.TIMESTAMP, stamps[10], 10),
                (OffsetType.TIMESTAMP, stamps[9] + 1, 10),
                (OffsetType.TIMESTAMP, 0, 0),
            ]
            inboxes = [Inbox() for _ in cases]
            for consumer, own, (kind, value, _) in zip(consumers[1:], inboxes, cases, strict=True):
                where = ConsumerOffsetSpecification(kind, value)
                await consumer.subscribe(stream, own.take, offset_specification=where)
            await publish(producer, stream, [b"message 30"])
            for own, (_, _, first) in zip(inboxes, cases, strict=True):
                await own.wait_for(31 - first)
                assert own.messages == texts(first, 31)
                assert own.offsets == list(range(first, 31))

    run(conversation())


# Restarts, errors and deletions


def test_clients_go_on_after_a_restart_of_the_server(own_server: Server, stream: str) -> None:
    async def conversation() -> None:
        strategy = BackOffRecoveryStrategy(True, jitter=1)
        producer_lost, consumer_lost = Gathered(), Gathered()
        async with Clients(own_server) as clients:
            producer = clients.producer(
                on_close_handler=producer_lost.add, recovery_strategy=BackOffRecoveryStrategy(False)
            )
            consumer = clients.consumer(on_close_handler=consumer_lost.add, recovery_strategy=strategy)
            await consumer.create_stream(stream)
            await publish(producer, stream, texts(0, 5), "ada")
            inbox = await read(consumer, stream, 5)
            await asyncio.to_thread(own_server.kill)
            await producer_lost.wait_for(1)
            await consumer_lost.wait_for(1)
            await asyncio.to_thread(own_server.start)
            assert await publish(producer, stream, texts(5, 10), "ada") == list(range(6, 11))
            await inbox.wait_for(10)
            assert inbox.messages == texts(0, 10)
            assert inbox.offsets == list(range(10))

    run(conversation())


def test_the_client_shows_what_the_server_refuses(server: Server, stream: str) -> None:
    async def conversation() -> None:
        async with Clients(server) as clients:
            producer, consumer = clients.producer(), clients.consumer()
            stranger = clients.consumer(password="wrong")
            with pytest.raises(AuthenticationFailure):
                await stranger.stream_exists(stream)
            assert not await consumer.stream_exists(stream)
            for refused in (
                consumer.subscribe(stream, Inbox().take),
                consumer.delete_stream(stream),
                consumer.query_offset(stream, "ada"),
                producer.send_wait(stream, b"lost"),
            ):
                with pytest.raises(StreamDoesNotExist):
                    await refused
            await consumer.create_stream(stream, {"max-age": "1h"})
            assert await consumer.stream_exists(stream)
            with pytest.raises(StreamAlreadyExists):
                await consumer.create_stream(stream, {"max-age": "1h"})
            with pytest.raises(PreconditionFailed):
                await consumer.create_stream(stream, {"max-age": "2h"})
            with pytest.raises(PreconditionFailed):
                await consumer.create_stream("amq.reserved")
            with pytest.raises(PreconditionFailed):
                await consumer.subscribe(
                    stream, Inbox().take, properties={"single-active-consumer": "true", "name": ""}
                )

    run(conversation())


@pytest.mark.clause("SP-13")
def test_clients_are_told_when_their_stream_is_deleted(server: Server, stream: str) -> None:
    async def conversation() -> None:
        told, publisher_told = Gathered(), Gathered()
        off = BackOffRecoveryStrategy(False)
        async with Clients(server) as clients:
            consumer = clients.consumer(on_close_handler=told.add, recovery_strategy=off)
            producer = clients.producer(on_close_handler=publisher_told.add, recovery_strategy=off)
            other = clients.consumer()
            await other.create_stream(stream)
            await publish(producer, stream, texts(0, 3))
            await read(consumer, stream, 3)
            await other.delete_stream(stream)
            await told.wait_for(1)
            await publisher_told.wait_for(1)
            expected = [OnClosedErrorInfo("Metadata Update", [stream])]
            assert told.items == expected
            assert publisher_told.items == expected
            assert not await other.stream_exists(stream)

    run(conversation())


# Many messages


@pytest.mark.clause("SP-9")
def test_a_single_credit_at_a_time_is_enough_for_a_large_log(server: Server, stream: str) -> None:
    async def conversation() -> None:
        count, batch = 20_000, 500
        async with Clients(server) as clients:
            producer, consumer = clients.producer(), clients.consumer()
            await consumer.create_stream(stream)
            body = b"." * 500
            for start in range(0, count, batch):
                await publish(producer, stream, [b"%d %b" % (n, body) for n in range(start, start + batch)])
            inbox = await read(consumer, stream, count, initial_credit=1)
            assert inbox.offsets == list(range(count))
            assert [int(message.split()[0]) for message in inbox.messages] == list(range(count))

    run(conversation())


def test_a_hundred_thousand_messages_arrive_once_and_in_order(server: Server, stream: str) -> None:
    async def conversation() -> None:
        count, batch = 100_000, 1000
        async with Clients(server) as clients:
            producer, consumer = clients.producer(), clients.consumer()
            inbox, confirms = Inbox(), Confirms()
            await consumer.create_stream(stream)
            await consumer.subscribe(stream, inbox.take)
            for start in range(0, count, batch):
                messages = texts(start, start + batch)
                await producer.send_batch(stream, messages, on_publish_confirm=confirms.take)
            await confirms.wait_for(count)
            await inbox.wait_for(count)
            assert sorted(confirms.items) == list(range(1, count + 1))
            assert inbox.messages == texts(0, count)
            assert inbox.offsets == list(range(count))

    run(conversation())

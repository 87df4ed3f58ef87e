"""`rstream`, the Python client of RabbitMQ Streams, against a server process."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from rstream import (
    AMQPMessage,
    CompressionType,
    ConfirmationStatus,
    Consumer,
    ConsumerOffsetSpecification,
    EventContext,
    FilterConfiguration,
    MessageContext,
    OffsetNotFound,
    OffsetSpecification,
    OffsetType,
    OnClosedErrorInfo,
    Producer,
    RawMessage,
    RouteType,
    StreamDoesNotExist,
    SuperStreamConsumer,
    SuperStreamCreationOption,
    SuperStreamProducer,
    amqp_decoder,
)
from rstream.exceptions import AuthenticationFailure, PreconditionFailed, StreamAlreadyExists
from rstream.recovery import BackOffRecoveryStrategy

from tests.peers.servers import HOST, PASSWORD, USER, Server

TEST_TIMEOUT_S = 40.0
STEP_TIMEOUT_S = 15.0
FIRST = ConsumerOffsetSpecification(OffsetType.FIRST, None)
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("rstream") / "data")
    started.start()
    yield started
    started.end()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server that a test may stop."""
    started = Server(tmp_path / "data")
    started.start()
    yield started
    started.end()


@pytest.fixture
def stream() -> str:
    """A name that no other test has."""
    return f"stream-{next(NUMBERS)}"


class Clients:
    """Makes clients of one server, and closes them all at once."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._closings: list[Callable[[], Awaitable[None]]] = []

    async def __aenter__(self) -> Clients:
        return self

    async def __aexit__(self, *_: object) -> None:
        async with asyncio.timeout(STEP_TIMEOUT_S):
            await asyncio.gather(*(close() for close in self._closings))

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

    def _made(self, kind: Callable[..., Any], options: dict[str, Any]) -> Any:
        access = {"host": HOST, "port": self._server.stream_port, "username": USER, "password": PASSWORD}
        client = kind(**{**access, **options})
        self._closings.append(client.close)
        return client


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


# Single active consumers


class Member:
    """A consumer of a group: reads on from the offset that the group stored, and stores its own when it steps down."""

    def __init__(self) -> None:
        self.inbox = Inbox()
        self.told = Gathered()
        self.active: set[str] = set()

    async def updated(self, active: bool, context: EventContext) -> OffsetSpecification:
        stream, consumer = context.stream, context.consumer
        answer = OffsetSpecification(OffsetType.FIRST, 0)
        if active:
            self.active.add(stream)
            try:
                stored = await consumer.query_offset(stream, context.reference)
                answer = OffsetSpecification(OffsetType.OFFSET, stored + 1)
            except OffsetNotFound:
                pass
        elif stream in self.active:
            self.active.discard(stream)
            await self.store(consumer, stream, context.reference)
        self.told.add((stream, active))
        return answer

    async def store(self, consumer: Consumer, stream: str, reference: str) -> None:
        read_so_far = [offset for name, offset, _, _ in self.inbox.items if name == stream]
        if read_so_far:
            await consumer.store_offset(stream, reference, read_so_far[-1])
            assert await consumer.query_offset(stream, reference) == read_so_far[-1]


def group(name: str, super_stream: str | None = None) -> dict[str, str]:
    properties = {"single-active-consumer": "true", "name": name}
    return properties if super_stream is None else {**properties, "super-stream": super_stream}


def test_the_second_consumer_of_a_group_takes_over_when_the_first_leaves(server: Server, stream: str) -> None:
    async def conversation() -> None:
        async with Clients(server) as clients:
            producer, first, second = clients.producer(), clients.consumer(), clients.consumer()
            one, two = Member(), Member()
            await first.create_stream(stream)
            await publish(producer, stream, texts(0, 10))
            for consumer, member in ((first, one), (second, two)):
                await consumer.subscribe(
                    stream, member.inbox.take, properties=group("g"), consumer_update_listener=member.updated
                )
                await member.told.wait_for(1)
            await one.inbox.wait_for(10)
            assert one.told.items == [(stream, True)]
            assert two.told.items == [(stream, False)]
            await first.store_offset(stream, "g", 6)
            assert await first.query_offset(stream, "g") == 6
            await first.close()
            await two.told.wait_for(2)
            await publish(producer, stream, texts(10, 15))
            await two.inbox.wait_for(8)
            assert two.inbox.offsets == list(range(7, 15))
            assert two.inbox.messages == texts(7, 15)
            assert one.inbox.messages == texts(0, 10)

    run(conversation())


# Super streams


async def key_of(message: Any) -> str:
    return bytes(message).decode().partition(" ")[0]


async def publish_to_all(producer: SuperStreamProducer, messages: Sequence[bytes]) -> None:
    confirms = Confirms()
    for message in messages:
        await producer.send(message, on_publish_confirm=confirms.take)
    await confirms.wait_for(len(messages))


def keyed(start: int, end: int) -> list[bytes]:
    return [b"key%d %d" % (number % 13, number) for number in range(start, end)]


def assert_keys_stay_together(inboxes: Sequence[Inbox], messages: Sequence[bytes]) -> None:
    """Every message once; a key in one partition, and there in order."""
    items = [item for inbox in inboxes for item in inbox.items]
    assert sorted(message for _, _, message, _ in items) == sorted(messages)
    for key in {message.split()[0] for message in messages}:
        of_key = sorted(
            (stream, offset, message) for stream, offset, message, _ in items if message.split()[0] == key
        )
        assert len({stream for stream, _, _ in of_key}) == 1
        assert [message for *_, message in of_key] == [m for m in messages if m.split()[0] == key]


def test_hashed_keys_of_a_super_stream_stay_in_order(server: Server, stream: str) -> None:
    async def conversation() -> None:
        async with Clients(server) as clients:
            three = SuperStreamCreationOption(n_partitions=3)
            producer = await clients.super_producer(
                stream, routing_extractor=key_of, super_stream_creation_option=three
            )
            consumer, inbox, messages = clients.super_consumer(stream), Inbox(), keyed(0, 300)
            await publish_to_all(producer, messages)
            await consumer.subscribe(inbox.take)
            await inbox.wait_for(len(messages))
            assert {name for name, *_ in inbox.items} == {f"{stream}-{number}" for number in range(3)}
            assert_keys_stay_together([inbox], messages)
            with pytest.raises(StreamAlreadyExists):
                await consumer.create_super_stream(stream, 3)
            await consumer.delete_super_stream(stream)
            with pytest.raises(StreamDoesNotExist):
                await consumer.delete_super_stream(stream)

    run(conversation())


def test_keys_of_a_super_stream_choose_the_partition(server: Server, stream: str) -> None:
    async def conversation() -> None:
        async with Clients(server) as clients:
            two = SuperStreamCreationOption(n_partitions=0, binding_keys=["north", "south"])
            consumer, inbox = clients.super_consumer(stream, super_stream_creation_option=two), Inbox()
            await consumer.start()
            sent = {
                key: [b"%b %d" % (key.encode(), number) for number in range(10)] for key in ("north", "south")
            }
            # The client remembers the route of its first message for all that follow: a producer for each key.
            for messages in sent.values():
                producer = await clients.super_producer(
                    stream, routing_extractor=key_of, routing=RouteType.Key
                )
                await publish_to_all(producer, messages)
            await consumer.subscribe(inbox.take)
            await inbox.wait_for(20)
            for key, messages in sent.items():
                assert [m for name, _, m, _ in inbox.items if name == f"{stream}-{key}"] == messages

    run(conversation())


def test_a_group_shares_the_partitions_of_a_super_stream(server: Server, stream: str) -> None:
    async def conversation() -> None:
        async with Clients(server) as clients:
            three = SuperStreamCreationOption(n_partitions=3)
            producer = await clients.super_producer(
                stream, routing_extractor=key_of, super_stream_creation_option=three
            )
            names = [f"{stream}-{number}" for number in range(3)]
            members = Member(), Member()
            consumers = clients.super_consumer(stream), clients.super_consumer(stream)

            async def join(number: int) -> None:
                await consumers[number].subscribe(
                    members[number].inbox.take,
                    properties=group("g", stream),
                    consumer_update_listener=members[number].updated,
                )

            one, two = members
            messages = keyed(0, 600)
            await join(0)
            await one.told.wait_for(3)
            await publish_to_all(producer, messages[:200])
            await one.inbox.wait_for(200)
            await join(1)
            # The middle partition moves: the first steps down, the second waits for three and gets one.
            await one.told.wait_for(4)
            await two.told.wait_for(4)
            assert one.active == {names[0], names[2]}
            assert two.active == {names[1]}
            await publish_to_all(producer, messages[200:400])
            await both_hold(members, 400)
            assert {name for name, *_ in two.inbox.items} == {names[1]}
            # What is left of the first: its stored offsets, from which the second goes on.
            await leave(consumers[0], one)
            await two.told.wait_for(6)
            assert two.active == set(names)
            await publish_to_all(producer, messages[400:])
            await both_hold(members, 600)
            assert_keys_stay_together([one.inbox, two.inbox], messages)

    run(conversation())


async def both_hold(members: Sequence[Member], count: int) -> None:
    """Until the members of a group have so many messages together."""
    async with asyncio.timeout(STEP_TIMEOUT_S):
        while sum(len(member.inbox.items) for member in members) < count:
            await asyncio.sleep(0.005)
    assert sum(len(member.inbox.items) for member in members) == count


async def leave(consumer: SuperStreamConsumer, member: Member) -> None:
    """Store where the group is to go on, and close."""
    plain = consumer._consumer
    assert plain is not None
    for name in member.active:
        await member.store(plain, name, "g")
    await consumer.close()


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
                await consumer.subscribe(stream, Inbox().take, properties=group(""))

    run(conversation())


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

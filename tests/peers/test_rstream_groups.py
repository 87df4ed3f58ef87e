"""`rstream`, the Python client of RabbitMQ Streams: single active consumers and super streams."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from rstream import (
    ConfirmationStatus,
    Consumer,
    EventContext,
    OffsetNotFound,
    OffsetSpecification,
    OffsetType,
    RouteType,
    StreamDoesNotExist,
    SuperStreamConsumer,
    SuperStreamCreationOption,
    SuperStreamProducer,
)
from rstream.exceptions import StreamAlreadyExists

from tests.peers.rstream_clients import (
    STEP_TIMEOUT_S,
    Clients,
    Confirms,
    Gathered,
    Inbox,
    publish,
    run,
    texts,
)
from tests.peers.servers import Server

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


@pytest.mark.clause("SP-16")
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
            await one.inbox.wait_for(10)
            assert one.told.items == [(stream, True)]
            await first.store_offset(stream, "g", 6)
            assert await first.query_offset(stream, "g") == 6
            await first.close()
            await two.told.wait_for(1)
            assert two.told.items == [(stream, True)]
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

    async def take(status: ConfirmationStatus) -> None:
        confirms.take(status)

    for message in messages:
        await producer.send(message, on_publish_confirm=take)
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
            # A super stream consumer that subscribed has closed the connection with which it would manage.
            manager = clients.super_consumer(stream)
            with pytest.raises(StreamAlreadyExists):
                await manager.create_super_stream(stream, 3)
            await consumer.close()
            await producer.close()
            await manager.delete_super_stream(stream)
            with pytest.raises(StreamDoesNotExist):
                await manager.delete_super_stream(stream)

    run(conversation())


@pytest.mark.clause("SP-15")
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


@pytest.mark.clause("SP-15", "SP-16")
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
            # The middle partition moves: the first steps down, and the second gets it.
            await one.told.wait_for(4)
            await two.told.wait_for(1)
            assert one.active == {names[0], names[2]}
            assert two.active == {names[1]}
            await publish_to_all(producer, messages[200:400])
            await both_hold(members, 400)
            assert {name for name, *_ in two.inbox.items} == {names[1]}
            # What is left of the first: its stored offsets, from which the second goes on.
            await leave(consumers[0], one)
            await two.told.wait_for(3)
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

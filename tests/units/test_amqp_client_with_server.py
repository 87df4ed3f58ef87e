"""The AMQP client at a real server: what it sends is stored and comes back, and what cannot be is said so."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headwater.amqp.connection import Limits
from headwater.amqp.definitions import Condition, ReceiverSettleMode, SenderSettleMode
from headwater.amqp.management import StatusCode
from headwater.amqp.messaging import Released, Source, Target
from headwater.client.address import Address, Credentials
from headwater.client.amqp_blocking import BlockingAmqpConnection
from headwater.client.amqp_connection import AmqpConnection
from headwater.client.amqp_errors import LinkEnded, LinkRefused, ManagementRefused, MessageRefused
from headwater.client.amqp_receiver import AmqpReceiver, from_offset, from_timestamp
from headwater.client.amqp_requester import AmqpRequester
from headwater.client.amqp_sender import AmqpSender
from headwater.client.amqp_session import AmqpSession
from headwater.client.errors import AuthenticationFailed, ClosedByPeer, ConnectionLost, MessageTooLarge
from headwater.client.stream_connection import StreamConnection
from headwater.encoding.amqp_message import (
    Data,
    Message,
    Properties,
    body_of,
    data_section,
    encode_message,
)
from headwater.encoding.amqp_types import Described, Symbol
from tests.peers.servers import HOST, Server
from tests.stream_peer import run, wait_for

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


async def taken(receiver: AmqpReceiver, count: int, *, or_more: bool = False) -> list[bytes]:
    """The bodies of the next messages, which are accepted; there may be more behind them."""
    bodies: list[bytes] = []
    while len(bodies) < count:
        batch = await receiver.receive_batch(WAIT_S)
        assert batch is not None, f"{len(bodies)} of {count} came"
        if not batch.is_settled:
            receiver.accept(batch)
        bodies += [body_of(message) or b"" for message in batch.messages()]
    assert len(bodies) == count or or_more
    return bodies[:count]


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


@pytest.mark.parametrize("size_bytes", [255, 256, 70_000, 1_000_000])
def test_large_messages_go_both_ways_in_as_many_frames_as_it_takes(
    server: Server, log: str, size_bytes: int
) -> None:
    limits = Limits(frame_size_bytes_max=4096, message_size_bytes_max=2 << 20)
    body = bytes(number % 251 for number in range(size_bytes))

    async def work(connection: AmqpConnection) -> None:
        sender = await AmqpSender.open(connection, log)
        await sender.send_batch([body, b"small", body], as_data=True)
        receiver = await AmqpReceiver.open(connection, Source(log, filter=FIRST))
        assert await taken(receiver, 3) == [body, b"small", body]

    on(server, work, limits=limits)


def test_a_message_above_what_the_server_announces_is_not_sent(server: Server, log: str) -> None:
    async def work(connection: AmqpConnection) -> None:
        sender = await AmqpSender.open(connection, log)
        assert sender.message_bytes_max is not None
        with pytest.raises(MessageTooLarge):
            await sender.send_batch([bytes(sender.message_bytes_max)], as_data=True)
        await sender.send_batch([b"small"], as_data=True)

    on(server, work)


def test_filters_that_the_server_applies_are_told_and_others_are_not_there(server: Server, log: str) -> None:
    async def work(connection: AmqpConnection) -> None:
        sender = await AmqpSender.open(connection, log)
        for first in range(0, 30, 10):
            await sender.send_batch(numbered(10, first), as_data=True)
        unknown = {Symbol("example:of-the-moon"): Described(Symbol("example:of-the-moon"), "full")}
        receiver = await AmqpReceiver.open(connection, Source(log, filter=from_offset(17) | unknown))
        assert receiver.source.filter == from_offset(17)
        assert await taken(receiver, 13) == numbered(13, 17)
        since = await AmqpReceiver.open(connection, Source(log, filter=from_timestamp(0)))
        assert await taken(since, 30) == numbered(30)

    on(server, work)


def test_without_a_filter_comes_what_is_sent_from_now_on(server: Server, log: str) -> None:
    async def work(connection: AmqpConnection) -> None:
        sender = await AmqpSender.open(connection, log)
        await sender.send_batch(numbered(3), as_data=True)
        receiver = await AmqpReceiver.open(connection, log)
        await sender.send_batch(numbered(3, 3), as_data=True)
        assert await taken(receiver, 3) == numbered(3, 3)

    on(server, work)


def test_a_drain_brings_what_there_is_and_returns_at_the_end_of_the_log(server: Server, log: str) -> None:
    async def work(connection: AmqpConnection) -> None:
        sender = await AmqpSender.open(connection, log)
        await sender.send_batch(numbered(50), as_data=True)
        receiver = await AmqpReceiver.open(connection, Source(log, filter=FIRST), credit_count=0)
        receiver.grant(30)
        assert await taken(receiver, 30) == numbered(30)
        receiver.grant(1000)
        await receiver.drain()
        assert await taken(receiver, 20) == numbered(20, 30)
        await sender.send_batch([b"later"], as_data=True)
        assert await receiver.receive_batch(0.02) is None
        receiver.grant(1)
        assert await taken(receiver, 1) == [b"later"]

    on(server, work)


def test_both_ends_may_settle_second(server: Server, log: str) -> None:
    second = ReceiverSettleMode.SECOND

    async def work(connection: AmqpConnection) -> None:
        sender = await AmqpSender.open(connection, log, receiver_settle_mode=second)
        await sender.send_batch(numbered(100), as_data=True)
        receiver = await AmqpReceiver.open(connection, Source(log, filter=FIRST), receiver_settle_mode=second)
        assert await taken(receiver, 100) == numbered(100)
        await wait_for(lambda: receiver.unsettled_count == 0)

    on(server, work)


def test_an_anonymous_relay_takes_messages_to_where_they_say(server: Server, log: str) -> None:
    def message(to: str | None) -> bytes:
        return encode_message(Message(properties=Properties(to=to), body=Data((b"x",))))

    async def work(connection: AmqpConnection) -> None:
        assert "ANONYMOUS-RELAY" in connection.remote.offered_capabilities
        sender = await AmqpSender.open(connection, Target())
        await sender.send(message(log))
        with pytest.raises(MessageRefused) as caught:
            await sender.send_batch([message(log), message(None), message(log)])
        assert [(each.first, each.count) for each in caught.value.refusals] == [(1, 1)]
        receiver = await AmqpReceiver.open(connection, Source(log, filter=FIRST))
        assert await taken(receiver, 3) == [b"x"] * 3

    on(server, work)


def test_a_dynamic_node_has_the_address_that_the_server_gave_it(server: Server) -> None:
    async def work(connection: AmqpConnection) -> None:
        receiver = await AmqpReceiver.open(connection, Source(dynamic=True))
        assert receiver.address
        async with await AmqpSender.open(connection, receiver.address) as sender:
            await sender.send_batch([b"to you"], as_data=True)
        assert await taken(receiver, 1) == [b"to you"]

    on(server, work)


@pytest.mark.parametrize("reply_address", [None, "answers-for-me"])
def test_logs_are_made_read_and_deleted_over_management(
    server: Server, log: str, reply_address: str | None
) -> None:
    kind, name = "headwater.log", {"name": log}

    async def work(connection: AmqpConnection) -> None:
        async with await AmqpRequester.open(connection, reply_address=reply_address) as requester:
            made = await requester.call("CREATE", kind, name, body={"partition_count": 3})
            assert (made["name"], made["partition_count"]) == (log, 3)
            with pytest.raises(ManagementRefused) as caught:
                await requester.call("CREATE", kind, name)
            assert caught.value.status == StatusCode.CONFLICT
            async with await AmqpSender.open(connection, log) as sender:
                await sender.send_batch(numbered(10), as_data=True)
            reads = [requester.call("READ", kind, name) for _ in range(20)]
            assert {read["message_count"] for read in await asyncio.gather(*reads)} == {10}
            await requester.call("DELETE", kind, name)
            with pytest.raises(ManagementRefused) as caught:
                await requester.call("READ", kind, name)
            assert caught.value.status == StatusCode.NOT_FOUND

    on(server, work)


# What cannot be


def test_a_receiver_from_an_unknown_log_is_refused_and_nothing_else_ends(server: Server, log: str) -> None:
    async def work(connection: AmqpConnection) -> None:
        sender = await AmqpSender.open(connection, log)
        with pytest.raises(LinkRefused, match="nowhere") as caught:
            await AmqpReceiver.open(connection, "nowhere")
        assert caught.value.condition == Condition.NOT_FOUND
        session = AmqpSession(connection)
        with pytest.raises(LinkRefused):
            await AmqpReceiver.open(session, "nowhere")
        async with await AmqpReceiver.open(session, log):
            await sender.send_batch([b"still here"], as_data=True)

    on(server, work)


def test_a_wrong_password_and_an_unknown_vhost_are_said(server: Server) -> None:
    async def work() -> None:
        with pytest.raises(AuthenticationFailed, match="wrong user or password"):
            await connect(server, credentials=Credentials("guest", "wrong"))
        with pytest.raises(ClosedByPeer, match="may not enter vhost 'nowhere'"):
            await connect(server, vhost="nowhere")

    run(work)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN", "ANONYMOUS"])
def test_every_mechanism_of_the_server_lets_us_in(server: Server, mechanism: str) -> None:
    async def work(connection: AmqpConnection) -> None:
        assert connection.error is None

    on(server, work, credentials=Credentials(mechanism=mechanism))


def test_a_log_that_is_deleted_ends_its_links(server: Server, log: str) -> None:
    async def work(connection: AmqpConnection) -> None:
        sender = await AmqpSender.open(connection, log)
        await sender.send_batch(numbered(10), as_data=True)
        receiver = await AmqpReceiver.open(connection, Source(log, filter=FIRST))
        assert await taken(receiver, 10) == numbered(10)
        stream = await StreamConnection.connect(Address(HOST, server.stream_port))
        await stream.delete_stream(log)
        await stream.close()
        with pytest.raises(LinkEnded, match="was deleted") as caught:
            await receiver.receive(WAIT_S)
        assert caught.value.condition == Condition.RESOURCE_DELETED
        await wait_for(lambda: sender.error is not None)
        with pytest.raises(LinkEnded, match="was deleted"):
            await sender.send(data_section(b"too late"))
        assert connection.error is None

    on(server, work)


def test_a_server_that_stops_says_so_and_what_was_accepted_is_there_when_it_is_back(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    accepted_count = 0

    async def send_on(sender: AmqpSender) -> None:
        for first in itertools.count(100, 100):
            await sender.post(numbered(100, first), as_data=True)

    async def take_all(receiver: AmqpReceiver) -> None:
        while await receiver.receive_batch(WAIT_S) is not None:
            pass

    async def before() -> None:
        nonlocal accepted_count
        connection = await connect(server)
        sender = await AmqpSender.open(connection, "orders")
        receiver = await AmqpReceiver.open(connection, "orders")
        await sender.send_batch(numbered(100), as_data=True)
        stopping = asyncio.create_task(asyncio.to_thread(server.stop))
        with pytest.raises((ClosedByPeer, ConnectionLost)):
            await send_on(sender)
        with pytest.raises((ClosedByPeer, ConnectionLost)):
            await take_all(receiver)
        assert await stopping == 0
        await connection.close()
        accepted_count = sender.accepted_count

    async def after() -> None:
        async with connected(server) as connection:
            receiver = await AmqpReceiver.open(connection, Source("orders", filter=FIRST))
            assert await taken(receiver, accepted_count, or_more=True) == numbered(accepted_count)

    server.start()
    try:
        run(before)
        server.start()
        run(after)
    finally:
        server.end()
    assert accepted_count >= 100


# Threads


def test_threads_send_receive_and_are_told_what_goes_wrong(server: Server, log: str) -> None:
    url = f"amqp://guest:guest@{HOST}:{server.amqp_port}/"
    with BlockingAmqpConnection.connect_url(url) as connection:
        with connection.sender(log) as sender:
            sender.send(data_section(b"one"))
            sender.send_batch([b"two"], as_data=True)
            sent = sender.post([b"three"], as_data=True)
            sender.flush()
            assert sent.unsettled_count == 0
        with pytest.raises(LinkRefused):
            connection.receiver("nowhere")
        with connection.receiver(Source(log, filter=FIRST)) as receiver:
            first = receiver.receive(WAIT_S)
            assert first is not None
            receiver.accept(first)
            second, third = itertools.islice(receiver, 2)
            receiver.settle((second.id, third.id + 1), Released())
            with connection.requester() as requester:
                read = requester.call("READ", "headwater.log", {"name": log})
                assert read["message_count"] == 3
                asked = {"operation": "READ", "type": "headwater.log", "name": "nowhere"}
                answer = requester.request(Message(application_properties=asked))
                assert answer.application_properties is not None
                assert answer.application_properties["statusCode"] == StatusCode.NOT_FOUND
            assert [body_of(each.data) for each in (first, second, third)] == [b"one", b"two", b"three"]
            assert receiver.receive_batch(0.02) is None
    connection.close()
    with pytest.raises(AuthenticationFailed):
        BlockingAmqpConnection(Address(HOST, server.amqp_port), Credentials("guest", "wrong"))

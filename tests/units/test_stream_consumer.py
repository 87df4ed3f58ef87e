"""A consumer of the stream client: its credit, its chunks, and being the active one."""

from __future__ import annotations

import asyncio

import pytest

from headwater.client.errors import ConnectionLost, StreamGone, TooMuchDelivered
from headwater.client.stream_consumer import FIRST, NEXT, StreamConsumer, at_offset, at_timestamp
from headwater.streams import commands as c
from headwater.streams.commands import OffsetSpecification, OffsetType, ResponseCode
from headwater.streams.errors import InvalidCommand
from tests.stream_peer import OK, Peer, chunk, run, talk, wait_for


def subscription(peer: Peer) -> c.SubscribeRequest:
    (found,) = [each for each in peer.came if isinstance(each, c.SubscribeRequest)]
    return found


def updates(peer: Peer) -> list[c.ConsumerUpdateResponse]:
    return [each for each in peer.came if isinstance(each, c.ConsumerUpdateResponse)]


def test_what_is_asked_for_stands_in_the_subscription() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            await StreamConsumer.open(
                connection,
                "s",
                at_timestamp(-5),
                name="me",
                filter_values=["eu", "us"],
                match_unfiltered=True,
                single_active=True,
                super_stream="all",
                queued_max=9,
            )
            asked = subscription(peer)
            assert (asked.stream, asked.credit) == ("s", 9)
            assert asked.offset_specification == OffsetSpecification(OffsetType.TIMESTAMP, -5)
            assert asked.properties == {
                "filter.0": "eu",
                "filter.1": "us",
                "match-unfiltered": "true",
                "name": "me",
                "single-active-consumer": "true",
                "super-stream": "all",
            }

    run(work)


def test_chunks_come_in_order_and_begin_where_it_was_asked() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            consumer = await StreamConsumer.open(connection, "s", at_offset(12))
            peer.deliver(0, chunk(10, b"a", b"b", b"c", b"d"))
            peer.deliver(0, chunk(14, b"e"), committed=None)
            first = await consumer.next_chunk()
            assert first is not None
            assert list(first.messages()) == [(12, b"c"), (13, b"d")]
            assert (first.first_offset, first.next_offset, first.records) == (10, 14, 4)
            assert (first.timestamp_ms, first.committed_chunk_id) == (5, 7)
            second = await consumer.next_chunk()
            assert second is not None
            assert (list(second.messages()), second.committed_chunk_id) == ([(14, b"e")], None)

    run(work)


def test_credit_is_given_back_as_chunks_are_taken() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            consumer = await StreamConsumer.open(connection, "s", FIRST, queued_max=4)
            sent = 0
            for _ in range(25):
                allowed = 4 + peer.credit
                while sent < allowed:
                    peer.deliver(0, chunk(sent, b"x"))
                    sent += 1
                await consumer.next_chunk()
                await connection.create_stream("all that was given has come")
            assert sent - 25 <= 4
            assert connection.error is None
            assert consumer.take() is not None

    run(work)


def test_a_server_that_sends_without_credit_is_left() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            consumer = await StreamConsumer.open(connection, "s", FIRST, queued_max=3)
            for offset in range(4):
                peer.deliver(0, chunk(offset, b"x"))
            await wait_for(lambda: connection.error)
            assert isinstance(connection.error, TooMuchDelivered)
            for _ in range(3):
                assert await consumer.next_chunk() is not None
            with pytest.raises(TooMuchDelivered, match="more than 3 chunks"):
                await consumer.next_chunk()

    run(work)


@pytest.mark.parametrize("queued_max", [0, 65_536])
def test_a_queue_that_credit_cannot_express_is_refused(queued_max: int) -> None:
    async def work() -> None:
        async with talk() as (connection, _):
            with pytest.raises(InvalidCommand, match="queued_max"):
                await StreamConsumer.open(connection, "s", FIRST, queued_max=queued_max)

    run(work)


def test_iteration_ends_when_it_is_closed_and_takes_what_was_there() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            consumer = await StreamConsumer.open(connection, "s", FIRST)
            peer.deliver(0, chunk(0, b"x"))
            await connection.create_stream("it has come")
            await consumer.close()
            peer.deliver(0, chunk(1, b"late"))
            assert [each.first_offset async for each in consumer] == [0]
            assert isinstance(peer.came[-1], c.UnsubscribeRequest)

    run(work)


def test_who_waits_for_a_chunk_is_told_what_ended_the_stream() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            consumer = await StreamConsumer.open(connection, "s", FIRST)
            waiting = asyncio.ensure_future(consumer.next_chunk())
            await asyncio.sleep(0.02)
            peer.send(c.MetadataUpdate(ResponseCode.STREAM_NOT_AVAILABLE, "s"))
            with pytest.raises(StreamGone):
                await waiting
            other = await StreamConsumer.open(connection, "t", FIRST)
            waiting = asyncio.ensure_future(other.next_chunk())
            await asyncio.sleep(0.02)
            peer.writer.transport.abort()
            with pytest.raises(ConnectionLost):
                await waiting

    run(work)


def test_offsets_are_stored_under_the_name_and_asked_for() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            consumer = await StreamConsumer.open(connection, "s", NEXT, name="me")
            consumer.store_offset(17)
            assert await consumer.stored_offset() == 41
            assert c.StoreOffset("me", "s", 17) in peer.came
            nameless = await StreamConsumer.open(connection, "s", NEXT)
            with pytest.raises(InvalidCommand, match="no name"):
                nameless.store_offset(17)

    run(work)


def test_a_single_active_consumer_goes_on_behind_what_was_stored() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            consumer = await StreamConsumer.open(connection, "s", FIRST, name="me", single_active=True)
            activity = [consumer.is_active]
            peer.machine.request_consumer_update(0, active=True)
            peer.flush()
            await wait_for(lambda: updates(peer))
            assert updates(peer)[0].offset_specification == at_offset(42)
            activity.append(consumer.is_active)
            peer.deliver(0, chunk(40, b"a", b"b", b"c"))
            got = await consumer.next_chunk()
            assert got is not None
            assert list(got.messages()) == [(42, b"c")]
            peer.machine.request_consumer_update(0, active=False)
            peer.flush()
            await wait_for(lambda: len(updates(peer)) == 2)
            assert updates(peer)[1].response_code == OK
            assert [*activity, consumer.is_active] == [False, True, False]

    run(work)


def test_a_callback_says_where_an_active_consumer_begins() -> None:
    told: list[bool] = []

    async def choose(active: bool) -> OffsetSpecification | None:
        told.append(active)
        return at_offset(7)

    async def work() -> None:
        async with talk() as (connection, peer):
            await StreamConsumer.open(
                connection, "s", FIRST, name="me", single_active=True, on_activity=choose
            )
            peer.machine.request_consumer_update(0, active=True)
            peer.flush()
            await wait_for(lambda: updates(peer))
            assert updates(peer)[0].offset_specification == at_offset(7)
            assert told == [True]

    run(work)

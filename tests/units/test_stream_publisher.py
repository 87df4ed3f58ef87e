"""A publisher of the stream client: its window, its ids, and what it hears of its messages."""

from __future__ import annotations

import asyncio
import struct

import pytest

from headwater.client import stream_publisher
from headwater.client.errors import (
    ConnectionLost,
    IdsNotRising,
    MessagesRefused,
    MessageTooLarge,
    StreamGone,
)
from headwater.client.stream_publisher import StreamPublisher
from headwater.encoding.amqp_message import data_section
from headwater.encoding.compression import Compression
from headwater.streams import commands as c
from headwater.streams.commands import Command, ResponseCode
from headwater.streams.errors import InvalidCommand
from headwater.streams.publish import PUBLISH_HEADER_BYTES, publish_header
from tests.stream_peer import OK, Peer, accept, run, talk, wait_for


def ids_of(*ids: int) -> bytes:
    return struct.pack(f">{len(ids)}Q", *ids)


def publishes(peer: Peer) -> list[c.Publish]:
    return [each for each in peer.came if isinstance(each, c.Publish)]


def confirm_all(peer: Peer, command: Command, span: bytes) -> None:
    """Confirms single messages of version 1 as they come."""
    accept(peer, command, span)
    if isinstance(command, c.Publish):
        ids, position = b"", 0
        while position < len(span):
            ids += span[position : position + 8]
            position += 12 + int.from_bytes(span[position + 8 : position + 12], "big")
        peer.machine.confirm(command.publisher_id, ids)


def test_a_batch_is_one_frame_with_rising_ids() -> None:
    spans: list[bytes] = []

    def answer(peer: Peer, command: Command, span: bytes) -> None:
        if span:
            spans.append(span)
        confirm_all(peer, command, span)

    async def work() -> None:
        async with talk(answer) as (connection, _):
            publisher = await StreamPublisher.open(connection, "s")
            confirmed: list[tuple[int, int]] = []
            publisher.on_confirmed = lambda first, count: confirmed.append((first, count))
            await publisher.publish([b"a", b"bc"])
            await publisher.publish([b"d"], as_data=True)
            await publisher.flush()
            assert spans == [
                ids_of(1) + b"\0\0\0\x01a" + ids_of(2) + b"\0\0\0\x02bc",
                ids_of(3) + b"\0\0\0\x06" + data_section(b"d"),
            ]
            assert (publisher.confirmed_count, publisher.next_id, publisher.answered_through) == (3, 4, 3)
            assert confirmed == [(1, 2), (3, 1)]

    run(work)


def test_no_more_is_unconfirmed_than_the_window_has_room_for() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            publisher = await StreamPublisher.open(connection, "s", unconfirmed_max=10)
            publishing = asyncio.ensure_future(publisher.publish([b"x"] * 25))
            await wait_for(lambda: sum(each.count for each in publishes(peer)) == 10)
            await asyncio.sleep(0.02)
            assert (publisher.unconfirmed_count, publishing.done()) == (10, False)
            peer.machine.confirm(publisher.id, ids_of(1, 2, 3, 4))
            peer.flush()
            await wait_for(lambda: sum(each.count for each in publishes(peer)) == 14)
            assert publisher.unconfirmed_count == 10
            peer.machine.confirm(publisher.id, ids_of(*range(5, 15)))
            peer.flush()
            await wait_for(lambda: sum(each.count for each in publishes(peer)) == 24)
            peer.machine.confirm(publisher.id, ids_of(*range(15, 25)))
            peer.flush()
            await publishing

    run(work)


def test_a_batch_larger_than_a_frame_is_cut() -> None:
    async def work() -> None:
        async with talk(confirm_all) as (connection, peer):
            publisher = await StreamPublisher.open(connection, "s")
            await publisher.publish([b"x" * 300_000] * 7)
            await publisher.flush()
            assert [each.count for each in publishes(peer)] == [3, 3, 1]
            assert all(each.end - each.start <= connection.frame_size_bytes_max for each in publishes(peer))

    run(work)


def test_the_largest_message_of_a_frame_is_taken_and_one_byte_more_is_refused_here() -> None:
    async def work() -> None:
        async with talk(confirm_all) as (connection, _):
            publisher = await StreamPublisher.open(connection, "s")
            room = connection.frame_size_bytes_max - PUBLISH_HEADER_BYTES - 12
            await publisher.publish([bytes(room)])
            with pytest.raises(MessageTooLarge, match="send smaller ones"):
                await publisher.publish([bytes(room + 1)])
            with pytest.raises(MessageTooLarge):
                await publisher.publish_sub_batch([bytes(room + 1)], Compression.NONE)
            with pytest.raises(MessageTooLarge):
                await publisher.publish_frame(bytes(connection.frame_size_bytes_max + 1), 9, 1)
            await publisher.flush()
            assert (publisher.confirmed_count, connection.error) == (1, None)

    run(work)


def test_refusals_are_told_by_id_once_and_count_as_answers() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            publisher = await StreamPublisher.open(connection, "s")
            await publisher.publish([b"x"] * 4)
            peer.machine.refuse_messages(publisher.id, ids_of(2, 4), ResponseCode.STREAM_NOT_AVAILABLE)
            peer.machine.confirm(publisher.id, ids_of(1, 3))
            peer.flush()
            with pytest.raises(MessagesRefused, match="did not take 2 messages") as caught:
                await publisher.flush()
            assert caught.value.refusals == dict.fromkeys((2, 4), ResponseCode.STREAM_NOT_AVAILABLE)
            await publisher.flush()
            assert (publisher.confirmed_count, publisher.refused_count, publisher.unconfirmed_count) == (
                2,
                2,
                0,
            )

    run(work)


def test_refusals_beyond_the_limit_are_counted_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_publisher, "REFUSALS_KEPT_MAX", 3)

    async def work() -> None:
        async with talk() as (connection, peer):
            publisher = await StreamPublisher.open(connection, "s")
            await publisher.publish([b"x"] * 9)
            peer.machine.refuse_messages(publisher.id, ids_of(*range(1, 10)), ResponseCode.ACCESS_REFUSED)
            peer.flush()
            with pytest.raises(MessagesRefused) as caught:
                await publisher.flush()
            assert (len(caught.value.refusals), caught.value.count) == (3, 9)

    run(work)


def test_confirms_of_ids_that_wait_for_none_change_nothing() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            publisher = await StreamPublisher.open(connection, "s")
            await publisher.publish([b"x"] * 3)
            peer.machine.confirm(publisher.id, ids_of(0, 7, 1, 1, 2**64 - 1))
            peer.machine.confirm(publisher.id + 1, ids_of(2))
            peer.machine.refuse_messages(publisher.id, ids_of(1, 99), ResponseCode.ACCESS_REFUSED)
            peer.flush()
            await wait_for(lambda: publisher.confirmed_count)
            await connection.create_stream("settled")
            assert (publisher.confirmed_count, publisher.refused_count, publisher.unconfirmed_count) == (
                1,
                0,
                2,
            )

    run(work)


def test_a_named_publisher_goes_on_behind_what_is_stored() -> None:
    def answer(peer: Peer, command: Command, span: bytes) -> None:
        if isinstance(command, c.QueryPublisherSequenceRequest):
            peer.send(c.QueryPublisherSequenceResponse(command.correlation_id, OK, 41))
        else:
            confirm_all(peer, command, span)

    async def work() -> None:
        async with talk(answer) as (connection, _):
            publisher = await StreamPublisher.open(connection, "s", name="me")
            assert publisher.next_id == 42
            await publisher.publish([b"x"] * 3, ids=[50, 52, 53])
            await publisher.flush()
            assert (publisher.next_id, publisher.confirmed_count) == (54, 3)
            for ids in ([53, 54, 55], [60, 60, 61]):
                with pytest.raises(IdsNotRising):
                    await publisher.publish([b"x"] * 3, ids=ids)

    run(work)


def test_filter_values_go_with_their_messages() -> None:
    spans: list[bytes] = []

    def answer(peer: Peer, command: Command, span: bytes) -> None:
        accept(peer, command, span)
        if isinstance(command, c.Publish):
            assert command.version == 2
            spans.append(span)
            peer.machine.confirm(command.publisher_id, ids_of(1, 2, 3))

    async def work() -> None:
        async with talk(answer) as (connection, _):
            publisher = await StreamPublisher.open(connection, "s")
            await publisher.publish([b"a", b"b", b"c"], filter_values=["eu", None, ""])
            await publisher.flush()
            one, two, three = (ids_of(each) for each in (1, 2, 3))
            assert spans == [
                one + b"\0\x02eu\0\0\0\x01a" + two + b"\xff\xff\0\0\0\x01b" + three + b"\0\0\0\0\0\x01c"
            ]
            with pytest.raises(InvalidCommand, match="1 filter values for 2 messages"):
                await publisher.publish([b"a", b"b"], filter_values=["eu"])
            with pytest.raises(InvalidCommand, match="32768 bytes"):
                await publisher.publish([b"a"], filter_values=["x" * 32_768])
            with pytest.raises(InvalidCommand, match="1 ids for 2 messages"):
                await publisher.publish([b"a", b"b"], ids=[9])

    run(work)


def test_a_frame_laid_out_by_the_caller_goes_as_it_is() -> None:
    async def work() -> None:
        async with talk(confirm_all) as (connection, _):
            publisher = await StreamPublisher.open(connection, "s")
            body = ids_of(7) + b"\0\0\0\x01x"
            await publisher.publish_frame(publish_header(publisher.id, 1, len(body)) + body, 7, 1)
            await publisher.flush()
            assert (publisher.confirmed_count, publisher.next_id) == (1, 8)

    run(work)


@pytest.mark.parametrize("waits_for", ["confirms", "room"])
def test_who_waits_is_told_that_the_connection_is_gone(waits_for: str) -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            publisher = await StreamPublisher.open(connection, "s", unconfirmed_max=2)
            await publisher.publish([b"x"] * 2)
            waiting = asyncio.ensure_future(
                publisher.flush() if waits_for == "confirms" else publisher.publish([b"y"])
            )
            await asyncio.sleep(0.02)
            assert not waiting.done()
            peer.writer.transport.abort()
            with pytest.raises(ConnectionLost):
                await waiting
            with pytest.raises(ConnectionLost):
                await publisher.publish([b"z"])
            assert (publisher.unconfirmed_count, publisher.answered_through) == (2, 0)

    run(work)


def test_a_deleted_stream_takes_no_more() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            publisher = await StreamPublisher.open(connection, "s")
            peer.send(c.MetadataUpdate(ResponseCode.STREAM_NOT_AVAILABLE, "s"))
            await wait_for(lambda: publisher.error)
            with pytest.raises(StreamGone):
                await publisher.publish([b"x"])
            await publisher.close()
            assert connection.error is None

    run(work)


def test_publishers_wait_while_the_socket_takes_no_more() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            publisher = await StreamPublisher.open(connection, "s")
            peer.reads.clear()
            publishing = asyncio.ensure_future(publisher.publish([b"x" * 500_000] * 80))
            await asyncio.sleep(0.3)
            assert not publishing.done()
            assert publisher.unconfirmed_count < 80
            peer.reads.set()
            await publishing
            await wait_for(lambda: sum(each.count for each in publishes(peer)) == 80)

    run(work)

"""One connection of the stream client: answers, time-outs, heartbeats, and all the ways in which it ends."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from headwater.client import stream_connection
from headwater.client.address import Address, Credentials
from headwater.client.errors import (
    AuthenticationFailed,
    ClosedByPeer,
    ConnectionLost,
    NoIdLeft,
    PeerSilent,
    PeerUnreachable,
    RequestRefused,
    RequestTimedOut,
    StreamGone,
)
from headwater.client.stream_connection import StreamConnection
from headwater.client.stream_publisher import StreamPublisher
from headwater.errors import HeadwaterError, MalformedFrame
from headwater.streams import commands as c
from headwater.streams.commands import Command, OffsetSpecification, OffsetType, ResponseCode
from tests.stream_peer import OK, Peer, accept, run, talk, wait_for


class Subscriber:
    """Takes what a subscription is told."""

    stream = "s"

    def __init__(self) -> None:
        self.errors: list[HeadwaterError] = []
        self.active: list[bool] = []

    def delivered(self, event: c.Deliver, buffer: bytes | bytearray | memoryview) -> None:
        raise AssertionError("nothing is delivered here")

    async def activity_changed(self, active: bool) -> OffsetSpecification:
        self.active.append(active)
        return OffsetSpecification(OffsetType.OFFSET, 7)

    def ended(self, error: HeadwaterError) -> None:
        self.errors.append(error)


def test_a_refusal_has_the_code_of_the_peer_and_says_what_to_do() -> None:
    def refuse(peer: Peer, command: Command, _: bytes) -> None:
        assert isinstance(command, c.CreateRequest)
        peer.send(c.CreateResponse(command.correlation_id, ResponseCode.ACCESS_REFUSED))

    async def work() -> None:
        async with talk(refuse) as (connection, _):
            with pytest.raises(RequestRefused, match=r"create stream 's'.*permission") as caught:
                await connection.create_stream("s")
            assert caught.value.code == ResponseCode.ACCESS_REFUSED

    run(work)


def test_codes_that_are_allowed_are_no_refusal() -> None:
    def answer(peer: Peer, command: Command, _: bytes) -> None:
        if isinstance(command, c.CreateRequest):
            peer.send(c.CreateResponse(command.correlation_id, ResponseCode.STREAM_ALREADY_EXISTS))
        elif isinstance(command, c.QueryOffsetRequest):
            peer.send(c.QueryOffsetResponse(command.correlation_id, ResponseCode.NO_OFFSET, 0))

    async def work() -> None:
        async with talk(answer) as (connection, _):
            await connection.create_stream("s", exists_ok=True)
            assert await connection.stored_offset("me", "s") is None

    run(work)


def test_answers_may_come_in_another_order() -> None:
    asked: list[c.StreamStatsRequest] = []

    def answer(peer: Peer, command: Command, _: bytes) -> None:
        assert isinstance(command, c.StreamStatsRequest)
        asked.append(command)
        if len(asked) == 2:
            for number, each in enumerate(reversed(asked)):
                peer.send(c.StreamStatsResponse(each.correlation_id, OK, {each.stream: number}))

    async def work() -> None:
        async with talk(answer) as (connection, _):
            first, second = await asyncio.gather(connection.stream_stats("a"), connection.stream_stats("b"))
            assert (first, second) == ({"a": 1}, {"b": 0})

    run(work)


def test_an_answer_that_does_not_come_is_given_up_and_passed_over_later() -> None:
    held: list[c.Request] = []

    def answer(peer: Peer, command: Command, span: bytes) -> None:
        if isinstance(command, c.DeleteRequest):
            held.append(command)
        else:
            accept(peer, command, span)

    async def work() -> None:
        async with talk(answer, request_timeout_s=0.05) as (connection, peer):
            with pytest.raises(RequestTimedOut, match="delete stream 's'"):
                await connection.delete_stream("s")
            peer.send(c.DeleteResponse(held[0].correlation_id, OK))
            connection.request_timeout_s = 10
            await connection.create_stream("s")
            assert connection.error is None

    run(work)


def test_a_server_that_says_nothing_at_all_is_given_up() -> None:
    async def work() -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
        with pytest.raises(PeerUnreachable, match=r"took over 0\.05 s"):
            await StreamConnection.connect(address, connect_timeout_s=0.05)
        server.close()
        await asyncio.sleep(0.05)

    run(work)


def test_nobody_there_is_said_with_the_address() -> None:
    async def work() -> None:
        with pytest.raises(PeerUnreachable, match=r"127\.0\.0\.1:1: .*start the server there"):
            await StreamConnection.connect(Address("127.0.0.1", 1))
        with pytest.raises(PeerUnreachable, match="no-such-socket"):
            await StreamConnection.connect(Address(unix_path="no-such-socket"))
        with pytest.raises(PeerUnreachable):
            await StreamConnection.connect(Address("h" * 300))

    run(work)


def test_the_close_of_a_peer_is_raised_by_all_that_waits_with_its_reason() -> None:
    def close(peer: Peer, command: Command, _: bytes) -> None:
        if isinstance(command, c.CreateRequest):
            peer.machine.close(ResponseCode.INTERNAL_ERROR, "maintenance")
            peer.flush()

    async def work() -> None:
        async with talk(close) as (connection, _):
            for _ in range(2):
                with pytest.raises(ClosedByPeer, match="maintenance") as caught:
                    await connection.create_stream("s")
                assert caught.value.code == ResponseCode.INTERNAL_ERROR

    run(work)


def test_a_connection_that_breaks_is_raised_by_all_that_waits() -> None:
    def leave(peer: Peer, command: Command, _: bytes) -> None:
        peer.writer.transport.abort()

    async def work() -> None:
        async with talk(leave) as (connection, _):
            with pytest.raises(ConnectionLost):
                await connection.create_stream("s")
            with pytest.raises(ConnectionLost):
                connection.store_offset("me", "s", 1)

    run(work)


def test_bytes_that_are_no_frame_end_the_connection_and_the_peer_is_told() -> None:
    def babble(peer: Peer, command: Command, _: bytes) -> None:
        if isinstance(command, c.CreateRequest):
            peer.write(b"\0\0\0\x05\0\x99\0\x01!")

    async def work() -> None:
        async with talk(babble) as (connection, peer):
            with pytest.raises(MalformedFrame):
                await connection.create_stream("s")
            await wait_for(lambda: any(isinstance(each, c.CloseRequest) for each in peer.came))

    run(work)


def test_a_frame_larger_than_the_read_buffer_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.client.socket_protocol.READ_BUFFER_BYTES", 4096)
    stats = {f"figure {number}": number for number in range(5000)}

    def answer(peer: Peer, command: Command, _: bytes) -> None:
        assert isinstance(command, c.StreamStatsRequest)
        peer.send(c.StreamStatsResponse(command.correlation_id, OK, stats))

    async def work() -> None:
        async with talk(answer) as (connection, _):
            for _ in range(3):
                assert await connection.stream_stats("s") == stats

    run(work)


def test_closing_says_so_to_the_peer_and_ends_everything() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            subscriber = Subscriber()
            await connection.subscribe(subscriber, OffsetSpecification(OffsetType.NEXT), 1, {})
            await connection.close()
            await connection.close()
            assert isinstance(subscriber.errors[0], ConnectionLost)
            assert isinstance(peer.came[-1], c.CloseRequest)
            with pytest.raises(ConnectionLost, match="closed here"):
                await connection.create_stream("s")

    run(work)


def test_a_peer_that_does_not_answer_a_close_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_connection, "CLOSE_TIMEOUT_S", 0.05)

    async def work() -> None:
        async with talk() as (connection, peer):
            monkeypatch.setattr(peer, "flush", lambda: None)
            await connection.close()
            assert connection.error is not None

    run(work)


def test_heartbeats_are_sent_and_a_silent_peer_is_given_up() -> None:
    async def work() -> None:
        async with talk(heartbeat_s=1) as (connection, peer):
            await wait_for(lambda: connection.error is not None)
            assert isinstance(connection.error, PeerSilent)
            await peer.gone.wait()
            assert bytes.fromhex("00000004 0017 0001") in peer.heard

    run(work)


def test_a_peer_that_beats_is_kept() -> None:
    async def work() -> None:
        async with talk(heartbeat_s=1) as (connection, peer):
            for _ in range(7):
                await asyncio.sleep(0.5)
                peer.send(c.Heartbeat())
            assert connection.error is None

    run(work)


def test_a_stream_that_goes_ends_what_uses_it_and_nothing_else() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            gone: list[tuple[str, int]] = []
            connection.on_metadata_update = lambda stream, code: gone.append((stream, code))
            subscriber = Subscriber()
            await connection.subscribe(subscriber, OffsetSpecification(OffsetType.NEXT), 1, {})
            other = await StreamPublisher.open(connection, "other")
            peer.send(c.MetadataUpdate(ResponseCode.STREAM_NOT_AVAILABLE, "s"))
            await wait_for(lambda: gone)
            assert gone == [("s", 6)]
            assert isinstance(subscriber.errors[0], StreamGone)
            assert other.error is None

    run(work)


def test_a_consumer_update_is_answered_with_where_to_begin() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            subscriber = Subscriber()
            id_ = await connection.subscribe(subscriber, OffsetSpecification(OffsetType.NEXT), 1, {})
            peer.machine.request_consumer_update(id_, active=True)
            peer.machine.request_consumer_update(id_ + 1, active=True)
            peer.flush()
            await wait_for(lambda: sum(isinstance(each, c.ConsumerUpdateResponse) for each in peer.came) == 2)
            answers = {
                each.response_code: each.offset_specification
                for each in peer.came
                if isinstance(each, c.ConsumerUpdateResponse)
            }
            assert subscriber.active == [True]
            assert answers == {
                OK: OffsetSpecification(OffsetType.OFFSET, 7),
                ResponseCode.SUBSCRIPTION_ID_DOES_NOT_EXIST: OffsetSpecification(OffsetType.NONE),
            }

    run(work)


def test_a_connection_has_256_publishers_and_no_more() -> None:
    async def work() -> None:
        async with talk() as (connection, _):
            publishers = [await StreamPublisher.open(connection, "s") for _ in range(256)]
            assert sorted(each.id for each in publishers) == list(range(256))
            with pytest.raises(NoIdLeft, match="256 publishers"):
                await StreamPublisher.open(connection, "s")
            await publishers[7].close()
            assert (await StreamPublisher.open(connection, "s")).id == 7

    run(work)


def test_an_id_whose_request_was_refused_is_free_again() -> None:
    def refuse(peer: Peer, command: Command, _: bytes) -> None:
        assert isinstance(command, c.DeclarePublisherRequest | c.SubscribeRequest)
        kind = c.SubscribeResponse if isinstance(command, c.SubscribeRequest) else c.DeclarePublisherResponse
        peer.send(kind(command.correlation_id, ResponseCode.STREAM_DOES_NOT_EXIST))

    async def work() -> None:
        async with talk(refuse) as (connection, _):
            for _ in range(257):
                with pytest.raises(RequestRefused):
                    await StreamPublisher.open(connection, "s")
                with pytest.raises(RequestRefused):
                    await connection.subscribe(Subscriber(), OffsetSpecification(OffsetType.NEXT), 1, {})

    run(work)


def test_a_mechanism_that_the_server_does_not_offer_is_refused_here() -> None:
    async def work() -> None:
        with pytest.raises(AuthenticationFailed, match="offers EXTERNAL, wanted is SCRAM-SHA-256 or PLAIN"):
            async with talk(mechanisms=("EXTERNAL",)):
                pass

    run(work)


def test_a_certificate_that_nobody_vouches_for_is_refused() -> None:
    async def work() -> None:
        async def leave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(leave, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(PeerUnreachable):
            await StreamConnection.connect(Address("127.0.0.1", port, tls=ssl.create_default_context()))
        server.close()

    run(work)


def test_credentials_and_addresses_do_not_show_the_password() -> None:
    assert "secret" not in repr(Credentials("me", "secret"))
    assert str(Address("::1", 7)) == "[::1]:7"

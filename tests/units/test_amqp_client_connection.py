"""One connection of the AMQP client: authentication, time-outs, heartbeats, and all the ways in which it ends."""

from __future__ import annotations

import asyncio
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.amqp.connection import Limits
from headwater.amqp.definitions import Condition, ErrorValue
from headwater.amqp.events import Closed, Event, LinkDetached, Opened, SessionEnded
from headwater.amqp.frames import EMPTY_FRAME, ProtocolId, encode_frame, protocol_header
from headwater.amqp.messaging import Source, Target
from headwater.amqp.performatives import Begin, Transfer
from headwater.amqp.sasl import SaslEvent, SaslServer
from headwater.amqp.sasl_frames import SaslCode, SaslInit, SaslResponse
from headwater.amqp.sender_link import SenderLink
from headwater.client import amqp_connection
from headwater.client.address import Address, Credentials
from headwater.client.amqp_connection import AmqpConnection
from headwater.client.amqp_errors import ProtocolBroken
from headwater.client.amqp_receiver import AmqpReceiver
from headwater.client.amqp_sender import AmqpSender
from headwater.client.amqp_session import AmqpSession
from headwater.client.errors import (
    AuthenticationFailed,
    ClosedByPeer,
    ConnectionLost,
    PeerSilent,
    PeerUnreachable,
)
from headwater.encoding.amqp_types import Symbol
from headwater.errors import HeadwaterError, InvalidSettings
from tests.amqp_node import WAIT_S, AmqpNode, listening, talk, wait_for
from tests.stream_peer import run

AWAY = ErrorValue(Condition.CONNECTION_FORCED, "the node is going down")
ANONYMOUS = Credentials(mechanism="ANONYMOUS")


# Opening


def test_the_server_is_told_who_comes_and_where_to() -> None:
    async def work() -> None:
        async with talk(vhost="shop", container_id="me", properties={"task": "test"}) as (connection, peer):
            opened = next(event.open for event in peer.events if isinstance(event, Opened))
            assert (opened.container_id, opened.hostname) == ("me", "vhost:shop")
            assert opened.properties is not None
            assert (
                opened.properties.items() >= {Symbol("product"): "headwater", Symbol("task"): "test"}.items()
            )
            assert opened.idle_time_out == 30_000
            assert connection.remote.container_id == "peer"

    run(work)


@pytest.mark.parametrize("mechanism", ["PLAIN", "EXTERNAL", "ANONYMOUS"])
def test_a_mechanism_of_one_message_lets_the_client_in(mechanism: str) -> None:
    async def work() -> None:
        who = Credentials("ann", "secret", mechanism)
        async with talk(credentials=who, mechanisms=("EXTERNAL", "PLAIN", "ANONYMOUS")) as (_, peer):
            said = next(event for event in peer.events if isinstance(event, SaslInit))
            assert said.mechanism == mechanism
            assert said.initial_response == (b"\0ann\0secret" if mechanism == "PLAIN" else b"")

    run(work)


@pytest.mark.parametrize(
    ("code", "reason"),
    [(SaslCode.AUTH, "wrong user or password"), (SaslCode.SYS_TEMP, "try again"), (SaslCode.SYS, "its log")],
)
def test_a_server_that_lets_nobody_in_is_named_with_its_reason(code: SaslCode, reason: str) -> None:
    def refuse(peer: AmqpNode, event: Event | SaslEvent) -> bool:
        if isinstance(event, SaslInit):
            assert peer.sasl is not None
            peer.sasl.finish(code)
        return isinstance(event, SaslInit)

    async def work() -> None:
        with pytest.raises(AuthenticationFailed, match=reason) as caught:
            async with talk(refuse):
                pass
        assert caught.value.code == code
        assert "guest" in str(caught.value)

    run(work)


def test_a_server_that_offers_no_mechanism_of_ours_is_left() -> None:
    async def work() -> None:
        with pytest.raises(AuthenticationFailed, match="the server offers GSSAPI"):
            async with talk(mechanisms=("GSSAPI",)):
                pass

    run(work)


def test_a_server_that_does_not_prove_itself_is_not_believed() -> None:
    def let_in(peer: AmqpNode, event: Event | SaslEvent) -> bool:
        if isinstance(event, SaslInit):
            peer.let_in()
        return isinstance(event, SaslInit)

    async def work() -> None:
        with pytest.raises(AuthenticationFailed, match="did not show that it knows the password"):
            async with talk(let_in, mechanisms=("SCRAM-SHA-256",)):
                pass

    run(work)


def test_a_challenge_that_plain_does_not_have_ends_the_authentication() -> None:
    def challenge(peer: AmqpNode, event: Event | SaslEvent) -> bool:
        if isinstance(event, SaslInit | SaslResponse):
            assert peer.sasl is not None
            peer.sasl.challenge(b"what else?")
        return isinstance(event, SaslInit)

    async def work() -> None:
        with pytest.raises(AuthenticationFailed, match="challenges PLAIN"):
            async with talk(challenge):
                pass

    run(work)


class _Speaker(AmqpNode):
    """Says some bytes as soon as somebody comes, and no more; it may end its side behind them."""

    def __init__(self, said: bytes, *, ends: bool) -> None:
        super().__init__()
        self.said = said
        self.ends = ends

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        writer.write(self.said)
        if self.ends:
            writer.write_eof()
        try:
            while data := await reader.read(1 << 16):
                self.heard += data
        except ConnectionError:
            pass
        writer.transport.abort()
        self.gone.set()


async def spoken_to(said: bytes, *, ends: bool = False, timeout_s: float = WAIT_S) -> AmqpNode:
    """Connect to a server that says this."""
    peer = _Speaker(said, ends=ends)
    async with listening(peer) as address:
        connection = await AmqpConnection.connect(address, ANONYMOUS, connect_timeout_s=timeout_s)
        await connection.close()
    return peer


def sasl_said(finishes: bool = True) -> bytes:
    """What a server says until SASL is over."""
    server = SaslServer(("ANONYMOUS",))
    server.next_event(protocol_header(ProtocolId.SASL), 0, 8)
    if finishes:
        server.finish(SaslCode.OK)
    return bytes(server.data_to_send())


def test_a_step_that_takes_too_long_is_named() -> None:
    async def work() -> None:
        with pytest.raises(PeerUnreachable, match=r"authentication was not over within 0\.5 s"):
            await spoken_to(b"", timeout_s=0.5)

        def keep_quiet(_: AmqpNode, event: Event | SaslEvent) -> bool:
            return isinstance(event, Opened)

        with pytest.raises(PeerUnreachable, match="opening the connection was not over"):
            async with talk(keep_quiet, connect_timeout_s=0.5):
                pass

    run(work)


def test_nobody_listens() -> None:
    async def work() -> None:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            with pytest.raises(PeerUnreachable, match="start the server there"):
                await AmqpConnection.connect(Address("127.0.0.1", bound.getsockname()[1]))

    run(work)


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        protocol_header(ProtocolId.AMQP),
        protocol_header(ProtocolId.TLS),
        protocol_header(ProtocolId.SASL) + EMPTY_FRAME,
        sasl_said(finishes=False) * 2,
        sasl_said(finishes=False) + bytes(1 << 17),
        sasl_said() + b"HTTP/1.1 400 Bad Request\r\n\r\n",
        sasl_said() + protocol_header(ProtocolId.AMQP) + encode_frame(0, Begin(None, 0, 1, 1)),
        sasl_said() + protocol_header(ProtocolId.AMQP) + b"\xff" * 64,
    ],
)
def test_what_no_server_of_amqp_says_is_an_error_of_ours(said: bytes) -> None:
    async def work() -> None:
        with pytest.raises(HeadwaterError) as caught:
            await spoken_to(said)
        assert not isinstance(caught.value, PeerUnreachable), "it does not wait for what cannot come"

    run(work)


@given(
    st.binary(max_size=200),
    st.sampled_from([b"", sasl_said(), sasl_said() + protocol_header(ProtocolId.AMQP)]),
)
def test_any_bytes_from_a_server_are_an_error_of_ours(said: bytes, before: bytes) -> None:
    async def work() -> None:
        with pytest.raises(HeadwaterError):
            await spoken_to(before + said, ends=True)

    asyncio.run(work())


@given(st.binary(min_size=1, max_size=120))
def test_any_bytes_behind_open_end_the_connection_with_an_error_or_mean_nothing(said: bytes) -> None:
    async def work() -> None:
        async with talk(credentials=ANONYMOUS, mechanisms=("ANONYMOUS",)) as (connection, peer):
            sender = await AmqpSender.open(connection, "log")
            peer.writer.write(said + EMPTY_FRAME * 4)
            peer.writer.close()
            await wait_for(lambda: connection.error is not None)
            assert isinstance(connection.error, HeadwaterError)
            assert sender.error is not None

    asyncio.run(work())


def test_a_url_says_where_and_who() -> None:
    async def work() -> None:
        peer = AmqpNode()
        async with listening(peer) as address:
            url = f"amqp://ann:p%40ss@127.0.0.1:{address.port}/shop"
            async with await AmqpConnection.connect_url(url):
                opened = next(event.open for event in peer.events if isinstance(event, Opened))
                assert opened.hostname == "vhost:shop"
                assert b"\0ann\0p@ss" in peer.heard

    run(work)


def test_a_url_of_another_protocol_is_refused() -> None:
    async def work() -> None:
        with pytest.raises(InvalidSettings, match="amqp, amqps"):
            await AmqpConnection.connect_url("rabbitmq-stream://127.0.0.1")

    run(work)


# Ending


def test_the_error_of_a_server_that_closes_reaches_all_that_wait() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            sender = await AmqpSender.open(connection, "log")
            receiver = await AmqpReceiver.open(connection, "log")
            waiting = asyncio.ensure_future(receiver.receive())
            await asyncio.sleep(0)
            peer.machine.close(AWAY)
            peer.flush()
            with pytest.raises(ClosedByPeer, match="going down") as caught:
                await waiting
            assert caught.value.code == "amqp:connection:forced"
            with pytest.raises(ClosedByPeer):
                await sender.send(b"\0Su\xa0\1a")
            with pytest.raises(ClosedByPeer):
                await AmqpReceiver.open(connection, "log")
            await peer.gone.wait()
            assert peer.came(Closed), "our close answers theirs"

    run(work)


def test_a_close_that_is_answered_with_an_error_raises_it() -> None:
    def answer(peer: AmqpNode, event: Event | SaslEvent) -> bool:
        if isinstance(event, Closed):
            peer.machine.close(AWAY)
        return isinstance(event, Closed)

    async def work() -> None:
        peer = AmqpNode(answer)
        async with listening(peer) as address:
            connection = await AmqpConnection.connect(address)
            with pytest.raises(ClosedByPeer, match="going down"):
                await connection.close()
            await connection.close()

    run(work)


def test_a_server_that_does_not_answer_our_close_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amqp_connection, "CLOSE_TIMEOUT_S", 0.05)

    async def work() -> None:
        async with talk(lambda _, event: isinstance(event, Closed)) as (connection, peer):
            await connection.close()
            await peer.gone.wait()
            assert isinstance(connection.error, ConnectionLost)

    run(work)


def test_a_server_that_goes_without_a_word_is_an_error() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            receiver = await AmqpReceiver.open(connection, "log")
            peer.writer.transport.abort()
            with pytest.raises(ConnectionLost):
                await receiver.receive(WAIT_S)

    run(work)


def test_a_server_that_breaks_the_protocol_is_told_what_it_did() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            peer.write(7, Transfer(0, 0, b"t"))
            await peer.gone.wait()
            closed = next(event for event in peer.events if isinstance(event, Closed))
            assert closed.error is not None
            assert closed.error.condition == Condition.NOT_ALLOWED
            assert isinstance(connection.error, ProtocolBroken)
            assert connection.error.condition == "amqp:not-allowed"

    run(work)


def test_sessions_and_links_that_the_server_begins_are_refused() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            peer.machine.begin()
            peer.flush()
            await wait_for(lambda: peer.came(SessionEnded))
            session = AmqpSession(connection)
            await AmqpSender.open(session, "log")
            theirs = SenderLink(peer.receiver.session, "theirs")
            theirs.attach(Source("a"), Target("b"))
            peer.flush()
            await wait_for(lambda: peer.came(LinkDetached))
            detached = next(event for event in peer.events if isinstance(event, LinkDetached))
            assert detached.link is theirs
            assert detached.error is not None
            assert detached.error.condition == Condition.NOT_ALLOWED
            await session.end()
            assert connection.error is None

    run(work)


# Time


def test_a_server_that_falls_silent_is_given_up() -> None:
    async def work() -> None:
        async with talk(idle_timeout_s=0.2) as (connection, peer):
            receiver = await AmqpReceiver.open(connection, "log")
            with pytest.raises(PeerSilent, match=r"0\.2 s"):
                await receiver.receive(WAIT_S)
            await peer.gone.wait()

    run(work)


def test_heartbeats_of_the_server_keep_the_connection_and_ours_are_sent_in_time() -> None:
    async def work() -> None:
        async with talk(idle_timeout_s=0.4, limits=Limits(idle_time_out_ms=100)) as (connection, peer):
            ends = asyncio.get_running_loop().time() + 1.0
            while asyncio.get_running_loop().time() < ends:
                peer.machine.heartbeat()
                peer.flush()
                await asyncio.sleep(0.05)
            assert connection.error is None
            assert peer.heard.endswith(EMPTY_FRAME * 2)

    run(work)


def test_nothing_is_read_while_too_much_waits_for_the_program() -> None:
    body = b"\0Su\xb0\0\1\0\0" + bytes(1 << 16)

    async def work() -> None:
        async with talk() as (connection, peer):
            connection.held_bytes_max = 4 * len(body)
            receiver = await AmqpReceiver.open(connection, "log", credit_count=100)
            await wait_for(lambda: peer.sender.credit == 100)
            for _ in range(100):
                peer.sender.send(body)
            peer.flush()
            await wait_for(lambda: connection._is_paused)
            queued = receiver._queued_count
            assert queued < 100
            await asyncio.sleep(0.05)
            assert receiver._queued_count == queued
            for _ in range(100):
                message = await receiver.receive(WAIT_S)
                assert message is not None
                assert message.data == body
            assert connection._held_bytes == 0

    run(work)

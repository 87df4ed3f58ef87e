"""Links of the AMQP client at a node that refuses them, ends them, or goes: each is told why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from headwater.amqp.definitions import Condition, ErrorValue, ReceiverSettleMode, SenderSettleMode
from headwater.amqp.events import (
    Deliveries,
    Event,
    LinkAttached,
    LinkDetached,
    SessionEnded,
)
from headwater.amqp.messaging import (
    Source,
    Target,
    TerminusDurability,
    TerminusExpiryPolicy,
)
from headwater.amqp.sasl import SaslEvent
from headwater.client.amqp_errors import (
    LinkEnded,
    LinkRefused,
)
from headwater.client.amqp_errors import (
    SessionEnded as Ended,
)
from headwater.client.amqp_receiver import AmqpReceiver, from_offset, from_timestamp, selector
from headwater.client.amqp_sender import AmqpSender
from headwater.client.amqp_session import AmqpSession
from headwater.client.errors import ClosedByPeer, ConnectionLost, RequestTimedOut
from headwater.encoding.amqp_message import data_section
from headwater.encoding.amqp_types import Symbol, Timestamp
from tests.amqp_node import WAIT_S, AmqpNode, talk, wait_for
from tests.stream_peer import run

DELETED = ErrorValue(Condition.RESOURCE_DELETED, "'log' was deleted")
FULL = ErrorValue(Condition.RESOURCE_LIMIT_EXCEEDED, "the disk is full")
BODY = data_section(b"event")


def keeps(peer: AmqpNode, event: Event | SaslEvent) -> bool:
    """Settles nothing by itself."""
    return isinstance(event, Deliveries)


# Attaching and detaching


@pytest.mark.parametrize("opens", [AmqpSender.open, AmqpReceiver.open])
def test_a_refused_link_says_why_and_leaves_the_connection_as_it_was(
    opens: Callable[..., object],
) -> None:
    refused = ErrorValue(Condition.NOT_FOUND, "there is no log 'nowhere'")

    def refuse(_: AmqpNode, event: Event | SaslEvent) -> bool:
        if isinstance(event, LinkAttached) and not getattr(event.link.remote, "properties", None):
            event.link.refuse(refused)
            return True
        return False

    async def work() -> None:
        async with talk(refuse) as (connection, peer):
            with pytest.raises(LinkRefused, match="there is no log 'nowhere'") as caught:
                await opens(connection, "nowhere")  # type: ignore[misc]
            assert (caught.value.condition, caught.value.description) == (
                "amqp:not-found",
                "there is no log 'nowhere'",
            )
            await wait_for(lambda: peer.came(SessionEnded))
            async with await AmqpSender.open(connection, "log", properties={"x": 1}) as sender:
                await sender.send(BODY)

    run(work)


def test_an_answer_without_a_terminus_is_a_refusal_although_no_detach_follows() -> None:
    def answer(_: AmqpNode, event: Event | SaslEvent) -> bool:
        if isinstance(event, LinkAttached):
            event.link.accept(None, None)
        return isinstance(event, LinkAttached)

    async def work() -> None:
        async with talk(answer, request_timeout_s=0.5) as (connection, node):
            with pytest.raises(LinkRefused, match="it gave no reason"):
                await AmqpSender.open(connection, "log")
            connection.request_timeout_s = WAIT_S
            await wait_for(lambda: node.came(SessionEnded))

    run(work)


def test_a_session_that_ends_over_an_attach_is_a_refusal() -> None:
    def refuse(_: AmqpNode, event: Event | SaslEvent) -> bool:
        if isinstance(event, LinkAttached):
            event.link.session.end(FULL)
        return isinstance(event, LinkAttached)

    async def work() -> None:
        async with talk(refuse) as (connection, _):
            with pytest.raises(LinkRefused, match="the disk is full"):
                await AmqpSender.open(connection, "log")
            assert connection.error is None

    run(work)


def test_an_attach_without_an_answer_is_given_up_and_an_answer_that_comes_late_means_nothing() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            session = AmqpSession(connection)
            peer.reads.clear()
            await AmqpSender.open(session, "log")  # what it read before it stopped
            connection.request_timeout_s = 0.05
            with pytest.raises(RequestTimedOut, match="attach of a receiver from log"):
                await AmqpReceiver.open(session, "log")
            connection.request_timeout_s = WAIT_S
            peer.reads.set()
            await wait_for(lambda: peer.came(LinkDetached))
            async with await AmqpSender.open(session, "log") as sender:
                await sender.send(BODY)
            await session.end()
            assert connection.error is None

    run(work)


def test_what_is_asked_of_a_link_reaches_the_node() -> None:
    source = Source(
        "log",
        durable=TerminusDurability.UNSETTLED_STATE,
        expiry_policy=TerminusExpiryPolicy.NEVER,
        timeout=60,
        distribution_mode=Symbol("copy"),
        filter=from_offset(7) | selector("kind = 'order'"),
        capabilities=(Symbol("topic"),),
    )

    async def work() -> None:
        async with talk() as (connection, peer):
            receiver = await AmqpReceiver.open(
                connection,
                source,
                name="mine",
                receiver_settle_mode=ReceiverSettleMode.SECOND,
                settle_mode=SenderSettleMode.UNSETTLED,
                desired_capabilities=["shared"],
                properties={"com.microsoft:epoch": 3},
            )
            said = peer.sender.remote
            assert (said.name, receiver.name, said.source, receiver.source) == (
                "mine",
                "mine",
                source,
                source,
            )
            assert (said.snd_settle_mode, said.rcv_settle_mode) == (0, 1)
            assert (said.desired_capabilities, said.properties) == (("shared",), {"com.microsoft:epoch": 3})
            await receiver.detach()
            (detached,) = [event for event in peer.events if isinstance(event, LinkDetached)]
            assert not detached.is_closed
            await AmqpSender.open(connection, Target("log", capabilities=(Symbol("topic"),)), name="up")
            assert peer.receiver.remote.target == Target("log", capabilities=(Symbol("topic"),))

    run(work)


def test_a_filter_for_a_time_holds_a_timestamp() -> None:
    (described,) = from_timestamp(1234).values()
    assert described.value == 1234
    assert isinstance(described.value, Timestamp)


def test_a_link_that_the_node_detaches_ends_with_its_reason_behind_what_came_before() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            receiver = await AmqpReceiver.open(connection, "log")
            sender = await AmqpSender.open(connection, "log")
            await wait_for(lambda: peer.sender.credit)
            peer.sender.send(BODY)
            peer.sender.detach(DELETED)
            peer.receiver.detach(DELETED)
            peer.flush()
            await wait_for(lambda: receiver.error is not None and sender.error is not None)
            message = await receiver.receive()
            assert message is not None
            assert message.data == BODY
            for work in (receiver.receive(), sender.send(BODY), sender.post([BODY])):
                with pytest.raises(LinkEnded, match="was deleted") as caught:
                    await work
                assert caught.value.condition == "amqp:resource-deleted"
            await receiver.close()
            assert connection.error is None
            await wait_for(lambda: len([e for e in peer.events if isinstance(e, SessionEnded)]) == 2)

    run(work)


def test_links_of_one_session_end_with_it_and_others_do_not() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            session = AmqpSession(connection)
            sender = await AmqpSender.open(session, "a")
            receiver = await AmqpReceiver.open(session, "b")
            other = await AmqpSender.open(connection, "c")
            peer.sender.session.end(FULL)
            peer.flush()
            with pytest.raises(Ended, match="the disk is full"):
                await receiver.receive()
            with pytest.raises(Ended, match="the disk is full"):
                await sender.send(BODY)
            with pytest.raises(Ended):
                await AmqpSender.open(session, "a")
            await other.send(BODY)

    run(work)


def test_closing_a_receiver_ends_an_iteration_that_waits() -> None:
    async def work() -> None:
        async with talk() as (connection, _):
            receiver = await AmqpReceiver.open(connection, "log")

            async def all_of_it() -> list[bytes]:
                return [message.data async for message in receiver]

            reading = asyncio.ensure_future(all_of_it())
            await asyncio.sleep(0)
            await receiver.close()
            assert await reading == []
            await receiver.close()

    run(work)


def test_what_ends_the_connection_ends_what_waits_on_a_link() -> None:
    async def work() -> None:
        async with talk(keeps) as (connection, peer):
            sender = await AmqpSender.open(connection, "log", unsettled_max=1)
            receiver = await AmqpReceiver.open(connection, "log", credit_count=5)
            waiting = [
                asyncio.ensure_future(each)
                for each in (sender.post([BODY] * 2), receiver.receive(), receiver.drain())
            ]
            await wait_for(lambda: len(peer.bodies) == 1)
            waiting.append(asyncio.ensure_future(sender.flush()))
            await asyncio.sleep(0.02)
            peer.machine.close(FULL)
            peer.flush()
            for each in waiting:
                with pytest.raises(ClosedByPeer, match="the disk is full"):
                    await each
            with pytest.raises(ClosedByPeer):
                await receiver.receive()

    run(work)


def test_a_connection_that_is_closed_here_says_so_to_its_links() -> None:
    async def work() -> None:
        async with talk() as (connection, _):
            receiver = await AmqpReceiver.open(connection, "log")
            waiting = asyncio.ensure_future(receiver.receive())
            await asyncio.sleep(0)
            await connection.close()
            with pytest.raises(ConnectionLost, match="closed here"):
                await waiting
            await receiver.close()

    run(work)

"""Receivers of the AMQP client: credit, drains, and outcomes that reach the node."""

from __future__ import annotations

import asyncio

import pytest

from headwater.amqp.definitions import Condition, ErrorValue, ReceiverSettleMode
from headwater.amqp.events import (
    Event,
    LinkFlow,
    Settled,
)
from headwater.amqp.messaging import (
    Accepted,
    Modified,
    Rejected,
    Released,
)
from headwater.amqp.performatives import Transfer
from headwater.amqp.sasl import SaslEvent
from headwater.client.amqp_receiver import AmqpReceiver
from headwater.client.errors import RequestTimedOut
from headwater.encoding.amqp_message import data_section
from headwater.encoding.amqp_types import Symbol
from tests.amqp_node import WAIT_S, AmqpNode, talk, wait_for
from tests.stream_peer import run

DELETED = ErrorValue(Condition.RESOURCE_DELETED, "'log' was deleted")
FULL = ErrorValue(Condition.RESOURCE_LIMIT_EXCEEDED, "the disk is full")
BODY = data_section(b"event")


# Receiving


def deliver(peer: AmqpNode, count: int) -> None:
    for _ in range(count):
        peer.sender.send(BODY)
    peer.flush()


def test_credit_is_given_again_as_messages_are_taken() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            receiver = await AmqpReceiver.open(connection, "log", credit_count=10)
            await wait_for(lambda: peer.sender.credit == 10)
            deliver(peer, 10)
            await wait_for(lambda: receiver._queued_count == 10)
            await asyncio.sleep(0.02)
            assert peer.sender.credit == 0, "nothing was taken yet"
            while receiver._queued_count:
                assert await receiver.receive_batch() is not None
            await wait_for(lambda: peer.sender.credit == 10)
            deliver(peer, 4)
            await wait_for(lambda: receiver._queued_count == 4)
            assert peer.sender.credit == 6, "that is more than half"

    run(work)


def test_without_a_count_credit_is_what_is_granted() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            receiver = await AmqpReceiver.open(connection, "log", credit_count=0)
            assert await receiver.receive_batch(0.02) is None
            assert peer.sender.credit == 0
            receiver.grant(2)
            await wait_for(lambda: peer.sender.credit == 2)
            deliver(peer, 2)
            assert await receiver.receive(WAIT_S) is not None
            assert await receiver.receive(WAIT_S) is not None
            assert await receiver.receive(0.02) is None
            assert peer.sender.credit == 0

    run(work)


def test_a_drain_returns_when_the_node_has_given_the_credit_up() -> None:
    def drained(peer: AmqpNode, event: Event | SaslEvent) -> None:
        if isinstance(event, LinkFlow) and peer.sender.is_draining:
            if peer.sender.may_send:
                peer.sender.send(BODY)
            peer.sender.drained()

    async def work() -> None:
        async with talk(drained) as (connection, peer):
            receiver = await AmqpReceiver.open(connection, "log", credit_count=20)
            await receiver.drain()
            message = await receiver.receive(0)
            assert message is not None
            assert peer.sender.credit == 0
            assert await receiver.receive(0.02) is None
            await receiver.drain()
            receiver.grant()
            await wait_for(lambda: peer.sender.credit == 20)

    run(work)


def test_a_drain_that_the_node_does_not_answer_is_given_up() -> None:
    async def work() -> None:
        async with talk() as (connection, _):
            receiver = await AmqpReceiver.open(connection, "log", credit_count=20)
            connection.request_timeout_s = 0.05
            with pytest.raises(RequestTimedOut, match="drain of a receiver from log"):
                await receiver.drain()
            connection.request_timeout_s = WAIT_S

    run(work)


def test_outcomes_reach_the_node_joined_into_ranges() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            receiver = await AmqpReceiver.open(connection, "log")
            await wait_for(lambda: peer.sender.credit)
            deliver(peer, 9)
            messages = [await receiver.receive(WAIT_S) for _ in range(9)]
            one, two, three, four, five, six, *rest = [each for each in messages if each is not None]
            for message in (one, two):
                receiver.accept(message)
            receiver.reject(three, FULL)
            receiver.release(four)
            receiver.modify(five, undeliverable_here=True, annotations={"x-opt-tries": 1})
            receiver.settle((six.id, rest[-1].id + 1), Accepted())
            assert receiver.unsettled_count == 0
            await wait_for(lambda: not peer.sender.unsettled)
            told = [(event.parts[0][1], event.state) for event in peer.events if isinstance(event, Settled)]
            assert told == [
                ([(0, 2)], Accepted()),
                ([(2, 3)], Rejected(FULL)),
                ([(3, 4)], Released()),
                ([(4, 5)], Modified(True, True, {Symbol("x-opt-tries"): 1})),
                ([(5, 9)], Accepted()),
            ]

    run(work)


def test_with_settle_mode_second_the_node_has_the_last_word() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            receiver = await AmqpReceiver.open(
                connection, "log", receiver_settle_mode=ReceiverSettleMode.SECOND
            )
            await wait_for(lambda: peer.sender.credit)
            deliver(peer, 1)
            message = await receiver.receive(WAIT_S)
            assert message is not None
            receiver.accept(message)
            assert receiver.unsettled_count == 1
            await wait_for(lambda: receiver.unsettled_count == 0)

    run(work)


def test_messages_can_be_taken_one_by_one_and_the_rest_of_them_at_once() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            receiver = await AmqpReceiver.open(connection, "log")
            await wait_for(lambda: peer.sender.credit)
            bodies = [data_section(b"%d" % number) for number in range(6)]
            for body in bodies:
                peer.sender.send(body, is_settled=True)
            peer.flush()
            first = await receiver.receive(WAIT_S)
            assert first is not None
            rest: list[bytes] = []
            while len(rest) < 5:
                batch = await receiver.receive_batch(WAIT_S)
                assert batch is not None
                assert batch.first_id == 1 + len(rest)
                assert [batch[index].data for index in range(len(batch))] == batch.messages()
                assert batch[0].is_settled
                with pytest.raises(IndexError):
                    batch[len(batch)]
                rest += batch.messages()
            assert [first.data, *rest] == bodies

    run(work)


def test_a_delivery_that_is_aborted_costs_no_credit_for_good() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            receiver = await AmqpReceiver.open(connection, "log", credit_count=2)
            await wait_for(lambda: peer.sender.credit == 2)
            link = peer.sender
            link.send(BODY)
            peer.write(
                link.session.channel, Transfer(link.handle, 1, b"t", 0, more=True), data_section(bytes(9))
            )
            peer.write(link.session.channel, Transfer(link.handle, 1, aborted=True))
            message = await receiver.receive(WAIT_S)
            assert message is not None
            await wait_for(lambda: receiver._machine.credit >= 1)
            assert await receiver.receive(0.02) is None

    run(work)

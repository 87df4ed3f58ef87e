"""Senders of the AMQP client: every message has an outcome or an error, and no more is sent than may be."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable

import pytest

from headwater.amqp.connection import Limits
from headwater.amqp.definitions import Condition, ErrorValue, ReceiverSettleMode, Role, SenderSettleMode
from headwater.amqp.events import (
    Deliveries,
    Event,
)
from headwater.amqp.messaging import (
    Accepted,
    DeliveryState,
    Modified,
    Rejected,
    Released,
    Target,
)
from headwater.amqp.receiver_link import ReceiverLink
from headwater.amqp.sasl import SaslEvent
from headwater.amqp.sender_link import SenderLink
from headwater.client import amqp_sender
from headwater.client.amqp_errors import (
    LinkEnded,
    MessageRefused,
    Refusal,
)
from headwater.client.amqp_sender import AmqpSender
from headwater.client.errors import MessageTooLarge
from headwater.encoding.amqp_message import Message, data_section
from tests.amqp_node import AmqpNode, talk, wait_for
from tests.stream_peer import run

DELETED = ErrorValue(Condition.RESOURCE_DELETED, "'log' was deleted")
FULL = ErrorValue(Condition.RESOURCE_LIMIT_EXCEEDED, "the disk is full")
BODY = data_section(b"event")


def keeps(peer: AmqpNode, event: Event | SaslEvent) -> bool:
    """Settles nothing by itself."""
    return isinstance(event, Deliveries)


def settles_as(*states: DeliveryState | None) -> Callable[[AmqpNode, Event | SaslEvent], bool]:
    """Gives deliveries these outcomes in turn."""

    def settle(peer: AmqpNode, event: Event | SaslEvent) -> bool:
        if not isinstance(event, Deliveries):
            return False
        for id_ in range(event.first_id, event.first_id + event.count):
            event.link.unsettled.take(id_, id_ + 1)
            state = states[id_ % len(states)]
            event.link.session.settle(Role.RECEIVER, (id_, id_ + 1), state, is_settled=True)
        return True

    return settle


# Outcomes


def test_every_outcome_but_accepted_is_a_refusal_with_its_place() -> None:
    states = (Accepted(), Rejected(FULL), Released(), Modified(delivery_failed=True), None)

    async def work() -> None:
        async with talk(settles_as(*states)) as (connection, _):
            sender = await AmqpSender.open(connection, "log")
            seen: list[tuple[int, int, DeliveryState | None]] = []
            sender.on_settled = lambda first, count, state: seen.append((first, count, state))
            sent = await sender.post([BODY] * 5)
            assert await sent.settled() == [
                Refusal(1, 1, Rejected(FULL)),
                Refusal(2, 1, Released()),
                Refusal(3, 1, Modified(delivery_failed=True)),
                Refusal(4, 1, None),
            ]
            assert seen == [(number, 1, state) for number, state in enumerate(states)]
            assert (sender.accepted_count, sender.refused_count) == (1, 4)
            await sender.flush()
            with pytest.raises(
                MessageRefused, match=r"4 messages .* the disk is full .* released.* without an"
            ):
                await sender.send_batch([BODY] * 5)

    run(work)


def test_refusals_that_nobody_asked_for_are_raised_by_flush_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amqp_sender, "REFUSED_BATCHES_KEPT_MAX", 2)

    async def work() -> None:
        async with talk(settles_as(Accepted(), Released(), Released())) as (connection, _):
            sender = await AmqpSender.open(connection, "log")
            for _ in range(4):
                await sender.post([BODY] * 3)
            with pytest.raises(MessageRefused) as caught:
                await sender.flush()
            assert caught.value.count == 8
            assert caught.value.refusals == [Refusal(1, 2, Released()), Refusal(4, 2, Released())]
            await sender.flush()
            await sender.post([BODY] * 3)
            with pytest.raises(MessageRefused):
                await sender.close()
            assert sender.error is not None

    run(work)


def test_outcomes_may_come_in_any_order_and_in_ranges_across_batches() -> None:
    async def work() -> None:
        async with talk(keeps) as (connection, peer):
            sender = await AmqpSender.open(connection, "log")
            batches = [await sender.post([BODY] * 10) for _ in range(3)]
            await wait_for(lambda: len(peer.bodies) == 30)
            link = peer.receiver
            link.settle(15, 25, Accepted())
            link.settle(5, 12, Rejected(FULL))
            peer.flush()
            await wait_for(lambda: sender.unsettled_count == 13)
            assert [each.unsettled_count for each in batches] == [5, 3, 5]
            link.settle(0, 30, Accepted())
            peer.flush()
            assert [await each.settled() for each in batches] == [
                [Refusal(5, 5, Rejected(FULL))],
                [Refusal(0, 2, Rejected(FULL))],
                [],
            ]
            assert sender.unsettled_count == 0

    run(work)


def test_a_receiver_that_settles_second_hears_that_we_have_settled() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            sender = await AmqpSender.open(connection, "log", receiver_settle_mode=ReceiverSettleMode.SECOND)
            await sender.send_batch([BODY] * 20)
            assert sender.accepted_count == 20
            assert not sender._machine.unsettled
            await wait_for(lambda: not peer.receiver.unsettled)

    run(work)


def test_what_is_unsettled_when_the_link_goes_is_not_known_to_be_accepted() -> None:
    async def work() -> None:
        async with talk(keeps) as (connection, peer):
            sender = await AmqpSender.open(connection, "log")
            sent = await sender.post([BODY] * 4)
            flushing = asyncio.ensure_future(sender.flush())
            await wait_for(lambda: len(peer.bodies) == 4)
            peer.receiver.settle(0, 1, Accepted())
            peer.receiver.detach(DELETED)
            peer.flush()
            with pytest.raises(LinkEnded):
                await sent.settled()
            with pytest.raises(LinkEnded):
                await flushing
            with pytest.raises(LinkEnded):
                await sender.flush()
            assert (sent.unsettled_count, sender.accepted_count) == (3, 1)
            with pytest.raises(LinkEnded):
                await sent.settled()

    run(work)


def test_messages_that_are_settled_as_they_are_sent_have_no_outcome() -> None:
    async def work() -> None:
        async with talk(keeps) as (connection, peer):
            sender = await AmqpSender.open(connection, "log", settle_mode=SenderSettleMode.SETTLED)
            sent = await sender.post([BODY] * 3)
            assert await sent.settled() == []
            mixed = await AmqpSender.open(connection, "other")
            await (await mixed.post([BODY], is_settled=True)).settled()
            await wait_for(lambda: len(peer.bodies) == 4)
            assert all(event.is_settled for event in peer.events if isinstance(event, Deliveries))
            assert (sender.unsettled_count, sender.sent_count, mixed.sent_count) == (0, 3, 1)

    run(work)


# Credit, windows and sizes


def test_no_more_is_unsettled_than_allowed_and_no_more_sent_than_there_is_credit_for() -> None:
    async def work() -> None:
        async with talk(keeps) as (connection, peer):
            sender = await AmqpSender.open(connection, "log", unsettled_max=7)
            posting = asyncio.ensure_future(sender.post([BODY] * 150))
            await wait_for(lambda: len(peer.bodies) == 7)
            await asyncio.sleep(0.02)
            assert (len(peer.bodies), sender.unsettled_count) == (7, 7)
            sender.unsettled_max = 1000
            peer.receiver.settle(0, 3, Accepted())
            peer.flush()
            await wait_for(lambda: len(peer.bodies) == 100)
            await asyncio.sleep(0.02)
            assert len(peer.bodies) == 100, "that is the credit that was given"
            peer.receiver.grant(50)
            peer.flush()
            sent = await posting
            await wait_for(lambda: len(peer.bodies) == 150)
            peer.receiver.settle(0, 150, Accepted())
            peer.flush()
            assert await sent.settled() == []

    run(work)


def test_two_that_post_at_once_do_not_mix_their_messages() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            sender = await AmqpSender.open(connection, "log", unsettled_max=5)
            await asyncio.gather(*[sender.post([letter] * 50, as_data=True) for letter in (b"a", b"b", b"c")])
            await sender.flush()
            assert b"".join(body[-1:] for body in peer.bodies) == b"a" * 50 + b"b" * 50 + b"c" * 50

    run(work)


def test_credit_that_is_drained_is_given_up_and_what_is_posted_waits_for_more() -> None:
    async def work() -> None:
        async with talk(keeps) as (connection, peer):
            sender = await AmqpSender.open(connection, "log", unsettled_max=3)
            posting = asyncio.ensure_future(sender.post([BODY] * 5))
            await wait_for(lambda: len(peer.bodies) == 3)
            peer.receiver.drain()
            peer.flush()
            await wait_for(lambda: peer.receiver.credit == 0)
            peer.receiver.settle(0, 3, Accepted())
            peer.receiver.grant(10)
            peer.flush()
            await posting
            await wait_for(lambda: len(peer.bodies) == 5)
            peer.receiver.drain()
            peer.flush()
            await wait_for(lambda: peer.receiver.credit == 0)

    run(work)


def test_a_message_of_many_frames_is_whole_at_the_node_and_waits_for_the_window() -> None:
    body = data_section(bytes(range(256)) * 400)

    async def work() -> None:
        limits = Limits(frame_size_bytes_max=512, incoming_window=16)
        async with talk(limits=limits) as (connection, peer):
            sender = await AmqpSender.open(connection, "log")
            await sender.send_batch([body, BODY, body])
            assert peer.bodies == [body, BODY, body]
            assert sender.accepted_count == 3

    run(work)


def test_data_of_many_frames_is_put_into_a_section() -> None:
    async def work() -> None:
        async with talk(limits=Limits(frame_size_bytes_max=512)) as (connection, peer):
            sender = await AmqpSender.open(connection, "log")
            await sender.send_batch([b"x" * 3000, b"y"], as_data=True)
            assert peer.bodies == [data_section(b"x" * 3000), data_section(b"y")]
            spans = array("q", [1, 3, 6, 9])
            await (await sender.post_spans(b".ab...cde", spans, 0, 1)).settled()
            assert peer.bodies[2] == b"abcde"

    run(work)


def test_a_message_above_what_the_node_takes_is_not_sent() -> None:
    async def work() -> None:
        async with talk(limits=Limits(message_size_bytes_max=1000)) as (connection, peer):
            sender = await AmqpSender.open(connection, "log")
            assert sender.message_bytes_max == 1000
            with pytest.raises(MessageTooLarge, match="1000"):
                await sender.post([b"a", b"x" * 1001])
            with pytest.raises(MessageTooLarge):
                await sender.post([b"x" * 1000], as_data=True)
            await sender.send_batch([b"x" * 992], as_data=True)
            assert len(peer.bodies) == 1

    run(work)


def test_nothing_posted_is_settled_at_once() -> None:
    async def work() -> None:
        async with talk() as (connection, _):
            sender = await AmqpSender.open(connection, "log")
            assert await (await sender.post([])).settled() == []
            await sender.flush()

    run(work)


def test_a_message_is_encoded_when_it_is_sent_alone() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            sender = await AmqpSender.open(connection, Target())
            await sender.send(Message(application_properties={"k": "v"}))
            assert len(peer.bodies) == 1
            assert isinstance(peer.receiver, ReceiverLink)
            assert isinstance(peer.receiver.remote.target, Target)
            assert peer.receiver.remote.target.address is None
            assert not peer.links(SenderLink)

    run(work)

"""What consumers of a subscription say of its messages, and what comes of it (TS-11)."""

from __future__ import annotations

import pytest

from headwater.amqp.definitions import Condition, Role
from headwater.amqp.messaging import (
    Accepted,
    DeliveryState,
    Modified,
    Received,
    Rejected,
    Released,
)
from headwater.amqp.performatives import Detach, Disposition, Flow
from headwater.encoding.amqp_message import Data, Header, Message, encode_message
from headwater.encoding.compression import Compression, pack_sub_batch
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_subscriber import (
    FAILED,
    NOT_HERE,
    RELEASED,
    Publisher,
    assert_drained,
    count_of,
    leave,
    offsets,
    settle,
    subscribe,
)
from tests.conformance.amqp_wire import FIRST, AmqpWire, Delivered, data
from tests.conformance.conftest import ConnectAmqp
from tests.conformance.listening import HOST
from tests.conformance.wire import opened

DURABLE = ("shared", "durable")


@pytest.fixture
def publish(connect_amqp: ConnectAmqp, log: str) -> Publisher:
    return Publisher(connect_amqp(), log)


def counted(messages: list[Delivered]) -> list[tuple[int, int]]:
    """Offsets with the delivery-counts that came with them."""
    return [(each.offset, count_of(each)) for each in messages]


# One by one


@pytest.mark.clause("TS-11")
@pytest.mark.parametrize("state", [Accepted(), Rejected()])
def test_what_is_accepted_or_rejected_does_not_come_again(
    peer: AmqpWire, publish: Publisher, log: str, state: DeliveryState
) -> None:
    subscribe(peer, log, "sub", *DURABLE)
    publish(5)
    settle(peer, peer.messages(5), state)
    leave(peer)
    subscribe(peer, log, "sub", *DURABLE)
    peer.assert_nothing_came()


@pytest.mark.clause("TS-11")
@pytest.mark.parametrize(
    ("state", "count"),
    [
        (Released(), 0),
        (Modified(), 0),
        (Modified(delivery_failed=True), 1),
        (None, 0),
    ],
)
def test_what_is_released_or_modified_comes_again_and_a_failure_is_counted(
    peer: AmqpWire, publish: Publisher, log: str, state: DeliveryState | None, count: int
) -> None:
    subscribe(peer, log, "sub", *DURABLE)
    publish(5)
    came = peer.messages(5)
    assert counted(came) == [(offset, 0) for offset in range(5)]
    settle(peer, came[:1])
    peer.send(Disposition(Role.RECEIVER, came[1].id, came[2].id, settled=True, state=state))
    assert counted(peer.messages(2)) == [(1, count), (2, count)]
    publish(1)
    assert counted(peer.messages(1)) == [(5, 0)]


@pytest.mark.clause("TS-11")
@pytest.mark.parametrize(
    ("default", "counts"), [(None, [0]), (Released(), [0]), (FAILED, [1]), (Accepted(), [])]
)
@pytest.mark.parametrize("state", [None, Received(0, 0)])
def test_what_is_settled_without_an_outcome_has_the_default_one(
    peer: AmqpWire,
    publish: Publisher,
    log: str,
    default: DeliveryState | None,
    counts: list[int],
    state: DeliveryState | None,
) -> None:
    subscribe(peer, log, "sub", *DURABLE, default_outcome=default)
    publish(1)
    (came,) = peer.messages(1)
    peer.send(Disposition(Role.RECEIVER, came.id, settled=True, state=state))
    assert [count_of(each) for each in peer.messages(len(counts))] == counts
    peer.assert_nothing_came()


@pytest.mark.clause("TS-11")
def test_a_state_that_is_no_outcome_says_nothing_yet(peer: AmqpWire, publish: Publisher, log: str) -> None:
    subscribe(peer, log, "sub", *DURABLE)
    publish(1)
    (came,) = peer.messages(1)
    settle(peer, [came], Received(0, 0), settled=False)
    peer.assert_nothing_came()
    settle(peer, [came], RELEASED)
    assert counted(peer.messages(1)) == [(0, 0)]


@pytest.mark.clause("TS-11")
def test_failures_are_counted_up_to_what_a_header_says(peer: AmqpWire, publish: Publisher, log: str) -> None:
    subscribe(peer, log, "sub", *DURABLE)
    publish(2)
    came = peer.messages(2)
    for count in range(1, 10):
        settle(peer, came, FAILED)
        came = peer.messages(2)
        assert counted(came) == [(0, count), (1, count)]


@pytest.mark.clause("TS-11")
def test_the_count_is_raised_in_a_header_that_keeps_all_else(
    peer: AmqpWire, publish: Publisher, log: str
) -> None:
    body = Data((b"x",))
    headers = [
        Header(durable=True, priority=7, ttl=60_000, first_acquirer=True),
        Header(delivery_count=3),
        Header(delivery_count=0xFFFFFFFF),
    ]
    publish.records([*(encode_message(Message(header=header, body=body)) for header in headers), data(b"x")])
    subscribe(peer, log, "sub", *DURABLE, filter=FIRST)
    came = peer.messages(4)
    assert [count_of(each) for each in came] == [0, 3, 0xFFFFFFFF, 0]
    settle(peer, came, FAILED)
    again = peer.messages(4)
    assert [count_of(each) for each in again] == [1, 4, 0xFFFFFFFF, 1]
    assert again[0].record == encode_message(
        Message(header=Header(True, 7, 60_000, first_acquirer=False, delivery_count=1), body=body)
    )
    assert again[3].record == encode_message(Message(header=Header(delivery_count=1), body=body))


@pytest.mark.clause("TS-11")
def test_entries_that_are_no_messages_and_sub_batches_come_again_with_their_counts(
    peer: AmqpWire, publish: Publisher, amqp_door: ListeningAmqp, log: str
) -> None:
    with opened(HOST, amqp_door.port) as stream:
        stream.declare(1, log)
        batch = pack_sub_batch([data(b"%d" % number) for number in range(3)], Compression.GZIP)
        stream.publish(1, [(0, b"no message"), (1, batch)])
    subscribe(peer, log, "sub", *DURABLE, filter=FIRST)
    came = peer.messages(4)
    assert came[0].record == data(b"no message")
    settle(peer, [came[0], came[2]], FAILED)
    again = peer.messages(2)
    assert counted(again) == [(0, 1), (2, 1)]
    assert again[1].record.endswith(data(b"1"))
    assert again[0].record.endswith(data(b"no message"))


@pytest.mark.clause("TS-11")
def test_messages_are_settled_in_any_order_and_ranges(peer: AmqpWire, publish: Publisher, log: str) -> None:
    subscribe(peer, log, "sub", *DURABLE)
    publish(100)
    came = peer.messages(100)
    for each in reversed(came[::2]):
        settle(peer, [each])
    peer.send(Disposition(Role.RECEIVER, came[0].id, came[49].id, settled=True, state=RELEASED))
    assert offsets(peer.messages(25)) == list(range(1, 50, 2))
    peer.send(Disposition(Role.RECEIVER, came[50].id, came[99].id, settled=True, state=Accepted()))
    leave(peer)
    subscribe(peer, log, "sub", *DURABLE)
    assert counted(peer.messages(25)) == [(offset, 1) for offset in range(1, 50, 2)]
    peer.assert_nothing_came()


# Of this link alone


@pytest.mark.clause("TS-11")
def test_what_cannot_be_delivered_here_goes_to_another_consumer(
    peer: AmqpWire, publish: Publisher, connect_amqp: ConnectAmqp, log: str
) -> None:
    other = connect_amqp()
    name = f"sub-{log}"
    subscribe(peer, log, name, "global", *DURABLE)
    publish(3)
    came = peer.messages(3)
    settle(peer, came[:2], NOT_HERE)
    settle(peer, came[2:])
    peer.assert_nothing_came()
    subscribe(other, log, name, "global", *DURABLE)
    assert counted(other.messages(2)) == [(0, 0), (1, 0)]
    peer.assert_nothing_came()


@pytest.mark.clause("TS-11")
def test_what_cannot_be_delivered_here_does_not_keep_back_what_follows_nor_a_drain(
    peer: AmqpWire, publish: Publisher, log: str
) -> None:
    subscribe(peer, log, "sub", *DURABLE, credit=3)
    publish(3)
    settle(peer, peer.messages(3)[:1], Modified(delivery_failed=True, undeliverable_here=True))
    peer.assert_nothing_came()
    publish(2)
    peer.credit(10, delivery_count=3)
    assert counted(peer.messages(2)) == [(3, 0), (4, 0)]
    assert_drained(peer, delivery_count=5)


@pytest.mark.clause("TS-11")
def test_a_consumer_that_comes_anew_is_given_what_it_could_not_take_before(
    peer: AmqpWire, publish: Publisher, log: str
) -> None:
    subscribe(peer, log, "sub", *DURABLE)
    publish(1)
    settle(peer, peer.messages(1), NOT_HERE)
    peer.assert_nothing_came()
    leave(peer)
    subscribe(peer, log, "sub", *DURABLE)
    assert counted(peer.messages(1)) == [(0, 0)]


# When a consumer goes


@pytest.mark.clause("TS-11")
@pytest.mark.parametrize("how", ["vanish", "detach", "close"])
def test_what_a_consumer_held_as_it_went_goes_to_the_others_counted(
    publish: Publisher, connect_amqp: ConnectAmqp, log: str, how: str
) -> None:
    one, two = (connect_amqp(fields={"container_id": "same"}) for _ in range(2))
    subscribe(one, log, "sub|1", *DURABLE, credit=10)
    publish(10)
    came = one.messages(10)
    settle(one, came[:3])
    settle(one, came[3:4], FAILED)
    one.assert_nothing_came()
    subscribe(two, log, "sub|2", *DURABLE, credit=100)
    assert counted(two.messages(1)) == [(3, 1)]
    if how == "vanish":
        one.vanish()
    else:
        one.send(Detach(0, closed=how == "close"))
    assert counted(two.messages(6)) == [(offset, 1) for offset in range(4, 10)]


@pytest.mark.clause("TS-11", "TS-6")
def test_a_single_consumer_that_comes_back_sees_what_it_held_counted(
    peer: AmqpWire, publish: Publisher, log: str
) -> None:
    subscribe(peer, log, "sub", "durable")
    publish(4)
    settle(peer, peer.messages(4)[1:2])
    leave(peer)
    publish(1)
    subscribe(peer, log, "sub", "durable")
    assert counted(peer.messages(4)) == [(0, 1), (2, 1), (3, 1), (4, 0)]


@pytest.mark.clause("TS-11")
def test_what_was_settled_as_it_was_sent_does_not_come_again(
    peer: AmqpWire, publish: Publisher, log: str
) -> None:
    subscribe(peer, log, "sub", *DURABLE, settled=True, credit=6)
    publish(10)
    came = peer.messages(6)
    assert all(each.settled for each in came)
    leave(peer)
    subscribe(peer, log, "sub", *DURABLE)
    assert counted(peer.messages(4)) == [(offset, 0) for offset in range(6, 10)]


# Settling second


@pytest.mark.clause("TS-11")
def test_with_settle_mode_second_ours_comes_when_the_outcome_is_on_disk(
    peer: AmqpWire, publish: Publisher, log: str
) -> None:
    subscribe(peer, log, "sub", *DURABLE, second=True)
    publish(10)
    came = peer.messages(10)
    peer.send(Disposition(Role.RECEIVER, came[0].id, came[4].id, settled=False, state=Accepted()))
    answer = peer.take(Disposition)
    assert (answer.role, answer.first, answer.last, answer.settled) == (
        Role.SENDER,
        came[0].id,
        came[4].id,
        True,
    )
    assert answer.state == Accepted()
    peer.send(Disposition(Role.RECEIVER, came[0].id, came[4].id, settled=True, state=Accepted()))
    settle(peer, came[5:6], FAILED, settled=False)
    told = [peer.next().performative, peer.next().performative]
    assert sorted(type(each).__name__ for each in told) == ["Disposition", "Transfer"]
    settle(peer, came[6:], settled=False)
    answered = 0
    while answered < len(came[6:]):
        answer = peer.take(Disposition)
        answered += 1 + (answer.first if answer.last is None else answer.last) - answer.first


@pytest.mark.clause("TS-7", "TS-11")
def test_with_settle_mode_second_what_is_not_durable_is_settled_at_once(
    peer: AmqpWire, publish: Publisher, log: str
) -> None:
    subscribe(peer, log, "sub", "shared", second=True)
    publish(3)
    came = peer.messages(3)
    peer.send(Disposition(Role.RECEIVER, came[0].id, came[2].id, settled=False, state=Accepted()))
    answer = peer.take(Disposition)
    assert (answer.first, answer.last, answer.settled) == (came[0].id, came[2].id, True)


# What the receiver does not take


@pytest.mark.clause("TS-11")
def test_a_message_larger_than_a_consumer_takes_ends_its_link_and_waits_for_another(
    publish: Publisher, connect_amqp: ConnectAmqp, log: str
) -> None:
    small, large = (connect_amqp(fields={"container_id": "same"}) for _ in range(2))
    subscribe(small, log, "sub|small", *DURABLE, link={"max_message_size": 2_000})
    publish.records([data(b"1"), data(b"2" * 4_000), data(b"3"), data(b"4")])
    (first,) = small.messages(1)
    error = small.assert_detaches(Condition.LINK_MESSAGE_SIZE_EXCEEDED)
    assert "the message at offset 1 has" in str(error.description)
    assert first.offset == 0
    subscribe(large, log, "sub|large", *DURABLE)
    assert counted(large.messages(4)) == [(0, 1), (1, 1), (2, 0), (3, 0)]


@pytest.mark.clause("TS-11")
def test_a_message_of_many_frames_that_was_cut_off_comes_again(
    publish: Publisher, connect_amqp: ConnectAmqp, log: str
) -> None:
    fields = {"container_id": "same"}
    peer = connect_amqp(session=False, fields={**fields, "max_frame_size": 512})
    peer.begin(window=3)
    subscribe(peer, log, "sub|1", *DURABLE, credit=0)
    peer.send(Flow(0, 3, 0, 1, 0, 0, 10))
    publish.records([data(b"x" * 5_000), data(b"y")])
    for _ in range(3):
        assert peer.next().payload
    peer.vanish()
    other = connect_amqp(fields=fields)
    subscribe(other, log, "sub|2", *DURABLE)
    assert counted(other.messages(2)) == [(0, 1), (1, 0)]


# Who may not read any longer


@pytest.mark.clause("TS-11")
def test_who_may_no_longer_read_loses_the_link_and_not_a_message(
    publish: Publisher, connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    user = f"user-{log}"
    amqp_door.add_user(user)
    amqp_door.permit(user, read=log)
    peer = connect_amqp(user=user, password="pencil", fields={"container_id": "same"})
    subscribe(peer, log, "sub", *DURABLE, credit=2)
    publish(2)
    settle(peer, peer.messages(2))
    peer.assert_nothing_came()
    amqp_door.permit(user, read="")
    publish(3)
    peer.credit(10, delivery_count=2)
    peer.assert_detaches(Condition.UNAUTHORIZED_ACCESS)
    amqp_door.permit(user, read=log)
    subscribe(peer, log, "sub", *DURABLE)
    assert counted(peer.messages(3)) == [(2, 0), (3, 0), (4, 0)]

"""How a shared subscription is divided (TS-3): by credit and in turn, past those who are slow; drains and selectors."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.amqp.definitions import Role
from headwater.amqp.messaging import Accepted
from headwater.amqp.performatives import Disposition, Flow, Transfer
from headwater.encoding.amqp_message import Data, Message, encode_message
from headwater.encoding.amqp_types import Described, Symbol
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_subscriber import (
    FAILED,
    RELEASED,
    Publisher,
    assert_drained,
    count_of,
    leave,
    offsets,
    settle,
    subscribe,
)
from tests.conformance.amqp_wire import WINDOW, AmqpWire, data
from tests.conformance.conftest import ConnectAmqp

DURABLE = ("shared", "durable")
SELECTOR = Symbol("apache.org:selector-filter:string")
SQL_FILTER = Symbol("amqp:event-streams-sql-filter")


@pytest.fixture
def publish(connect_amqp: ConnectAmqp, log: str) -> Publisher:
    return Publisher(connect_amqp(), log)


@pytest.fixture
def sharing(connect_amqp: ConnectAmqp, log: str) -> Any:
    """Opens a connection with a consumer of the subscription `sub`."""

    def made(*words: str, connection: dict[str, Any] | None = None, **how: Any) -> AmqpWire:
        peer = connect_amqp(fields={"container_id": "same"}, **(connection or {}))
        subscribe(peer, log, "sub", "shared", *words, **how)
        return peer

    return made


def take_all(peers: list[AmqpWire], count: int) -> list[int]:
    """How many messages each of these takes of so many, settling none."""
    taken = [0] * len(peers)
    while sum(taken) < count:
        for number, peer in enumerate(peers):
            while sum(taken) < count and peer.has_something(0.01):
                peer.message()
                taken[number] += 1
    return taken


@pytest.mark.clause("TS-3")
@pytest.mark.parametrize("count", [2, 3, 4])
def test_consumers_with_credit_get_equal_shares(publish: Publisher, sharing: Any, count: int) -> None:
    peers = [sharing() for _ in range(count)]
    publish(120)
    shares = [offsets(peer.messages(120 // count)) for peer in peers]
    assert sorted(each for share in shares for each in share) == list(range(120))
    for share in shares:
        assert share == sorted(share)


@pytest.mark.clause("TS-3")
def test_nobody_gets_more_than_its_credit_and_who_has_more_gets_the_rest(
    publish: Publisher, sharing: Any
) -> None:
    little, much = sharing(credit=3), sharing(credit=100)
    publish(50)
    assert len(little.messages(3)) == 3
    assert len(much.messages(47)) == 47
    little.assert_nothing_came()
    little.credit(1, delivery_count=3)
    little.assert_nothing_came()
    publish(1)
    assert take_all([little, much], 1) in ([1, 0], [0, 1])


@pytest.mark.clause("TS-3")
def test_consumers_that_take_one_at_a_time_take_turns(publish: Publisher, sharing: Any) -> None:
    peers = [sharing(credit=0) for _ in range(3)]
    publish(30)
    seen: list[int] = []
    for turn in range(10):
        for peer in peers:
            peer.credit(1, delivery_count=turn)
            (came,) = peer.messages(1)
            seen.append(came.offset)
            settle(peer, [came])
    assert seen == list(range(30))


@pytest.mark.clause("TS-3")
def test_single_messages_go_to_each_consumer_in_turn(publish: Publisher, sharing: Any) -> None:
    peers = [sharing() for _ in range(3)]
    for _ in range(12):
        publish(1)
    assert [offsets(peer.messages(4)) for peer in peers] == [list(range(n, 12, 3)) for n in range(3)]


@pytest.mark.clause("TS-3")
def test_a_consumer_that_settles_nothing_holds_nobody_up(publish: Publisher, sharing: Any) -> None:
    silent, busy = sharing(credit=10), sharing(credit=10)
    publish(100)
    held = silent.messages(10)
    got: list[int] = []
    while len(got) < 90:
        came = busy.message()
        got.append(came.offset)
        settle(busy, [came])
        busy.credit(10, delivery_count=len(got))
    assert sorted([*got, *offsets(held)]) == list(range(100))
    busy.assert_nothing_came()


@pytest.mark.clause("TS-3")
def test_a_consumer_that_does_not_read_its_socket_holds_nobody_up(
    publish: Publisher, sharing: Any, amqp_door: ListeningAmqp
) -> None:
    stuck = sharing("durable", credit=100_000, connection={"receive_buffer_bytes": 4096})
    busy = sharing("durable", credit=0)
    large = [data(b"x" * 20_000)] * 50
    for _ in range(8):
        publish.records(large)
    stuck.has_something(10)
    unsent = amqp_door.unsent_bytes_max()
    assert 0 < unsent < 4 << 20, "what waits for its socket is bounded"
    busy.credit(1_000)
    taken = 0
    while busy.has_something(0.3):
        busy.message()
        taken += 1
    assert taken > 0
    stuck.vanish()
    rest = busy.messages(400 - taken)
    assert {count_of(each) for each in rest} <= {0, 1}
    publish.records([data(b"last")])
    assert busy.message().record == data(b"last")


@pytest.mark.clause("TS-3")
def test_a_consumer_without_a_window_holds_nobody_up(
    publish: Publisher, connect_amqp: ConnectAmqp, sharing: Any, log: str
) -> None:
    narrow = connect_amqp(session=False, fields={"container_id": "same"})
    narrow.begin(window=2)
    subscribe(narrow, log, "sub", "shared", credit=0)
    narrow.send(Flow(0, 2, 0, 1, 0, 0, 100))
    wide = sharing()
    publish(40)
    first, second = narrow.messages(2), wide.messages(38)
    assert sorted(offsets(first) + offsets(second)) == list(range(40))
    narrow.send(Flow(2, WINDOW, 0, 1, 0, 2, 100))
    publish(2)
    assert take_all([narrow, wide], 2) == [1, 1]


@pytest.mark.clause("TS-3", "TS-11")
def test_two_consumers_of_one_session_share_its_window(
    publish: Publisher, connect_amqp: ConnectAmqp, log: str
) -> None:
    peer = connect_amqp(session=False)
    peer.begin(window=10)
    for handle in range(2):
        subscribe(peer, log, f"sub|{handle}", *DURABLE, handle=handle, credit=0)
        peer.send(Flow(0, 10, 0, 1, handle, 0, 100))
    publish(30)
    came = peer.messages(10)
    peer.send(Flow(10, WINDOW, 0, 1))
    came += peer.messages(20)
    assert sorted(offsets(came)) == list(range(30))
    assert {count_of(each) for each in came} == {0}


# Drain


@pytest.mark.clause("TS-3")
def test_a_drain_brings_what_there_is_and_gives_up_the_rest(publish: Publisher, sharing: Any) -> None:
    peer, other = sharing(credit=0), sharing(credit=0)
    publish(5)
    peer.credit(100, drain=True)
    assert offsets(peer.messages(5)) == list(range(5))
    answer = peer.take(Flow)
    assert (answer.drain, answer.link_credit, answer.delivery_count) == (True, 0, 100)
    assert_drained(other)
    publish(1)
    peer.assert_nothing_came()
    peer.credit(1, delivery_count=100)
    assert offsets(peer.messages(1)) == [5]


@pytest.mark.clause("TS-3")
def test_a_drain_is_not_answered_while_a_window_keeps_back_what_there_is(
    publish: Publisher, connect_amqp: ConnectAmqp, log: str
) -> None:
    peer = connect_amqp(session=False)
    peer.begin(window=3)
    subscribe(peer, log, "sub", *DURABLE, credit=0)
    publish(7)
    peer.send(Flow(0, 3, 0, 1, 0, 0, 100, drain=True))
    came = peer.messages(3)
    peer.send(Flow(3, WINDOW, 0, 1))
    came += peer.messages(4)
    assert offsets(came) == list(range(7))
    assert peer.take(Flow).link_credit == 0


@pytest.mark.clause("TS-3", "TS-11")
def test_what_comes_back_is_brought_by_the_next_drain(publish: Publisher, sharing: Any) -> None:
    peer = sharing(credit=3)
    publish(3)
    came = peer.messages(3)
    settle(peer, came, RELEASED)
    peer.assert_nothing_came()
    peer.credit(10, delivery_count=3, drain=True)
    assert offsets(peer.messages(3)) == [0, 1, 2]
    assert peer.take(Flow).link_credit == 0


# Selectors


def coloured(number: int) -> bytes:
    properties = {"colour": "red" if number % 3 == 0 else "blue"}
    return encode_message(Message(application_properties=properties, body=Data((b"%d" % number,))))


def selecting(text: str) -> dict[Symbol, Any]:
    return {SELECTOR: Described(SELECTOR, text)}


@pytest.mark.clause("TS-1", "ES-28")
def test_a_selector_leaves_out_what_costs_no_credit_and_never_comes_back(
    publish: Publisher, sharing: Any
) -> None:
    filters = selecting("colour = 'red'")
    peers = [sharing("durable", filter=filters, credit=2) for _ in range(2)]
    publish.records(map(coloured, range(60)))
    seen: list[int] = []
    counts = [0, 0]
    while len(seen) < 20:
        for number, peer in enumerate(peers):
            if peer.has_something(0.01):
                came = peer.message()
                settle(peer, [came])
                seen.append(came.offset)
                counts[number] += 1
                peer.credit(2, delivery_count=counts[number])
    assert sorted(seen) == list(range(0, 60, 3))
    for peer in peers:
        peer.assert_nothing_came()


@pytest.mark.clause("TS-6", "ES-28")
def test_a_durable_subscription_with_a_selector_goes_on_selecting(
    publish: Publisher, peer: AmqpWire, log: str
) -> None:
    filters = selecting("colour = 'red'")
    subscribe(peer, log, "sub", "durable", filter=filters)
    publish.records(map(coloured, range(30)))
    settle(peer, peer.messages(10)[:5])
    leave(peer)
    publish.records(map(coloured, range(30, 6_000)))
    subscribe(peer, log, "sub", "durable", filter=filters)
    wanted = list(range(15, 6_000, 3))
    got: list[int] = []
    while len(got) < len(wanted):
        came = peer.message()
        got.append(came.offset)
        if len(got) % 500 == 0:
            peer.credit(1_000, delivery_count=len(got))
    assert got == wanted


@pytest.mark.clause("TS-11", "ES-28")
def test_what_a_selector_chose_and_failed_comes_again_alone(
    publish: Publisher, peer: AmqpWire, log: str
) -> None:
    subscribe(peer, log, "sub", *DURABLE, filter=selecting("colour = 'red'"))
    publish.records(map(coloured, range(9)))
    came = peer.messages(3)
    settle(peer, came[:2], FAILED)
    settle(peer, came[2:])
    again = peer.messages(2)
    assert [(each.offset, count_of(each)) for each in again] == [(0, 1), (3, 1)]
    assert_drained(peer, delivery_count=5)


@pytest.mark.clause("TS-3", "ES-26")
def test_an_upper_bound_ends_what_is_shared_and_the_links_stay(publish: Publisher, sharing: Any) -> None:
    text = "d.event-streams-offset < '0000000000000004'"
    peers = [sharing(filter={SQL_FILTER: Described(SQL_FILTER, text)}, credit=10) for _ in range(2)]
    publish(10)
    assert sorted(each for peer in peers for each in offsets(peer.messages(2))) == [0, 1, 2, 3]
    for peer in peers:
        assert_drained(peer, delivery_count=2)


# Much


@pytest.mark.clause("TS-3", "TS-11")
def test_many_messages_pass_four_consumers_once_each(publish: Publisher, sharing: Any) -> None:
    peers = [sharing("durable", credit=200) for _ in range(4)]
    for _ in range(10):
        publish(400)
    seen: list[int] = []
    counts = [0] * 4
    while len(seen) < 4_000:
        for number, peer in enumerate(peers):
            for _ in range(50):
                if not peer.has_something(0):
                    break
                came = peer.next()
                part = came.performative
                assert isinstance(part, Transfer)
                assert part.delivery_id is not None
                seen.append(int(came.payload[came.payload.index(b"\xa3\x10") + 2 :][:16], 16))
                counts[number] += 1
                if counts[number] % 50 == 0:
                    first = part.delivery_id - 49
                    peer.send(
                        Disposition(Role.RECEIVER, first, part.delivery_id, settled=True, state=Accepted())
                    )
                    peer.credit(200, delivery_count=counts[number])
    assert sorted(seen) == list(range(4_000))
    assert min(counts) >= 200

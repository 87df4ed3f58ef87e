"""Event Stream Extensions, section 4.7 (ES-4): positions that outlive their links, and until when."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.amqp.definitions import Condition, Role
from headwater.amqp.event_streams import PARTITION
from headwater.amqp.messaging import Source, Target, TerminusDurability, TerminusExpiryPolicy
from headwater.amqp.performatives import Begin, Close, End
from headwater.encoding.amqp_types import Described, Symbol
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_subscriber import (
    Publisher,
    body,
    leave,
    offsets,
    settle,
    source_of,
    subscribe,
)
from tests.conformance.amqp_wire import WINDOW, AmqpWire
from tests.conformance.conftest import ConnectAmqp

SQL_FILTER = Symbol("amqp:event-streams-sql-filter")
TO_ZERO = {"properties": {PARTITION: Symbol("0")}}
LINK_DETACH, SESSION_END, CONNECTION_CLOSE, NEVER = TerminusExpiryPolicy
EARLIEST = "d.event-streams-offset > '@earliest'"


@pytest.fixture
def publish(connect_amqp: ConnectAmqp, log: str) -> Publisher:
    return Publisher(connect_amqp(), log)


@pytest.fixture
def connect(connect_amqp: ConnectAmqp) -> Callable[[], AmqpWire]:
    """Opens connections of one container."""
    return lambda: connect_amqp(fields={"container_id": "same"})


def sql(text: str) -> dict[Symbol, Any]:
    return {SQL_FILTER: Described(SQL_FILTER, text)}


def digits(offset: int) -> str:
    return f"{offset:016x}"


def bound(peer: AmqpWire, log: str, name: str = "terminus", **fields: Any) -> Source:
    """A durable link to partition 0; gives what it was granted."""
    answer = subscribe(peer, log, name, "durable", link=TO_ZERO, **fields)
    assert answer.properties == {PARTITION: "0"}
    assert isinstance(answer.source, Source)
    return answer.source


def take(peer: AmqpWire, count: int) -> list[int]:
    """Messages, which are settled."""
    came = peer.messages(count)
    settle(peer, came)
    return offsets(came)


# The position


@pytest.mark.clause("ES-4")
def test_a_position_is_kept_while_detached_and_what_was_not_settled_comes_again(
    connect: Callable[[], AmqpWire], publish: Publisher, log: str
) -> None:
    publish(3)
    peer = connect()
    bound(peer, log)
    publish(7)
    came = peer.messages(7)
    settle(peer, came[:4])
    leave(peer)
    publish(2)
    again = connect()
    bound(again, log)
    assert offsets(again.messages(5)) == [7, 8, 9, 10, 11]


@pytest.mark.clause("ES-4")
@pytest.mark.parametrize("again", [EARLIEST, "d.event-streams-offset > '@latest'", None])
def test_a_kept_position_beats_the_filter_of_the_next_attach(
    connect: Callable[[], AmqpWire], publish: Publisher, log: str, again: str | None
) -> None:
    publish(10)
    peer = connect()
    filters = sql(f"d.event-streams-offset >= '{digits(4)}'")
    assert bound(peer, log, filter=filters).filter == filters
    assert take(peer, 6) == list(range(4, 10))
    leave(peer)
    publish(5)
    filters = {} if again is None else sql(again)
    assert (bound(peer, log, filter=filters).filter or {}) == filters
    assert offsets(peer.messages(5)) == list(range(10, 15))
    peer.assert_nothing_came()


@pytest.mark.clause("ES-4")
def test_the_filter_of_the_next_attach_selects_from_where_it_goes_on(
    connect: Callable[[], AmqpWire], publish: Publisher, log: str
) -> None:
    publish(10)
    peer, other = connect(), connect()
    bound(peer, log, filter=sql(EARLIEST), credit=3)
    assert take(peer, 3) == [0, 1, 2]
    peer.assert_nothing_came()
    wanted = f"d.event-streams-offset > '{digits(6)}' OR d.event-streams-offset = '{digits(1)}'"
    bound(other, log, filter=sql(wanted))
    peer.assert_detaches(Condition.LINK_STOLEN)
    assert offsets(other.messages(3)) == [7, 8, 9]


@pytest.mark.clause("ES-4")
def test_a_filter_of_event_streams_makes_a_terminus_of_a_whole_log(
    connect: Callable[[], AmqpWire], amqp_door: ListeningAmqp, connect_amqp: ConnectAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 2)
    writer = connect_amqp()
    for number in range(2):
        writer.sender(f"{log}-{number}", handle=number)
        writer.publish([body(0)] * 3, first_id=3 * number, handle=number)
    peer = connect()
    subscribe(peer, log, "terminus", "durable", filter=sql(EARLIEST))
    came = peer.messages(6)
    assert sorted((each.partition, each.offset) for each in came) == [
        (partition, offset) for partition in "01" for offset in range(3)
    ]
    settle(peer, [each for each in came if (each.partition, each.offset) != ("1", 2)])
    leave(peer)
    subscribe(peer, log, "terminus", "durable", filter=sql("d.event-streams-timestamp > 1000"))
    assert [(each.partition, each.offset) for each in peer.messages(1)] == [("1", 2)]
    peer.assert_nothing_came()


@pytest.mark.clause("ES-4")
def test_the_whole_name_of_its_link_is_a_terminus_name(
    connect: Callable[[], AmqpWire], publish: Publisher, log: str
) -> None:
    one, two = connect(), connect()
    bound(one, log, "terminus|1")
    bound(two, log, "terminus|2")
    publish(4)
    assert take(one, 4) == take(two, 4) == [0, 1, 2, 3]


@pytest.mark.clause("ES-4")
def test_a_terminus_knows_its_partition_and_is_not_attached_to_with_another(
    connect: Callable[[], AmqpWire], amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 2)
    peer = connect()
    bound(peer, log)
    leave(peer)
    error = peer.refused(
        Condition.PRECONDITION_FAILED,
        Role.RECEIVER,
        source_of(log, "durable"),
        Target(),
        name="terminus",
        properties={PARTITION: Symbol("1")},
    )
    assert "with other properties" in str(error.description)


@pytest.mark.clause("ES-4", "ES-10")
@pytest.mark.parametrize("words", [("durable",), ("shared", "durable")])
def test_who_comes_back_without_naming_a_partition_is_told_which_one_it_has(
    connect: Callable[[], AmqpWire], amqp_door: ListeningAmqp, log: str, words: tuple[str, ...]
) -> None:
    amqp_door.super_stream(log, 3)
    peer, writer = connect(), connect()
    to_one = {"properties": {PARTITION: Symbol("1")}}
    subscribe(peer, log, "terminus", *words, link=to_one)
    leave(peer)
    for number in range(3):
        writer.sender(f"{log}-{number}", handle=number)
        writer.publish([body(0)], first_id=number, handle=number)
    assert subscribe(peer, log, "terminus", *words).properties == {PARTITION: "1"}
    assert peer.message().partition == "1"
    peer.assert_nothing_came()


# What is granted


@pytest.mark.clause("ES-4", "TS-13")
@pytest.mark.parametrize("policy", [LINK_DETACH, SESSION_END, CONNECTION_CLOSE, NEVER])
@pytest.mark.parametrize("durability", [TerminusDurability.CONFIGURATION, TerminusDurability.UNSETTLED_STATE])
def test_durability_policy_and_timeout_are_granted_as_they_are_asked_for(
    connect: Callable[[], AmqpWire],
    publish: Publisher,
    log: str,
    policy: TerminusExpiryPolicy,
    durability: TerminusDurability,
) -> None:
    source = bound(connect(), log, durable=durability, expiry_policy=policy, timeout=17)
    assert (source.durable, source.expiry_policy, source.timeout) == (durability, policy, 17)


# How long it lasts


def depart(door: ListeningAmqp, peer: AmqpWire, how: str) -> None:
    if how == "detach":
        leave(peer)
    elif how == "end":
        peer.send(End())
        peer.until(End)
    elif how == "close":
        peer.send(Close())
        peer.until(Close)
    elif how == "leave and end":
        leave(peer)
        peer.send(End())
        peer.until(End)
    else:
        door.lose(peer)


@pytest.mark.clause("ES-4")
@pytest.mark.parametrize(
    ("policy", "how", "is_kept"),
    [
        (LINK_DETACH, "detach", False),
        (LINK_DETACH, "end", False),
        (LINK_DETACH, "vanish", False),
        (SESSION_END, "detach", True),
        (SESSION_END, "end", False),
        (SESSION_END, "leave and end", False),
        (SESSION_END, "close", False),
        (CONNECTION_CLOSE, "detach", True),
        (CONNECTION_CLOSE, "leave and end", True),
        (CONNECTION_CLOSE, "close", False),
        (CONNECTION_CLOSE, "vanish", False),
        (NEVER, "detach", True),
        (NEVER, "end", True),
        (NEVER, "close", True),
        (NEVER, "vanish", True),
    ],
)
@pytest.mark.parametrize("is_terminus", [True, False])
def test_a_policy_says_what_ends_it(
    connect: Callable[[], AmqpWire],
    publish: Publisher,
    amqp_door: ListeningAmqp,
    log: str,
    policy: TerminusExpiryPolicy,
    how: str,
    is_kept: bool,
    is_terminus: bool,
) -> None:
    publish(5)
    peer, other = connect(), connect()
    link = TO_ZERO if is_terminus else None
    subscribe(peer, log, "terminus", "durable", link=link, expiry_policy=policy)
    depart(amqp_door, peer, how)
    assert bool(subscriptions(amqp_door, log)) == is_kept
    publish(5)
    subscribe(other, log, "terminus", "durable", link=link, expiry_policy=policy)
    if is_kept:
        assert offsets(other.messages(5)) == list(range(5, 10))
    other.assert_nothing_came()


def subscriptions(door: ListeningAmqp, log: str) -> list[Any]:
    return door.call(lambda: list(door.consumers.subscriptions.on_log("/", log)))


@pytest.mark.clause("ES-4")
def test_a_timeout_runs_from_what_its_policy_says_until_somebody_attaches_again(
    tmp_path: Path, log: str
) -> None:
    fields = {"container_id": "same"}
    with (
        ListeningAmqp(tmp_path / "data") as door,
        door.connect(fields=fields) as peer,
        door.connect(fields=fields) as other,
    ):

        def expiry_ms() -> int | None:
            return door.call(lambda: door.consumers.subscriptions.next_expiry_ms)

        publish = Publisher(other, log)
        bound(peer, log, expiry_policy=SESSION_END, timeout=1)
        leave(peer)
        assert expiry_ms() is None, "the session goes on"
        peer.send(End())
        peer.until(End)
        assert expiry_ms() is not None
        bound(other, log, expiry_policy=SESSION_END, timeout=1, handle=1)
        assert expiry_ms() is None, "somebody is attached"
        publish(3)
        assert take(other, 3) == [0, 1, 2]
        other.send(End())
        other.until(End)
        assert subscriptions(door, log)
        while subscriptions(door, log):
            time.sleep(0.01)


@pytest.mark.clause("ES-4", "TS-9")
@pytest.mark.parametrize("policy", [LINK_DETACH, NEVER])
def test_closing_the_link_discards_the_position_at_once(
    connect: Callable[[], AmqpWire],
    publish: Publisher,
    amqp_door: ListeningAmqp,
    log: str,
    policy: TerminusExpiryPolicy,
) -> None:
    peer = connect()
    bound(peer, log, expiry_policy=policy, timeout=1_000)
    leave(peer, closed=True)
    assert not subscriptions(amqp_door, log)
    publish(3)
    bound(peer, log)
    peer.assert_nothing_came()


@pytest.mark.clause("ES-4")
def test_sessions_of_one_connection_end_for_themselves(
    connect: Callable[[], AmqpWire], publish: Publisher, amqp_door: ListeningAmqp, log: str
) -> None:
    peer = connect()
    bound(peer, log, expiry_policy=SESSION_END)
    leave(peer)
    peer.send(Begin(None, 0, WINDOW, WINDOW), channel=1)
    peer.take(Begin, 1)
    peer.send(End(), channel=1)
    assert peer.take(End, 1).error is None
    peer.assert_nothing_came()
    assert subscriptions(amqp_door, log)


@pytest.mark.clause("ES-4")
@pytest.mark.parametrize("policy", [LINK_DETACH, SESSION_END, CONNECTION_CLOSE])
def test_the_longest_time_out_is_kept_too(
    connect: Callable[[], AmqpWire], publish: Publisher, log: str, policy: TerminusExpiryPolicy
) -> None:
    peer, other = connect(), connect()
    assert bound(peer, log, expiry_policy=policy, timeout=0xFFFFFFFF).timeout == 0xFFFFFFFF
    peer.send(Close())
    peer.until(Close)
    publish(2)
    bound(other, log, expiry_policy=policy, timeout=0xFFFFFFFF)
    assert take(other, 2) == [0, 1]

"""Event Stream Extensions, section 6: `$info` tells of the partitions of a log, and costs it nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.amqp.definitions import Condition, Role
from headwater.amqp.messaging import Source, Target, TerminusDurability
from headwater.amqp.performatives import Flow, Transfer
from headwater.encoding.amqp_message import AmqpValue, decode_message
from headwater.encoding.amqp_types import Symbol
from headwater.server.amqp.limits import Limits
from headwater.server.security.permissions import Permission
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_wire import AmqpWire, data
from tests.conformance.listening import PASSWORD

SELDOM = Limits(failure_delay_s=0.05, information_interval_s=3600.0)
OFTEN = Limits(failure_delay_s=0.05, information_interval_s=0.01)


@pytest.fixture(scope="module")
def seldom(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ListeningAmqp]:
    """A door that tells a link of a log once."""
    with ListeningAmqp(tmp_path_factory.mktemp("seldom") / "data", SELDOM) as door:
        yield door


@pytest.fixture
def wire(seldom: ListeningAmqp) -> Iterator[AmqpWire]:
    """A connection to it."""
    with seldom.connect() as connected:
        yield connected


def attach(wire: AmqpWire, address: str, *, credit: int = 1, **fields: Any) -> None:
    """Ask for what tells of a log."""
    wire.receiver(f"{address}/$info", filter=None, credit=credit, **fields)


def told(wire: AmqpWire, first_id: int = 0) -> list[tuple[str, str | None, str | None]]:
    """What the next message tells: partition, earliest and latest offset of each."""
    came = wire.next()
    assert isinstance(came.performative, Transfer), came
    message = decode_message(came.payload, 0, len(came.payload))
    assert isinstance(message.body, AmqpValue)
    assert list(message.body.value) == ["partitions"]
    rows: list[tuple[str, str | None, str | None]] = []
    for each in message.body.value["partitions"]:
        assert list(each) == ["partition", "earliest-offset", "latest-offset"]
        assert all(type(key) is str for key in each)
        assert type(each["partition"]) is Symbol
        assert {type(value) for value in list(each.values())[1:]} <= {Symbol, type(None)}
        rows.append((each["partition"], each["earliest-offset"], each["latest-offset"]))
    return rows


def offset(number: int) -> str:
    return f"{number:016x}"


@pytest.mark.clause("ES-29")
def test_every_partition_is_told_with_its_ends(seldom: ListeningAmqp, wire: AmqpWire, log: str) -> None:
    seldom.super_stream(log, 3)
    wire.sender(f"{log}-1")
    wire.publish([data(b"%d" % number) for number in range(20)])
    attach(wire, log, handle=1)
    assert told(wire) == [("0", None, None), ("1", offset(0), offset(19)), ("2", None, None)]


@pytest.mark.clause("ES-29")
def test_a_log_of_one_partition_tells_of_that(seldom: ListeningAmqp, wire: AmqpWire, log: str) -> None:
    seldom.call(lambda: seldom.store.create_log(log))
    attach(wire, log)
    assert told(wire) == [("0", None, None)]
    wire.sender(log, handle=1)
    wire.publish([data(b"x")] * 300, handle=1)
    attach(wire, f"/queues/{log}", handle=2)
    assert told(wire) == [("0", offset(0), offset(299))]


@pytest.mark.clause("ES-29")
def test_what_was_truncated_is_not_told_of(seldom: ListeningAmqp, wire: AmqpWire, log: str) -> None:
    wire.sender(log)
    wire.publish([data(b"x")] * 5)
    outcomes: list[Any] = []
    seldom.call(lambda: seldom.partition(log).truncate(5, outcomes.append))
    while not seldom.call(lambda: outcomes):
        wire.assert_nothing_came()
    assert outcomes == [None]
    attach(wire, log, handle=1)
    assert told(wire) == [("0", None, None)]
    wire.publish([data(b"x")] * 2, first_id=5)
    attach(wire, log, handle=2)
    assert told(wire) == [("0", offset(5), offset(6))]


@pytest.mark.clause("ES-29")
def test_a_partition_is_asked_for_by_its_address_or_by_the_property(
    seldom: ListeningAmqp, wire: AmqpWire, log: str
) -> None:
    seldom.super_stream(log, 3)
    attach(wire, f"{log}-2")
    assert told(wire) == [("2", None, None)]
    attach(wire, log, handle=1, properties={Symbol("event-streams-partition"): Symbol("1")})
    assert told(wire) == [("1", None, None)]


@pytest.mark.clause("ES-29")
def test_more_credit_brings_no_burst_and_drain_is_answered(
    seldom: ListeningAmqp, wire: AmqpWire, log: str
) -> None:
    seldom.super_stream(log, 2)
    attach(wire, log, credit=100)
    assert len(told(wire)) == 2
    wire.assert_nothing_came()
    wire.credit(99, delivery_count=1, drain=True)
    answer = wire.take(Flow)
    assert (answer.delivery_count, answer.link_credit, answer.drain) == (100, 0, True)
    wire.credit(5, delivery_count=100)
    wire.assert_nothing_came()


@pytest.mark.clause("ES-29")
def test_a_drain_as_the_first_credit_brings_one_message(
    seldom: ListeningAmqp, wire: AmqpWire, log: str
) -> None:
    seldom.super_stream(log, 2)
    attach(wire, log, credit=0)
    wire.credit(10, drain=True)
    assert len(told(wire)) == 2
    answer = wire.take(Flow)
    assert (answer.delivery_count, answer.link_credit) == (10, 0)


@pytest.mark.clause("ES-29")
def test_messages_follow_one_another_as_credit_and_time_allow(tmp_path: Path) -> None:
    with ListeningAmqp(tmp_path / "data", OFTEN) as door, door.connect() as wire, door.connect() as writer:
        door.super_stream("orders", 2)
        attach(wire, "orders", credit=3)
        latest = []
        for number in range(3):
            latest.append(told(wire)[0][2])
            if number < 2:
                writer.sender("orders-0", handle=number)
                writer.publish([data(b"x")], first_id=number, handle=number)
        assert latest == sorted(latest, key=lambda each: each or "")
        wire.assert_nothing_came()
        wire.credit(1, delivery_count=3)
        assert told(wire) == [("0", offset(0), offset(1)), ("1", None, None)]


@pytest.mark.clause("ES-29")
@pytest.mark.parametrize("durable", list(TerminusDurability))
def test_a_log_that_is_not_there_is_not_made(
    seldom: ListeningAmqp, wire: AmqpWire, log: str, durable: TerminusDurability
) -> None:
    source = Source(f"{log}/$info", durable=durable)
    wire.refused(Condition.NOT_FOUND, Role.RECEIVER, source, Target())
    source = Source(f"{log}/$info", capabilities=(Symbol("shared"),))
    wire.refused(Condition.NOT_FOUND, Role.RECEIVER, source, Target(), handle=1)
    assert not seldom.call(lambda: seldom.store.stream(log))


@pytest.mark.clause("ES-29")
def test_nobody_sends_to_what_tells_of_a_log(seldom: ListeningAmqp, wire: AmqpWire, log: str) -> None:
    seldom.super_stream(log, 2)
    wire.refused(Condition.NOT_ALLOWED, Role.SENDER, Source(), Target(f"{log}/$info"))
    assert (
        list(seldom.call(lambda: [name for _, name in seldom.store.logs if name.startswith(f"{log}/")])) == []
    )


@pytest.mark.clause("ES-29")
def test_it_ends_with_the_log(seldom: ListeningAmqp, wire: AmqpWire, log: str) -> None:
    seldom.super_stream(log, 2)
    attach(wire, log, credit=5)
    told(wire)
    seldom.call(lambda: seldom.store.delete_log(log))
    wire.assert_detaches(Condition.RESOURCE_DELETED)


@pytest.mark.clause("ES-29")
def test_who_may_not_read_a_log_is_not_told_of_it(tmp_path: Path) -> None:
    with ListeningAmqp(tmp_path / "data", OFTEN) as door:
        door.super_stream("orders", 2)
        door.super_stream("secret", 2)
        door.add_user("reader", {"/": Permission(read="orders")})
        with door.connect(user="reader", password=PASSWORD) as wire:
            wire.refused(Condition.UNAUTHORIZED_ACCESS, Role.RECEIVER, Source("secret/$info"), Target())
            attach(wire, "orders", credit=1)
            told(wire)
            door.permit("reader", read="nothing")
            wire.credit(1, delivery_count=1)
            wire.assert_detaches(Condition.UNAUTHORIZED_ACCESS)


@pytest.mark.clause("ES-29")
def test_what_the_receiver_would_not_take_is_not_sent(
    seldom: ListeningAmqp, wire: AmqpWire, log: str
) -> None:
    seldom.super_stream(log, 20)
    attach(wire, log, max_message_size=500)
    error = wire.assert_detaches(Condition.LINK_MESSAGE_SIZE_EXCEEDED)
    assert error.description is not None
    assert "and the receiver takes 500" in error.description

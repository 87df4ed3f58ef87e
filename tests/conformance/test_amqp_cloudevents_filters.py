"""Filters over CloudEvents on AMQP receivers: plain links, consumer groups and subscriptions."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.amqp.definitions import Condition, Role
from headwater.amqp.messaging import Source, Target
from headwater.cloudevents import amqp_binding
from headwater.cloudevents.event import CloudEvent
from headwater.cloudevents.stored_filter import PREDICATES_FILTER, SQL_FILTER
from headwater.encoding.amqp_message import Data, Message, encode_message
from headwater.encoding.amqp_types import Described, Symbol
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_subscriber import leave, settle, source_of, subscribe
from tests.conformance.amqp_wire import FIRST, AmqpWire
from tests.conformance.conftest import ConnectAmqp
from tests.conformance.group_links import join

COUNT = 12
THIRDS = list(range(0, COUNT, 3))
NAME = Symbol("wanted")
SQL = {NAME: Described(SQL_FILTER, "colour = 'red' AND number >= 0")}
PREDICATES = {NAME: Described(PREDICATES_FILTER, [{"exact": {"colour": "red"}}, {"prefix": {"type": "t"}}])}
both_filters = pytest.mark.parametrize("filters", [SQL, PREDICATES])


def coloured(number: int, told: int | None = None) -> bytes:
    if number % 3 == 1:
        return encode_message(Message(application_properties={"colour": "red"}, body=Data((b"no event",))))
    colour = "red" if number % 3 == 0 else "blue"
    core = {"id": str(number), "source": "/s", "type": "t", "specversion": "1.0", "colour": colour}
    return amqp_binding.encode(CloudEvent({**core, "number": number if told is None else told}))


def fill(connect_amqp: ConnectAmqp, log: str, first: int = 0) -> None:
    writer = connect_amqp()
    writer.sender(log)
    writer.publish([coloured(number) for number in range(first, first + COUNT)])


def offsets(peer: AmqpWire, count: int) -> list[int]:
    return [each.offset for each in peer.messages(count)]


@pytest.mark.clause("ES-28", "ES-3", "SUB-9", "SUB-10")
@both_filters
def test_a_plain_link_gets_the_cloudevents_that_its_filter_lets_through(
    connect_amqp: ConnectAmqp, peer: AmqpWire, log: str, filters: dict[Symbol, Any]
) -> None:
    fill(connect_amqp, log)
    answer = peer.receiver(log, filter={**FIRST, **filters})
    assert isinstance(answer.source, Source)
    assert answer.source.filter == {**FIRST, **filters}
    assert offsets(peer, len(THIRDS)) == THIRDS
    peer.assert_nothing_came()


@pytest.mark.clause("ES-3")
@both_filters
def test_such_a_filter_alone_chooses_among_what_comes_from_the_attach_on(
    connect_amqp: ConnectAmqp, peer: AmqpWire, log: str, filters: dict[Symbol, Any]
) -> None:
    fill(connect_amqp, log)
    peer.receiver(log, filter=filters)
    fill(connect_amqp, log, first=COUNT)
    assert offsets(peer, len(THIRDS)) == [COUNT + number for number in THIRDS]


@both_filters
def test_a_member_of_a_group_gets_what_its_filter_lets_through(
    connect_amqp: ConnectAmqp,
    peer: AmqpWire,
    amqp_door: ListeningAmqp,
    log: str,
    filters: dict[Symbol, Any],
) -> None:
    amqp_door.super_stream(log, 1)
    fill(connect_amqp, log)
    join(peer, log, filter={**FIRST, **filters})
    assert offsets(peer, len(THIRDS)) == THIRDS
    peer.assert_nothing_came()


@both_filters
def test_a_subscription_keeps_what_its_filter_lets_through(
    connect_amqp: ConnectAmqp, log: str, filters: dict[Symbol, Any]
) -> None:
    fill(connect_amqp, log)
    peer = connect_amqp()
    subscribe(peer, log, f"sub-{log}", "durable", filter=filters)
    peer.assert_nothing_came()
    leave(peer)
    fill(connect_amqp, log, first=COUNT)
    subscribe(peer, log, f"sub-{log}", "durable", filter=filters)
    came = peer.messages(len(THIRDS))
    assert [each.offset for each in came] == [COUNT + number for number in THIRDS]
    settle(peer, came)
    peer.assert_nothing_came()


@pytest.fixture
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """All turns of the loop are over after one question to a filter, and one write."""
    monkeypatch.setattr("headwater.server.record_source.FILTERING_S_MAX", -1.0)
    for module in ("consuming", "dealing", "grouped"):
        monkeypatch.setattr(f"headwater.server.amqp.{module}.SENDING_S_MAX", -1.0)


@pytest.mark.usefixtures("no_time")
@pytest.mark.parametrize("way", ["plain", "in a group", "subscribed"])
@pytest.mark.parametrize("distance", [7, 300])
def test_a_filter_that_is_slow_gets_everything_in_many_turns(
    connect_amqp: ConnectAmqp,
    peer: AmqpWire,
    amqp_door: ListeningAmqp,
    log: str,
    way: str,
    distance: int,
) -> None:
    amqp_door.super_stream(log, 1)
    rare = {NAME: Described(SQL_FILTER, f"number % {distance} = 0")}
    writer = connect_amqp()
    writer.sender(log)
    if way == "plain":
        peer.receiver(log, filter={**FIRST, **rare})
    elif way == "in a group":
        join(peer, log, filter={**FIRST, **rare})
    else:
        subscribe(peer, log, f"sub-{log}", "durable", "shared", filter=rare)
    for first in range(0, 1_200, 400):
        numbers = range(first, first + 400)
        writer.publish([coloured(3 * number, number) for number in numbers], first_id=first)
    assert offsets(peer, len(range(0, 1_200, distance))) == list(range(0, 1_200, distance))


@pytest.mark.parametrize(
    ("descriptor", "value", "said"),
    [
        (SQL_FILTER, "colour = ", "position 9"),
        (SQL_FILTER, 7, "is no string"),
        (PREDICATES_FILTER, "colour", "filters"),
        (PREDICATES_FILTER, [{"exact": {"Colour": "red"}}], "filters[0].exact"),
        (PREDICATES_FILTER, [{"near": {"colour": "red"}}], "filters[0]"),
    ],
)
def test_a_filter_that_is_wrong_refuses_the_link_with_its_place(
    connect_amqp: ConnectAmqp, peer: AmqpWire, log: str, descriptor: Symbol, value: object, said: str
) -> None:
    fill(connect_amqp, log)
    source = source_of(log, filter={NAME: Described(descriptor, value)})
    error = peer.refused(Condition.INVALID_FIELD, Role.RECEIVER, source, Target(), name="wrong")
    assert said in str(error.description), error.description

"""What stream clients need of single active consumers: who reads, who waits, and how they hand over."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.server.streams.limits import Limits
from headwater.streams import commands as c
from headwater.streams.commands import OffsetSpecification, OffsetType, ResponseCode
from tests.conformance.conftest import Connect
from tests.conformance.listening import HOST, ListeningDoor
from tests.conformance.wire import FIRST, OK, Wire, opened

FAILED = ResponseCode.PRECONDITION_FAILED
NONE = OffsetSpecification(OffsetType.NONE)
SINGLE = {"single-active-consumer": "true", "name": "group"}


def at(offset: int) -> OffsetSpecification:
    return OffsetSpecification(OffsetType.OFFSET, offset)


def update(wire: Wire) -> c.ConsumerUpdateRequest:
    return wire.take(c.ConsumerUpdateRequest)


def answer(wire: Wire, told: c.ConsumerUpdateRequest, where: OffsetSpecification = NONE) -> None:
    wire.send(c.ConsumerUpdateResponse(told.correlation_id, OK, where))


def filled(connect: Connect, stream: str) -> Wire:
    """A stream of ten messages, each in a chunk of its own; gives who wrote it."""
    wire = connect()
    wire.create(stream)
    wire.declare(1, stream)
    for number in range(10):
        wire.publish(1, [(number, b"%d" % number)])
    return wire


@pytest.mark.clause("Single active consumer 1", "SP-7", "SP-16")
@pytest.mark.parametrize("true", ["true", "True", "TRUE"])
def test_true_in_any_case_of_letters_makes_one_and_needs_a_name(wire: Wire, stream: str, true: str) -> None:
    wire.create(stream)
    for name in ({}, {"name": ""}):
        properties = {"single-active-consumer": true, **name}
        request = c.SubscribeRequest(wire.id(), 1, stream, FIRST, 1, properties)
        assert wire.code(request, c.SubscribeResponse) == FAILED
    wire.subscribe(1, stream, properties={**SINGLE, "single-active-consumer": true})
    assert update(wire).active
    wire.subscribe(2, stream, properties={"single-active-consumer": "false"})
    wire.assert_nothing_came()


@pytest.mark.clause("Single active consumer 2", "SP-16")
def test_nothing_is_delivered_before_the_client_has_answered(connect: Connect, stream: str) -> None:
    filled(connect, stream)
    wire = connect()
    wire.send(c.SubscribeRequest(5, 7, stream, at(3), 100, SINGLE))
    assert wire.take(c.SubscribeResponse).response_code == OK
    frame = wire.frame()
    assert frame[4:8] == bytes.fromhex("001a 0001")
    assert frame[12:] == bytes((7, 1))
    wire.assert_nothing_came()
    wire.send(c.ConsumerUpdateResponse(int.from_bytes(frame[8:12], "big"), OK, NONE))
    assert wire.chunk().first_offset == 3, "offset type 0 is the subscription's own"


@pytest.mark.clause("Single active consumer 2", "SP-16")
@pytest.mark.parametrize("leaves", ["unsubscribes", "closes", "vanishes"])
def test_the_next_one_follows_who_leaves_and_goes_on_where_it_says(
    connect: Connect, stream: str, leaves: str
) -> None:
    filled(connect, stream)
    first, second, third = connect(), connect(), connect()
    for wire in (first, second, third):
        wire.subscribe(1, stream, properties=SINGLE)
    answer(first, update(first))
    assert len(first.messages(10)) == 10
    for wire in (second, third):
        wire.assert_nothing_came()
    first.send(c.StoreOffset("group", stream, 6))
    first.assert_nothing_came()
    if leaves == "unsubscribes":
        assert first.code(c.UnsubscribeRequest(first.id(), 1), c.UnsubscribeResponse) == OK
    elif leaves == "closes":
        first.send(c.CloseRequest(first.id(), 1, "done"))
    else:
        first.vanish()
    told = update(second)
    assert told.active
    stored = c.QueryOffsetRequest(second.id(), "group", stream)
    offset = second.ask(stored, c.QueryOffsetResponse).offset
    answer(second, told, at(offset + 1))
    assert second.messages(3) == [(number, b"%d" % number) for number in range(7, 10)]
    third.assert_nothing_came()


@pytest.mark.clause("Single active consumer 3", "SP-16")
def test_on_a_plain_stream_the_first_one_stays(connect: Connect, stream: str) -> None:
    filled(connect, stream)
    first, second = connect(), connect()
    first.subscribe(1, stream, properties=SINGLE)
    answer(first, update(first))
    assert len(first.messages(10)) == 10
    second.subscribe(1, stream, properties=SINGLE)
    other = {**SINGLE, "name": "another group"}
    second.subscribe(2, stream, properties=other)
    assert update(second).subscription_id == 2
    first.assert_nothing_came()


def super_stream(wire: Wire, name: str, count: int) -> tuple[str, ...]:
    parts = tuple(f"{name}-{number}" for number in range(count))
    keys = tuple(map(str, range(count)))
    request = c.CreateSuperStreamRequest(wire.id(), name, parts, keys)
    assert wire.code(request, c.CreateSuperStreamResponse) == OK
    for number, part in enumerate(parts):
        wire.declare(number, part)
        wire.publish(number, [(1, b"%d" % number)])
    return parts


@pytest.mark.clause("Single active consumer 3", "SP-16")
def test_partitions_of_a_super_stream_spread_over_consumers_and_the_old_one_answers_first(
    connect: Connect, stream: str
) -> None:
    first, second = connect(), connect()
    parts = super_stream(connect(), stream, 3)
    properties = {**SINGLE, "super-stream": stream}
    for number, part in enumerate(parts):
        first.subscribe(number, part, properties=properties)
        told = update(first)
        assert (told.subscription_id, told.active) == (number, True)
        answer(first, told)
        assert first.messages(1) == [(0, b"%d" % number)]
    for number, part in enumerate(parts):
        second.subscribe(number, part, properties=properties)
    told = update(first)
    assert (told.subscription_id, told.active) == (1, False), "index 1 modulo two consumers is the second"
    second.assert_nothing_came()
    answer(first, told)
    told = update(second)
    assert (told.subscription_id, told.active) == (1, True)
    answer(second, told, at(0))
    assert second.messages(1) == [(0, b"1")]
    first.assert_nothing_came()
    second.vanish()
    told = update(first)
    assert (told.subscription_id, told.active) == (1, True)


@pytest.mark.clause("Single active consumer 3", "SP-16")
def test_who_does_not_answer_in_time_is_closed_and_the_next_one_follows(tmp_path: Path) -> None:
    assert Limits().consumer_update_timeout_s == 60.0
    limits = Limits(consumer_update_timeout_s=0.3)
    with ListeningDoor(tmp_path / "data", limits) as door:
        silent, second = opened(HOST, door.port), opened(HOST, door.port)
        with silent, second:
            silent.create("s")
            silent.subscribe(1, "s", properties=SINGLE)
            second.subscribe(1, "s", properties=SINGLE)
            update(silent)
            assert silent.take(c.CloseRequest).closing_code == FAILED
            assert update(second).active


@pytest.mark.clause("Single active consumer 3", "SP-16")
def test_an_old_one_that_vanishes_instead_of_an_answer_makes_way(connect: Connect, stream: str) -> None:
    first, second = connect(), connect()
    (_, part) = super_stream(connect(), stream, 2)
    properties = {**SINGLE, "super-stream": stream}
    first.subscribe(1, part, properties=properties)
    answer(first, update(first))
    first.messages(1)
    second.subscribe(1, part, properties=properties)
    assert not update(first).active
    second.assert_nothing_came()
    first.vanish()
    assert update(second).active


@pytest.mark.clause("SP-16", "SP-13")
def test_a_group_ends_with_its_stream(connect: Connect, stream: str) -> None:
    owner = filled(connect, stream)
    first, second = connect(), connect()
    for wire in (first, second):
        wire.subscribe(1, stream, properties=SINGLE)
    told = update(first)
    assert owner.code(c.DeleteRequest(owner.id(), stream), c.DeleteResponse) == OK
    for wire in (first, second):
        assert wire.take(c.MetadataUpdate).stream == stream
    answer(first, told)
    first.assert_nothing_came()
    owner.until(c.MetadataUpdate)
    owner.create(stream)
    second.subscribe(1, stream, properties=SINGLE)
    assert update(second).active


@pytest.mark.clause("SP-16", "SP-19")
def test_answers_to_no_question_change_nothing(connect: Connect, stream: str) -> None:
    filled(connect, stream)
    first, second = connect(), connect()
    first.subscribe(1, stream, properties=SINGLE)
    second.subscribe(1, stream, properties=SINGLE)
    told = update(first)
    for wire in (first, second):
        wire.send(c.ConsumerUpdateResponse(told.correlation_id + 999, OK, FIRST))
        wire.assert_nothing_came()

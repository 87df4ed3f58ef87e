"""Event Stream Extensions, section 5.2, and selectors: links that get a part of a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from headwater.amqp.definitions import Condition, Role
from headwater.amqp.messaging import Source, Target
from headwater.amqp.performatives import Flow
from headwater.encoding.amqp_message import Data, Message, encode_message
from headwater.encoding.amqp_types import Described, Symbol, Timestamp, Ulong
from headwater.encoding.compression import Compression, pack_sub_batch
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_wire import FIRST, AmqpWire, data
from tests.conformance.conftest import ConnectAmqp
from tests.conformance.listening import HOST
from tests.conformance.wire import opened

OFFSET, TIMESTAMP = Symbol("event-streams-offset"), Symbol("event-streams-timestamp")
ANNOTATIONS_FILTER = Symbol("amqp:event-streams-delivery-annotations-filter")
SQL_FILTER = Symbol("amqp:event-streams-sql-filter")
SELECTOR_FILTER = Symbol("apache.org:selector-filter:string")
NAME = Symbol("mine")
HANDLE = 1
IN_THE_MIDDLE = (
    "delivery_annotations.event-streams-offset >= '000000000000000b'"
    " AND d.event-streams-offset < '0000000000000014'"
)


@pytest.fixture
def writer(connect_amqp: ConnectAmqp, log: str) -> AmqpWire:
    """A client with a sender to the log."""
    client = connect_amqp()
    client.sender(log)
    return client


def coloured(number: int) -> bytes:
    properties = {"colour": "red" if number % 3 == 0 else "blue", "number": number}
    return encode_message(Message(application_properties=properties, body=Data((b"%d" % number,))))


def fill(writer: AmqpWire, count: int, first: int = 0, size: int = 10) -> None:
    """So many messages in chunks of this size, each with its offset as its number."""
    for start in range(first, first + count, size):
        writer.publish([coloured(number) for number in range(start, start + size)], first_id=start)


def filter_of(descriptor: object, value: object) -> dict[Symbol, Any]:
    return {NAME: Described(descriptor, value)}


def sql(text: str) -> dict[Symbol, Any]:
    return filter_of(SQL_FILTER, text)


def digits(offset: int) -> str:
    return f"{offset:016x}"


def offsets(peer: AmqpWire, count: int) -> list[int]:
    return [each.offset for each in peer.messages(count)]


def assert_gets(peer: AmqpWire, log: str, filters: dict[Symbol, Any], wanted: Sequence[int]) -> None:
    """A link with these filters gets just these offsets, and answers a drain behind them."""
    source = peer.receiver(log, handle=HANDLE, credit=0, filter=filters).source
    assert isinstance(source, Source)
    assert source.filter == filters
    peer.credit(1000, HANDLE, drain=True)
    assert offsets(peer, len(wanted)) == list(wanted)
    answer = peer.take(Flow)
    assert (answer.drain, answer.link_credit) == (True, 0)


@pytest.mark.clause("ES-3", "ES-25", "ES-27")
@pytest.mark.parametrize("descriptor", [ANNOTATIONS_FILTER, Ulong(0x200)])
def test_annotations_that_are_greater_select(
    peer: AmqpWire, writer: AmqpWire, log: str, descriptor: object
) -> None:
    fill(writer, 30)
    assert_gets(peer, log, filter_of(descriptor, {OFFSET: Symbol(digits(24))}), range(25, 30))
    fill(writer, 10, first=30)
    peer.credit(1000, HANDLE, delivery_count=1000)
    assert offsets(peer, 10) == list(range(30, 40))


@pytest.mark.clause("ES-25", "ES-26")
@pytest.mark.parametrize(
    "filters",
    [
        filter_of(ANNOTATIONS_FILTER, {OFFSET: Symbol(digits(14))}),
        sql(f"d.event-streams-offset > '{digits(14)}'"),
    ],
)
def test_an_offset_beyond_the_end_is_waited_for(
    peer: AmqpWire, writer: AmqpWire, log: str, filters: dict[Symbol, Any]
) -> None:
    fill(writer, 10)
    peer.receiver(log, handle=HANDLE, filter=filters)
    fill(writer, 20, first=10)
    assert offsets(peer, 15) == list(range(15, 30))


@pytest.mark.clause("ES-25")
def test_a_time_selects_what_came_later(peer: AmqpWire, writer: AmqpWire, log: str) -> None:
    fill(writer, 20)
    peer.receiver(log, handle=HANDLE, filter=FIRST)
    times = [each.annotations[TIMESTAMP] for each in peer.messages(20)]
    before_all = {TIMESTAMP: Timestamp(times[0] - 1)}
    peer.receiver(log, handle=2, filter=filter_of(ANNOTATIONS_FILTER, before_all))
    assert offsets(peer, 20) == list(range(20))
    behind_all = {TIMESTAMP: Timestamp(times[-1] + 3_600_000), OFFSET: Symbol(digits(3))}
    peer.receiver(log, handle=3, filter=filter_of(ANNOTATIONS_FILTER, behind_all))
    peer.assert_nothing_came()


@pytest.mark.clause("ES-24", "ES-26", "ES-27")
@pytest.mark.parametrize("descriptor", [SQL_FILTER, Ulong(0x201)])
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("d.event-streams-offset > '000000000000000b'", range(12, 30)),
        (IN_THE_MIDDLE, range(11, 20)),
        ("a.colour = 'red'", range(0, 30, 3)),
        ("a.colour = 'red' AND d.event-streams-offset > '0000000000000014'", range(21, 30, 3)),
        ("a.number = 4 OR a.number = 28", (4, 28)),
        ("d.event-streams-offset > '@earliest'", range(30)),
        ("d.event-streams-offset < '@latest' AND a.number > 27", (28, 29)),
        ("d.event-streams-offset > 'zz'", ()),
        ("d.event-streams-offset > 'fffffffffffffffe'", ()),
    ],
)
def test_an_expression_selects_from_the_earliest_event_on(
    peer: AmqpWire, writer: AmqpWire, log: str, descriptor: object, text: str, wanted: Sequence[int]
) -> None:
    fill(writer, 30)
    assert_gets(peer, log, filter_of(descriptor, text), wanted)


@pytest.mark.clause("ES-22")
def test_latest_is_fixed_when_the_link_attaches(peer: AmqpWire, writer: AmqpWire, log: str) -> None:
    fill(writer, 10)
    peer.receiver(log, handle=HANDLE, filter=sql("d.event-streams-offset > '@latest'"))
    peer.assert_nothing_came()
    fill(writer, 10, first=10)
    assert offsets(peer, 10) == list(range(10, 20))


@pytest.mark.clause("ES-26")
@pytest.mark.parametrize(
    "bound", ["d.event-streams-offset < '0000000000000005'", "d.event-streams-timestamp < 1000"]
)
def test_behind_an_upper_bound_nothing_comes_and_the_link_stays(
    peer: AmqpWire, writer: AmqpWire, log: str, bound: str
) -> None:
    fill(writer, 10)
    wanted = range(5) if "offset" in bound else range(0)
    assert_gets(peer, log, sql(bound), wanted)
    fill(writer, 10, first=10)
    peer.credit(10, HANDLE, delivery_count=1000, drain=True)
    answer = peer.take(Flow)
    assert (answer.drain, answer.link_credit) == (True, 0)


@pytest.mark.clause("ES-3", "ES-28")
def test_a_selector_selects_from_the_attach_on(peer: AmqpWire, writer: AmqpWire, log: str) -> None:
    fill(writer, 30)
    selector = filter_of(SELECTOR_FILTER, "colour = 'red'")
    peer.receiver(log, handle=HANDLE, filter=selector)
    peer.assert_nothing_came()
    fill(writer, 10, first=30)
    assert offsets(peer, 4) == [30, 33, 36, 39]


@pytest.mark.clause("ES-28")
@pytest.mark.parametrize(
    ("descriptor", "value"),
    [
        (Symbol("amqp:application-properties-filter"), {"colour": "&p:re"}),
        (Ulong(0x174), {"colour": "red"}),
        (Symbol("amqp:sql-filter"), "colour = 'red' AND number < 100"),
        (Ulong(0x120), "application_properties.colour = 'red'"),
    ],
)
def test_filter_expressions_select_too(
    peer: AmqpWire, writer: AmqpWire, log: str, descriptor: object, value: object
) -> None:
    fill(writer, 30)
    assert_gets(peer, log, {**FIRST, NAME: Described(descriptor, value)}, range(0, 30, 3))


@pytest.mark.clause("ES-3", "ES-28")
def test_of_several_filters_all_must_match(peer: AmqpWire, writer: AmqpWire, log: str) -> None:
    fill(writer, 30)
    filters = {
        **FIRST,
        NAME: Described(Ulong(0x468C00000004), "colour = 'red'"),
        Symbol("other"): Described(Ulong(0x200), {OFFSET: Symbol(digits(9))}),
    }
    assert_gets(peer, log, filters, range(12, 30, 3))


@pytest.mark.clause("ES-25", "ES-26")
@pytest.mark.parametrize(
    ("descriptor", "value", "words"),
    [
        (SQL_FILTER, "a.colour = ", "position 11:"),
        (SQL_FILTER, "d.event-streams-offset > 7", "position 25:"),
        (SQL_FILTER, 7, "is no string"),
        (SELECTOR_FILTER, "colour LIKE", "position 11:"),
        (ANNOTATIONS_FILTER, {Symbol("x-opt-offset"): Symbol("1")}, "x-opt-offset"),
        (ANNOTATIONS_FILTER, "text", "is no map"),
    ],
)
def test_what_is_no_filter_refuses_the_link_with_the_place_of_its_fault(
    peer: AmqpWire, log: str, descriptor: object, value: object, words: str
) -> None:
    peer.sender(log)
    source = Source(log, filter=filter_of(descriptor, value))
    error = peer.refused(Condition.INVALID_FIELD, Role.RECEIVER, source, Target(), handle=HANDLE)
    assert words in str(error.description)


@pytest.mark.clause("ES-26")
def test_a_filter_that_nothing_passes_goes_through_a_log_in_turns(
    peer: AmqpWire, writer: AmqpWire, log: str
) -> None:
    fill(writer, 6000, size=500)
    assert_gets(peer, log, sql("a.colour = 'green'"), ())
    writer.publish([encode_message(Message(application_properties={"colour": "green"}))], first_id=6000)
    peer.credit(10, HANDLE, delivery_count=1000)
    assert offsets(peer, 1) == [6000]


@pytest.mark.clause("ES-26")
def test_records_of_sub_batches_and_entries_that_are_no_messages_are_selected_too(
    peer: AmqpWire, writer: AmqpWire, log: str, amqp_door: ListeningAmqp
) -> None:
    fill(writer, 2, size=2)
    with opened(HOST, amqp_door.port) as stream:
        stream.declare(1, log)
        batch = pack_sub_batch([coloured(number) for number in range(3, 9)], Compression.GZIP)
        stream.publish(1, [(0, b"plain"), (1, batch)])
    assert_gets(peer, log, sql("a.colour = 'red'"), (0, 3, 6))
    peer.receiver(log, handle=2, filter=sql("d.event-streams-offset = '0000000000000002'"))
    came = peer.message()
    assert (came.offset, came.record) == (2, data(b"plain"))

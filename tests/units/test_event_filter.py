"""Filters of links over stored events: fields of all sections, positions of events, and the forms filters come in."""

from __future__ import annotations

import struct
import uuid
from array import array
from typing import Any

import pytest

from headwater.encoding._amqp_kernel import skim_entries
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.amqp_message import Data, Header, Message, Properties, encode_message
from headwater.encoding.amqp_types import Symbol, Timestamp, Ulong
from headwater.encoding.event_filter import Filter, StoredEvent, all_of, compile_filter
from headwater.encoding.expression_position import OFFSET_END, TIME_END_MS, TIME_START_MS, Bounds
from headwater.errors import InvalidExpression, InvalidField

ANNOTATIONS = Symbol("amqp:event-streams-delivery-annotations-filter")
SQL = Symbol("amqp:event-streams-sql-filter")
SELECTOR = Symbol("apache.org:selector-filter:string")
ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
MESSAGE = Message(
    header=Header(durable=True, priority=7, delivery_count=2),
    message_annotations={Symbol("x-opt-partition-key"): "k-1", Symbol("x-opt-offset"): "not ours"},
    properties=Properties(
        message_id="ID:1",
        user_id=b"guest",
        to="orders",
        subject="created",
        correlation_id=ID,
        content_type=Symbol("text/plain"),
        creation_time=1_700_000_000_000,
        group_id="g-1",
        group_sequence=3,
    ),
    application_properties={"color": "red", "size": 12, "is_new": True, "until": 1_700_000_001},
    body=Data((b"body",)),
)


def filter_of(text: object, descriptor: object = SELECTOR) -> Filter:
    found = compile_filter(descriptor, text)
    assert found is not None
    return found


def stored(message: Message = MESSAGE, **position: Any) -> StoredEvent:
    data = encode_message(message)
    return StoredEvent(b"....." + data + b".....", 5, 5 + len(data), **position)


def at(offset: int, timestamp_ms: int = 0, latest_offset: int = 0) -> StoredEvent:
    return StoredEvent(offset=offset, timestamp_ms=timestamp_ms, latest_offset=latest_offset)


@pytest.mark.parametrize(
    "text",
    [
        "JMSMessageID = 'ID:1'",
        "JMSCorrelationID = 'ID:AMQP_UUID:00112233-4455-6677-8899-aabbccddeeff'",
        "JMSType = 'created'",
        "JMSPriority > 6",
        "JMSTimestamp >= 1700000000000",
        "JMSDeliveryMode = 'PERSISTENT'",
        "JMSXGroupID = 'g-1' AND JMSXGroupSeq = 3",
        "JMSXUserID = 'guest' AND JMSXDeliveryCount = 3",
        "JMSXAnything IS NULL AND JMS_Vendor IS NULL",
        "color = 'red' AND is_new AND size BETWEEN 10 AND 20",
        "amqp.correlation_id = '00112233-4455-6677-8899-aabbccddeeff'",
        "amqp.priority = 7 AND amqp.delivery_mode = 'PERSISTENT'",
        "amqp.annotation.x-opt-partition-key = 'k-1'",
        "properties.creation-time = 1700000000000",
        "header.delivery-count = 2",
    ],
)
def test_a_selector_reads_headers_and_properties(text: str) -> None:
    assert filter_of(text).matches(stored())
    assert not filter_of(f"NOT ({text})").matches(stored())


@pytest.mark.parametrize(
    "text",
    [
        "p.message_id = 'ID:1' AND properties.message-id = 'ID:1'",
        "p.correlation_id = '00112233-4455-6677-8899-aabbccddeeff'",
        "p.user_id = 'guest' AND p.to = 'orders' AND p.subject = 'created'",
        "p.content_type = 'text/plain' AND p.reply_to IS NULL",
        "h.durable AND h.priority = 7 AND header.ttl IS NULL AND NOT h.first_acquirer",
        "m.x-opt-partition-key = 'k-1' AND message_annotations.x-opt-offset = 'not ours'",
        "a.color = 'red' AND application_properties.size > 10",
        "d.event-streams-source-partition = 'p-0'",
        "delivery_annotations.event-streams-offset LIKE '%2a'",
        "d.event-streams-timestamp + 1 = 1700000000001",
        "d.event-streams-timestamp = p.creation_time AND a.until > d.event-streams-timestamp",
    ],
)
def test_an_sql_filter_reads_all_sections(text: str) -> None:
    event = stored(offset=42, timestamp_ms=1_700_000_000_000, partition="p-0")
    assert filter_of(text, SQL).matches(event)


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (Ulong(7), "ID:AMQP_ULONG:7"),
        (b"\x01\xab", "ID:AMQP_BINARY:01AB"),
        (ID, f"ID:AMQP_UUID:{ID}"),
        ("x", "x"),
    ],
)
def test_ids_that_are_no_text_are_shown_as_jms_has_them(kind: Any, shown: str) -> None:
    event = stored(Message(properties=Properties(message_id=kind, correlation_id=kind)))
    assert filter_of(f"JMSMessageID = '{shown}' AND JMSCorrelationID = '{shown}'").matches(event)


def test_fields_of_a_header_that_is_not_there_have_their_defaults() -> None:
    text = (
        "JMSPriority = 4 AND JMSDeliveryMode = 'NON_PERSISTENT' AND JMSXDeliveryCount = 1 AND NOT h.durable"
    )
    assert filter_of(text).matches(stored(Message(properties=Properties(subject="x"))))


@pytest.mark.parametrize(
    "data", [b"", b"no message", b"\x00\x53\x74", b"\x00\x53\x73\xc0\x05\x05\xa0\xff\x00\x00"]
)
def test_what_is_no_message_has_no_fields_but_its_position(data: bytes) -> None:
    event = StoredEvent(data, 0, len(data), offset=7)
    assert filter_of("color IS NULL AND JMSMessageID IS NULL AND p.user_id IS NULL").matches(event)
    assert filter_of("d.event-streams-offset = '0000000000000007'", SQL).matches(event)
    assert not filter_of("color = 'red' OR color <> 'red'").matches(event)


# Offsets and times (ES-22, ES-26).


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("d.event-streams-offset > '0000000000000003'", [4, 5]),
        ("d.event-streams-offset >= '0000000000000003'", [3, 4, 5]),
        ("'0000000000000003' > d.event-streams-offset", [0, 1, 2]),
        ("d.event-streams-offset BETWEEN '0000000000000001' AND '0000000000000002'", [1, 2]),
        ("d.event-streams-offset NOT BETWEEN '0000000000000001' AND '0000000000000004'", [0, 5]),
        ("d.event-streams-offset IN ('0000000000000001', '0000000000000004', 'x')", [1, 4]),
        ("d.event-streams-offset NOT IN ('0000000000000001')", [0, 2, 3, 4, 5]),
        ("d.event-streams-offset <> '0000000000000001'", [0, 2, 3, 4, 5]),
        ("d.event-streams-offset > '0'", [0, 1, 2, 3, 4, 5]),
        ("d.event-streams-offset > 'a4c5'", []),
        ("d.event-streams-offset < 'a4c5'", [0, 1, 2, 3, 4, 5]),
        ("d.event-streams-offset > '@earliest'", [0, 1, 2, 3, 4, 5]),
        ("d.event-streams-offset <= '@earliest'", []),
        ("d.event-streams-offset > '@latest'", [4, 5]),
        ("d.event-streams-offset >= '@latest'", [4, 5]),
        ("d.event-streams-offset < '@latest'", [0, 1, 2, 3]),
        ("d.event-streams-offset <= '@latest'", [0, 1, 2, 3]),
        ("d.event-streams-offset = '@latest'", []),
        ("d.event-streams-offset <> '@latest'", [0, 1, 2, 3, 4, 5]),
        ("d.event-streams-timestamp > 1585672843", [4, 5]),
        ("d.event-streams-timestamp >= 1585672843000", [3, 4, 5]),
        ("d.event-streams-timestamp > 1585672843.5", [4, 5]),
        ("d.event-streams-timestamp < 1585672840 + 2", [0, 1]),
        ("d.event-streams-timestamp BETWEEN 1585672841 AND 1585672842", [1, 2]),
        ("d.event-streams-timestamp IN (1585672841, 1585672843000)", [1, 3]),
        ("d.event-streams-timestamp > -1.7e308", [0, 1, 2, 3, 4, 5]),
        ("d.event-streams-timestamp < 1.7e308", [0, 1, 2, 3, 4, 5]),
        ("d.event-streams-timestamp >= 18446744073709551615", []),
    ],
)
def test_offsets_compare_as_text_and_times_as_seconds_or_milliseconds(text: str, selected: list[int]) -> None:
    found = filter_of(text, SQL)
    events = [at(offset, 1_585_672_840_000 + 1000 * offset, latest_offset=4) for offset in range(6)]
    assert [event.offset for event in events if found.matches(event)] == selected
    bounds = found.bounds(4)
    assert all(
        bounds.admits(event.offset, event.timestamp_ms) for event in events if event.offset in selected
    )


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("amqp.annotation.x-opt-offset > '-1'", [0, 1, 2, 3]),
        ("amqp.annotation.x-opt-offset > '1'", [2, 3]),
        ("amqp.annotation.x-opt-offset >= '1'", [1, 2, 3]),
        ("amqp.annotation.x-opt-offset > '@latest'", [3]),
        ("amqp.annotation.x-opt-sequence-number > 1", [2, 3]),
        ("amqp.annotation.x-opt-sequence-number > '1'", [2, 3]),
        ("amqp.annotation.x-opt-enqueued-time > '1001'", [2, 3]),
        ("amqp.annotation.x-opt-enqueued-time >= 1000", [1, 2, 3]),
    ],
)
def test_the_selectors_of_event_hubs_name_positions(text: str, selected: list[int]) -> None:
    found = filter_of(text)
    events = [at(offset, 1000 * offset, latest_offset=3) for offset in range(4)]
    assert [event.offset for event in events if found.matches(event)] == selected
    assert found.bounds(3).is_exact
    assert found.starts_at_earliest


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("d.event-streams-offset > 5", 25),
        ("a.x = 1 AND 5 < d.event-streams-offset", 12),
        ("d.event-streams-offset = TRUE", 25),
        ("d.event-streams-offset IN ('a', 5)", 32),
        ("d.event-streams-offset BETWEEN 'a' AND 5", 39),
        ("d.event-streams-offset > a.x + 1", 29),
        ("d.event-streams-offset = (a.x = 1)", 30),
        ("d.event-streams-offset + 1 > 5", 0),
        ("d.event-streams-timestamp > '2020-01-01'", 28),
        ("d.event-streams-timestamp = '@latest'", 28),
        ("d.event-streams-timestamp <> FALSE", 29),
    ],
)
def test_a_position_beside_what_it_is_not_is_refused(text: str, position: int) -> None:
    with pytest.raises(InvalidExpression) as caught:
        filter_of(text, SQL)
    assert caught.value.position == position


@pytest.mark.parametrize("constant", ["'x'", "'1.5'", "''", "'--1'", "TRUE", "'\uff11'", f"'{'1' * 30}'"])
def test_the_positions_of_event_hubs_are_numbers(constant: str) -> None:
    with pytest.raises(InvalidExpression) as caught:
        filter_of(f"amqp.annotation.x-opt-offset > {constant}")
    assert caught.value.position == 31


# Bounds.

A4C5 = "'000000000000a4c5'"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"d.event-streams-offset > {A4C5}", Bounds(0xA4C6, is_exact=True)),
        (f"d.event-streams-offset >= {A4C5}", Bounds(0xA4C5, is_exact=True)),
        (f"d.event-streams-offset = {A4C5}", Bounds(0xA4C5, 0xA4C6, is_exact=True)),
        (f"d.event-streams-offset <> {A4C5}", Bounds()),
        (f"NOT d.event-streams-offset < {A4C5}", Bounds(0xA4C5, is_exact=True)),
        (f"d.event-streams-offset > {A4C5} AND a.x = 1", Bounds(0xA4C6)),
        (f"a.x = 1 OR d.event-streams-offset > {A4C5}", Bounds()),
        (
            f"d.event-streams-offset > {A4C5} AND d.event-streams-timestamp < 1585672841",
            Bounds(0xA4C6, time_end_ms=1_585_672_841_000, is_exact=True),
        ),
        ("d.event-streams-timestamp > 1585672841", Bounds(time_start_ms=1_585_672_841_001, is_exact=True)),
        (
            "d.event-streams-offset > '@latest' AND d.event-streams-offset < '@latest'",
            Bounds(100, 100, is_exact=True),
        ),
        ("d.event-streams-offset < '@latest'", Bounds(0, 100, is_exact=True)),
        ("d.event-streams-offset > '@earliest'", Bounds(is_exact=True)),
        ("d.event-streams-offset > 'a4c5'", Bounds(0xA4C5 << 48, is_exact=True)),
        ("d.event-streams-offset > 'zz'", Bounds(OFFSET_END, OFFSET_END, is_exact=True)),
        (
            "d.event-streams-offset < '0000000000000005' OR d.event-streams-offset = '0000000000000009'",
            Bounds(0, 10),
        ),
        (
            "d.event-streams-offset < '0000000000000009' OR d.event-streams-offset = '0000000000000005'",
            Bounds(0, 9, is_exact=True),
        ),
        ("NOT (a.x = 1 OR d.event-streams-offset < '0000000000000005')", Bounds(5)),
        ("d.event-streams-offset <> 'zz'", Bounds(is_exact=True)),
        ("a.x = 1", Bounds()),
        ("TRUE", Bounds(is_exact=True)),
        ("FALSE", Bounds(0, 0, is_exact=True)),
    ],
)
def test_bounds_follow_from_the_expression(text: str, expected: Bounds) -> None:
    found = filter_of(text, SQL).bounds(100)
    assert found == expected or (found.is_empty and expected.is_empty)


def test_bounds_that_say_nothing_hold_everything() -> None:
    assert Bounds().admits(0, TIME_START_MS)
    assert Bounds().admits(OFFSET_END - 1, TIME_END_MS - 1)
    assert not Bounds().is_empty
    assert Bounds(5, 5).is_empty
    assert Bounds(time_start_ms=3, time_end_ms=2).is_empty


# The forms that filters come in (ES-3, ES-25, ES-27).


@pytest.mark.parametrize(
    ("descriptor", "value"),
    [
        (ANNOTATIONS, {}),
        (Ulong(0x200), {}),
        (SQL, "TRUE"),
        (Ulong(0x201), "TRUE"),
        (SELECTOR, "TRUE"),
        (Ulong(0x468C_0000_0004), "TRUE"),
    ],
)
def test_descriptors_are_symbols_or_numbers(descriptor: object, value: object) -> None:
    assert filter_of(value, descriptor).matches(stored())


@pytest.mark.parametrize(
    "descriptor", [Symbol("rabbitmq:stream-offset-spec"), Ulong(7), None, 1.5, b"x", [1]]
)
def test_other_descriptors_are_not_ours(descriptor: object) -> None:
    assert compile_filter(descriptor, "TRUE") is None


@pytest.mark.parametrize("descriptor", [SQL, SELECTOR, ANNOTATIONS])
@pytest.mark.parametrize("value", [None, 5, b"x", ["TRUE"]])
def test_a_value_of_another_type_is_refused_as_an_invalid_field(descriptor: Symbol, value: object) -> None:
    with pytest.raises(InvalidField, match=str(descriptor)):
        compile_filter(descriptor, value)


def test_only_a_selector_without_a_position_begins_with_what_comes_next() -> None:
    assert not filter_of("color = 'red'").starts_at_earliest
    assert not filter_of("").starts_at_earliest
    assert filter_of("color = 'red' AND NOT (x OR d.event-streams-offset > 'a')").starts_at_earliest
    assert filter_of("a.color = 'red'", SQL).starts_at_earliest
    assert filter_of({}, ANNOTATIONS).starts_at_earliest


def test_delivery_annotations_match_what_is_greater() -> None:
    offset = {Symbol("event-streams-offset"): Symbol("0000000000000002")}
    time = {Symbol("event-streams-timestamp"): Timestamp(3000)}
    events = [at(number, 1000 * number, latest_offset=5) for number in range(6)]

    def selected(value: object) -> list[int]:
        found = filter_of(value, ANNOTATIONS)
        assert found.bounds(5).is_exact
        return [event.offset for event in events if found.matches(event)]

    assert selected(offset) == [3, 4, 5]
    assert selected(time) == [4, 5]
    assert selected(offset | time) == [4, 5]
    assert selected({}) == [0, 1, 2, 3, 4, 5]
    assert selected({"event-streams-offset": "@latest"}) == [5]
    assert selected({"event-streams-offset": "@earliest"}) == [0, 1, 2, 3, 4, 5]
    assert selected({"event-streams-offset": "zz"}) == []
    assert selected({"event-streams-timestamp": 2}) == [3, 4, 5], "a plain number this small is seconds"


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({Symbol("event-streams-offset"): 5}, "event-streams-offset"),
        ({Symbol("event-streams-offset"): None}, "event-streams-offset"),
        ({Symbol("event-streams-timestamp"): "now"}, "event-streams-timestamp"),
        ({Symbol("event-streams-timestamp"): True}, "event-streams-timestamp"),
        ({Symbol("event-streams-epoch"): 1}, "event-streams-epoch"),
        ({Ulong(5): 1}, "5"),
        ({Symbol("x" * 500): 1}, "xxx"),
    ],
)
def test_other_delivery_annotations_are_refused(value: object, named: str) -> None:
    with pytest.raises(InvalidField, match=named) as caught:
        compile_filter(ANNOTATIONS, value)
    assert caught.value.condition == "amqp:invalid-field"
    assert len(str(caught.value)) < 400


def test_several_filters_must_all_match() -> None:
    sql, selector = filter_of(f"d.event-streams-offset > {A4C5}", SQL), filter_of("color = 'red'")
    both = all_of([selector, sql])
    assert both.matches(stored(offset=0xA4C6))
    assert not both.matches(stored(offset=0xA4C5))
    assert not both.matches(at(0xA4C6))
    assert both.bounds(0) == Bounds(0xA4C6)
    assert both.starts_at_earliest
    assert all_of([sql]) is sql


def test_skimmed_entries_are_asked_one_by_one() -> None:
    others = [MESSAGE, Message(application_properties={"color": "blue"}), MESSAGE, MESSAGE]
    entries = [encode_message(message) for message in others]
    entries.insert(1, encode_message(MESSAGE) + b"begins like a message")
    data = b"".join(struct.pack(">I", len(entry)) + entry for entry in entries)
    spans = array("q", bytes(8 * SPAN_FIELDS * len(entries)))
    assert skim_entries(data, 0, len(data), len(entries), spans) == (len(entries), len(data))
    found = filter_of("color = 'red' AND d.event-streams-offset <> '0000000000000067'")
    event = StoredEvent(memoryview(data), offset=100)
    assert found.matching(event, spans, 0, 5) == [0, 4]
    assert event.offset == 105
    event.offset = 101
    assert found.matching(event, spans, 1, 2) == []
    assert filter_of("color IS NULL").matching(StoredEvent(data), spans, 0, 5) == [1]


def test_one_event_serves_for_many() -> None:
    data = encode_message(MESSAGE)
    event, found = (
        StoredEvent(memoryview(data * 3)),
        filter_of("color = 'red' AND d.event-streams-offset <> 'x'"),
    )
    for number in range(3):
        event.start, event.end, event.offset = number * len(data), (number + 1) * len(data), number
        assert found.matches(event)

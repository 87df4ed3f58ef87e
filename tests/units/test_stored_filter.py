"""Predicates as filters of links: which stored messages they let through, and how links name them."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cloudevents import amqp_binding, json_format
from headwater.cloudevents.event import CloudEvent
from headwater.cloudevents.filters import All, Match, MatchKind, Not, Predicate, compile_predicate, sql
from headwater.cloudevents.stored_filter import (
    PREDICATES_FILTER,
    SQL_FILTER,
    compile_link_filter,
    filter_of,
    screen_of,
)
from headwater.encoding._amqp_kernel import skim_entries
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.amqp_message import Data, Header, Message, Properties, encode_message
from headwater.encoding.amqp_types import Symbol
from headwater.encoding.event_filter import Filter, StoredEvent, all_of, compile_filter
from headwater.errors import InvalidExpression, InvalidField
from tests.cloudevents_material import events

CORE = {"specversion": "1.0", "id": "o-1", "source": "/shop", "type": "example.order.placed"}
BINARY = {f"cloudEvents:{name}": value for name, value in CORE.items()}
PLACED = Match(MatchKind.SUFFIX, "type", ".placed")


def event(**attributes: Any) -> CloudEvent:
    return CloudEvent({**CORE, **attributes})


ENTRIES = {
    "binary": amqp_binding.encode(event(priority=7)),
    "behind a header and annotations": encode_message(
        Message(
            header=Header(durable=True),
            delivery_annotations={Symbol("x"): 1},
            message_annotations={Symbol("x-routing-key"): "k"},
            application_properties={**BINARY, "cloudEvents:priority": 7},
            body=Data((b"{}",)),
        )
    ),
    "structured": encode_message(
        Message(
            properties=Properties(content_type=Symbol("application/cloudevents+json")),
            body=Data((json_format.encode_event(event(priority=7)),)),
        )
    ),
    "another type": amqp_binding.encode(event(type="example.order.paid", priority=3)),
    "no event": encode_message(Message(application_properties={"type": "example.order.placed"})),
    "incomplete": encode_message(
        Message(application_properties={**BINARY, "cloudEvents:id": "", "cloudEvents:source": 5})
    ),
    "broken structured": encode_message(
        Message(
            properties=Properties(content_type=Symbol("application/cloudevents+json")),
            body=Data((b'{"id": ',)),
        )
    ),
    "no message": b"\x00\x01 of a stream client",
}
EVENTS = ("binary", "behind a header and annotations", "structured", "another type")


def stored(entries: Sequence[bytes]) -> tuple[memoryview, array[int]]:
    data = memoryview(bytearray(b"".join(struct.pack(">I", len(entry)) + entry for entry in entries)))
    spans = array("q", bytes(8 * SPAN_FIELDS * len(entries)))
    found, _ = skim_entries(data, 0, len(data), len(entries), spans)
    assert found == len(entries)
    return data, spans


def passing(wanted: Filter) -> list[str]:
    data, spans = stored(list(ENTRIES.values()))
    names = list(ENTRIES)
    return [names[number] for number in wanted.matching(StoredEvent(data), spans, 0, len(names))]


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (PLACED, EVENTS[:3]),
        (Match(MatchKind.EXACT, "priority", "7"), EVENTS[:3]),
        (sql("priority < 5 OR type = 'x'"), EVENTS[3:]),
        (Match(MatchKind.PREFIX, "nothing", ""), ()),
        # What holds of nothing at all holds of no message that is no event.
        (All(()), EVENTS),
        (Not(PLACED), EVENTS[3:]),
        (sql("NOT EXISTS traceparent"), EVENTS),
    ],
)
def test_cloudevents_pass_and_nothing_else(predicate: Predicate, expected: Sequence[str]) -> None:
    wanted = filter_of(predicate)
    assert passing(wanted) == list(expected)
    for name, entry in ENTRIES.items():
        end = 0 if name == "no message" else len(entry)
        assert wanted.matches(StoredEvent(entry, 0, end)) is (name in expected)


def test_only_the_entries_asked_for_are_looked_at() -> None:
    data, spans = stored([ENTRIES["binary"]] * 10)
    event = StoredEvent(data, offset=5)
    assert filter_of(PLACED).matching(event, spans, 2, 3) == [2, 3, 4]
    assert event.offset == 8
    assert screen_of(PLACED)(data, spans, [7, 9]) == [7, 9]


def test_a_buffer_is_let_go_when_it_has_been_read() -> None:
    buffer = bytearray(ENTRIES["binary"])
    screen = screen_of(PLACED)
    assert screen(buffer, (0, 0, 0, len(buffer)), [0]) == [0]
    buffer.clear()
    buffer.extend(ENTRIES["binary"])
    with pytest.raises(ValueError, match="span"):
        screen(buffer, (0, 0, 0, len(buffer) + 1), [0])
    buffer.clear()


def test_filters_of_all_kinds_hold_together() -> None:
    selector = compile_filter(Symbol("apache.org:selector-filter:string"), "JMSDeliveryMode = 'PERSISTENT'")
    assert selector is not None
    both = all_of([selector, filter_of(PLACED), filter_of(sql("priority = 7"))])
    assert passing(both) == ["behind a header and annotations"]
    assert not both.starts_at_earliest


def test_events_are_asked_whatever_their_offset_says() -> None:
    bounded = compile_filter(
        Symbol("amqp:event-streams-sql-filter"), "d.event-streams-offset < '0000000000000005'"
    )
    assert bounded is not None
    assert bounded.bounds(9).is_exact
    bounds = all_of([bounded, filter_of(PLACED)]).bounds(9)
    assert (bounds.offset_end, bounds.is_exact) == (5, False)
    assert not filter_of(PLACED).bounds(9).is_exact


@pytest.mark.parametrize(
    ("descriptor", "value"),
    [
        (SQL_FILTER, "type LIKE '%.placed'"),
        (PREDICATES_FILTER, [{"suffix": {"type": ".placed"}}]),
        (PREDICATES_FILTER, [{"any": [{"exact": {"id": "x"}}, {"sql": "type LIKE '%.placed'"}]}]),
        (PREDICATES_FILTER, [{"dialect": "basic", "type": "suffix", "property": "type", "value": ".placed"}]),
    ],
)
def test_a_link_names_its_filter_by_a_descriptor(descriptor: Symbol, value: object) -> None:
    found = compile_link_filter(descriptor, value)
    assert found is not None
    assert not found.starts_at_earliest, "it names no position"
    assert passing(found) == list(EVENTS[:3])


@pytest.mark.parametrize("descriptor", ["amqp:event-streams-sql-filter", 0x468C_0000_0004, None, ["x"]])
def test_other_descriptors_are_left_to_others(descriptor: object) -> None:
    assert compile_link_filter(descriptor, "TRUE") is None


@pytest.mark.parametrize(
    ("descriptor", "value", "kind", "reason"),
    [
        (SQL_FILTER, 5, InvalidField, "the filter headwater:cloudevents-sql-filter is no string"),
        (SQL_FILTER, "id =", InvalidExpression, "at position 4"),
        (PREDICATES_FILTER, {"exact": {}}, InvalidField, "at filters: an array is expected"),
        (
            PREDICATES_FILTER,
            [{"exact": {"id": 1}}],
            InvalidField,
            "at filters[0].exact.id: a string is expected",
        ),
        (PREDICATES_FILTER, [{1: 2}], InvalidField, "at filters[0]: an object is expected"),
    ],
)
def test_a_wrong_value_says_where(
    descriptor: Symbol, value: object, kind: type[Exception], reason: str
) -> None:
    with pytest.raises(kind) as caught:
        compile_link_filter(descriptor, value)
    assert reason in str(caught.value)


@given(event=events(), name=st.sampled_from(["id", "type", "subject", "time", "ext1", "datacontenttype"]))
def test_a_stored_event_passes_as_it_did_before_it_was_stored(event: CloudEvent, name: str) -> None:
    value = event.get(name)
    constant = "'x'" if value is None else "'" + str(value).replace("'", "\\'") + "'"
    entry = amqp_binding.encode(event)
    spans = (0, 0, 0, len(entry))
    tests: list[Predicate] = [
        sql(f"EXISTS {name}"),
        sql(f"{name} LIKE '%a%' OR LENGTH({name}) > 5"),
        Match(MatchKind.PREFIX, name, str(value)[:2]),
    ]
    if len(constant) < 200 and not str(value).endswith("\\"):
        tests.append(sql(f"{name} = {constant}"))
    for predicate in tests:
        assert bool(screen_of(predicate)(entry, spans, [0])) is compile_predicate(predicate)(event)

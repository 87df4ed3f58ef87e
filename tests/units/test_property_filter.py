"""AMQP Filter Expressions: properties that a message must have, and SQL over all that it says."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.encoding.amqp_message import Message, Properties, encode_message
from headwater.encoding.amqp_types import Symbol, Ulong
from headwater.encoding.event_filter import StoredEvent, compile_filter
from headwater.encoding.property_filter import FIELDS_MAX
from headwater.errors import InvalidExpression, InvalidField

PROPERTIES = Symbol("amqp:properties-filter")
APPLICATION_PROPERTIES = Symbol("amqp:application-properties-filter")
SQL = Symbol("amqp:sql-filter")
ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
NOW_MS, LATER_MS = 1_800_000_000_000, 1 << 60


def event(**parts: Any) -> StoredEvent:
    data = encode_message(Message(**parts))
    return StoredEvent(data, 0, len(data), now_ms=NOW_MS)


ORDER = event(
    properties=Properties(
        message_id=ID,
        user_id=b"john",
        subject="Order 100%",
        content_type=Symbol("text/plain"),
        group_sequence=3,
        absolute_expiry_time=LATER_MS,
    ),
    application_properties={"region": "emea", "count": 3, "is_new": True, "&odd": "&p:plain", "none": None},
)


def passes(descriptor: object, value: object, of: StoredEvent = ORDER) -> bool:
    found = compile_filter(descriptor, value)
    assert found is not None
    assert not found.starts_at_earliest
    return found.matches(of)


@pytest.mark.parametrize(
    "value",
    [
        {"subject": "Order 100%"},
        {"subject": "&p:Order"},
        {"subject": "&s:100%"},
        {"subject": "&p:"},
        {"user-id": b"john", "group-sequence": 3, "content-type": Symbol("text/plain")},
        {"message-id": ID},
        {"reply-to": None},
    ],
)
def test_properties_pass(value: dict[str, Any]) -> None:
    named = {Symbol(name): wanted for name, wanted in value.items()}
    assert passes(PROPERTIES, named)
    assert passes(Ulong(0x173), named)


@pytest.mark.parametrize(
    "value",
    [
        {"subject": "order 100%"},
        {"subject": "&p:order"},
        {"subject": "&s:100"},
        {"subject": "&p:Order_"},
        {"to": "orders"},
        {"subject": "Order 100%", "group-sequence": 4},
        {"message-id": "another"},
    ],
)
def test_properties_that_are_others_do_not_pass(value: dict[str, Any]) -> None:
    assert not passes(PROPERTIES, value)


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        ({"region": "emea", "count": 3.0, "is_new": True}, True),
        ({"region": "&p:em"}, True),
        ({"&odd": "&&p:plain"}, True),
        ({"&odd": "&p:plain"}, False),
        ({"count": None}, True),
        ({"missing": None}, False),
        ({"missing": "x"}, False),
        ({"count": "3"}, False),
        ({"is_new": 1}, False),
    ],
)
def test_application_properties(value: dict[str, Any], outcome: bool) -> None:
    assert passes(APPLICATION_PROPERTIES, value) is outcome
    assert passes(Ulong(0x174), value) is outcome


@pytest.mark.parametrize(
    ("descriptor", "value", "words"),
    [
        (PROPERTIES, {"colour": "red"}, "properties have"),
        (PROPERTIES, {"subject": "&x:odd"}, "& begins"),
        (PROPERTIES, {"subject": ["a"]}, "nothing is compared"),
        (PROPERTIES, {}, "1 to"),
        (PROPERTIES, "subject", "no map"),
        (APPLICATION_PROPERTIES, {7: "x"}, "no name"),
        (APPLICATION_PROPERTIES, {str(number): 1 for number in range(FIELDS_MAX + 1)}, "1 to"),
        (APPLICATION_PROPERTIES, {"region": "&p:" + 300 * "x"}, "longer"),
        (SQL, 7, "is no string"),
    ],
)
def test_what_is_no_such_filter_is_refused_with_a_reason(
    descriptor: Symbol, value: object, words: str
) -> None:
    with pytest.raises(InvalidField, match=words):
        compile_filter(descriptor, value)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("properties.subject LIKE 'Order%' AND region = 'emea'", True),
        ("p.user_id = 'john' AND a.count % 2 = 1 AND [is_new]", True),
        ("p.absolute_expiry_time IS NULL OR p.absolute_expiry_time > UTC()", True),
        ("p.absolute_expiry_time < utc()", None),
        ("UTC ( ) > 1700000000000", True),
        ("utc = 1", False),
        ('region != "emea"', False),
    ],
)
def test_sql_over_messages(text: str, outcome: bool | None) -> None:
    if outcome is None:
        with pytest.raises(InvalidExpression):
            compile_filter(SQL, text)
    else:
        assert passes(SQL, text) is outcome
        assert passes(Ulong(0x120), text) is outcome


@given(text=st.text(max_size=12), wanted=st.text(max_size=4))
def test_prefix_and_suffix_are_what_they_say(text: str, wanted: str) -> None:
    found = event(application_properties={"name": text})
    assert passes(APPLICATION_PROPERTIES, {"name": f"&p:{wanted}"}, found) is text.startswith(wanted)
    assert passes(APPLICATION_PROPERTIES, {"name": f"&s:{wanted}"}, found) is text.endswith(wanted)

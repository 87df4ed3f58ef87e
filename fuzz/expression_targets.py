"""Expressions, which peers write, over messages, which other peers write."""

from __future__ import annotations

from fuzz.targets import check, target
from headwater.encoding._message_kernel import list_value, map_value
from headwater.encoding.amqp_message import Header, Message, Properties, encode_message
from headwater.encoding.event_filter import Filter, StoredEvent
from headwater.encoding.expression_dialects import EVENT_STREAMS_SQL, JMS_SELECTOR
from headwater.encoding.expression_parser import parse_expression
from headwater.errors import InvalidExpression

MESSAGE = encode_message(
    Message(
        header=Header(durable=True),
        properties=Properties(message_id=b"id", subject="s"),
        application_properties={"a": 1, "b": "text", "c": 1.5, "d": True},
    )
)


@target(
    "expression",
    InvalidExpression,
    seeds=[
        b"\x00d.event-streams-offset > 'a4c5' AND d.event-streams-timestamp > 1585672841",
        b"\x00NOT (a.a + 1 = 2 OR a.b LIKE '%_x!%' ESCAPE '!') AND a.[b] NOT IN ('x', -1, TRUE)",
        b"\x01JMSPriority BETWEEN 3 AND 5 AND b IS NOT NULL OR amqp.annotation.x-opt-offset > '-1'",
        b"\x01a * -2.5e3 / 017 - 0x1F >= c AND \"b\" = 'it''s'",
    ],
)
def fuzz_expression(data: bytes) -> None:
    text = data[1:].decode("utf-8", "replace")
    dialect = JMS_SELECTOR if data[:1] > b"\x00" else EVENT_STREAMS_SQL
    try:
        node = parse_expression(text, dialect)
    except InvalidExpression as error:
        check(0 <= error.position <= len(text), "the fault lies outside of the text")
        raise
    filter_ = Filter(node, starts_at_earliest=True)
    bounds = filter_.bounds(5)
    for offset in (0, 4, 5, (1 << 64) - 1):
        event = StoredEvent(MESSAGE, 0, len(MESSAGE), offset=offset, timestamp_ms=offset, latest_offset=5)
        matches = filter_.matches(event)
        if offset < 1 << 63:  # no time is as late as the last offsets
            check(bounds.admits(offset, offset) or not matches, "a match lies outside of the bounds")
            check(
                matches or not (bounds.is_exact and bounds.admits(offset, offset)), "the bounds are not exact"
            )


@target("values in a message", InvalidExpression, seeds=[MESSAGE, MESSAGE[8:]])
def fuzz_message_values(data: bytes) -> None:
    for section in range(0x70, 0x79):
        for key in (b"a", b"d", b""):
            map_value(data, 0, len(data), section, key)
        for index in range(4):
            list_value(data, 0, len(data), section, index)

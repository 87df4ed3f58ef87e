"""Expressions of any kind: read, printed, evaluated, and turned into bounds."""

from __future__ import annotations

import pytest
from hypothesis import Phase, example, find, given, settings
from hypothesis import strategies as st

from headwater.encoding.amqp_message import Message, encode_message
from headwater.encoding.event_filter import Filter, StoredEvent
from headwater.encoding.expression import (
    And,
    Comparison,
    Field,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Or,
    Section,
)
from headwater.encoding.expression_dialects import EVENT_STREAMS_SQL, JMS_SELECTOR, Dialect
from headwater.encoding.expression_parser import parse_expression
from headwater.encoding.expression_position import OFFSET_END, TIME_END_MS, TIME_START_MS, bounds_of, span_of
from headwater.errors import InvalidExpression
from tests.expression_material import (
    DIALECTS,
    conditions,
    messages,
    odd_texts,
    position_tests,
    reference,
    text_of,
)

EACH_DIALECT = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
WORDS = st.sampled_from(
    [
        *(
            "and",
            "OR",
            "not",
            "In",
            "LIKE",
            "between",
            "is",
            "Null",
            "TRUE",
            "false",
            "escape",
            "(",
            ")",
            ",",
        ),
        *(
            "+",
            "-",
            "*",
            "/",
            "%",
            "=",
            "<>",
            "!=",
            "<",
            ">",
            "<=",
            ">=",
            "'a%'",
            "'it''s'",
            "''",
            "'unclosed",
        ),
        *(
            "1",
            "0x1F",
            "017",
            "2.5e3",
            ".5",
            "7.",
            "a",
            "a.b",
            "d.event-streams-offset",
            "p.message-id",
            "d.no",
        ),
        *("JMSPriority", "amqp.annotation.x-opt-offset", '"x y"', "[x y]", "[x", "naïve", "$x"),
    ]
)
OFFSETS = st.one_of(
    st.integers(0, 40), st.integers(0, OFFSET_END - 1), st.sampled_from([OFFSET_END - 1, 0xA4C5])
)
TIMES = st.one_of(
    st.integers(-10_000, 10_000),
    st.integers(TIME_START_MS, TIME_END_MS - 1),
    st.sampled_from([10**11, 10**14]),
)


@EACH_DIALECT
@given(text=st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=14).map(" ".join)))
def test_any_text_is_an_expression_or_says_where_it_is_none(dialect: Dialect, text: str) -> None:
    try:
        node = parse_expression(text, dialect)
    except InvalidExpression as error:
        fault = error
    else:
        Filter(node, starts_at_earliest=True).matches(StoredEvent())
        return
    assert 0 <= fault.position <= len(text)
    assert fault.reason in str(fault)


@EACH_DIALECT
@given(data=st.data())
def test_what_is_printed_is_read_as_the_same(dialect: Dialect, data: st.DataObject) -> None:
    node = data.draw(conditions(dialect))
    text = text_of(node, dialect)
    again = parse_expression(text, dialect)
    assert again == node
    assert text_of(again, dialect) == text, "1, 1.0 and TRUE are equal to Python"


@EACH_DIALECT
@given(data=st.data(), message=messages(), offset=OFFSETS, time=TIMES, latest=OFFSETS)
def test_a_filter_agrees_with_plain_evaluation(
    dialect: Dialect, data: st.DataObject, message: Message, offset: int, time: int, latest: int
) -> None:
    node = data.draw(conditions(dialect))
    encoded = encode_message(message)
    buffer = b"before" + encoded + b"behind"
    event = StoredEvent(
        memoryview(buffer),
        6,
        6 + len(encoded),
        offset=offset,
        timestamp_ms=time,
        partition="p-0",
        latest_offset=latest,
    )
    assert Filter(node, starts_at_earliest=True).matches(event) == (reference(node, event) is True)


@EACH_DIALECT
@given(data=st.data(), message=messages(), offset=OFFSETS, time=TIMES, latest=OFFSETS)
def test_what_matches_lies_within_the_bounds(
    dialect: Dialect, data: st.DataObject, message: Message, offset: int, time: int, latest: int
) -> None:
    node = data.draw(conditions(dialect))
    encoded = encode_message(message)
    bounds = bounds_of(node, latest)
    edges = [bounds.offset_start - 1, bounds.offset_start, bounds.offset_end - 1, bounds.offset_end]
    filter_ = Filter(node, starts_at_earliest=True)
    for at in (offset, *(edge for edge in edges if 0 <= edge < OFFSET_END)):
        event = StoredEvent(encoded, 0, len(encoded), offset=at, timestamp_ms=time, latest_offset=latest)
        if filter_.matches(event):
            assert bounds.admits(at, time)
        elif bounds.is_exact:
            assert not bounds.admits(at, time)


@EACH_DIALECT
@given(data=st.data(), latest=st.integers(0, 40))
def test_the_span_of_one_comparison_is_what_it_selects(
    dialect: Dialect, data: st.DataObject, latest: int
) -> None:
    node = data.draw(position_tests(dialect))
    span = span_of(node)
    assert span is not None
    span = span.at(latest)
    bounds = bounds_of(node, latest)
    first, end = (TIME_START_MS, TIME_END_MS) if span.is_time else (0, OFFSET_END)
    near = {edge + step for edge in (span.start, span.end, first, end, latest) for step in range(-2, 3)}
    for at in sorted(place for place in near if first <= place < end):
        event = StoredEvent(offset=at, timestamp_ms=at, latest_offset=latest)
        expected = reference(node, event) is True
        assert ((span.start <= at < span.end) is not span.is_denied) is expected
        assert Filter(node, starts_at_earliest=True).matches(event) is expected
        if bounds.is_exact:
            assert bounds.admits(*((0, at) if span.is_time else (at, 0))) is expected


@given(
    constant=odd_texts, latest=st.integers(0, 600), symbol=st.sampled_from(["<", "<=", ">", ">=", "=", "<>"])
)
@example(constant="0000000000000a", latest=0, symbol="<=")
@example(constant="000000000000000A", latest=0, symbol=">")
@example(constant="00000000000001000", latest=0, symbol=">=")
def test_an_offset_compares_as_text_whatever_the_constant(constant: str, latest: int, symbol: str) -> None:
    field = Field(Section.DELIVERY_ANNOTATIONS, "event-streams-offset")
    node = Comparison(symbol, field, Literal(constant))
    filter_ = Filter(node, starts_at_earliest=True)
    bounds = filter_.bounds(latest)
    for offset in range(600):
        event = StoredEvent(offset=offset, latest_offset=latest)
        matches = filter_.matches(event)
        assert matches is (reference(node, event) is True)
        assert bounds.admits(offset, 0) or not matches
        if symbol != "<>":
            assert bounds.is_exact
            assert bounds.admits(offset, 0) is matches


@given(data=st.data())
def test_dialects_say_the_same_of_what_both_have(data: st.DataObject) -> None:
    node = data.draw(conditions(EVENT_STREAMS_SQL))
    text = text_of(node, JMS_SELECTOR)
    if "%" not in text:
        assert parse_expression(text, JMS_SELECTOR) == node


@pytest.mark.parametrize("kind", [And, Or, Not, Comparison, In, Like, IsNull])
def test_strategies_reach_each_kind_of_condition(kind: type[Node]) -> None:
    few = settings(max_examples=2_000, derandomize=True, database=None, phases=[Phase.generate])
    found = find(conditions(JMS_SELECTOR), lambda node: isinstance(node, kind), settings=few)
    assert isinstance(found, kind)

"""Expressions, by table: what their texts mean, and where the others go wrong."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.encoding.amqp_message import Message, encode_message
from headwater.encoding.event_filter import StoredEvent, _getter_of
from headwater.encoding.expression import (
    DEPTH_MAX,
    IN_ITEMS_MAX,
    LIKE_PATTERN_CHARACTERS_MAX,
    NODES_MAX,
    TEXT_CHARACTERS_MAX,
    And,
    Comparison,
    Field,
    Literal,
    Not,
    Or,
    Section,
)
from headwater.encoding.expression_compile import compile_condition
from headwater.encoding.expression_dialects import EVENT_STREAMS_SQL, JMS_SELECTOR, Dialect
from headwater.encoding.expression_parser import parse_expression
from headwater.errors import HeadwaterError, InvalidExpression, PeerError

PROPERTIES = {
    "t": True,
    "f": False,
    "one": 1,
    "two": 2,
    "seven": 7,
    "half": 0.5,
    "a": "a",
    "b": "b",
    "path": "a_b%c\\d",
    "empty": "",
    "bytes": b"a",
    "big": 2**63 - 1,
    "order.id": "o-1",
    "über": "ü",
    "my name": "x",
    "x-y": "hyphen",
    "in": "reserved",
}
ENCODED = encode_message(Message(application_properties=PROPERTIES))
EVENT = StoredEvent(ENCODED, 0, len(ENCODED))


def outcome(text: str, dialect: Dialect = JMS_SELECTOR) -> bool | None:
    return compile_condition(parse_expression(text, dialect), _getter_of)(EVENT)


def prop(name: str) -> Field:
    return Field(Section.APPLICATION_PROPERTIES, name)


def test_an_invalid_expression_is_a_fault_of_the_peer_with_the_condition_for_fields() -> None:
    with pytest.raises(InvalidExpression) as caught:
        parse_expression("a = ", JMS_SELECTOR)
    assert isinstance(caught.value, PeerError)
    assert isinstance(caught.value, HeadwaterError)
    assert caught.value.condition == "amqp:invalid-field"
    assert caught.value.position == 4
    assert "at position 4" in str(caught.value)


# Three-valued logic (Jakarta Messaging, section 3.8.1.2). There is no property `none`, so that it is unknown.


@pytest.mark.parametrize(
    ("left", "right", "both", "either"),
    [
        ("t", "t", True, True),
        ("t", "f", False, True),
        ("t", "none", None, True),
        ("f", "t", False, True),
        ("f", "f", False, False),
        ("f", "none", False, None),
        ("none", "t", None, True),
        ("none", "f", False, None),
        ("none", "none", None, None),
    ],
)
def test_and_and_or_are_three_valued(left: str, right: str, both: bool | None, either: bool | None) -> None:
    assert outcome(f"{left} AND {right}") is both
    assert outcome(f"{left} OR {right}") is either


@pytest.mark.parametrize(("operand", "denied"), [("t", False), ("f", True), ("none", None), ("a", None)])
def test_not_leaves_what_is_unknown(operand: str, denied: bool | None) -> None:
    assert outcome(f"NOT {operand}") is denied


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Comparisons.
        ("one = 1", True),
        ("one = 1.0", True),
        ("one <> 2", True),
        ("one < 2 AND two > one AND two >= 2 AND one <= 1", True),
        ("a < 'b'", True),
        ("a = 'A'", False),
        ("t = TRUE", True),
        ("t <> FALSE", True),
        ("(one < 2) = t", True),
        ("(one < 2) <> (two < 1)", True),
        ("a = a", True),
        ("none = none", None),
        ("none <> 1", None),
        ("1 < none", None),
        # What is not alike is neither equal nor different.
        ("one = '1'", False),
        ("one <> '1'", False),
        ("NOT one = '1'", True),
        ("a > 1", False),
        ("t = 1", False),
        ("one = TRUE", False),
        ("t < 2", False),
        ("t > FALSE", False),
        ("bytes = 'a'", False),
        ("bytes <> bytes", False),
        ("bytes IS NULL", False),
        # Null.
        ("none IS NULL", True),
        ("one is null", False),
        ("none IS NOT NULL", False),
        ("one IS NOT NULL", True),
        ("one + none IS NULL", True),
        # BETWEEN.
        ("two BETWEEN 1 AND 3", True),
        ("two BETWEEN 2 AND 2", True),
        ("two BETWEEN 3 AND 1", False),
        ("two NOT BETWEEN 1 AND 3", False),
        ("two NOT BETWEEN 3 AND 4", True),
        ("none BETWEEN 1 AND 3", None),
        ("two BETWEEN none AND 1", False),
        ("two BETWEEN none AND 3", None),
        ("two BETWEEN one AND one + 1 AND t", True),
        ("a BETWEEN 'a' AND 'b'", True),
        # IN.
        ("a IN ('x', 'a')", True),
        ("a NOT IN ('x', 'y')", True),
        ("a IN ('A')", False),
        ("two IN (1, 2.0)", True),
        ("seven in (-7, +7)", True),
        ("one IN (TRUE)", False),
        ("t IN (TRUE, 1)", True),
        ("t IN (1)", False),
        ("none IN ('a')", None),
        ("none NOT IN ('a')", None),
        # LIKE.
        ("a LIKE 'a'", True),
        ("a LIKE '_'", True),
        ("a LIKE '__'", False),
        ("a LIKE '%'", True),
        ("empty LIKE '%'", True),
        ("empty LIKE '_'", False),
        ("empty LIKE ''", True),
        ("path LIKE 'a_b%d'", True),
        ("path LIKE 'a!_b!%c\\d' ESCAPE '!'", True),
        ("path LIKE 'a!_c%' ESCAPE '!'", False),
        ("path LIKE '%\\\\d' ESCAPE '\\'", True),
        ("path NOT LIKE '%x%'", True),
        ("one LIKE '1'", False),
        ("none LIKE '%'", None),
        ("none NOT LIKE '%'", None),
        # Arithmetic.
        ("1 + 2 * 3 = 7", True),
        ("(1 + 2) * 3 = 9", True),
        ("one + two * seven = 15", True),
        ("seven - two - one = 4", True),
        ("seven / two = 3", True),
        ("-seven / two = -3", True),
        ("seven / 2.0 = 3.5", True),
        ("seven / half = 14", True),
        ("- -one = 1", True),
        ("+one = 1", True),
        ("one / 0 = 1", None),
        ("one / 0.0 = 1", None),
        ("a + 1 = 2", None),
        ("t + 1 = 2", None),
        ("big + big = 2 * big", True),
        ("big * big IS NULL", True),
        ("one+-1 = 0", True),
        ("two-1 = 1", True),
        # Precedence.
        ("t OR f AND f", True),
        ("(t OR f) AND f", False),
        ("NOT f AND f", False),
        ("NOT (f AND f)", True),
        ("NOT one = 2", True),
        ("NOT NOT t", True),
        ("f AND f OR t", True),
        ("one + 1 = two AND two - 1 = one", True),
        # Constants and names.
        ("TRUE", True),
        ("false", False),
        ("t", True),
        ("a", None),
        ("a = 'a' AnD b LiKe 'b' aNd nOt f = tRuE", True),
        ("'it''s' = 'it''s'", True),
        ("'''' <> ''", True),
        ("'a -- b' = 'a -- b'", True),
        ("one = 1 -- 1 + 1 - 2", True),
        ("order.id = 'o-1'", True),
        ("über = 'ü'", True),
        ("\"my name\" = 'x'", True),
        ("a.x-y = 'hyphen'", True),
        ("a.two-1 = 1", True),
        ("application_properties.one = 1", True),
        ("a.in = 'reserved'", True),
        ("A = 'a'", None),
    ],
)
def test_a_selector_is_what_the_specification_says(text: str, expected: bool | None) -> None:
    assert outcome(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.one != 2 AND a.seven % 2 = 1", True),
        ("-a.seven % 2 = -1", True),
        ("a.seven % 0 IS NULL", True),
        ('a.a = "a" AND "say ""a""" <> a.a', True),
        ("a.[my name] = 'x'", True),
        ("a.[none]]x] IS NULL", True),
        ("a.order.id = 'o-1'", True),
        ("a.cloudEvents:type IS NULL", True),
    ],
)
def test_the_sql_of_event_streams_has_forms_of_its_own(text: str, expected: bool) -> None:
    assert outcome(text, EVENT_STREAMS_SQL) is expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("57", 57),
        ("-957", -957),
        ("+62", 62),
        ("5L", 5),
        ("0x1F", 31),
        ("0Xffl", 255),
        ("017", 15),
        ("0", 0),
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
        ("7E3", 7000.0),
        ("-57.9E2", -5790.0),
        ("7.", 7.0),
        ("-95.7", -95.7),
        ("+6.2", 6.2),
        (".5", 0.5),
        ("5f", 5.0),
        ("1.5e-3D", 0.0015),
        ("017.5", 17.5),
    ],
)
def test_numbers_of_selectors_are_those_of_java(text: str, value: float) -> None:
    node = parse_expression(f"x = {text}", JMS_SELECTOR)
    assert isinstance(node, Comparison)
    assert isinstance(node.right, Literal)
    assert node.right.value == value
    assert type(node.right.value) is type(value)


def test_the_sql_of_event_streams_has_decimal_numbers_alone() -> None:
    assert outcome("a.one = 01", EVENT_STREAMS_SQL) is True
    for number in ("0x1F", "5L", "5f"):
        with pytest.raises(InvalidExpression, match="a number ends before a letter") as caught:
            parse_expression(f"a.one = {number}", EVENT_STREAMS_SQL)
        assert caught.value.position == 8


def test_operators_bind_as_in_sql() -> None:
    a, b, c = (prop(name) for name in "abc")
    assert parse_expression("a OR b AND NOT c", JMS_SELECTOR) == Or((a, And((b, Not(c)))))
    assert parse_expression("a AND b AND c", JMS_SELECTOR) == And((a, b, c))
    assert parse_expression("(a AND b) AND c", JMS_SELECTOR) == And((And((a, b)), c))
    assert parse_expression("NOT a = b", JMS_SELECTOR) == Not(Comparison("=", a, b))


def test_an_empty_selector_selects_all_and_an_empty_sql_filter_is_none() -> None:
    assert outcome("") is True
    assert outcome(" \t\n") is True
    with pytest.raises(InvalidExpression) as caught:
        parse_expression("  ", EVENT_STREAMS_SQL)
    assert caught.value.position == 2


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("a =", 3, "a name, a constant"),
        ("= 1", 0, "a name, a constant"),
        ("a = 1 1", 6, "an operator or the end"),
        ("a 1", 2, "an operator or the end"),
        ("(a = 1", 6, "an operator or )"),
        ("a = 1)", 5, "an operator or the end"),
        ("a = 'x", 4, "closing quote"),
        ("a = 'x'' ", 4, "closing quote"),
        ('"a = 1', 0, "closing quote"),
        ("a = #", 4, "no meaning"),
        ("a == 1", 3, "a name, a constant"),
        ("a != 1", 2, "no meaning"),
        ("a % 2 = 1", 2, "no meaning"),
        ("a = 1x", 4, "before a letter"),
        ("a = 1.2.3", 4, "before a letter"),
        ("a = 18446744073709551616", 4, "64 bits"),
        (f"a = {'9' * 5000}", 4, "64 bits"),
        ("a = 1e999", 4, "too large"),
        ("a = 18446744073709551615 + 1", 25, "64 bits"),
        ("a = 1 / 0", 6, "no result"),
        ("a = NULL", 4, "IS NULL"),
        ("a IS 1", 5, "NULL or NOT NULL"),
        ("a IS NOT 1", 9, "NULL"),
        ("a NOT = 1", 6, "IN, LIKE or BETWEEN"),
        ("a NOT NOT IN ('x')", 6, "IN, LIKE or BETWEEN"),
        ("a BETWEEN 1", 11, "AND, and the upper bound"),
        ("a BETWEEN 1 OR 2", 12, "AND, and the upper bound"),
        ("a IN 'x'", 5, "("),
        ("a IN ()", 6, "a constant"),
        ("a IN ('x',)", 10, "a constant"),
        ("a IN ('x' 'y')", 10, ", or )"),
        ("a IN (b)", 6, "a constant"),
        ("a IN (-'x')", 7, "a number"),
        ("a LIKE 1", 7, "a pattern in quotes"),
        ("a LIKE b", 7, "a pattern in quotes"),
        ("a LIKE 'x' ESCAPE 'ab'", 18, "one character"),
        ("a LIKE 'x' ESCAPE ''", 18, "one character"),
        ("a LIKE 'x' ESCAPE 5", 18, "one character"),
        ("a LIKE 'x!' ESCAPE '!'", 2, "escape character"),
        ("a = b = c", 6, "a comparison is over here"),
        ("1 < a < 5", 6, "a comparison is over here"),
        ("a IS NULL IS NULL", 10, "a comparison is over here"),
        ("a + 1", 2, "a condition is expected"),
        ("-a", 0, "a condition is expected"),
        ("'x'", 0, "a condition is expected"),
        ("NOT 5", 4, "a condition is expected"),
        ("a AND 'x'", 6, "a condition is expected"),
        ("1 OR a", 0, "a condition is expected"),
        ("(a = 1) + 1 = 2", 3, "a value is expected"),
        ("(a = 1) < 2", 3, "a value is expected"),
        ("(a OR b) IS NULL", 3, "a value is expected"),
        ("(NOT a) IN (TRUE)", 1, "a value is expected"),
        ("(a = 1) LIKE 'x'", 3, "a value is expected"),
        ("1 BETWEEN (a = 1) AND 2", 13, "a value is expected"),
        ("-'x' = 1", 1, "a number is expected"),
        ("a + 'x' = 1", 4, "a number is expected"),
        ("TRUE + 1 = 2", 0, "a number is expected"),
        ("JMSExpiration > 1", 0, "JMS has no such field"),
        ("JMSReplyTo = 'x'", 0, "JMSCorrelationID"),
        ("AND", 0, "there is 'AND'"),
        ("/* a */ a = 1", 0, "a name, a constant"),
        ("p.nothing = 1", 2, "has no such field"),
        ("header.x = 1", 7, "delivery-count"),
        ("amqp.body = 1", 5, "delivery-mode"),
        ("\x00", 0, "no meaning"),
        ("a\x00", 1, "no meaning"),
        ("a AND" + " " * 100 + "'" + "long" * 30 + "'", 105, "a condition"),
    ],
)
def test_a_broken_selector_says_where_and_what_is_expected(text: str, position: int, expected: str) -> None:
    with pytest.raises(InvalidExpression) as caught:
        parse_expression(text, JMS_SELECTOR)
    assert (caught.value.position, expected in caught.value.reason) == (position, True), str(caught.value)


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("event-streams-offset > 'a4c5'", 0, "d."),
        ("size > 1", 0, "begins with its section"),
        ("[size] > 1", 0, "begins with its section"),
        ("a.[size > 1", 0, "begins with its section"),
        ("d.event-streams-epoch = 1", 2, "event-streams-offset"),
        ("JMSPriority = 1", 0, "begins with its section"),
        ("amqp.annotation.x-opt-offset > '1'", 0, "begins with its section"),
    ],
)
def test_a_broken_sql_filter_says_where_and_what_is_expected(text: str, position: int, expected: str) -> None:
    with pytest.raises(InvalidExpression) as caught:
        parse_expression(text, EVENT_STREAMS_SQL)
    assert (caught.value.position, expected in caught.value.reason) == (position, True), str(caught.value)


# Limits: what reaches one is read, what goes one further is refused.


def accepted_and_refused(accepted: str, refused: str) -> InvalidExpression:
    parse_expression(accepted, JMS_SELECTOR)
    with pytest.raises(InvalidExpression) as caught:
        parse_expression(refused, JMS_SELECTOR)
    return caught.value


def test_text_has_a_limit() -> None:
    fill = "'".join(("a <> ", "x" * (TEXT_CHARACTERS_MAX - 7), ""))
    assert len(fill) == TEXT_CHARACTERS_MAX
    error = accepted_and_refused(fill, fill + " ")
    assert (error.position, "8,192 characters" in error.reason) == (TEXT_CHARACTERS_MAX, True)


@pytest.mark.parametrize(
    "nested",
    [
        lambda levels: "(" * (levels - 1) + "a" + ")" * (levels - 1),
        lambda levels: "NOT " * (levels - 1) + "a",
        lambda levels: "- " * (levels - 2) + "a = 1",
        lambda levels: "a" + " + b" * (levels - 2) + " = 1",
        lambda levels: "a = 1" + " + b" * (levels - 2),
    ],
    ids=["parentheses", "NOT", "signs", "sums on the left", "sums on the right"],
)
def test_nesting_has_a_limit(nested: Any) -> None:
    error = accepted_and_refused(nested(DEPTH_MAX), nested(DEPTH_MAX + 1))
    assert f"more than {DEPTH_MAX} deep" in error.reason


def test_sums_in_sums_do_not_slip_through_the_limit_of_nesting() -> None:
    text = "a"
    for _ in range(10):
        text = f"({text}){' + b' * 20}"
    with pytest.raises(InvalidExpression, match="nested more than"):
        parse_expression(f"{text} = 1", JMS_SELECTOR)


def test_parts_have_a_limit() -> None:
    assert (
        "parts"
        in accepted_and_refused(" OR ".join(["a"] * (NODES_MAX - 1)), " OR ".join(["a"] * NODES_MAX)).reason
    )


def test_lists_have_a_limit() -> None:
    items = ["1"] * IN_ITEMS_MAX
    error = accepted_and_refused(f"a IN ({','.join(items)})", f"a IN ({','.join(items)},1)")
    assert f"at most {IN_ITEMS_MAX:,} items" in error.reason


def test_patterns_have_a_limit() -> None:
    pattern = "x" * LIKE_PATTERN_CHARACTERS_MAX
    error = accepted_and_refused(f"a LIKE '{pattern}'", f"a LIKE '{pattern}x'")
    assert f"at most {LIKE_PATTERN_CHARACTERS_MAX} characters" in error.reason

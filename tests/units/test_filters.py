"""Predicates over events: what each says, what it asks for, and what is no filter in SQL."""

from __future__ import annotations

import pytest

from headwater.cloudevents.attributes import AttributeValue
from headwater.cloudevents.filters import (
    ALWAYS,
    All,
    Any,
    Match,
    MatchKind,
    Not,
    Predicate,
    compile_predicate,
    sql,
)
from headwater.errors import InvalidExpression

EXACT, PREFIX, SUFFIX = MatchKind.EXACT, MatchKind.PREFIX, MatchKind.SUFFIX
EVENT: dict[str, AttributeValue] = {
    "id": "o-17",
    "type": "example.order.placed",
    "priority": 17,
    "urgent": True,
    "digest": b"\x00\xff",
    "empty": "",
}
YES, NO = Match(EXACT, "id", "o-17"), Match(EXACT, "id", "o-18")


def passes(predicate: Predicate) -> bool:
    return compile_predicate(predicate)(EVENT)


@pytest.mark.clause("SUB-9")
@pytest.mark.parametrize(
    ("kind", "attribute", "value", "expected"),
    [
        (EXACT, "type", "example.order.placed", True),
        (EXACT, "type", "example.order.Placed", False),
        (EXACT, "type", "example.order", False),
        (PREFIX, "type", "example.", True),
        (PREFIX, "type", "Example.", False),
        (PREFIX, "type", "order", False),
        (SUFFIX, "type", ".placed", True),
        (SUFFIX, "type", "example.", False),
        # Section 3.2.3.1 of 2020-04: in the string representation.
        (EXACT, "priority", "17", True),
        (EXACT, "priority", "017", False),
        (PREFIX, "priority", "1", True),
        (SUFFIX, "priority", "7", True),
        (EXACT, "urgent", "true", True),
        (EXACT, "urgent", "True", False),
        (PREFIX, "urgent", "tr", True),
        (EXACT, "digest", "AP8=", True),
        (SUFFIX, "digest", "=", True),
        (EXACT, "empty", "", True),
        (PREFIX, "type", "", True),
        (SUFFIX, "type", "", True),
        # What is not there is not equal to anything.
        (EXACT, "none", "", False),
        (PREFIX, "none", "", False),
        (SUFFIX, "none", "", False),
        (EXACT, "none", "None", False),
    ],
)
def test_an_attribute_is_compared_as_text(
    kind: MatchKind, attribute: str, value: str, expected: bool
) -> None:
    assert passes(Match(kind, attribute, value)) is expected


@pytest.mark.clause("SUB-10")
@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (ALWAYS, True),
        (All((YES,)), True),
        (All((YES, YES)), True),
        (All((YES, NO)), False),
        (Any(()), False),
        (Any((NO,)), False),
        (Any((NO, YES)), True),
        (Any((NO, NO)), False),
        (Not(NO), True),
        (Not(YES), False),
        (Not(Match(EXACT, "none", "x")), True),
        (All((Any((NO, YES)), Not(All((YES, NO))))), True),
        (sql("priority > 16 AND type LIKE 'example.%'"), True),
        (sql("priority > 17"), False),
        (sql("none = 1 OR TRUE"), False),
        (Not(sql("none = 1")), True),
        (sql("urgent"), True),
        (sql("priority"), False),
    ],
)
def test_predicates_combine(predicate: Predicate, expected: bool) -> None:
    assert passes(predicate) is expected


def test_only_what_decides_is_asked_for() -> None:
    asked: list[str] = []

    class Listening:
        def get(self, name: str, /) -> AttributeValue | None:
            asked.append(name)
            return EVENT.get(name)

    type_is_x = Match(EXACT, "type", "x")
    assert compile_predicate(All((NO, type_is_x)))(Listening()) is False
    assert asked == ["id"]
    asked.clear()
    assert compile_predicate(Any((YES, type_is_x)))(Listening()) is True
    assert asked == ["id"]


@pytest.mark.clause("CESQL 1.2")
@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("id =", 4, "a name, a constant"),
        ("LENGHT(id) > 3", 0, "there is no function LENGHT; there are LENGTH, CONCAT"),
        ("TRUE OR id IN ('x', CONCAT(LEFT(id)))", 27, "LEFT does not take 1 arguments"),
        ("LENGTH(id)", 0, "a filter is true or false"),
        ("'true'", 0, "a filter is true or false"),
        ("1 + 1", 0, "a filter is true or false"),
    ],
)
def test_what_can_never_be_true_is_no_filter_in_sql(text: str, position: int, reason: str) -> None:
    with pytest.raises(InvalidExpression) as caught:
        sql(text)
    assert caught.value.position == position
    assert reason in caught.value.reason


def test_predicates_that_say_the_same_are_equal() -> None:
    assert sql("id = 'x'") == sql("id = 'x'")
    assert sql("id = 'x'") != sql("id = 'y'")
    assert All((YES, sql("urgent"))) == All((YES, sql("urgent")))

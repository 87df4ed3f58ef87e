"""Filters of any kind: written in every shape that can say them, and read; and what is no filter."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any as Json

from hypothesis import given
from hypothesis import strategies as st

from headwater.cloudevents.attributes import AttributeValue
from headwater.cloudevents.cesql_evaluate import evaluate
from headwater.cloudevents.event import canonical_text
from headwater.cloudevents.filter_shapes import read_filter
from headwater.cloudevents.filters import (
    All,
    Any,
    Match,
    MatchKind,
    Not,
    Predicate,
    Sql,
    compile_predicate,
    sql,
)
from headwater.errors import InvalidFilter
from tests.cesql_material import NAMES, events

matches = st.builds(
    Match,
    st.sampled_from(MatchKind),
    st.sampled_from(NAMES),
    st.one_of(st.text("ab1tru ", min_size=1, max_size=3), st.sampled_from(["true", "-7", "AA=="])),
)
expressions = st.sampled_from(
    ["EXISTS id", "n > 3", "subject LIKE 'a%' OR b", "NOT b", "LENGTH(type) = 1 XOR x1 IN (id, 'a', 1)"]
).map(sql)
predicates: st.SearchStrategy[Predicate] = st.recursive(
    st.one_of(matches, expressions),
    lambda parts: st.one_of(
        st.builds(All, st.lists(parts, min_size=1, max_size=3).map(tuple)),
        st.builds(Any, st.lists(parts, min_size=1, max_size=3).map(tuple)),
        st.builds(Not, parts),
    ),
    max_leaves=8,
)
json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.sampled_from(["basic", "id"])),
    lambda parts: st.one_of(
        st.lists(parts, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    *("dialect", "filters", "conditions", "type", "property", "value", "exact", "prefix"),
                    *("all", "any", "not", "sql", "id", ""),
                ]
            ),
            parts,
            max_size=3,
        ),
    ),
    max_leaves=10,
)  # fmt: skip
HOLDS: dict[MatchKind, Callable[[str, str], bool]] = {
    MatchKind.EXACT: operator.eq,
    MatchKind.PREFIX: str.startswith,
    MatchKind.SUFFIX: str.endswith,
}


def written(predicate: Predicate) -> dict[str, Json]:
    match predicate:
        case Match(kind, attribute, value):
            return {kind.value: {attribute: value}}
        case All(parts):
            return {"all": [written(part) for part in parts]}
        case Any(parts):
            return {"any": [written(part) for part in parts]}
        case Not(part):
            return {"not": written(part)}
        case Sql(text):
            return {"sql": text}


def basic(match: Match) -> dict[str, Json]:
    return {"type": match.kind.value, "property": match.attribute, "value": match.value}


def holds(predicate: Predicate, event: dict[str, AttributeValue]) -> bool:
    """In the plainest way."""
    match predicate:
        case Match(kind, attribute, value):
            return attribute in event and HOLDS[kind](canonical_text(event[attribute]), value)
        case All(parts):
            return all(holds(part, event) for part in parts)
        case Any(parts):
            return any(holds(part, event) for part in parts)
        case Not(part):
            return not holds(part, event)
        case Sql(_, expression):
            return evaluate(expression, event).passes


@given(predicate=predicates)
def test_a_predicate_is_read_from_each_shape_of_today(predicate: Predicate) -> None:
    for subscription in ({"filters": [written(predicate)]}, {"filter": written(predicate)}):
        found = read_filter(subscription)
        assert found.predicate == predicate
        assert found.echo() == subscription


@given(conditions=st.lists(matches, min_size=2, max_size=4))
def test_conditions_are_the_same_in_all_shapes(conditions: list[Match]) -> None:
    shapes: list[dict[str, Json]] = [
        {"filter": {"dialect": "basic", "conditions": list(map(basic, conditions))}},
        {"filter": {"dialect": "simple", "filters": list(map(basic, conditions))}},
        {"filters": [{"dialect": "basic", **basic(condition)} for condition in conditions]},
        {"filters": list(map(written, conditions))},
        {"filter": {"all": list(map(written, conditions))}},
    ]
    assert {read_filter(shape).predicate for shape in shapes} == {All(tuple(conditions))}


@given(predicate=predicates, event=events)
def test_a_compiled_predicate_agrees_with_plain_evaluation(
    predicate: Predicate, event: dict[str, AttributeValue]
) -> None:
    assert compile_predicate(predicate)(event) is holds(predicate, event)


@given(subscription=st.dictionaries(st.sampled_from(["filter", "filters"]), json))
def test_anything_is_a_filter_or_is_refused_by_its_place(subscription: dict[str, Json]) -> None:
    try:
        found = read_filter(subscription)
    except InvalidFilter as error:
        fault = error
    else:
        assert isinstance(compile_predicate(found.predicate)({}), bool)
        assert read_filter(found.echo()) == found
        return
    assert fault.place.startswith("filter")

"""Filters of subscriptions in the shapes of all drafts: read into one predicate, given back, and refused by place."""

from __future__ import annotations

from typing import Any as Json

import msgspec
import pytest

from headwater.cloudevents.filter_shapes import CHARACTERS_MAX, NESTING_MAX, PREDICATES_MAX, read_filter
from headwater.cloudevents.filters import ALWAYS, All, Any, Match, MatchKind, Not, Predicate, sql
from headwater.errors import InvalidFilter, PeerError

EXACT, PREFIX, SUFFIX = MatchKind.EXACT, MatchKind.PREFIX, MatchKind.SUFFIX
TYPE = Match(PREFIX, "type", "com.")
SUBJECT = Match(SUFFIX, "subject", ".jpg")
TYPE_2020 = {"type": "prefix", "property": "type", "value": "com."}
SUBJECT_2020 = {"type": "suffix", "property": "subject", "value": ".jpg"}


@pytest.mark.clause("SUB-9", "SUB-10")
@pytest.mark.parametrize(
    ("subscription", "predicate"),
    [
        # 2020-04.
        ({"filter": {"dialect": "basic", "filters": [TYPE_2020]}}, TYPE),
        ({"filter": {"dialect": "basic", "conditions": [TYPE_2020, SUBJECT_2020]}}, All((TYPE, SUBJECT))),
        ({"filter": {"dialect": "simple", "filters": [SUBJECT_2020]}}, SUBJECT),
        ({"filter": {"dialect": "basic", "conditions": []}}, ALWAYS),
        (
            {
                "filter": {
                    "dialect": "basic",
                    "filters": [{"type": "prefix", "property": "type", "value": ""}],
                }
            },
            Match(PREFIX, "type", ""),
        ),
        # 2020-10.
        ({"filters": [{"dialect": "basic", **TYPE_2020}]}, TYPE),
        (
            {"filters": [{"dialect": "basic", **TYPE_2020}, {"dialect": "simple", **SUBJECT_2020}]},
            All((TYPE, SUBJECT)),
        ),
        # 2021-02.
        ({"filter": {"prefix": {"type": "com."}}}, TYPE),
        ({"filter": {"not": {"suffix": {"subject": ".jpg"}}}}, Not(SUBJECT)),
        # 2021-05.
        ({"filters": [{"prefix": {"type": "com."}}]}, TYPE),
        ({"filters": [{"prefix": {"type": "com."}}, {"suffix": {"subject": ".jpg"}}]}, All((TYPE, SUBJECT))),
        # Now.
        ({"filters": [{"exact": {"id": "1", "ext5": "x"}}]}, All((Match(EXACT, "id", "1"), Match(EXACT, "ext5", "x")))),
        (
            {"filters": [{"any": [{"prefix": {"type": "com."}}, {"all": [{"suffix": {"subject": ".jpg"}}]}]}]},
            Any((TYPE, All((SUBJECT,)))),
        ),
        (
            {"filters": [{"sql": "type LIKE 'com.%'"}, {"not": {"prefix": {"type": "com."}}}]},
            All((sql("type LIKE 'com.%'"), Not(TYPE))),
        ),
        # Several drafts in one.
        ({"filters": [{"dialect": "basic", **TYPE_2020}, {"suffix": {"subject": ".jpg"}}]}, All((TYPE, SUBJECT))),
        # None.
        ({}, ALWAYS),
        ({"filters": []}, ALWAYS),
        ({"filter": None, "filters": None}, ALWAYS),
        ({"filter": None, "filters": [{"prefix": {"type": "com."}}]}, TYPE),
    ],
)  # fmt: skip
def test_each_shape_is_read_into_a_predicate_and_given_back_as_it_came(
    subscription: dict[str, Json], predicate: Predicate
) -> None:
    sent = msgspec.json.encode(subscription)
    found = read_filter({"id": "s-1", **subscription, "sink": "https://example.com"})
    assert found.predicate == predicate
    assert found.echo() == {name: value for name, value in subscription.items() if value is not None}
    assert msgspec.json.encode(subscription) == sent


def test_what_is_given_back_is_nobody_elses() -> None:
    subscription: dict[str, Json] = {"filters": [{"prefix": {"type": "com."}}]}
    found = read_filter(subscription)
    subscription["filters"][0]["prefix"]["type"] = "changed"
    assert found.echo() == {"filters": [{"prefix": {"type": "com."}}]}
    found.echo().clear()
    assert found.echo() == {"filters": [{"prefix": {"type": "com."}}]}


def nested(depth: int) -> Json:
    predicate: Json = {"exact": {"id": "1"}}
    for _ in range(depth - 1):
        predicate = {"not": predicate}
    return predicate


@pytest.mark.clause("SUB-9", "SUB-10")
@pytest.mark.parametrize(
    ("subscription", "place", "reason"),
    [
        ({"filter": {}}, "filter", 'no dialect; for conditions that is "basic"'),
        ({"filter": {"filters": [TYPE_2020]}}, "filter", "no dialect"),
        ({"filter": {"conditions": []}}, "filter", "no dialect"),
        ({"filter": []}, "filter", "an object is expected"),
        ({"filter": "id = 1"}, "filter", "an object is expected"),
        ({"filter": {"dialect": "jq", "conditions": []}}, "filter.dialect", "jq is not supported; there is basic"),
        ({"filter": {"dialect": 1}}, "filter.dialect", "a string is expected"),
        ({"filter": {"dialect": "basic"}}, "filter", "an array called conditions, or one called filters"),
        ({"filter": {"dialect": "basic", "filters": [], "conditions": []}}, "filter", "an array called conditions"),
        ({"filter": {"dialect": "basic", "filters": {}}}, "filter.filters", "an array is expected"),
        ({"filter": {"dialect": "basic", "filters": [], "x": 1}}, "filter", "it has x; it may have dialect"),
        ({"filter": {"dialect": "basic", "filters": ["x"]}}, "filter.filters[0]", "an object is expected"),
        ({"filter": {"dialect": "basic", "filters": [TYPE_2020, {}]}}, "filter.filters[1].type", "a string is exp"),
        (
            {"filter": {"dialect": "basic", "filters": [{**TYPE_2020, "type": "like"}]}},
            "filter.filters[0].type",
            "like is none of exact, prefix, suffix",
        ),
        (
            {"filter": {"dialect": "basic", "filters": [{**TYPE_2020, "value": 1}]}},
            "filter.filters[0].value",
            "a string is expected",
        ),
        (
            {"filter": {"dialect": "basic", "filters": [{**TYPE_2020, "property": "Type"}]}},
            "filter.filters[0].property",
            "lower-case letters and digits",
        ),
        ({"filters": {}}, "filters", "an array is expected"),
        ({"filters": [1]}, "filters[0]", "an object is expected"),
        ({"filters": [{}]}, "filters[0]", "and there are 0"),
        ({"filters": [{"dialect": "basic"}]}, "filters[0].type", "a string is expected"),
        ({"filters": [{"dialect": "sql", "value": "x"}]}, "filters[0].dialect", "sql is not supported"),
        ({"filters": [{"dialect": "basic", "prefix": {"type": "x"}}]}, "filters[0]", "it has prefix; it may have"),
        ({"filters": [{"exact": {"id": "1"}, "prefix": {"id": "1"}}]}, "filters[0]", "and there are 2"),
        ({"filters": [{"regex": {"id": "1"}}]}, "filters[0]", "regex is no dialect; there are exact, prefix"),
        ({"filters": [{"x" * 100: {}}]}, "filters[0]", f"{'x' * 40}… is no dialect"),
        ({"filters": [{"exact": {}}]}, "filters[0].exact", "at least one attribute"),
        ({"filters": [{"exact": ["id"]}]}, "filters[0].exact", "an object is expected"),
        ({"filters": [{"exact": {"id": ""}}]}, "filters[0].exact.id", "and this is empty"),
        ({"filters": [{"exact": {"id": 1}}]}, "filters[0].exact.id", "a string is expected"),
        ({"filters": [{"exact": {"": "x"}}]}, "filters[0].exact.", "the name of an attribute"),
        ({"filters": [{"exact": {"my_id": "x"}}]}, "filters[0].exact.my_id", "the name of an attribute"),
        ({"filters": [{"exact": {1: "x"}}]}, "filters[0].exact", "an object is expected"),
        ({"filters": [{"all": []}]}, "filters[0].all", "at least one is expected"),
        ({"filters": [{"any": {"exact": {"id": "1"}}}]}, "filters[0].any", "an array is expected"),
        ({"filters": [{"not": [{"exact": {"id": "1"}}]}]}, "filters[0].not", "an object is expected"),
        (
            {"filters": [{"exact": {"id": "1"}}, {"any": [{"not": {"exact": {"id": None}}}]}]},
            "filters[1].any[0].not.exact.id",
            "a string is expected",
        ),
        ({"filters": [{"sql": {"x": "y"}}]}, "filters[0].sql", "a string is expected"),
        ({"filters": [{"sql": "id = "}]}, "filters[0].sql", "position 5: a name, a constant"),
        ({"filters": [{"sql": "NO(id)"}]}, "filters[0].sql", "position 0: there is no function NO"),
        ({"filter": {"sql": "1"}}, "filter.sql", "position 0: a filter is true or false"),
        ({"filter": {"prefix": {"type": "x"}}, "filters": []}, "filters", "there is filter, too"),
    ],
)  # fmt: skip
def test_what_is_no_filter_is_refused_by_its_place(
    subscription: dict[str, Json], place: str, reason: str
) -> None:
    with pytest.raises(InvalidFilter) as caught:
        read_filter(subscription)
    assert caught.value.place == place
    assert reason in caught.value.reason
    assert isinstance(caught.value, PeerError)
    assert f"at {place}:" in str(caught.value)


@pytest.mark.parametrize(
    ("fitting", "excessive", "place", "reason"),
    [
        (
            [nested(NESTING_MAX)],
            [nested(NESTING_MAX + 1)],
            f"filters[0]{'.not' * NESTING_MAX}",
            "more than 20 inside each other",
        ),
        (
            [{"exact": {"id": "1"}}] * (PREDICATES_MAX // 2),
            [{"exact": {"id": "1"}}] * (PREDICATES_MAX // 2 + 1),
            f"filters[{PREDICATES_MAX // 2}]",
            "more than 1,000 parts",
        ),
        (
            [{"dialect": "basic", **TYPE_2020}] * PREDICATES_MAX,
            [{"dialect": "basic", **TYPE_2020}] * (PREDICATES_MAX + 1),
            f"filters[{PREDICATES_MAX}]",
            "more than 1,000 parts",
        ),
        (
            [{"exact": {"id": "x" * (CHARACTERS_MAX - 2)}}],
            [{"exact": {"id": "x" * (CHARACTERS_MAX - 1)}}],
            "filters[0].exact.id",
            "more than 65,536 characters",
        ),
        (
            [{"sql": "id = " + " " * 8_000 + "''"}] * 8,
            [{"sql": "id = " + " " * 8_000 + "''"}] * 9,
            "filters[8].sql",
            "more than 65,536 characters",
        ),
    ],
)
def test_a_filter_is_bounded(fitting: list[Json], excessive: list[Json], place: str, reason: str) -> None:
    read_filter({"filters": fitting})
    with pytest.raises(InvalidFilter) as caught:
        read_filter({"filters": excessive})
    assert caught.value.place == place
    assert reason in caught.value.reason

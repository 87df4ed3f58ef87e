"""docs/filters.md says what is so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headwater.cloudevents import filter_shapes
from headwater.cloudevents.cesql_functions import FUNCTIONS
from headwater.cloudevents.cesql_values import STRING_CHARACTERS_MAX
from headwater.cloudevents.filter_shapes import read_filter
from headwater.cloudevents.filters import compile_predicate, sql
from headwater.encoding.expression import (
    DEPTH_MAX,
    LIKE_PATTERN_CHARACTERS_MAX,
    NODES_MAX,
    TEXT_CHARACTERS_MAX,
)

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "filters.md").read_text("utf-8")
EVENT: dict[str, Any] = msgspec.json.decode(PAGE.partition("```json\n")[2].partition("```")[0])
DIALECTS = re.findall(r"^\| `(\w+)` \| .* \| `(\{.*\})` \|$", PAGE, re.MULTILINE)
SHAPES = re.findall(r'^\| .* 202[01].* \| `("filters?": .*)` \|$', PAGE, re.MULTILINE)
EXPRESSIONS = re.findall(r"^\| `([^`]+)` \| (true|false) \|", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("name", "said"), DIALECTS)
def test_examples_of_predicates_are_true(name: str, said: str) -> None:
    predicate = msgspec.json.decode(said)
    assert list(predicate) == [name]
    assert compile_predicate(read_filter({"filters": [predicate]}).predicate)(EVENT)


@pytest.mark.parametrize("said", SHAPES)
def test_examples_of_older_shapes_are_true(said: str) -> None:
    found = read_filter(msgspec.json.decode(f"{{{said}}}"))
    assert compile_predicate(found.predicate)(EVENT)


@pytest.mark.parametrize(("text", "expected"), EXPRESSIONS)
def test_expressions_are_what_the_page_says(text: str, expected: str) -> None:
    assert compile_predicate(sql(text))(EVENT) is (expected == "true")


def test_the_examples_are_found() -> None:
    assert (len(DIALECTS), len(SHAPES), len(EXPRESSIONS)) == (7, 5, 11)


def test_every_function_is_named() -> None:
    assert [name for name in FUNCTIONS if f"`{name}`" not in PAGE] == []


def test_the_bounds_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| (\D+) \| ([\d,]+) \|$", PAGE.partition("## Bounds")[2], re.MULTILINE)
    assert [int(bound.replace(",", "")) for _, bound in rows] == [
        filter_shapes.NESTING_MAX,
        filter_shapes.PREDICATES_MAX,
        filter_shapes.CHARACTERS_MAX,
        TEXT_CHARACTERS_MAX,
        NODES_MAX,
        DEPTH_MAX,
        LIKE_PATTERN_CHARACTERS_MAX,
        STRING_CHARACTERS_MAX,
    ]

"""CloudEvents SQL beside the SDK for Java: the same values and errors, but where that one leaves the document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from headwater.cloudevents.attributes import AttributeValue
from headwater.cloudevents.cesql import Logical, Node, Value, parts_of
from headwater.cloudevents.cesql_evaluate import evaluate
from headwater.cloudevents.cesql_functions import ErrorKind
from headwater.cloudevents.cesql_parser import parse_cesql
from tests import cesql_cases
from tests.cesql_material import nodes, text_of
from tests.peers.programs import Program, java_command

pytestmark = pytest.mark.peers

RIGHT = [
    *cesql_cases.LITERALS,
    *cesql_cases.ATTRIBUTES,
    *cesql_cases.SIGNS,
    *cesql_cases.COMPARISONS,
    *cesql_cases.LOGIC,
    *cesql_cases.ARITHMETIC,
    *cesql_cases.PATTERNS,
    *cesql_cases.EXISTENCE,
    *cesql_cases.MEMBERSHIP,
    *cesql_cases.STRING_FUNCTIONS,
    *cesql_cases.INTEGER_FUNCTIONS,
    *cesql_cases.CASTS,
    *cesql_cases.PRECEDENCE,
]
FAILING = [
    *cesql_cases.MISSING_ATTRIBUTES,
    *cesql_cases.IMPOSSIBLE_CASTS,
    *cesql_cases.IMPOSSIBLE_ARITHMETIC,
    *cesql_cases.FAILING_FUNCTIONS,
]
EVENT: dict[str, AttributeValue] = {
    name: value for name, value in cesql_cases.EVENT.items() if name not in {"digest", "large"}
}
"""Attributes that the program can be told of."""
OTHER_VALUES = {
    "ID": "names are read in lower case there, but not written in upper case",
    "time": "the digits of a time are not kept",
    "4 -1": "a sign before digits is always theirs; the document has no such rule",
    "4-1": "as above",
    "'line\nbreak' LIKE 'line_%'": "_ and % stop at the end of a line",
    "LENGTH('\U0001f389')": "characters are counted in UTF-16",
    "TRIM('\u3000\u2009a\u00a0\u0085')": "only ASCII is white space",
    "TRIM('\x1f \x1ca\x00')": "control characters are white space",
    "TRUE OR TRUE AND FALSE": "logic goes from right to left; section 3.6 has it from left to right",
    "FALSE AND FALSE OR TRUE": "as above",
}
NO_ERRORS = {
    "none OR TRUE": "what is true on the right of OR hides errors on its left",
    "none OR FALSE OR TRUE": "as above",
    "none OR nobody OR TRUE": "as above",
    "FALSE OR none OR TRUE": "as above",
    "'abc' OR TRUE": "as above",
    "INT('\u0661')": "digits of all scripts are digits",
    "2147483647 + 1": "integers wrap around",
    "-2147483648 - 1": "as above",
    "65536 * 65536": "as above",
    "-2147483648 / -1": "as above",
    "--2147483648": "as above",
    "SUBSTRING('abc', 0, -1)": "at 0 the length is not looked at",
}


@pytest.fixture(scope="module")
def java() -> Iterator[Program]:
    with Program(java_command("java-cesql")) as program:
        yield program


def told(program: Program, texts: list[str], event: dict[str, AttributeValue]) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = program("evaluate", expressions=texts, event=event)
    return answers


def test_values_are_the_same(java: Program) -> None:
    cases = [(text, value) for text, value in RIGHT if "digest" not in text and "large" not in text]
    answers = told(java, [text for text, _ in cases], EVENT)
    others = {text for (text, value), answer in zip(cases, answers, strict=True) if not same(answer, value)}
    assert others == OTHER_VALUES.keys()


def same(answer: dict[str, Any], value: Value) -> bool:
    return not answer["errors"] and (answer["value"], type(answer["value"])) == (value, type(value))


def test_what_fails_fails_there_with_the_same_kinds_of_errors(java: Program) -> None:
    cases = [(text, kinds) for text, _, kinds in FAILING if "large" not in text]
    answers = told(java, [text for text, _ in cases], EVENT)
    none = set()
    for (text, kinds), answer in zip(cases, answers, strict=True):
        if answer["errors"]:
            assert set(answer["errors"]) == {kind.name for kind in kinds}, text
        else:
            none.add(text)
    assert none == NO_ERRORS.keys()


@pytest.mark.parametrize(
    "text", ["", "a =", "(a", "a IN ()", "a LIKE b", "EXISTS 'a'", "2147483648", "'x", "f(a,)", "a b", "1.5"]
)
def test_what_is_no_expression_is_none_there(java: Program, text: str) -> None:
    [answer] = told(java, [text], EVENT)
    assert answer["errors"] != []


def is_without_or(node: Node) -> bool:
    return not (isinstance(node, Logical) and node.operator == "OR") and all(
        is_without_or(part) for part in parts_of(node)
    )


@settings(
    max_examples=400, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)  # fmt: skip
@given(node=nodes)
def test_any_expression_comes_to_the_same(java: Program, node: Node) -> None:
    event: dict[str, AttributeValue] = {
        "id": "1", "source": "/s", "type": "a_b%c", "subject": "TRUE", "n": -7, "b": True, "x1": " x "
    }  # fmt: skip
    text = text_of(node)
    outcome = evaluate(parse_cesql(text), event)
    [answer] = told(java, [text], event)
    if not outcome.errors:
        assert same(answer, outcome.value), f"{text}: {answer}"
    elif is_without_or(node) and all(error.kind is not ErrorKind.MATH for error in outcome.errors):
        assert answer["errors"], f"{text}: {answer}"

"""CloudEvents SQL: what attributes are in expressions, casts, and patterns against regular expressions."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cloudevents.attributes import AttributeValue
from headwater.cloudevents.cesql import Type, Value
from headwater.cloudevents.cesql_values import CASTS, pattern_matcher, value_of
from headwater.cloudevents.event import canonical_text


class Time(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("text", "text"),
        (Time("2020-04-01T12:00:00Z"), "2020-04-01T12:00:00Z"),
        (True, True),
        (7, 7),
        (2147483647, 2147483647),
        (2147483648, "2147483648"),
        (-2147483648, -2147483648),
        (-2147483649, "-2147483649"),
        (b"", ""),
        (b"\x00\xff", "AP8="),
    ],
)
def test_an_attribute_is_a_string_if_the_language_has_no_such_type(
    attribute: AttributeValue, value: Value
) -> None:
    assert value_of(attribute) == value
    assert isinstance(value_of(attribute), bool) is isinstance(value, bool)


@given(value=st.one_of(st.integers(-(1 << 31), (1 << 31) - 1), st.booleans(), st.text(max_size=5)))
def test_a_value_survives_the_cast_to_a_string_and_back(value: Value) -> None:
    kind = (
        Type.BOOLEAN if isinstance(value, bool) else Type.INTEGER if isinstance(value, int) else Type.STRING
    )
    assert CASTS[kind](canonical_text(value)) == value


def expression_of(pattern: str) -> str:
    words = re.findall(r"\\[%_]|.", pattern, re.DOTALL)
    plain = {"%": ".*", "_": "."}
    return "".join(plain.get(word) or re.escape(word[1:] if len(word) > 1 else word) for word in words)


@given(pattern=st.text("ab%_\\", max_size=8), text=st.text("ab%_\\", max_size=8))
def test_a_pattern_matches_what_its_regular_expression_does(pattern: str, text: str) -> None:
    expected = re.fullmatch(expression_of(pattern), text, re.DOTALL) is not None
    assert pattern_matcher(pattern)(text) is expected

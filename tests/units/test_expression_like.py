"""LIKE against regular expressions, and against patterns that make those slow."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.encoding.expression_like import DanglingEscape, like_matcher


@given(pattern=st.text("ab%_", max_size=8), text=st.text("ab", max_size=12))
def test_a_pattern_matches_what_its_regular_expression_does(pattern: str, text: str) -> None:
    expression = pattern.replace("%", ".*").replace("_", ".")
    assert like_matcher(pattern, None)(text) is (re.fullmatch(expression, text) is not None)


@pytest.mark.parametrize(
    ("pattern", "escape", "text", "matches"),
    [
        ("a!%", "!", "a%", True),
        ("a!%", "!", "ab", False),
        ("a!!%", "!", "a!bc", True),
        ("%!__%", "!", "xx_yz", True),
        ("%!__%", "!", "xx_", False),
        ("%%", "%", "%", True),
        ("%%a_", "%", "%ab", True),
        ("__%", "_", "_bc", True),
        ("a\\%", None, "a\\bc", True),
        ("_\n%", None, "a\nb\nc", True),
        ("%ü_%", None, "gemüse", True),
    ],
)
def test_an_escape_makes_the_next_character_plain(
    pattern: str, escape: str | None, text: str, matches: bool
) -> None:
    assert like_matcher(pattern, escape)(text) is matches


def test_an_escape_with_nothing_behind_it_is_refused() -> None:
    with pytest.raises(DanglingEscape):
        like_matcher("a!", "!")


@pytest.mark.parametrize(
    "pattern", ["%" + "_%" * 120 + "x", "%" + "a%" * 127 + "b", "%" + "a_" * 100 + "b%", "%_a%a_" * 40]
)
def test_no_pattern_takes_more_than_one_walk_through_the_text(pattern: str) -> None:
    # One that backtracks would not come to an end here.
    assert like_matcher(pattern, None)("a" * 200_000) is pattern.endswith("a_")

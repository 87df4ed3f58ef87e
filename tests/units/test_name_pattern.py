"""Patterns on log names: the same answers as `re` gives, in time that a hostile pattern or name cannot stretch."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.server.security.errors import InvalidPattern
from headwater.server.security.name_pattern import (
    CHARS_REMEMBERED_MAX,
    DEPTH_MAX,
    PATTERN_CHARS_MAX,
    POSITIONS_MAX,
    compile_pattern,
)

characters = st.sampled_from(
    ["a", "b", "c", ".", "[ab]", "[^a]", "[a-c-]", r"\w", r"\.", r"\d", "-", "[.*+]"]
)
repeats = st.sampled_from(["*", "+", "?", "{2}", "{0}", "{1,2}", "{,2}", "{2,}", "*?", "+?", "??", "{0,3}?"])


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return (
        st.tuples(inner, inner).map("".join)
        | st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})")
        | inner.map(lambda text: f"({text})")
        | st.tuples(inner, repeats).map(lambda pair: f"(?:{pair[0]}){pair[1]}")
    )


patterns = st.recursive(characters | st.just(""), larger, max_leaves=5).filter(
    lambda text: len(text) <= PATTERN_CHARS_MAX
)


@given(patterns, st.text("abc.-1", max_size=6))
def test_the_answer_is_that_of_re(pattern: str, name: str) -> None:
    assert compile_pattern(pattern).matches(name) == (re.fullmatch(pattern, name) is not None)


@given(patterns, patterns, st.text("ab", max_size=4))
def test_anchors_at_the_ends_change_nothing(one: str, other: str, name: str) -> None:
    for pattern in (f"^{one}$", f"^{one}$|^{other}$", f"{one}|{other}$"):
        if len(pattern) <= PATTERN_CHARS_MAX:
            assert compile_pattern(pattern).matches(name) == (re.fullmatch(pattern, name) is not None)


@pytest.mark.parametrize(
    ("pattern", "name", "is_match"),
    [
        ("", "", True),
        ("", "a", False),
        ("^$", "a", False),
        (".*", "any name: ü/€", True),
        ("orders", "orders-0", False),
        ("orders(-.*)?", "orders-0", True),
        ("orders-.*", "my-orders-0", False),
        (r"amq\..*|orders", "amq.topic", True),
        (r"[\w\-.]+", "a-b.c", True),
        ("a.c", "a\nc", False),
        (r"\^a\$", "^a$", True),
        ("ORDERS", "orders", False),
    ],
)
def test_examples(pattern: str, name: str, is_match: bool) -> None:
    assert compile_pattern(pattern).matches(name) is is_match


@pytest.mark.parametrize(
    "pattern",
    [
        "(a",
        "a)",
        "*a",
        "a**",
        "[z-a]",
        "[a",
        "a{2,1}",
        "a*+",
        "a++",
        r"(a)\1",
        r"\bname",
        r"\Aname\Z",
        "(?i)name",
        "(?=a)a",
        "(?!a)b",
        "(?P<name>a)",
        "(?<=a)b",
        "a^b",
        "a$b",
        "(^a)",
        "(a$)",
        "[a&&b]",
        "[[a]]",
        "a{",
        "}",
        "]",
        "\\",
        r"\x41",
        "^*",
        "a{99999999999}",
    ],
)
def test_what_is_broken_or_not_supported_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern) as caught:
        compile_pattern(pattern)
    assert repr(pattern) in str(caught.value)


def test_what_is_too_large_is_refused() -> None:
    assert compile_pattern("a" * PATTERN_CHARS_MAX).matches("a" * PATTERN_CHARS_MAX)
    with pytest.raises(InvalidPattern, match="longer than 255"):
        compile_pattern("a" * (PATTERN_CHARS_MAX + 1))
    assert compile_pattern(f"a{{{POSITIONS_MAX}}}").matches("a" * POSITIONS_MAX)
    for pattern in (f"a{{{POSITIONS_MAX + 1}}}", "(a{100}){100}", "((){9999}){9999}", "((a{0}){999}){999}"):
        with pytest.raises(InvalidPattern, match="written out"):
            compile_pattern(pattern)
    assert compile_pattern("(" * DEPTH_MAX + "a" + ")" * DEPTH_MAX).matches("a")
    with pytest.raises(InvalidPattern, match="nested"):
        compile_pattern("(" * (DEPTH_MAX + 1) + "a" + ")" * (DEPTH_MAX + 1))


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+b",
        "(a|aa)*b",
        "(a*)*b",
        "(.*.*.*.*.*.*)b",
        "(a?){255}b",
        "(a|a|a|a|a){30}a*b",
        "((a{0,7}){0,8}){0,9}b",
    ],
)
def test_patterns_that_would_hold_up_re_for_ever_are_answered_at_once(pattern: str) -> None:
    compiled = compile_pattern(pattern)
    started = time.perf_counter()
    assert not compiled.matches("a" * 255)
    assert time.perf_counter() - started < 2  # some ms; the rest is for a busy machine


def test_names_of_many_characters_do_not_fill_the_memory() -> None:
    pattern = compile_pattern("[^a]*")
    assert pattern.matches("".join(map(chr, range(0x4E00, 0x4E00 + CHARS_REMEMBERED_MAX + 100))))
    assert len(pattern._accepting) == CHARS_REMEMBERED_MAX

"""SASLprep: RFC 4013's own examples, and what stored text must not hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.encoding.saslprep import UnpreparableText, prepare


@pytest.mark.parametrize(
    ("text", "prepared"),
    [
        ("I\u00adX", "IX"),
        ("user", "user"),
        ("USER", "USER"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        ("a\u00a0b", "a b"),
        ("\u0627\u0031\u0628", "\u0627\u0031\u0628"),
        ("", ""),
    ],
)
def test_examples_of_the_rfc(text: str, prepared: str) -> None:
    assert prepare(text, stored=True) == prepared


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("\u0007", "U+0007"),
        ("a\nb", "U+000A"),
        ("\x7f", "U+007F"),
        ("\u0627\u0031", "begin and end"),
        ("\u0627a\u0628", "mixes"),
        ("\ud800", "U+D800"),
        ("\ufffd", "U+FFFD"),
    ],
)
def test_what_is_prohibited_is_refused(text: str, word: str) -> None:
    with pytest.raises(UnpreparableText) as caught:
        prepare(text, stored=False)
    assert word in str(caught.value)


def test_stored_text_holds_no_characters_that_older_tables_lack() -> None:
    assert prepare("\U0001f600", stored=False) == "\U0001f600"
    with pytest.raises(UnpreparableText, match=r"U\+1F600"):
        prepare("\U0001f600", stored=True)


@given(st.text())
def test_preparing_twice_changes_nothing_more(text: str) -> None:
    try:
        once = prepare(text, stored=True)
    except UnpreparableText:
        return
    assert prepare(once, stored=True) == once

"""Words of expressions, as all languages have them cut."""

from __future__ import annotations

import re

import pytest

from headwater.encoding.expression import TEXT_CHARACTERS_MAX
from headwater.encoding.expression_words import CONSTANT, END, NAME, Token, words_of
from headwater.errors import InvalidExpression

PATTERN = re.compile(r"(?P<space> +)|(?P<name>[a-z]+)|(?P<number>[0-9]+)")


def words(text: str) -> list[Token]:
    return words_of(text, PATTERN, word, lambda character: f"no word begins with {character}")


def word(match: re.Match[str]) -> Token:
    if match.lastgroup == "number":
        return Token(CONSTANT, match.start(), match[0], int(match[0]))
    return Token(NAME, match.start(), match[0])


def test_words_have_their_positions_and_end_with_the_end() -> None:
    assert words(" ab  12c ") == [
        Token(NAME, 1, "ab"),
        Token(CONSTANT, 5, "12", 12),
        Token(NAME, 7, "c"),
        Token(END, 9, ""),
    ]
    assert words("") == [Token(END, 0, "")]


def test_what_begins_no_word_is_told_by_its_position() -> None:
    with pytest.raises(InvalidExpression) as caught:
        words("ab ?")
    assert (caught.value.position, caught.value.reason) == (3, "no word begins with ?")


def test_a_text_has_a_length_that_it_may_have() -> None:
    assert len(words("a " * (TEXT_CHARACTERS_MAX // 2))) == TEXT_CHARACTERS_MAX // 2 + 1
    with pytest.raises(InvalidExpression, match="longer than 8,192 characters"):
        words(" " * (TEXT_CHARACTERS_MAX + 1))


def test_a_word_is_shown_short() -> None:
    assert words("ab")[0].shown == "'ab'"
    assert words("a" * 41)[0].shown == f"'{'a' * 40}…'"
    assert words("")[0].shown == "the end"

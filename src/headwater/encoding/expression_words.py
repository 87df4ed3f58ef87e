"""The words of an expression, whatever its language: where one ends, what it is, and its position in the text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from headwater.encoding.expression import TEXT_CHARACTERS_MAX, Constant, Field
from headwater.errors import InvalidExpression

__all__ = ["CONSTANT", "END", "NAME", "Token", "words_of"]

CONSTANT = "a constant"
NAME = "a name"
END = "the end"
SHOWN_CHARACTERS_MAX = 40
"""Of the text, in an error."""


class Token(NamedTuple):
    """One word; `kind` is one of the three above, or the operator or keyword itself."""

    kind: str
    position: int
    text: str
    value: Constant | Field | None = None

    @property
    def shown(self) -> str:
        """The word as an error tells of it."""
        if self.kind is END:
            return END
        cut = self.text if len(self.text) <= SHOWN_CHARACTERS_MAX else f"{self.text[:SHOWN_CHARACTERS_MAX]}…"
        return repr(cut)


def words_of(
    text: str,
    pattern: re.Pattern[str],
    token_of: Callable[[re.Match[str]], Token],
    misfit_of: Callable[[str], str],
) -> list[Token]:
    """The words, the end being the last one; raises `InvalidExpression`.

    The pattern matches one word, or a run of spaces as its group `space`, and goes back over nothing it has matched.
    `misfit_of` says why no word begins with a character.
    """
    if len(text) > TEXT_CHARACTERS_MAX:
        raise InvalidExpression(
            TEXT_CHARACTERS_MAX, f"it is longer than {TEXT_CHARACTERS_MAX:,} characters, which is the maximum"
        )
    match_at = pattern.match
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        match = match_at(text, position)
        if match is None:
            raise InvalidExpression(position, misfit_of(text[position]))
        if match.lastgroup != "space":
            tokens.append(token_of(match))
        position = match.end()
    tokens.append(Token(END, position, ""))
    return tokens

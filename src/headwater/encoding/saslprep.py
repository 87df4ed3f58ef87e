"""RFC 4013: SASLprep, the one spelling of user names and passwords before they are compared or hashed."""

from __future__ import annotations

import stringprep
from unicodedata import ucd_3_2_0 as unicode

from headwater.errors import CallerError

__all__ = ["UnpreparableText", "prepare"]

_PROHIBITED = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


class UnpreparableText(CallerError):
    """A text holds what names and passwords must not hold."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the text cannot be used: it {reason}; choose another one")


def prepare(text: str, *, stored: bool) -> str:
    """The prepared form of a text; a stored one must not hold characters that Unicode 3.2 did not have."""
    if text.isascii() and text.isprintable():
        return text
    prepared = unicode.normalize("NFKC", "".join(map(_mapped, text)))
    for char in prepared:
        if any(is_in(char) for is_in in _PROHIBITED):
            raise UnpreparableText(f"holds U+{ord(char):04X}, which is not allowed")
        if stored and stringprep.in_table_a1(char):
            raise UnpreparableText(f"holds U+{ord(char):04X}, which Unicode 3.2 did not know")
    _check_direction(prepared)
    return prepared


def _mapped(char: str) -> str:
    if stringprep.in_table_c12(char):
        return " "
    return "" if stringprep.in_table_b1(char) else char


def _check_direction(text: str) -> None:
    # RFC 3454 section 6: a text that runs from right to left does so from its first character to its last.
    if not any(map(stringprep.in_table_d1, text)):
        return
    if any(map(stringprep.in_table_d2, text)):
        raise UnpreparableText("mixes left-to-right with right-to-left letters")
    if not (stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])):
        raise UnpreparableText("is right-to-left, but does not begin and end so")

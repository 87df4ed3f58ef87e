"""The words of an expression: names, constants, operators, each with its position in the text.

A name in a section may have dots, colons, and hyphens before letters: `d.event-streams-offset` is one name, `a.total-1`
is a difference. Without a section a hyphen is always a minus, as JMS has it.
"""

from __future__ import annotations

import functools
import math
import re

from headwater.encoding.expression import Field
from headwater.encoding.expression_dialects import SECTION_NAMES, Dialect
from headwater.encoding.expression_words import CONSTANT, NAME, Token, words_of
from headwater.errors import InvalidExpression

__all__ = ["KEYWORDS", "tokens_of"]

KEYWORDS = frozenset(
    (
        "AND",
        "BETWEEN",
        "ESCAPE",
        "FALSE",
        "IN",
        "IS",
        "LIKE",
        "NOT",
        "NULL",
        "OR",
        "TRUE",
    )
)
INTEGER_MAX = (1 << 64) - 1
"""The largest that AMQP has."""
INTEGER_DIGITS_MAX = 22
"""As many as it may have, in base 8."""

_BASES = {"integer": 10, "hex": 16, "octal": 8}
_OPERATORS = ("<=", ">=", "<>", "=", "<", ">", "(", ")", ",", "+", "-", "*", "/")
_JAVA_NUMBER = (
    r"(?P<hex>0[xX][0-9a-fA-F]+[lL]?)"
    r"|(?P<octal>0[0-7]+[lL]?(?![0-9.eEfFdD]))"
    r"|(?P<float>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?|[0-9]+[eE][+-]?[0-9]+[fFdD]?|[0-9]+[fFdD])"
    r"|(?P<integer>[0-9]+[lL]?)"
)
_NUMBER = (
    r"(?P<float>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)|(?P<integer>[0-9]+)"
)
_SECTION_NAME = r"[\w$]+(?:(?:-(?=[^\W\d])|[.:])[\w$]+)*"


def tokens_of(text: str, dialect: Dialect) -> list[Token]:
    """The words, the end being the last one; raises `InvalidExpression`."""
    return words_of(
        text,
        _pattern(dialect),
        lambda match: _token(match, dialect),
        lambda character: _misfit(character, dialect),
    )


@functools.lru_cache(maxsize=8)
def _pattern(dialect: Dialect) -> re.Pattern[str]:
    """What one word, or a run of spaces, looks like; no part of it goes back over what it has matched."""
    sections = "|".join(re.escape(name) for name in sorted(dialect.sections, key=len, reverse=True))
    quoted = _quoted_name(dialect)
    strings = "|".join(f"{quote}(?:[^{quote}]|{quote}{quote})*+{quote}" for quote in dialect.string_quotes)
    operators = sorted({*_OPERATORS, *dialect.operators}, key=len, reverse=True)
    parts = [
        r"(?P<space>[ \t\n\r\f]+)",
        rf"(?P<section>(?:{sections})\.(?:{_SECTION_NAME}|{quoted}))",
        rf"(?P<call>(?:{'|'.join(dialect.calls) or '(?!)'})\s*\(\s*\))",
        r"(?P<bare>(?:[^\W\d]|\$)[\w$]*(?:\.[\w$]+)*)",
        rf"(?P<quoted>{quoted})",
        _JAVA_NUMBER if dialect.has_java_numbers else _NUMBER,
        rf"(?P<string>{strings})",
        rf"(?P<operator>{'|'.join(re.escape(operator) for operator in operators)})",
    ]
    return re.compile("|".join(parts))


def _quoted_name(dialect: Dialect) -> str:
    if dialect.name_quotes is None:
        return r"(?!)"
    start, end = (re.escape(quote) for quote in dialect.name_quotes)
    return rf"{start}(?:[^{end}]|{end}{end})*+{end}"


def _token(match: re.Match[str], dialect: Dialect) -> Token:
    position, text, kind = match.start(), match[0], match.lastgroup
    if kind == "operator":
        return Token("<>" if text == "!=" else text, position, text)
    if kind == "string":
        quote = text[0]
        return Token(CONSTANT, position, text, text[1:-1].replace(2 * quote, quote))
    if kind == "section":
        return Token(NAME, position, text, _in_section(text, position, dialect))
    if kind == "call":
        return Token(NAME, position, text, Field(*dialect.calls[text.partition("(")[0].rstrip()], position))
    if kind == "quoted":
        return Token(NAME, position, text, _bare(_unquoted(text, dialect), position, dialect))
    if kind == "bare":
        if text.isascii() and (keyword := text.upper()) in KEYWORDS:
            return Token(keyword, position, text)
        return Token(NAME, position, text, _bare(text, position, dialect))
    _check_number_ends(match)
    return Token(CONSTANT, position, text, _number(text, position, str(kind)))


def _in_section(text: str, position: int, dialect: Dialect) -> Field:
    prefix = next(
        prefix for prefix in sorted(dialect.sections, key=len, reverse=True) if text.startswith(f"{prefix}.")
    )
    name = text[len(prefix) + 1 :]
    if dialect.name_quotes is not None and name.startswith(dialect.name_quotes[0]):
        name = _unquoted(name, dialect)
    known: set[str] = set()
    for section in dialect.sections[prefix]:
        names = SECTION_NAMES.get(section)
        if names is None:
            return Field(section, name, position)
        if (hyphened := name.replace("_", "-")) in names:
            return Field(section, hyphened, position)
        known |= names
    raise InvalidExpression(
        position + len(prefix) + 1, f"{prefix} has no such field; it has {', '.join(sorted(known))}"
    )


def _bare(name: str, position: int, dialect: Dialect) -> Field:
    if name in dialect.bare_names:
        section, field = dialect.bare_names[name]
        return Field(section, field, position)
    if dialect.bare_section is None:
        prefixes = ", ".join(f"{prefix}." for prefix in dialect.sections if len(prefix) == 1)
        raise InvalidExpression(position, f"a name begins with its section, one of {prefixes}")
    prefix = dialect.refused_prefix
    if prefix is not None and name.startswith(prefix) and name[len(prefix) :][:1] not in ("X", "_"):
        raise InvalidExpression(
            position,
            f"{prefix} has no such field for selectors; it has {', '.join(sorted(dialect.bare_names))}",
        )
    return Field(dialect.bare_section, name, position)


def _unquoted(text: str, dialect: Dialect) -> str:
    assert dialect.name_quotes is not None
    end = dialect.name_quotes[1]
    return text[1:-1].replace(2 * end, end)


def _check_number_ends(match: re.Match[str]) -> None:
    behind = match.string[match.end() : match.end() + 1]
    if behind.isalnum() or behind in ("_", "$", "."):
        raise InvalidExpression(
            match.start(), "a number ends before a letter; put a space or an operator behind it"
        )


def _number(text: str, position: int, kind: str) -> int | float:
    if kind == "float":
        number = float(text.rstrip("fFdD"))
        if not math.isfinite(number):
            raise InvalidExpression(position, "a number is too large")
        return number
    digits = text.rstrip("lL").lstrip("0xX") or "0"
    if len(digits) > INTEGER_DIGITS_MAX or (integer := int(digits, _BASES[kind])) > INTEGER_MAX:
        raise InvalidExpression(position, "a whole number has more than 64 bits")
    return integer


def _misfit(character: str, dialect: Dialect) -> str:
    if character in dialect.string_quotes:
        return "text begins here and its closing quote is missing"
    if dialect.name_quotes is not None and character == dialect.name_quotes[0]:
        return "a name begins here and its closing quote is missing"
    return f"the character {character!r} has no meaning here; text stands in single quotes"

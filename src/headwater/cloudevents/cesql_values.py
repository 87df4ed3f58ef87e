"""CloudEvents SQL 1.0, sections 3.4 and 3.7: casts between the types, arithmetic in 32 bits, and LIKE.

What cannot be cast, and a result that 32 bits do not hold, is None.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping

from headwater.cloudevents.attributes import AttributeValue
from headwater.cloudevents.cesql import Type, Value
from headwater.cloudevents.event import canonical_text
from headwater.encoding.expression_like import like_matcher
from headwater.encoding.expression_values import COMPARISONS, quotient, remainder

__all__ = [
    "CASTS",
    "INTEGER_MAX",
    "INTEGER_MIN",
    "OPERATIONS",
    "ORDERS",
    "STRING_CHARACTERS_MAX",
    "calculate",
    "in_range",
    "pattern_matcher",
    "to_boolean",
    "to_integer",
    "value_of",
]

STRING_CHARACTERS_MAX = 65_536
"""Of a string in an expression, whether it is an attribute or made."""
INTEGER_MIN, INTEGER_MAX = -(1 << 31), (1 << 31) - 1

_ESCAPE = "\\"
_PLAIN_ESCAPE = re.compile(r"\\(?![%_])")
_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,10})")
_DIGITS_QUICK_MAX = 20
"""Up to so many, digits alone are read without the pattern above, which takes longer."""
_BOOLEANS = {"true": True, "false": False}

ORDERS: Mapping[str, Callable[[int, int], bool]] = {
    symbol: COMPARISONS[symbol] for symbol in ("<", ">", "<=", ">=")
}


def value_of(attribute: AttributeValue) -> Value | None:
    """What an attribute is in an expression: a string if it is neither a boolean nor a whole number of 32 bits.

    A string that is too long is None.
    """
    if isinstance(attribute, bool):
        return attribute
    if isinstance(attribute, int) and INTEGER_MIN <= attribute <= INTEGER_MAX:
        return attribute
    text = canonical_text(attribute)
    return text if len(text) <= STRING_CHARACTERS_MAX else None


def to_integer(value: Value) -> int | None:
    """A value as an integer."""
    if not isinstance(value, str):
        return int(value)
    if value.isdigit() and value.isascii() and len(value) <= _DIGITS_QUICK_MAX:
        return in_range(int(value))
    match = _INTEGER.fullmatch(value)
    return None if match is None else in_range(int(match[1] + match[2]))


def to_boolean(value: Value) -> bool | None:
    """A value as a boolean."""
    return _BOOLEANS.get(value.lower()) if isinstance(value, str) else bool(value)


CASTS: Mapping[Type, Callable[[Value], Value | None]] = {
    Type.STRING: canonical_text,
    Type.INTEGER: to_integer,
    Type.BOOLEAN: to_boolean,
}


def calculate(symbol: str, left: int, right: int) -> int | None:
    """The integer that two make."""
    try:
        return in_range(OPERATIONS[symbol](left, right))
    except ZeroDivisionError:
        return None


def in_range(number: int) -> int | None:
    """The same if 32 bits hold it."""
    return number if INTEGER_MIN <= number <= INTEGER_MAX else None


def pattern_matcher(pattern: str) -> Callable[[str], bool]:
    """Section 3.4.3: a function that says whether text matches; a backslash is plain but before % and _."""
    return like_matcher(_PLAIN_ESCAPE.sub(lambda _plain: 2 * _ESCAPE, pattern), _ESCAPE)


OPERATIONS: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": quotient,
    "%": remainder,
}

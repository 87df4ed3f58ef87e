"""Values in expressions, as Jakarta Messaging, section 3.8, has them: what can be compared, and what numbers make.

Null is None, and what is unknown, too. Values that are not alike are neither equal nor in any order; a comparison of
them is false, not unknown. Text is ordered by its characters; whole numbers are divided towards zero; what has no
result within 64 bits is unknown.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

__all__ = ["COMPARISONS", "calculate", "compare", "is_number", "quotient", "remainder"]

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_UNORDERED = frozenset(("=", "<>"))
_INTEGER_MIN, _INTEGER_END = -(1 << 63), 1 << 64


def is_number(value: object) -> bool:
    """Whether it is a number, which a boolean is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def compare(symbol: str, left: object, right: object) -> bool | None:
    """Whether two values compare so; unknown if one is null."""
    if left is None or right is None:
        return None
    if is_number(left):
        is_alike = is_number(right)
    elif isinstance(left, str):
        is_alike = isinstance(right, str)
    else:
        is_alike = isinstance(left, bool) and isinstance(right, bool) and symbol in _UNORDERED
    return is_alike and COMPARISONS[symbol](left, right)


def calculate(symbol: str, left: Any, right: Any) -> int | float | None:  # noqa: ANN401
    """The number that two make; unknown if one is none."""
    if not is_number(left) or not is_number(right):
        return None
    try:
        return _bounded(_OPERATIONS[symbol](left, right))
    except (ZeroDivisionError, OverflowError):
        return None


def quotient(left: int, right: int) -> int:
    """Of whole numbers, rounded towards zero."""
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


def remainder(left: int, right: int) -> int:
    """What that leaves, with the sign of the first."""
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _bounded(number: int | float) -> int | float | None:
    return None if isinstance(number, int) and not _INTEGER_MIN <= number < _INTEGER_END else number


def _divide(left: int | float, right: int | float) -> int | float:
    if isinstance(left, float) or isinstance(right, float):
        return left / right
    return quotient(left, right)


def _remainder(left: int | float, right: int | float) -> int | float:
    if isinstance(left, float) or isinstance(right, float):
        if math.isinf(left):
            return math.nan
        return math.fmod(left, right) if right else math.nan
    return remainder(left, right)


_OPERATIONS: dict[str, Callable[[Any, Any], int | float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "%": _remainder,
}

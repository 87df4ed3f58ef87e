"""Event Stream Extensions, section 5.1, in expressions: what a comparison with an offset or a time says of a log.

Offsets are text of 16 hexadecimal digits, compared character by character with whatever constant stands there. Their
order is that of the log, so each constant cuts the log in two, if only before its first offset or behind its last one:
a comparison is a span of offsets, or all but that. `@earliest` cuts before all offsets, `@latest` behind those that
were there when it was fixed. With times it is the same. From the spans of its comparisons follows where the events can
stand that an expression selects, and those that it does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec

from headwater.encoding.expression import And, Comparison, Constant, Field, Literal, Node, Not, Or, Quantity
from headwater.encoding.expression_values import is_number
from headwater.errors import InvalidExpression

__all__ = [
    "LATEST",
    "OFFSET_END",
    "TIME_END_MS",
    "TIME_START_MS",
    "Bounds",
    "Span",
    "bounds_of",
    "check_position",
    "milliseconds",
    "offset_text",
    "span_of",
]

OFFSET_END = 1 << 64
TIME_START_MS, TIME_END_MS = -(1 << 63), 1 << 63
LATEST = -1
"""A cut in offsets that is known only when `@latest` has been fixed."""
SECONDS_END = 10**11
"""Numbers below this beside the timestamp are seconds."""

_DIGITS_MAX = 20
"""Of an offset, or a time, in quotes."""
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "<>": "<>"}
_EXPECTED = {
    Quantity.OFFSET: "the offset is text; compare it with text in quotes",
    Quantity.TIMESTAMP: "the timestamp is compared with a number, of seconds or milliseconds since 1970",
    Quantity.NUMBER: "the offset is compared with a whole number, or '@latest'",
    Quantity.INSTANT: "the time is compared with a whole number of milliseconds since 1970",
}


class Span(msgspec.Struct, frozen=True, gc=False):
    """What a comparison says: the offset, or the time, lies from `start` up to before `end`, or it does not."""

    is_time: bool
    start: int
    end: int
    is_denied: bool = False

    def at(self, latest_offset: int) -> Span:
        """The same with `@latest` fixed before the offset that comes next."""
        if LATEST not in (self.start, self.end) or self.is_time:
            return self
        start, end = (latest_offset if cut == LATEST else cut for cut in (self.start, self.end))
        return Span(False, start, end, self.is_denied)


class Bounds(msgspec.Struct, frozen=True, gc=False):
    """A part of a log, from an offset and a time up to before others; all that belong are in it, perhaps others."""

    offset_start: int = 0
    offset_end: int = OFFSET_END
    time_start_ms: int = TIME_START_MS
    time_end_ms: int = TIME_END_MS
    is_exact: bool = False
    """Whether only they are."""

    @property
    def is_empty(self) -> bool:
        """Whether no event can be in it."""
        return self.offset_start >= self.offset_end or self.time_start_ms >= self.time_end_ms

    def admits(self, offset: int, timestamp_ms: int) -> bool:
        """Whether an event is in it."""
        return (
            self.offset_start <= offset < self.offset_end
            and self.time_start_ms <= timestamp_ms < self.time_end_ms
        )

    def meet(self, other: Bounds) -> Bounds:
        """What is in both."""
        return Bounds(
            max(self.offset_start, other.offset_start),
            min(self.offset_end, other.offset_end),
            max(self.time_start_ms, other.time_start_ms),
            min(self.time_end_ms, other.time_end_ms),
            self.is_exact and other.is_exact,
        )

    def join(self, other: Bounds) -> Bounds:
        """What is in either of them, or between them."""
        if self.is_empty or other.is_empty:
            return self if other.is_empty else other
        joined = Bounds(
            min(self.offset_start, other.offset_start),
            max(self.offset_end, other.offset_end),
            min(self.time_start_ms, other.time_start_ms),
            max(self.time_end_ms, other.time_end_ms),
            is_exact=True,
        )
        return joined if joined in (self, other) else msgspec.structs.replace(joined, is_exact=False)


_ALL = Bounds(is_exact=True)
_SOME = Bounds()
_NONE = Bounds(0, 0, is_exact=True)


def offset_text(offset: int) -> str:
    """An offset as expressions compare it."""
    return f"{offset:016x}"


def milliseconds(number: float) -> float:
    """What a number beside the timestamp means."""
    return number * 1000 if number < SECONDS_END else number


def check_position(comparison: Comparison) -> None:
    """Raises `InvalidExpression` for an offset or a time beside what it cannot be compared with."""
    for field, other in (
        (comparison.left, comparison.right),
        (comparison.right, comparison.left),
    ):
        quantity = field.quantity if isinstance(field, Field) else None
        if quantity is None:
            continue
        if isinstance(other, Literal):
            _cuts(quantity, other)
        elif quantity is Quantity.OFFSET and not isinstance(other, Field):
            raise InvalidExpression(other.position, _EXPECTED[quantity])


def span_of(comparison: Comparison) -> Span | None:
    """What a comparison of an offset or a time with a constant says; None for any other."""
    field, constant, operator = comparison.left, comparison.right, comparison.operator
    if isinstance(field, Literal):
        field, constant, operator = constant, field, _MIRRORED[operator]
    if not isinstance(field, Field) or not isinstance(constant, Literal) or field.quantity is None:
        return None
    start, end = _cuts(field.quantity, constant)
    is_time = field.quantity in {Quantity.TIMESTAMP, Quantity.INSTANT}
    first, last = (TIME_START_MS, TIME_END_MS) if is_time else (0, OFFSET_END)
    match operator:
        case "<":
            return Span(is_time, first, start)
        case "<=":
            return Span(is_time, first, end)
        case ">":
            return Span(is_time, end, last)
        case ">=":
            return Span(is_time, start, last)
    return Span(is_time, start, end, is_denied=operator == "<>")


def bounds_of(node: Node, latest_offset: int) -> Bounds:
    """Where the events stand for which a condition is true, `@latest` being before the offset that comes next."""
    return _bounds(node, latest_offset)[0]


def _bounds(node: Node, latest_offset: int) -> tuple[Bounds, Bounds]:
    """Where those stand for which it is true, and those for which it is false."""
    match node:
        case Literal(bool(value)):
            return (_ALL, _NONE) if value else (_NONE, _ALL)
        case Not(operand):
            true, false = _bounds(operand, latest_offset)
            return false, true
        case And(operands):
            return _folded(operands, latest_offset)
        case Or(operands):
            false, true = _folded([Not(operand) for operand in operands], latest_offset)
            return true, false
        case Comparison():
            span = span_of(node)
            if span is not None:
                return _span_bounds(span.at(latest_offset))
    return _SOME, _SOME


def _folded(operands: Any, latest_offset: int) -> tuple[Bounds, Bounds]:  # noqa: ANN401
    """Those of a conjunction."""
    true, false = _ALL, _NONE
    for operand in operands:
        operand_true, operand_false = _bounds(operand, latest_offset)
        true, false = true.meet(operand_true), false.join(operand_false)
    return true, false


def _span_bounds(span: Span) -> tuple[Bounds, Bounds]:
    if span.start >= span.end:
        return (_ALL, _NONE) if span.is_denied else (_NONE, _ALL)
    first, last = (TIME_START_MS, TIME_END_MS) if span.is_time else (0, OFFSET_END)
    inside = _axis(span.is_time, span.start, span.end)
    outside = _axis(span.is_time, first, span.start).join(_axis(span.is_time, span.end, last))
    return (outside, inside) if span.is_denied else (inside, outside)


def _axis(is_time: bool, start: int, end: int) -> Bounds:
    if start >= end:
        return _NONE
    if is_time:
        return Bounds(time_start_ms=start, time_end_ms=end, is_exact=True)
    return Bounds(offset_start=start, offset_end=end, is_exact=True)


def _cuts(quantity: Quantity, constant: Literal) -> tuple[int, int]:
    """Before which offset or time what is smaller than the constant ends, and what is greater begins."""
    value = constant.value
    if quantity is Quantity.OFFSET and isinstance(value, str):
        return _text_cuts(value)
    if quantity is Quantity.TIMESTAMP and is_number(value):
        return _number_cuts(milliseconds(_numeric(value)), TIME_START_MS, TIME_END_MS)
    if quantity in {Quantity.NUMBER, Quantity.INSTANT}:
        if quantity is Quantity.NUMBER and value == "@latest":
            return LATEST, LATEST
        number = _quoted_integer(value) if isinstance(value, str) else value
        if is_number(number):
            is_time = quantity is Quantity.INSTANT
            first, last = (TIME_START_MS, TIME_END_MS) if is_time else (0, OFFSET_END)
            return _number_cuts(_numeric(number), first, last)
    raise InvalidExpression(constant.position, _EXPECTED[quantity])


def _numeric(value: Constant | None) -> float:
    assert isinstance(value, int | float)
    return value


def _quoted_integer(text: str) -> int | None:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX else None


def _text_cuts(text: str) -> tuple[int, int]:
    if text == "@earliest":
        return 0, 0
    if text == "@latest":
        return LATEST, LATEST
    return _first_offset(lambda digits: digits >= text), _first_offset(lambda digits: digits > text)


def _first_offset(is_behind: Callable[[str], bool]) -> int:
    """The first offset whose digits are behind something, the end if none are; digits are in the order of offsets."""
    low, high = 0, OFFSET_END
    while low < high:
        middle = (low + high) // 2
        if is_behind(offset_text(middle)):
            high = middle
        else:
            low = middle + 1
    return low


def _number_cuts(number: float, first: int, last: int) -> tuple[int, int]:
    if not first <= number < last:
        cut = first if number < first else last
        return cut, cut
    return math.ceil(number), math.floor(number) + 1

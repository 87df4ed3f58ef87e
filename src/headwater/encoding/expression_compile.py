"""A syntax tree into functions of an event: one for each node, each with what it needs decided beforehand.

A condition gives True, False, or None for unknown (three-valued logic, as SQL and JMS have it), a value gives None for
null. What is not asked for is not read: AND ends at the first False, OR at the first True. What a name stands for is
the caller's to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from headwater.encoding.expression import (
    And,
    Arithmetic,
    Comparison,
    Constant,
    Field,
    In,
    IsNull,
    Like,
    Literal,
    Negation,
    Node,
    Not,
    Or,
    Quantity,
    is_condition,
)
from headwater.encoding.expression_like import like_matcher
from headwater.encoding.expression_position import LATEST, Span, milliseconds, span_of
from headwater.encoding.expression_values import COMPARISONS, calculate, compare, is_number

__all__ = ["Condition", "Positioned", "Value", "compile_condition"]


class Positioned(Protocol):
    """An event, as far as any expression knows it."""

    offset: int
    timestamp_ms: int
    latest_offset: int
    """What `@latest` is before: the offset that came next when it was fixed."""


_Event = TypeVar("_Event", bound=Positioned)
Condition: TypeAlias = Callable[[_Event], bool | None]
Value: TypeAlias = Callable[[_Event], Any]
_Getters: TypeAlias = Callable[[Field], Value[_Event]]


def compile_condition(node: Node, getter_of: _Getters[_Event]) -> Condition[_Event]:
    """A function that says whether a condition holds for an event; `getter_of` gives one that reads a field."""
    match node:
        case Literal(value):
            constant = value if isinstance(value, bool) else None
            return lambda _event: constant
        case Not(operand):
            return _not(compile_condition(operand, getter_of))
        case And(operands):
            return _decided_by(False, [compile_condition(operand, getter_of) for operand in operands])
        case Or(operands):
            return _decided_by(True, [compile_condition(operand, getter_of) for operand in operands])
        case Comparison():
            return _comparison(node, getter_of)
        case In(operand, items):
            return _in(_value(operand, getter_of), items)
        case Like(operand, pattern, escape):
            return _like(_value(operand, getter_of), like_matcher(pattern, escape))
        case IsNull(operand):
            return _is_null(_value(operand, getter_of))
    return _boolean(_value(node, getter_of))


def _value(node: Node, getter_of: _Getters[_Event]) -> Value[_Event]:
    match node:
        case Literal(value):
            return lambda _event: value
        case Field():
            return getter_of(node)
        case Negation(operand):
            number = _value(operand, getter_of)
            return lambda event: calculate("-", 0, number(event))
        case Arithmetic(operator, left, right):
            first, second = _value(left, getter_of), _value(right, getter_of)
            return lambda event: calculate(operator, first(event), second(event))
    return compile_condition(node, getter_of)


def _not(test: Condition[_Event]) -> Condition[_Event]:
    def denied(event: _Event) -> bool | None:
        outcome = test(event)
        return None if outcome is None else not outcome

    return denied


def _decided_by(decisive: bool, tests: Sequence[Condition[_Event]]) -> Condition[_Event]:
    """AND is decided by one that is false, OR by one that is true; else by one that is unknown."""

    def decided(event: _Event) -> bool | None:
        outcome: bool | None = not decisive
        for test in tests:
            found = test(event)
            if found is decisive:
                return decisive
            if found is None:
                outcome = None
        return outcome

    return decided


def _boolean(read: Value[_Event]) -> Condition[_Event]:
    def is_true(event: _Event) -> bool | None:
        value = read(event)
        return value if isinstance(value, bool) else None

    return is_true


def _is_null(read: Value[_Event]) -> Condition[_Event]:
    return lambda event: read(event) is None


def _comparison(node: Comparison, getter_of: _Getters[_Event]) -> Condition[_Event]:
    span = span_of(node)
    if span is not None:
        return _within(span)
    left = _beside(node.right, _value(node.left, getter_of))
    right = _beside(node.left, _value(node.right, getter_of))
    constant = node.right.value if isinstance(node.right, Literal) else None
    if isinstance(constant, str) and node.operator == "=":
        return _equals_text(left, constant)
    if constant is not None and not isinstance(constant, bool) and not is_condition(node.left):
        return _compares_with(node.operator, left, constant)
    operator = node.operator
    return lambda event: compare(operator, left(event), right(event))


def _beside(other: Node, read: Value[_Event]) -> Value[_Event]:
    """A number beside the timestamp becomes milliseconds."""
    if not isinstance(other, Field) or other.quantity is not Quantity.TIMESTAMP:
        return read

    def scaled(event: _Event) -> Any:  # noqa: ANN401
        value = read(event)
        return milliseconds(value) if is_number(value) else value

    return scaled


def _equals_text(read: Value[_Event], text: str) -> Condition[_Event]:
    def equals(event: _Event) -> bool | None:
        value = read(event)
        return None if value is None else value == text

    return equals


def _compares_with(operator: str, read: Value[_Event], constant: str | float) -> Condition[_Event]:
    """As `compare`, where one side is known to be text, or a number."""
    holds = COMPARISONS[operator]
    kinds: tuple[type, ...] = (str,) if isinstance(constant, str) else (int, float)

    def compares(event: _Event) -> bool | None:
        value = read(event)
        if value is None:
            return None
        return (
            isinstance(value, kinds) and value is not True and value is not False and holds(value, constant)
        )

    return compares


def _within(span: Span) -> Condition[_Event]:
    start, end, is_inside = span.start, span.end, not span.is_denied
    if span.is_time:
        return lambda event: (start <= event.timestamp_ms < end) is is_inside
    if LATEST not in (start, end):
        return lambda event: (start <= event.offset < end) is is_inside

    def within(event: _Event) -> bool:
        latest = event.latest_offset
        low, high = latest if start == LATEST else start, latest if end == LATEST else end
        return (low <= event.offset < high) is is_inside

    return within


def _in(read: Value[_Event], items: Sequence[Constant]) -> Condition[_Event]:
    booleans = frozenset(item for item in items if isinstance(item, bool))
    others = frozenset(item for item in items if not isinstance(item, bool))

    def is_one(event: _Event) -> bool | None:
        value = read(event)
        if value is None:
            return None
        return value in (booleans if isinstance(value, bool) else others)

    return is_one


def _like(read: Value[_Event], matches: Callable[[str], bool]) -> Condition[_Event]:
    def is_like(event: _Event) -> bool | None:
        value = read(event)
        if value is None:
            return None
        return isinstance(value, str) and matches(value)

    return is_like

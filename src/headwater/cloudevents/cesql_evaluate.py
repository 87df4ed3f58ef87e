"""CloudEvents SQL 1.0, section 3: the value of an expression for an event, and each error that occurs on the way.

Complete evaluation, as section 4.1 calls it: an error leaves a value in its place, and what is around goes on with
that. It tells why a filter lets an event pass or not; filters themselves use `cesql_compile`.

Where the document leaves a choice: a result that has more than 32 bits is a math error and zero, as a division by zero
is; IN looks at its items from left to right, and at none behind the first that is equal. An attribute that is too long
leaves what one leaves that is not there, with an error of its own.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass

from headwater.cloudevents.attributes import Attributes
from headwater.cloudevents.cesql import (
    Arithmetic,
    Attribute,
    Call,
    Comparison,
    Exists,
    In,
    Like,
    Literal,
    Logical,
    Negation,
    Node,
    Not,
    Type,
    Value,
    type_of,
)
from headwater.cloudevents.cesql_functions import (
    ErrorKind,
    Failed,
    Function,
    find_function,
    missing_function,
    returned_type,
)
from headwater.cloudevents.cesql_values import (
    CASTS,
    ORDERS,
    STRING_CHARACTERS_MAX,
    calculate,
    pattern_matcher,
    value_of,
)

__all__ = ["EvaluationError", "Outcome", "evaluate"]


@dataclass(frozen=True, slots=True)
class EvaluationError:
    """What went wrong with an event, and where in the text."""

    kind: ErrorKind
    position: int
    reason: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an expression comes to; its errors in the order in which they occurred."""

    value: Value
    errors: tuple[EvaluationError, ...] = ()

    @property
    def passes(self) -> bool:
        """Whether a filter lets the event pass (section 1.2): the value is true, and there are no errors."""
        return self.value is True and not self.errors


def evaluate(node: Node, attributes: Attributes) -> Outcome:
    """What an expression comes to for an event."""
    evaluator = _Evaluator(attributes)
    value = evaluator.value(node)
    return Outcome(False if value is None else value, tuple(evaluator.errors))


class _Missing(Exception):
    """An operand is an attribute without a value: the operation gives the zero of its type."""


class _Evaluator:
    def __init__(self, attributes: Attributes) -> None:
        self._attributes = attributes
        self.errors: list[EvaluationError] = []

    def value(self, node: Node) -> Value | None:
        """What a node comes to; None for an attribute that is not there or too long, which is an error by then."""
        if isinstance(node, Attribute):
            return self._attribute(node)
        try:
            return self._operation(node)
        except _Missing:
            return (returned_type(node) or Type.BOOLEAN).zero

    def _attribute(self, node: Attribute) -> Value | None:
        found = self._attributes.get(node.name)
        if found is None:
            self._fail(ErrorKind.MISSING_ATTRIBUTE, node, f"the event has no attribute {node.name}")
            return None
        value = value_of(found)
        if value is None:
            reason = f"{node.name} has more than {STRING_CHARACTERS_MAX:,} characters"
            self._fail(ErrorKind.GENERIC, node, reason)
        return value

    def _operation(self, node: Node) -> Value:
        match node:
            case Literal(value):
                return value
            case Exists(name):
                return self._attributes.get(name) is not None
            case Not(operand):
                return not self._boolean(operand)
            case Negation(operand):
                return self._calculated(node, "-", 0, self._integer(operand))
            case Arithmetic(symbol, left, right):
                return self._calculated(node, symbol, self._integer(left), self._integer(right))
            case Comparison(symbol, left, right):
                return self._compared(symbol, left, right)
            case Logical():
                return self._logical(node)
            case Like(operand, pattern, is_denied):
                return pattern_matcher(pattern)(str(self._cast(operand, Type.STRING))) is not is_denied
            case In(operand, items, is_denied):
                return self._is_in(self._present(operand), items) is not is_denied
            case Call():
                return self._called(node)
        raise AssertionError(f"{node} is no operation")

    def _present(self, node: Node) -> Value:
        """A value to do something with."""
        value = self.value(node)
        if value is None:
            raise _Missing
        return value

    def _cast(self, node: Node, target: Type) -> Value:
        cast = self._cast_value(node, self._present(node), target)
        return target.zero if cast is None else cast

    def _integer(self, node: Node) -> int:
        return int(self._cast(node, Type.INTEGER))

    def _boolean(self, node: Node) -> bool:
        return self._cast(node, Type.BOOLEAN) is True

    def _calculated(self, node: Node, symbol: str, left: int, right: int) -> int:
        result = calculate(symbol, left, right)
        if result is None:
            reason = f"{left} {symbol} {right} has no result within 32 bits"
            self._fail(ErrorKind.MATH, node, reason)
            return 0
        return result

    def _compared(self, symbol: str, left: Node, right: Node) -> bool:
        if symbol in ORDERS:
            return ORDERS[symbol](self._integer(left), self._integer(right))
        first, second = self._present(left), self._present(right)
        cast = self._cast_value(left, first, type_of(second))
        return cast is not None and (cast == second) is (symbol == "=")

    def _cast_value(self, node: Node, value: Value, target: Type) -> Value | None:
        cast = CASTS[target](value)
        if cast is None:
            self._fail(ErrorKind.CAST, node, f"{value!r:.40} is not {target.value}")
        return cast

    def _logical(self, node: Logical) -> bool:
        """From left to right, two at a time; where one of two is not there, the two are false."""
        first, *others = node.operands
        outcome: bool | None
        try:
            outcome = self._boolean(first)
        except _Missing:
            outcome = None
        for operand in others:
            outcome = outcome is not None and self._two(node.operator, outcome, operand)
        return outcome is True

    def _two(self, symbol: str, left: bool, operand: Node) -> bool:
        if symbol != "XOR" and left is (symbol == "OR"):
            return left
        try:
            right = self._boolean(operand)
        except _Missing:
            return False
        return operator.xor(left, right) if symbol == "XOR" else right

    def _is_in(self, value: Value, items: Iterable[Node]) -> bool:
        target = type_of(value)
        return any(self._cast_value(item, self._present(item), target) == value for item in items)

    def _called(self, node: Call) -> Value:
        function = find_function(node.name, len(node.arguments))
        if function is None:
            self._fail(ErrorKind.MISSING_FUNCTION, node, missing_function(node))
            return False
        return self._run(node, function)

    def _run(self, node: Call, function: Function) -> Value:
        arguments = [
            self._cast(argument, function.parameter(index)) for index, argument in enumerate(node.arguments)
        ]
        try:
            value: Value = function.run(*arguments)
        except Failed as error:
            self._fail(error.kind, node, f"{node.name}: {error.reason}")
            return error.value
        return value

    def _fail(self, kind: ErrorKind, node: Node, reason: str) -> None:
        self.errors.append(EvaluationError(kind, node.position, reason))

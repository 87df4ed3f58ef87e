"""CloudEvents SQL 1.0 for filters: a syntax tree into functions of an event, one for each node.

Section 4.1 calls it fail fast. What comes to a value gives that value, and None once an error has occurred, which is
what an attribute that is not there gives by itself; whoever gets None gives None. So the outcome is true if and only if
complete evaluation (`cesql_evaluate`) gives true and no errors. What needs no event is worked out beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from headwater.cloudevents.attributes import Attributes
from headwater.cloudevents.cesql import (
    Arithmetic,
    Attribute,
    Call,
    Comparison,
    Exists,
    In,
    Like,
    Logical,
    Negation,
    Node,
    Not,
    Type,
    Value,
    parts_of,
    type_of,
)
from headwater.cloudevents.cesql_evaluate import evaluate
from headwater.cloudevents.cesql_functions import Failed, find_function, returned_type
from headwater.cloudevents.cesql_values import (
    CASTS,
    INTEGER_MAX,
    INTEGER_MIN,
    OPERATIONS,
    ORDERS,
    STRING_CHARACTERS_MAX,
    pattern_matcher,
    value_of,
)
from headwater.cloudevents.event import canonical_text

__all__ = ["Compiled", "compile_cesql"]

Compiled: TypeAlias = Callable[[Attributes], Any]
"""Gives a value, or None for an error."""


def compile_cesql(node: Node) -> Compiled:
    """A function that says what an expression comes to for an event."""
    if _is_constant(node):
        return _constant(node)
    match node:
        case Attribute(name):
            return _attribute(name)
        case Exists(name):
            return lambda event: event.get(name) is not None
        case Not(operand):
            return _not(_cast(operand, Type.BOOLEAN))
        case Negation(operand):
            return _calculation("-", lambda _event: 0, _cast(operand, Type.INTEGER))
        case Arithmetic(symbol, left, right):
            return _calculation(symbol, _cast(left, Type.INTEGER), _cast(right, Type.INTEGER))
        case Comparison():
            return _comparison(node)
        case Logical():
            return _logical(node)
        case Like(operand, pattern, is_denied):
            return _like(_cast(operand, Type.STRING), pattern_matcher(pattern), is_denied)
        case In():
            return _in(node)
        case Call():
            return _call(node)
    raise AssertionError(f"{node} is no node")


# Constants.


def _is_constant(node: Node) -> bool:
    return not isinstance(node, Attribute | Exists) and all(map(_is_constant, parts_of(node)))


def _constant(node: Node) -> Compiled:
    outcome = evaluate(node, {})
    value = None if outcome.errors else outcome.value
    return lambda _event: value


# Attributes, and casts.


def _attribute(name: str) -> Compiled:
    def read(event: Attributes) -> Value | None:
        value = event.get(name)
        if isinstance(value, str) and len(value) <= STRING_CHARACTERS_MAX:
            return value
        return None if value is None else value_of(value)

    return read


def _text(name: str) -> Compiled:
    def read(event: Attributes) -> str | None:
        value = event.get(name)
        if isinstance(value, str) and len(value) <= STRING_CHARACTERS_MAX:
            return value
        plain = None if value is None else value_of(value)
        return None if plain is None else canonical_text(plain)

    return read


def _integer(name: str) -> Compiled:
    to_integer = CASTS[Type.INTEGER]

    def read(event: Attributes) -> Value | None:
        value = event.get(name)
        if value.__class__ is int and INTEGER_MIN <= value <= INTEGER_MAX:
            return value
        plain = None if value is None else value_of(value)
        return None if plain is None else to_integer(plain)

    return read


def _cast(node: Node, target: Type) -> Compiled:
    """The value of a node in a type."""
    if isinstance(node, Attribute) and target is not Type.BOOLEAN:
        return _text(node.name) if target is Type.STRING else _integer(node.name)
    read, cast = compile_cesql(node), CASTS[target]
    if _is_constant(node):
        constant = read({})
        value = None if constant is None else cast(constant)
        return lambda _event: value
    if returned_type(node) is target:
        return read

    def converted(event: Attributes) -> Value | None:
        value = read(event)
        return None if value is None else cast(value)

    return converted


# Operators.


def _not(read: Compiled) -> Compiled:
    def denied(event: Attributes) -> bool | None:
        value = read(event)
        return None if value is None else not value

    return denied


def _calculation(symbol: str, left: Compiled, right: Compiled) -> Compiled:
    run = OPERATIONS[symbol]

    def calculated(event: Attributes) -> int | None:
        first = left(event)
        if first is None:
            return None
        second = right(event)
        if second is None:
            return None
        try:
            result = run(first, second)
        except ZeroDivisionError:
            return None
        return result if INTEGER_MIN <= result <= INTEGER_MAX else None

    return calculated


def _logical(node: Logical) -> Compiled:
    tests = [_cast(operand, Type.BOOLEAN) for operand in node.operands]
    if node.operator == "XOR":
        return _exclusive(tests)
    return _decided_by(node.operator == "OR", tests)


def _decided_by(decisive: bool, tests: Sequence[Compiled]) -> Compiled:
    """By the first that is so, or has an error."""
    undecided = not decisive
    if len(tests) == 2:
        first, second = tests

        def decided_by_two(event: Attributes) -> bool | None:
            outcome: bool | None = first(event)
            return second(event) if outcome is undecided else outcome

        return decided_by_two

    def decided(event: Attributes) -> bool | None:
        for test in tests:
            outcome: bool | None = test(event)
            if outcome is not undecided:
                return outcome
        return undecided

    return decided


def _exclusive(tests: Sequence[Compiled]) -> Compiled:
    def is_odd(event: Attributes) -> bool | None:
        outcome = False
        for test in tests:
            value = test(event)
            if value is None:
                return None
            outcome = outcome is not value
        return outcome

    return is_odd


def _comparison(node: Comparison) -> Compiled:
    if node.operator in ORDERS:
        left, right = _cast(node.left, Type.INTEGER), _cast(node.right, Type.INTEGER)
        return _ordered(ORDERS[node.operator], left, right)
    is_equal = node.operator == "="
    right = compile_cesql(node.right)
    if _is_constant(node.right):
        return _equals(node.left, right({}), is_equal)
    target = returned_type(node.right)
    if target is None:
        return _alike(compile_cesql(node.left), right, is_equal)
    return _both(_cast(node.left, target), right, is_equal)


def _ordered(holds: Callable[[int, int], bool], left: Compiled, right: Compiled) -> Compiled:
    def compares(event: Attributes) -> bool | None:
        first = left(event)
        if first is None:
            return None
        second = right(event)
        return None if second is None else holds(first, second)

    return compares


def _equals(node: Node, constant: Value | None, is_equal: bool) -> Compiled:
    if constant is None:
        return lambda _event: None
    read = _cast(node, type_of(constant))

    def equals(event: Attributes) -> bool | None:
        value = read(event)
        return None if value is None else (value == constant) is is_equal

    return equals


def _both(left: Compiled, right: Compiled, is_equal: bool) -> Compiled:
    def equals(event: Attributes) -> bool | None:
        first = left(event)
        if first is None:
            return None
        second = right(event)
        return None if second is None else (first == second) is is_equal

    return equals


def _alike(left: Compiled, right: Compiled, is_equal: bool) -> Compiled:
    """The right one says in which type."""

    def equals(event: Attributes) -> bool | None:
        first, second = left(event), right(event)
        if first is None or second is None:
            return None
        cast = CASTS[type_of(second)](first)
        return None if cast is None else (cast == second) is is_equal

    return equals


def _like(read: Compiled, matches: Callable[[str], bool], is_denied: bool) -> Compiled:
    def is_like(event: Attributes) -> bool | None:
        text = read(event)
        return None if text is None else matches(text) is not is_denied

    return is_like


def _in(node: In) -> Compiled:
    read, is_denied = compile_cesql(node.operand), node.is_denied
    if not all(map(_is_constant, node.items)):
        return _in_order(read, [compile_cesql(item) for item in node.items], is_denied)
    items = [compile_cesql(item)({}) for item in node.items]
    sets = {target: _members(items, target) for target in Type}

    def is_one(event: Attributes) -> bool | None:
        value = read(event)
        if value is None:
            return None
        members, is_complete = sets[type_of(value)]
        if value in members:
            return not is_denied
        return is_denied if is_complete else None

    return is_one


def _members(items: Sequence[Value | None], target: Type) -> tuple[frozenset[Value], bool]:
    """The items in a type, up to the first that has none, and whether these are all."""
    members: list[Value] = []
    for item in items:
        member = None if item is None else CASTS[target](item)
        if member is None:
            return frozenset(members), False
        members.append(member)
    return frozenset(members), True


def _in_order(read: Compiled, items: Sequence[Compiled], is_denied: bool) -> Compiled:
    def is_one(event: Attributes) -> bool | None:
        value = read(event)
        if value is None:
            return None
        cast = CASTS[type_of(value)]
        for read_item in items:
            item = read_item(event)
            member = None if item is None else cast(item)
            if member is None:
                return None
            if member == value:
                return not is_denied
        return is_denied

    return is_one


def _call(node: Call) -> Compiled:
    function = find_function(node.name, len(node.arguments))
    if function is None:
        return lambda _event: None
    reads = [_cast(argument, function.parameter(index)) for index, argument in enumerate(node.arguments)]
    run = function.run

    def called(event: Attributes) -> Value | None:
        arguments = []
        for read in reads:
            value = read(event)
            if value is None:
                return None
            arguments.append(value)
        try:
            result: Value = run(*arguments)
        except Failed:
            return None
        return result

    return called

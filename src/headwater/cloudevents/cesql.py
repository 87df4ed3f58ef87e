"""CloudEvents SQL 1.0, section 2: what a parsed expression is made of.

`cesql_parser` makes the tree, `cesql_evaluate` says what it comes to and which errors occur, as section 3 has it, and
`cesql_compile` makes a function of it for filters, where an error is all that counts. Expressions are bounded as all
others are (`encoding.expression`).

Nodes that say the same are equal, wherever in a text they stood.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = [
    "Arithmetic",
    "Attribute",
    "Call",
    "Comparison",
    "Exists",
    "In",
    "Like",
    "Literal",
    "Logical",
    "Negation",
    "Node",
    "Not",
    "Type",
    "Value",
    "parts_of",
    "type_of",
]

Value: TypeAlias = str | int | bool


class Type(enum.Enum):
    """Section 3.1: the types of values; all that an attribute can be besides is a string."""

    STRING = "a string"
    INTEGER = "an integer"
    BOOLEAN = "a boolean"

    @property
    def zero(self) -> Value:
        """What stands for a value where an error left none."""
        return _ZEROS[self]


_ZEROS: dict[Type, Value] = {Type.STRING: "", Type.INTEGER: 0, Type.BOOLEAN: False}


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: Value
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of the event, by its name in lower case."""

    name: str
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Exists:
    """Whether the event has an attribute."""

    name: str
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Negation:
    """An integer with the other sign."""

    operand: Node
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    """A boolean denied."""

    operand: Node
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Two integers made into one: + - * / %."""

    operator: str
    left: Node
    right: Node
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two values compared: = and <> in the type of the right one, < > <= >= as integers."""

    operator: str
    left: Node
    right: Node
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Logical:
    """Two booleans or more under one operator, AND, OR or XOR, from left to right."""

    operator: str
    operands: tuple[Node, ...]
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Like:
    """Whether a string matches a pattern, in which a backslash before % and _ makes them plain; or does not."""

    operand: Node
    pattern: str
    is_denied: bool = False
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class In:
    """Whether a value equals one of several, each in the type of the value; or does not."""

    operand: Node
    items: tuple[Node, ...]
    is_denied: bool = False
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function of some values, by its name in upper case."""

    name: str
    arguments: tuple[Node, ...]
    position: int = field(default=0, compare=False)


Node: TypeAlias = (
    Literal | Attribute | Exists | Negation | Not | Arithmetic | Comparison | Logical | Like | In | Call
)


def type_of(value: Value) -> Type:
    """The type of a value."""
    if isinstance(value, bool):
        return Type.BOOLEAN
    return Type.INTEGER if isinstance(value, int) else Type.STRING


def parts_of(node: Node) -> tuple[Node, ...]:
    """The nodes right within a node, in the order of the text."""
    match node:
        case Not(operand) | Negation(operand) | Like(operand):
            return (operand,)
        case Arithmetic(_, left, right) | Comparison(_, left, right):
            return (left, right)
        case In(operand, items):
            return (operand, *items)
        case Logical(_, parts) | Call(_, parts):
            return parts
    return ()

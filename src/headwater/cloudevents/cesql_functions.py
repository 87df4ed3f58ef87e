"""CloudEvents SQL 1.0, section 3.5: the functions, by name and number of arguments."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headwater.cloudevents.cesql import (
    Arithmetic,
    Attribute,
    Call,
    Literal,
    Negation,
    Node,
    Type,
    Value,
    parts_of,
    type_of,
)
from headwater.cloudevents.cesql_values import INTEGER_MAX, INTEGER_MIN, STRING_CHARACTERS_MAX
from headwater.errors import InvalidExpression

__all__ = [
    "FUNCTIONS",
    "ErrorKind",
    "Failed",
    "Function",
    "check_functions",
    "find_function",
    "missing_function",
    "returned_type",
]

_SPACES = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""What Unicode calls white space; Python's own idea of it has four control characters more."""


class ErrorKind(enum.Enum):
    """Section 3.3: what can go wrong with an event; a text that is no expression is `InvalidExpression`."""

    MATH = "math"
    CAST = "cast"
    MISSING_ATTRIBUTE = "missingAttribute"
    MISSING_FUNCTION = "missingFunction"
    FUNCTION_EVALUATION = "functionEvaluation"
    GENERIC = "generic"


class Failed(Exception):
    """A function has an error; it has a value all the same."""

    def __init__(self, value: Value, reason: str, kind: ErrorKind = ErrorKind.FUNCTION_EVALUATION) -> None:
        self.value, self.reason, self.kind = value, reason, kind
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Function:
    """One signature; `run` takes values that have been cast, and gives one or raises `Failed`."""

    parameters: tuple[Type, ...]
    returns: Type
    run: Callable[..., Any]
    rest: Type | None = None
    """What all further arguments are, if there may be any."""

    def takes(self, count: int) -> bool:
        """Whether it can be called with so many arguments."""
        return count == len(self.parameters) or (self.rest is not None and count > len(self.parameters))

    def parameter(self, index: int) -> Type:
        """What an argument is cast to."""
        if index < len(self.parameters):
            return self.parameters[index]
        assert self.rest is not None
        return self.rest


def find_function(name: str, count: int) -> Function | None:
    """The function of this name, in upper case, that takes so many arguments."""
    return next((function for function in FUNCTIONS.get(name, ()) if function.takes(count)), None)


def check_functions(node: Node) -> None:
    """Raises `InvalidExpression` for a call of a function that does not exist."""
    if isinstance(node, Call) and find_function(node.name, len(node.arguments)) is None:
        raise InvalidExpression(node.position, missing_function(node))
    for part in parts_of(node):
        check_functions(part)


def missing_function(call: Call) -> str:
    """Why there is no function to call."""
    if call.name not in FUNCTIONS:
        return f"there is no function {call.name:.40}; there are {', '.join(FUNCTIONS)}"
    return f"{call.name} does not take {len(call.arguments)} arguments"


def returned_type(node: Node) -> Type | None:
    """The type of what a node comes to; None for an attribute, which has that of its value."""
    match node:
        case Attribute():
            return None
        case Literal(value):
            return type_of(value)
        case Negation() | Arithmetic():
            return Type.INTEGER
        case Call(name, arguments):
            function = find_function(name, len(arguments))
            return Type.BOOLEAN if function is None else function.returns
    return Type.BOOLEAN


def _same(value: Value) -> Value:
    return value


def _joined(delimiter: str, *texts: str) -> str:
    size = sum(map(len, texts)) + len(delimiter) * (len(texts) - 1)
    if size > STRING_CHARACTERS_MAX:
        raise Failed("", f"a string has at most {STRING_CHARACTERS_MAX:,} characters")
    return delimiter.join(texts)


def _concatenated(*texts: str) -> str:
    return _joined("", *texts)


def _trimmed(text: str) -> str:
    return text.strip(_SPACES)


def _left(text: str, count: int) -> str:
    if count < 0:
        raise Failed(text, f"there are no {count} characters to take")
    return text[:count]


def _right(text: str, count: int) -> str:
    if count < 0:
        raise Failed(text, f"there are no {count} characters to take")
    return text[-count:] if count else ""


def _substring(text: str, place: int, count: int = INTEGER_MAX) -> str:
    if count < 0:
        raise Failed("", f"there are no {count} characters to take")
    if place == 0:
        return ""
    if abs(place) > len(text):
        raise Failed("", f"a string of {len(text)} characters has none at {place}")
    start = place - 1 if place > 0 else len(text) + place
    return text[start : start + count]


def _absolute(number: int) -> int:
    if number == INTEGER_MIN:
        raise Failed(INTEGER_MAX, f"{number} without its sign has more than 32 bits", ErrorKind.MATH)
    return abs(number)


_TEXT, _NUMBER = Type.STRING, Type.INTEGER

FUNCTIONS: Mapping[str, tuple[Function, ...]] = {
    # Section 3.5.1.
    "LENGTH": (Function((_TEXT,), _NUMBER, len),),
    "CONCAT": (Function((), _TEXT, _concatenated, rest=_TEXT),),
    "CONCAT_WS": (Function((_TEXT,), _TEXT, _joined, rest=_TEXT),),
    "LOWER": (Function((_TEXT,), _TEXT, str.lower),),
    "UPPER": (Function((_TEXT,), _TEXT, str.upper),),
    "TRIM": (Function((_TEXT,), _TEXT, _trimmed),),
    "LEFT": (Function((_TEXT, _NUMBER), _TEXT, _left),),
    "RIGHT": (Function((_TEXT, _NUMBER), _TEXT, _right),),
    "SUBSTRING": (
        Function((_TEXT, _NUMBER), _TEXT, _substring),
        Function((_TEXT, _NUMBER, _NUMBER), _TEXT, _substring),
    ),
    # Section 3.5.2.
    "ABS": (Function((_NUMBER,), _NUMBER, _absolute),),
    # Section 3.7 by name: the cast of the argument is all they do.
    "INT": (Function((_NUMBER,), _NUMBER, _same),),
    "BOOL": (Function((Type.BOOLEAN,), Type.BOOLEAN, _same),),
    "STRING": (Function((_TEXT,), _TEXT, _same),),
}

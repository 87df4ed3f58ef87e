"""CloudEvents Subscriptions, section 3.2.4: what a filter asks of an event, and functions made of it.

A predicate is true or false of any event; what an event does not have is not equal to anything, and an expression with
an error is false. How subscriptions write predicates down is told by `filter_shapes`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from headwater.cloudevents.attributes import Attributes
from headwater.cloudevents.cesql import Node, Type
from headwater.cloudevents.cesql_compile import compile_cesql
from headwater.cloudevents.cesql_functions import check_functions, returned_type
from headwater.cloudevents.cesql_parser import parse_cesql
from headwater.cloudevents.event import canonical_text
from headwater.errors import InvalidExpression

__all__ = [
    "ALWAYS",
    "All",
    "Any",
    "Match",
    "MatchKind",
    "Not",
    "Predicate",
    "Sql",
    "Test",
    "compile_predicate",
    "sql",
]

Test: TypeAlias = Callable[[Attributes], bool]
"""Whether an event passes."""


class MatchKind(enum.Enum):
    """How an attribute, as text, is compared: letter by letter, from its start, or up to its end."""

    EXACT = "exact"
    PREFIX = "prefix"
    SUFFIX = "suffix"


@dataclass(frozen=True, slots=True)
class Match:
    """One attribute compared with text."""

    kind: MatchKind
    attribute: str
    value: str


@dataclass(frozen=True, slots=True)
class All:
    """True if each of them is, so also if there are none."""

    predicates: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Any:
    """True if one of them is."""

    predicates: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """True if the other one is false."""

    predicate: Predicate


@dataclass(frozen=True, slots=True)
class Sql:
    """True if an expression in CloudEvents SQL is, without an error."""

    text: str
    expression: Node = field(compare=False, repr=False)


Predicate: TypeAlias = Match | All | Any | Not | Sql

ALWAYS = All(())


def sql(text: str) -> Sql:
    """The predicate that a text in CloudEvents SQL says; raises `InvalidExpression`, also for what is never true."""
    expression = parse_cesql(text)
    check_functions(expression)
    if returned_type(expression) in {Type.STRING, Type.INTEGER}:
        raise InvalidExpression(
            0, "a filter is true or false, and this is neither; compare it with something"
        )
    return Sql(text, expression)


def compile_predicate(predicate: Predicate) -> Test:
    """A function that says whether a predicate is true of an event; it asks for no more than decides that."""
    match predicate:
        case Match(kind, attribute, value):
            return _MATCHES[kind](attribute, value)
        case All(predicates):
            return _all([compile_predicate(each) for each in predicates])
        case Any(predicates):
            return _any([compile_predicate(each) for each in predicates])
        case Not(denied):
            test = compile_predicate(denied)
            return lambda event: not test(event)
        case Sql(_, expression):
            outcome = compile_cesql(expression)
            return lambda event: outcome(event) is True


def _exact(attribute: str, wanted: str) -> Test:
    def is_exactly(event: Attributes) -> bool:
        value = event.get(attribute)
        if isinstance(value, str):
            return value == wanted
        return value is not None and canonical_text(value) == wanted

    return is_exactly


def _prefix(attribute: str, wanted: str) -> Test:
    def begins(event: Attributes) -> bool:
        value = event.get(attribute)
        if isinstance(value, str):
            return value.startswith(wanted)
        return value is not None and canonical_text(value).startswith(wanted)

    return begins


def _suffix(attribute: str, wanted: str) -> Test:
    def ends(event: Attributes) -> bool:
        value = event.get(attribute)
        if isinstance(value, str):
            return value.endswith(wanted)
        return value is not None and canonical_text(value).endswith(wanted)

    return ends


_MATCHES = {MatchKind.EXACT: _exact, MatchKind.PREFIX: _prefix, MatchKind.SUFFIX: _suffix}


def _all(tests: Sequence[Test]) -> Test:
    if len(tests) == 1:
        return tests[0]

    def hold(event: Attributes) -> bool:
        for test in tests:  # noqa: SIM110 - all() with a generator takes three times as long
            if not test(event):
                return False
        return True

    return hold


def _any(tests: Sequence[Test]) -> Test:
    if len(tests) == 1:
        return tests[0]

    def holds(event: Attributes) -> bool:
        for test in tests:  # noqa: SIM110
            if test(event):
                return True
        return False

    return holds

"""AMQP Filter Expressions, sections 4.2.4 and 4.2.5: maps of names and values that a message must have, as expressions.

null          is always so, or for an application property: it is there
"&p:text"     text that begins so
"&s:text"     text that ends so
"&&text"      "&text" itself
any other     what is equal; numbers of different types are, if their values are
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from headwater.encoding.expression import (
    LIKE_PATTERN_CHARACTERS_MAX,
    And,
    Comparison,
    Field,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Section,
)
from headwater.encoding.expression_dialects import FIELD_INDEXES
from headwater.errors import InvalidField

__all__ = [
    "APPLICATION_PROPERTIES_FILTER",
    "FIELDS_MAX",
    "PROPERTIES_FILTER",
    "application_properties_expression",
    "properties_expression",
]

PROPERTIES_FILTER = "amqp:properties-filter"
APPLICATION_PROPERTIES_FILTER = "amqp:application-properties-filter"
FIELDS_MAX = 64
"""Of one filter."""

_ESCAPE = "\\"


def properties_expression(value: object) -> Node:
    """What a filter of fields of the properties section says; raises `InvalidField`."""
    fields = _fields(PROPERTIES_FILTER, value)
    known = FIELD_INDEXES[Section.PROPERTIES]
    for name in fields:
        if name not in known:
            raise _unfit(PROPERTIES_FILTER, f"has {name!r:.100}; properties have {', '.join(known)}")
    return _all(
        Literal(True) if wanted is None else _test(PROPERTIES_FILTER, Field(Section.PROPERTIES, name), wanted)
        for name, wanted in fields.items()
    )


def application_properties_expression(value: object) -> Node:
    """What a filter of application properties says; raises `InvalidField`."""
    fields = _fields(APPLICATION_PROPERTIES_FILTER, value)
    return _all(
        _test(APPLICATION_PROPERTIES_FILTER, Field(Section.APPLICATION_PROPERTIES, name), wanted)
        for name, wanted in fields.items()
    )


def _fields(descriptor: str, value: object) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise _unfit(descriptor, "is no map")
    if not 0 < len(value) <= FIELDS_MAX:
        raise _unfit(descriptor, f"has {len(value)} fields, and may have 1 to {FIELDS_MAX}")
    for name in value:
        if not isinstance(name, str):
            raise _unfit(descriptor, f"has {name!r:.100}, which is no name")
    return {str(name): wanted for name, wanted in value.items()}


def _test(descriptor: str, field: Field, wanted: object) -> Node:
    match wanted:
        case None:
            return Not(IsNull(field))
        case str() if wanted.startswith("&"):
            return _modified(descriptor, field, wanted)
        case bool() | int() | float():
            return Comparison("=", field, Literal(wanted))
        case str():
            return Comparison("=", field, Literal(str(wanted)))
        # As expressions see identifiers that are no text.
        case bytes():
            return Comparison("=", field, Literal(wanted.decode("utf-8", "replace")))
        case UUID():
            return Comparison("=", field, Literal(str(wanted)))
    raise _unfit(
        descriptor, f"wants {field.name!r:.100} to be {wanted!r:.100}, and nothing is compared with that"
    )


def _modified(descriptor: str, field: Field, wanted: str) -> Node:
    modifier, rest = wanted[:3], wanted[3:]
    if wanted.startswith("&&"):
        return Comparison("=", field, Literal(wanted[1:]))
    if modifier not in ("&p:", "&s:"):
        raise _unfit(descriptor, f"has {wanted!r:.100}; & begins &p:, &s: or &&")
    plain = "".join(_ESCAPE + each if each in f"%_{_ESCAPE}" else each for each in rest)
    if len(plain) >= LIKE_PATTERN_CHARACTERS_MAX:
        raise _unfit(descriptor, f"has {wanted!r:.100}, which is longer than is compared")
    return Like(field, plain + "%" if modifier == "&p:" else "%" + plain, _ESCAPE)


def _all(tests: Iterable[Node]) -> Node:
    listed = tuple(tests)
    return listed[0] if len(listed) == 1 else And(listed)


def _unfit(name: str, reason: str) -> InvalidField:
    return InvalidField(f"the filter {name}", reason)

"""Expressions for tests: printed, made up, and evaluated in the plainest way over a decoded message."""

from __future__ import annotations

import math
import operator
import re
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from headwater.encoding.amqp_message import Header, Message, Properties, decode_message
from headwater.encoding.amqp_types import Symbol
from headwater.encoding.event_filter import StoredEvent
from headwater.encoding.expression import (
    And,
    Arithmetic,
    Comparison,
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
    Section,
    is_condition,
)
from headwater.encoding.expression_dialects import EVENT_STREAMS_SQL, FIELD_INDEXES, JMS_SELECTOR, Dialect

__all__ = ["DIALECTS", "conditions", "messages", "odd_texts", "reference", "text_of"]

DIALECTS = {"sql": EVENT_STREAMS_SQL, "selector": JMS_SELECTOR}
ORDER = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


# Printed.


def text_of(node: Node, dialect: Dialect) -> str:
    """The text of a tree, with parentheses wherever a part has parts."""

    def part(child: Node) -> str:
        text = text_of(child, dialect)
        return text if isinstance(child, Literal | Field) else f"({text})"

    match node:
        case Literal(value):
            return constant(value)
        case Field():
            return name_of(node, dialect)
        case Negation(operand):
            return f"-{part(operand)}"
        case Arithmetic(symbol, left, right) | Comparison(symbol, left, right):
            return f"{part(left)} {symbol} {part(right)}"
        case In(operand, items):
            return f"{part(operand)} IN ({', '.join(constant(item) for item in items)})"
        case Like(operand, pattern, escape):
            behind = "" if escape is None else f" ESCAPE {constant(escape)}"
            return f"{part(operand)} LIKE {constant(pattern)}{behind}"
        case IsNull(operand):
            return f"{part(operand)} IS NULL"
        case Not(operand):
            return f"NOT {part(operand)}"
        case And(operands):
            return " AND ".join(part(operand) for operand in operands)
        case Or(operands):
            return " OR ".join(part(operand) for operand in operands)


def constant(value: object) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value).upper() if isinstance(value, bool) else repr(value)


def name_of(field: Field, dialect: Dialect) -> str:
    section, name = field.section, field.name
    if section is Section.APPLICATION_PROPERTIES:
        if re.fullmatch("[a-z]+", name):
            return f"a.{name}"
        if dialect is EVENT_STREAMS_SQL:
            return f"a.[{name.replace(']', ']]')}]"
        return '"' + name.replace('"', '""') + '"'
    if section is Section.EVENT_HUB:
        return f"amqp.annotation.{name}"
    if section is Section.JMS:
        return next(text for text, known in JMS_SELECTOR.bare_names.items() if known == (section, name))
    return f"{section.value}.{name}"


# Made up.

odd_texts = st.one_of(
    st.sampled_from(
        ["", "zz", "'", "0", "f" * 16, "f" * 17, "0" * 16, "0" * 15, "A4C5", "a4c5", "@earliest", "@latest"]
    ),
    st.integers(0, 2**64 - 1).map(lambda offset: f"{offset:016x}"),
    st.integers(0, 2**64 - 1).map(lambda offset: f"{offset:016X}"),
    st.text("0123456789abcdef", max_size=18),
    st.text("0aAfFgG@ %_'", max_size=6),
)
NAMES = st.one_of(
    st.sampled_from(["a", "b", "size", "color", "missing"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4).filter(
        lambda name: not name.startswith("JMS")
    ),
)
NUMBERS = st.one_of(
    st.integers(-5, 5),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.5, 2.0, 1e300, 10**11, 10**11 - 1]),
)
TEXTS = st.one_of(
    st.sampled_from(["red", "blue", "1", ""]), st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
)
OPERATORS = st.sampled_from(sorted(ORDER))
OFFSET = Field(Section.DELIVERY_ANNOTATIONS, "event-streams-offset")
TIMESTAMP = Field(Section.DELIVERY_ANNOTATIONS, "event-streams-timestamp")


def fields(dialect: Dialect) -> st.SearchStrategy[Field]:
    """Fields that are no position, for those stand beside special constants."""
    known = [
        *(Field(section, name) for section, names in FIELD_INDEXES.items() for name in names),
        Field(Section.DELIVERY_ANNOTATIONS, "event-streams-source-partition"),
        Field(Section.MESSAGE_ANNOTATIONS, "x-opt-partition-key"),
    ]
    if dialect is JMS_SELECTOR:
        known += [Field(*where) for where in dialect.bare_names.values()]
    return st.one_of(
        NAMES.map(lambda name: Field(Section.APPLICATION_PROPERTIES, name)), st.sampled_from(known)
    )


@st.composite
def position_tests(draw: st.DrawFn, dialect: Dialect) -> Comparison:
    """Comparisons of an offset or a time with a constant, on either side."""
    field = draw(st.sampled_from([OFFSET, TIMESTAMP]))
    if dialect is JMS_SELECTOR and draw(st.booleans()):
        names = ["x-opt-offset", "x-opt-sequence-number", "x-opt-enqueued-time"]
        field = Field(Section.EVENT_HUB, draw(st.sampled_from(names)))
    if field == OFFSET:
        value: Any = draw(odd_texts)
    elif field.section is Section.EVENT_HUB:
        number = draw(st.integers(-3, 2**63))
        value = draw(st.sampled_from([number, str(number)]))
    else:
        value = draw(NUMBERS)
    constant_ = Literal(value)
    symbol = draw(OPERATORS)
    return (
        Comparison(symbol, field, constant_) if draw(st.booleans()) else Comparison(symbol, constant_, field)
    )


@st.composite
def values(draw: st.DrawFn, dialect: Dialect, depth: int) -> Node:
    how = draw(st.integers(0, 5 if depth else 2))
    if how <= 1:
        return draw(fields(dialect))
    if how == 2:
        return Literal(draw(st.one_of(NUMBERS, TEXTS, st.booleans())))
    return draw(numbers(dialect, depth - 1))


@st.composite
def numbers(draw: st.DrawFn, dialect: Dialect, depth: int) -> Node:
    """What can stand in arithmetic, two constants not beside each other, for those become one."""
    left: Node = (
        draw(numbers(dialect, depth - 1)) if depth > 0 and draw(st.booleans()) else draw(fields(dialect))
    )
    if draw(st.booleans()):
        return Negation(left)
    right: Node = draw(st.one_of(NUMBERS.map(Literal), fields(dialect)))
    symbols = "+-*/%" if dialect is EVENT_STREAMS_SQL else "+-*/"
    symbol = draw(st.sampled_from(symbols))
    return Arithmetic(symbol, left, right) if draw(st.booleans()) else Arithmetic(symbol, right, left)


@st.composite
def likes(draw: st.DrawFn, dialect: Dialect) -> Like:
    pattern = draw(st.text("%_ab\\", max_size=5))
    escape = draw(st.sampled_from([None, "\\", "a"]))
    if escape is not None and len(pattern) - len(pattern.rstrip(escape)) & 1:
        escape = None
    return Like(draw(values(dialect, 1)), pattern, escape)


@st.composite
def conditions(draw: st.DrawFn, dialect: Dialect, depth: int = 3) -> Node:
    """Conditions as the parser makes them."""
    if depth == 0:
        return draw(
            st.one_of(st.booleans().map(Literal), fields(dialect), position_tests(dialect), likes(dialect))
        )
    parts = conditions(dialect, depth - 1)
    value = values(dialect, 2)
    comparison = st.builds(Comparison, OPERATORS, value, value)
    equality = st.builds(Comparison, st.sampled_from(["=", "<>"]), parts, parts).filter(_is_plain)
    items = st.lists(st.one_of(NUMBERS, TEXTS, st.booleans()), min_size=1, max_size=3).map(tuple)
    several = st.lists(parts, min_size=2, max_size=3).map(tuple)
    node: Node = draw(
        st.one_of(
            comparison,
            equality,
            position_tests(dialect),
            st.builds(In, value, items),
            likes(dialect),
            st.builds(IsNull, value),
            st.builds(Not, parts),
            st.builds(And, several),
            st.builds(Or, several),
        )
    )
    return node


def _is_plain(node: Comparison) -> bool:
    """Whether it compares no field that tells a position."""
    return not any(isinstance(side, Field) and side.quantity is not None for side in (node.left, node.right))


def messages() -> st.SearchStrategy[Message]:
    """Messages with what the expressions above ask for."""
    simple = st.one_of(
        NUMBERS.filter(lambda number: isinstance(number, float) or number < 2**63),
        TEXTS,
        st.booleans(),
        st.none(),
        st.binary(max_size=3),
        st.uuids(),
        TEXTS.filter(str.isascii).map(Symbol),
    )
    ids = st.one_of(st.none(), TEXTS, st.uuids(), st.binary(max_size=3))
    properties = st.builds(
        Properties,
        message_id=ids,
        user_id=st.one_of(st.none(), st.binary(max_size=3)),
        subject=st.one_of(st.none(), TEXTS),
        correlation_id=ids,
        group_sequence=st.one_of(st.none(), st.integers(0, 5)),
    )
    header = st.builds(
        Header, durable=st.booleans(), priority=st.integers(0, 9), delivery_count=st.integers(0, 3)
    )
    return st.builds(
        Message,
        header=st.one_of(st.none(), header),
        message_annotations=st.one_of(
            st.none(), st.dictionaries(st.just(Symbol("x-opt-partition-key")), simple, max_size=1)
        ),
        properties=st.one_of(st.none(), properties),
        application_properties=st.one_of(st.none(), st.dictionaries(NAMES, simple, max_size=4)),
    )


# Evaluated.


def reference(node: Node, event: StoredEvent) -> Any:
    """What a tree is for an event: all of the message is decoded, and the words of the specification are followed."""
    match node:
        case Literal(value):
            return value
        case Field():
            return _field(node, event)
        case Negation(operand):
            return _calculated("-", 0, reference(operand, event))
        case Arithmetic(symbol, left, right):
            return _calculated(symbol, reference(left, event), reference(right, event))
        case Comparison():
            return _compared(node, event)
        case IsNull(operand):
            return reference(operand, event) is None
        case In() | Like():
            return _listed_or_like(node, reference(node.operand, event))
        case Not(operand):
            return {True: False, False: True, None: None}[_truth(operand, event)]
        case And(operands):
            truths = [_truth(operand, event) for operand in operands]
            return False if False in truths else None if None in truths else True
        case Or(operands):
            truths = [_truth(operand, event) for operand in operands]
            return True if True in truths else None if None in truths else False


def _listed_or_like(node: In | Like, value: Any) -> bool | None:
    if value is None:
        return None
    if isinstance(node, In):
        return any(_ordered("=", value, item) for item in node.items)
    expression = _expression(node.pattern, node.escape)
    return isinstance(value, str) and re.fullmatch(expression, value, re.DOTALL) is not None


def _truth(node: Node, event: StoredEvent) -> bool | None:
    value = reference(node, event)
    return value if isinstance(value, bool) else None


def _compared(node: Comparison, event: StoredEvent) -> bool | None:
    sides = [node.left, node.right]
    both: list[Any] = [
        _truth(side, event) if is_condition(side) else reference(side, event) for side in sides
    ]
    for number, other in ((0, 1), (1, 0)):
        field = sides[number]
        quantity = field.quantity if isinstance(field, Field) else None
        if quantity is Quantity.OFFSET and both[other] in ("@earliest", "@latest"):
            # Text in the order of digits, the special ones before and behind what is there.
            offset = event.offset * 2 + 1
            both[number], both[other] = offset, 0 if both[other] == "@earliest" else event.latest_offset * 2
        if quantity is Quantity.TIMESTAMP and isinstance(both[other], int | float) and both[other] < 10**11:
            both[other] *= 1000
        if quantity in {Quantity.NUMBER, Quantity.INSTANT} and isinstance(both[other], str):
            both[other] = int(both[other])
    return None if None in both else _ordered(node.operator, *both)


def _ordered(symbol: str, left: Any, right: Any) -> bool:
    kind = _kind(left)
    has_order = kind in {"number", "text"} or (kind == "boolean" and symbol in {"=", "<>"})
    return kind == _kind(right) and has_order and bool(ORDER[symbol](left, right))


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else "text" if isinstance(value, str) else "other"


def _calculated(symbol: str, left: Any, right: Any) -> int | float | None:
    if _kind(left) != "number" or _kind(right) != "number":
        return None
    try:
        if symbol in "/%" and isinstance(left, int) and isinstance(right, int):
            quotient = abs(left) // abs(right) * (1 if left * right >= 0 else -1)
            result: int | float = quotient if symbol == "/" else left - right * quotient
        elif symbol == "%":
            result = math.fmod(left, right) if math.isfinite(left) and right else math.nan
        else:
            result = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}[symbol](
                left, right
            )
    except (ZeroDivisionError, OverflowError):
        return None
    return None if isinstance(result, int) and not -(2**63) <= result < 2**64 else result


def _expression(pattern: str, escape: str | None) -> str:
    parts, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            parts.append(re.escape(next(characters)))
        else:
            parts.append({"%": ".*", "_": "."}.get(character, re.escape(character)))
    return "".join(parts)


def _field(field: Field, event: StoredEvent) -> Any:
    message = decode_message(event.buffer, event.start, event.end)
    name = field.name.replace("-", "_")
    match field.section:
        case Section.APPLICATION_PROPERTIES:
            return (message.application_properties or {}).get(field.name)
        case Section.MESSAGE_ANNOTATIONS:
            return (message.message_annotations or {}).get(Symbol(field.name))
        case Section.HEADER:
            return getattr(message.header or Header(), name)
        case Section.PROPERTIES:
            return _plain(getattr(message.properties or Properties(), name))
        case Section.JMS:
            return _jms(name, message)
    return {
        "event-streams-offset": f"{event.offset:016x}",
        "event-streams-source-partition": event.partition,
        "event-streams-timestamp": event.timestamp_ms,
        "x-opt-offset": event.offset,
        "x-opt-sequence-number": event.offset,
        "x-opt-enqueued-time": event.timestamp_ms,
    }[field.name]


def _plain(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _jms(name: str, message: Message) -> Any:
    header, properties = message.header or Header(), message.properties or Properties()
    if name == "delivery_mode":
        return "PERSISTENT" if header.durable else "NON_PERSISTENT"
    if name == "delivery_count":
        return header.delivery_count + 1
    value = getattr(properties, name)
    if name == "user_id":
        return _plain(value)
    if isinstance(value, UUID):
        return f"ID:AMQP_UUID:{value}"
    return f"ID:AMQP_BINARY:{value.hex().upper()}" if isinstance(value, bytes) else value

"""Event Stream Extensions, JMS selectors, AMQP Filter Expressions: filters of links over events as they are stored.

A filter reads of an event what its expression asks for, and nothing before it is asked. An entry that is no AMQP
message has no fields but its position; what does not parse is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias
from uuid import UUID

import msgspec

from headwater.encoding._message_kernel import OTHER, list_position, list_value, map_value
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.amqp_decoder import decode
from headwater.encoding.amqp_message import SectionCode
from headwater.encoding.amqp_types import Symbol, Timestamp
from headwater.encoding.chunk import ReadableBuffer
from headwater.encoding.expression import And, Comparison, Field, Literal, Node, Not, Or, Section
from headwater.encoding.expression_compile import compile_condition
from headwater.encoding.expression_dialects import (
    EVENT_STREAMS_SQL,
    FIELD_INDEXES,
    FILTER_EXPRESSIONS_SQL,
    JMS_SELECTOR,
    Dialect,
)
from headwater.encoding.expression_parser import parse_expression
from headwater.encoding.expression_position import Bounds, bounds_of, offset_text
from headwater.encoding.property_filter import (
    APPLICATION_PROPERTIES_FILTER,
    PROPERTIES_FILTER,
    application_properties_expression,
    properties_expression,
)
from headwater.errors import InvalidField, MalformedValue

__all__ = [
    "DESCRIPTORS",
    "EVENT_STREAMS_FILTERS",
    "Filter",
    "Screen",
    "StoredEvent",
    "all_of",
    "compile_filter",
]

_Getter: TypeAlias = Callable[["StoredEvent"], Any]
Screen: TypeAlias = Callable[[ReadableBuffer, Sequence[int], Sequence[int]], list[int]]
"""Which of some entries, by their numbers among the spans of a buffer, pass what no expression here can say."""


class StoredEvent:
    """An event as it lies in a buffer; who goes through many changes one and the same."""

    __slots__ = ("buffer", "end", "latest_offset", "now_ms", "offset", "partition", "start", "timestamp_ms")

    def __init__(
        self,
        buffer: ReadableBuffer = b"",
        start: int = 0,
        end: int = 0,
        *,
        offset: int = 0,
        timestamp_ms: int = 0,
        partition: str = "",
        latest_offset: int = 0,
        now_ms: int = 0,
    ) -> None:
        """The message from `start` to `end`; nothing stands there for an entry that is none."""
        self.buffer = buffer
        self.start = start
        self.end = end
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.partition = partition
        self.latest_offset = latest_offset
        """What `@latest` is before: the offset that came next in the partition when the link was attached."""
        self.now_ms = now_ms
        """What time it is as it is looked at."""


_ALL = Literal(True)


class Filter:
    """What a link wants of a log."""

    __slots__ = ("_condition", "expression", "screens", "starts_at_earliest")

    def __init__(
        self, expression: Node, *, starts_at_earliest: bool, screens: tuple[Screen, ...] = ()
    ) -> None:
        """What matches the expression and passes all screens."""
        self.expression = expression
        self.screens = screens
        self.starts_at_earliest = starts_at_earliest
        """Whether it begins with the first retained event that matches, and not with what comes from now on."""
        self._condition = compile_condition(expression, _getter_of)

    def matches(self, event: StoredEvent) -> bool:
        """Whether the filter lets an event through."""
        if self._condition(event) is not True:
            return False
        span = (event.start, event.start, event.start, event.end)
        return all(screen(event.buffer, span, (0,)) for screen in self.screens)

    def matching(self, event: StoredEvent, spans: Sequence[int], first: int, count: int) -> list[int]:
        """Which of `count` skimmed entries match, from the `first` one on, whose offset is that of the event.

        The spans are those of `_span_kernel`; the event goes through the entries, and ends behind them.
        """
        if self.expression == _ALL:
            found = list(range(first, first + count))
            event.offset += count
        else:
            found = self._selected(event, spans, first, count)
        for screen in self.screens:
            found = screen(event.buffer, spans, found)
        return found

    def _selected(self, event: StoredEvent, spans: Sequence[int], first: int, count: int) -> list[int]:
        condition, found = self._condition, []
        for number in range(first, first + count):
            start = spans[SPAN_FIELDS * number]
            event.start, event.end = (0, 0) if start < 0 else (start, spans[SPAN_FIELDS * number + 3])
            if condition(event) is True:
                found.append(number)
            event.offset += 1
        return found

    def bounds(self, latest_offset: int) -> Bounds:
        """Where in a partition events can match, in which `@latest` is before the offset that comes next.

        If they are exact, all events in them do, and none need be asked.
        """
        bounds = bounds_of(self.expression, latest_offset)
        return msgspec.structs.replace(bounds, is_exact=False) if self.screens else bounds


def all_of(filters: Sequence[Filter]) -> Filter:
    """What several filters of one link select together."""
    if len(filters) == 1:
        return filters[0]
    return Filter(
        And(tuple(each.expression for each in filters)),
        starts_at_earliest=any(each.starts_at_earliest for each in filters),
        screens=tuple(screen for each in filters for screen in each.screens),
    )


def compile_filter(descriptor: object, value: object) -> Filter | None:
    """The filter that a described value is; None if its descriptor is none of ours.

    Raises `InvalidExpression`, or `InvalidField` if the value is not what the descriptor says.
    """
    compiler = DESCRIPTORS.get(descriptor) if isinstance(descriptor, int | str) else None
    return None if compiler is None else compiler(value)


def _annotations_filter(value: object) -> Filter:
    """Section 5.2.1: each annotation must be greater than the one given."""
    if not isinstance(value, Mapping):
        raise _unfit(_ANNOTATIONS_FILTER, "is no map")
    tests = tuple(_greater(key, limit) for key, limit in value.items())
    expression: Node = Literal(True) if not tests else tests[0] if len(tests) == 1 else And(tests)
    return Filter(expression, starts_at_earliest=True)


def _greater(key: object, limit: object) -> Comparison:
    field = Field(Section.DELIVERY_ANNOTATIONS, str(key))
    if key == "event-streams-offset":
        if not isinstance(limit, str):
            raise _unfit(_ANNOTATIONS_FILTER, f"has an {key} that is no symbol")
        return Comparison(">", field, Literal(str(limit)))
    if key == "event-streams-timestamp":
        if not isinstance(limit, int) or isinstance(limit, bool):
            raise _unfit(_ANNOTATIONS_FILTER, f"has an {key} that is no timestamp")
        # A timestamp is milliseconds whatever its size; a plain number is read as in an expression.
        if isinstance(limit, Timestamp):
            field = Field(Section.EVENT_HUB, "x-opt-enqueued-time")
        return Comparison(">", field, Literal(int(limit)))
    raise _unfit(
        _ANNOTATIONS_FILTER,
        f"has {key!r:.100}; it may have event-streams-offset and event-streams-timestamp",
    )


def _text_filter(name: str, dialect: Dialect, value: object) -> Filter:
    if not isinstance(value, str):
        raise _unfit(name, "is no string")
    expression = parse_expression(value, dialect)
    is_ours = dialect is EVENT_STREAMS_SQL
    return Filter(expression, starts_at_earliest=is_ours or _names_position(expression))


def _unfit(name: str, reason: str) -> InvalidField:
    return InvalidField(f"the filter {name}", reason)


def _names_position(node: Node) -> bool:
    return any(isinstance(field, Field) and field.quantity is not None for field in _parts(node))


def _parts(node: Node) -> Iterator[Node]:
    match node:
        case And(operands) | Or(operands):
            for operand in operands:
                yield from _parts(operand)
        case Not(operand):
            yield from _parts(operand)
        case Comparison(_, left, right):
            yield from _parts(left)
            yield from _parts(right)
        case _:
            yield node


def _property_filter(expression_of: Callable[[object], Node], value: object) -> Filter:
    return Filter(expression_of(value), starts_at_earliest=False)


_ANNOTATIONS_FILTER = "amqp:event-streams-delivery-annotations-filter"
_SQL_FILTER = "amqp:event-streams-sql-filter"
_SELECTOR_FILTER = "apache.org:selector-filter:string"
_GENERAL_SQL_FILTER = "amqp:sql-filter"
_sql_filter = partial(_text_filter, _SQL_FILTER, EVENT_STREAMS_SQL)
_selector_filter = partial(_text_filter, _SELECTOR_FILTER, JMS_SELECTOR)
_general_sql_filter = partial(_text_filter, _GENERAL_SQL_FILTER, FILTER_EXPRESSIONS_SQL)
_properties_filter = partial(_property_filter, properties_expression)
_application_properties_filter = partial(_property_filter, application_properties_expression)

DESCRIPTORS: Mapping[int | str, Callable[[object], Filter]] = {
    Symbol(_ANNOTATIONS_FILTER): _annotations_filter,
    0x0000_0000_0000_0200: _annotations_filter,
    Symbol(_SQL_FILTER): _sql_filter,
    0x0000_0000_0000_0201: _sql_filter,
    Symbol(_SELECTOR_FILTER): _selector_filter,
    0x0000_468C_0000_0004: _selector_filter,
    Symbol(PROPERTIES_FILTER): _properties_filter,
    0x0000_0000_0000_0173: _properties_filter,
    Symbol(APPLICATION_PROPERTIES_FILTER): _application_properties_filter,
    0x0000_0000_0000_0174: _application_properties_filter,
    Symbol(_GENERAL_SQL_FILTER): _general_sql_filter,
    0x0000_0000_0000_0120: _general_sql_filter,
}
"""By both forms of their descriptors."""
EVENT_STREAMS_FILTERS = frozenset(
    descriptor
    for descriptor, compiler in DESCRIPTORS.items()
    if compiler in (_annotations_filter, _sql_filter)
)
"""Those of Event Stream Extensions."""


# Fields.


def _getter_of(field: Field) -> _Getter:
    """A function that reads a field of an event."""
    section, name = field.section, field.name
    if section is Section.APPLICATION_PROPERTIES:
        return _map_getter(SectionCode.APPLICATION_PROPERTIES, name)
    if section is Section.MESSAGE_ANNOTATIONS:
        return _map_getter(SectionCode.MESSAGE_ANNOTATIONS, name)
    if section in FIELD_INDEXES:
        return _list_getter(section, name)
    return _COMPUTED[section, name]


def _map_getter(section: SectionCode, name: str) -> _Getter:
    code, key = int(section), name.encode()
    return lambda event: map_value(event.buffer, event.start, event.end, code, key)


def _list_getter(section: Section, name: str) -> _Getter:
    code = int(SectionCode[section.name])
    index = FIELD_INDEXES[section][name]
    if name in _IDS:
        return lambda event: _plain_id(_id(event, code, index))
    if (default := _DEFAULTS.get(name)) is None:
        return lambda event: list_value(event.buffer, event.start, event.end, code, index)

    def with_default(event: StoredEvent) -> object:
        value = list_value(event.buffer, event.start, event.end, code, index)
        return default if value is None else value

    return with_default


def _id(event: StoredEvent, code: int, index: int) -> object:
    """A field of more types than the kernel reads."""
    value = list_value(event.buffer, event.start, event.end, code, index)
    if value is not OTHER:
        return value
    try:
        return decode(
            event.buffer, list_position(event.buffer, event.start, event.end, code, index), event.end
        )[0]
    except MalformedValue:
        return None


def _plain_id(value: object) -> object:
    """As text, or a number."""
    if isinstance(value, UUID):
        return str(value)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _jms_id(value: object) -> object:
    """As AMQP Binding and Mapping for JMS, section 3.2.1.1, writes what is no text."""
    if isinstance(value, UUID):
        return f"ID:AMQP_UUID:{value}"
    if isinstance(value, bytes):
        return f"ID:AMQP_BINARY:{value.hex().upper()}"
    return f"ID:AMQP_ULONG:{value}" if isinstance(value, int) else value


def _jms_id_getter(name: str) -> _Getter:
    index = FIELD_INDEXES[Section.PROPERTIES][name]
    return lambda event: _jms_id(_id(event, SectionCode.PROPERTIES, index))


def _delivery_mode(event: StoredEvent) -> str:
    return "PERSISTENT" if _DURABLE(event) is True else "NON_PERSISTENT"


def _delivery_count(event: StoredEvent) -> object:
    count = _FAILED_DELIVERIES(event)
    return count + 1 if isinstance(count, int) else None


_IDS = frozenset(("message-id", "correlation-id", "user-id"))
_DEFAULTS = {"durable": False, "priority": 4, "first-acquirer": False, "delivery-count": 0}
"""What header fields are that are not there (AMQP 1.0, section 3.2.1)."""
_DURABLE = _list_getter(Section.HEADER, "durable")
_FAILED_DELIVERIES = _list_getter(Section.HEADER, "delivery-count")
_COMPUTED: Mapping[tuple[Section, str], _Getter] = {
    (Section.DELIVERY_ANNOTATIONS, "event-streams-offset"): lambda event: offset_text(event.offset),
    (Section.DELIVERY_ANNOTATIONS, "event-streams-timestamp"): lambda event: event.timestamp_ms,
    (Section.DELIVERY_ANNOTATIONS, "event-streams-source-partition"): lambda event: event.partition,
    (Section.CLOCK, "UTC"): lambda event: event.now_ms,
    (Section.EVENT_HUB, "x-opt-offset"): lambda event: event.offset,
    (Section.EVENT_HUB, "x-opt-sequence-number"): lambda event: event.offset,
    (Section.EVENT_HUB, "x-opt-enqueued-time"): lambda event: event.timestamp_ms,
    (Section.JMS, "message-id"): _jms_id_getter("message-id"),
    (Section.JMS, "correlation-id"): _jms_id_getter("correlation-id"),
    (Section.JMS, "user-id"): _list_getter(Section.PROPERTIES, "user-id"),
    (Section.JMS, "delivery-mode"): _delivery_mode,
    (Section.JMS, "delivery-count"): _delivery_count,
}

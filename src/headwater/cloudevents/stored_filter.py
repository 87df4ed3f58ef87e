"""Predicates over CloudEvents as filters of links and readers: over events as they are stored, attributes on demand.

What is no CloudEvent passes none of them. AMQP links name them by descriptors of our own; no document has any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headwater.cloudevents.filter_shapes import read_filter
from headwater.cloudevents.filters import Predicate, compile_predicate, sql
from headwater.cloudevents.stored import StoredAttributes
from headwater.encoding._cloudevents_kernel import BINARY
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.amqp_types import Symbol
from headwater.encoding.chunk import ReadableBuffer
from headwater.encoding.event_filter import Filter, Screen
from headwater.encoding.expression import Literal
from headwater.errors import InvalidField, InvalidFilter

__all__ = ["PREDICATES_FILTER", "SQL_FILTER", "compile_link_filter", "filter_of", "screen_of"]

SQL_FILTER = Symbol("headwater:cloudevents-sql-filter")
"""Of a string, an expression in CloudEvents SQL."""
PREDICATES_FILTER = Symbol("headwater:cloudevents-filter")
"""Of a list of predicates, each a map, all of which must hold: the `filters` of a subscription."""


def filter_of(predicate: Predicate) -> Filter:
    """What lets those CloudEvents through of which a predicate is true; it names no position to begin at."""
    return Filter(Literal(True), starts_at_earliest=False, screens=(screen_of(predicate),))


def compile_link_filter(descriptor: object, value: object) -> Filter | None:
    """The filter that a described value is; None if its descriptor is none of ours.

    Raises `InvalidExpression`, or `InvalidField` if the value is not what the descriptor says.
    """
    if descriptor == SQL_FILTER:
        if not isinstance(value, str):
            raise InvalidField(f"the filter {SQL_FILTER}", "is no string")
        return filter_of(sql(value))
    if descriptor == PREDICATES_FILTER:
        try:
            return filter_of(read_filter({"filters": value}).predicate)
        except InvalidFilter as error:
            raise InvalidField(
                f"the filter {PREDICATES_FILTER}", f"at {error.place}: {error.reason}"
            ) from None
    return None


def screen_of(predicate: Predicate) -> Screen:
    """A function that says which of the entries in a buffer are CloudEvents of which a predicate is true."""
    test = compile_predicate(predicate)
    attributes = StoredAttributes(b"", 0, 0)

    def passing(buffer: ReadableBuffer, spans: Sequence[int], numbers: Sequence[int]) -> list[int]:
        found = []
        attributes.open(buffer, 0, 0)
        move = attributes.move
        try:
            for number, head, start, end in _rows_of(spans, numbers):
                if head < 0:
                    continue
                move(start, end)
                if test(attributes) and _is_event(attributes):
                    found.append(number)
        finally:
            attributes.open(b"", 0, 0)  # nobody else holds the buffer longer than it is read
        return found

    return passing


def _rows_of(spans: Sequence[int], numbers: Sequence[int]) -> Iterable[tuple[int, int, int, int]]:
    """Number, start of the head, start and end of the rest; whole columns are read faster than one after the other."""
    if not numbers:
        return ()
    first, last = numbers[0], numbers[-1]
    start, end = SPAN_FIELDS * first, SPAN_FIELDS * (last + 1)
    heads, starts, ends = (spans[start + field : end : SPAN_FIELDS] for field in (0, 2, 3))
    rows = zip(range(first, last + 1), heads, starts, ends, strict=True)
    if len(numbers) == last + 1 - first:
        return rows
    wanted = frozenset(numbers)
    return (row for row in rows if row[0] in wanted)


def _is_event(attributes: StoredAttributes) -> bool:
    """A predicate may hold of nothing at all."""
    return attributes.status == BINARY or attributes.get("id") is not None

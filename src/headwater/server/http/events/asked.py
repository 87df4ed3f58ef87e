"""What a request for events asks for: which partitions, from where on, and which events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headwater.cloudevents.filter_shapes import CHARACTERS_MAX, read_filter
from headwater.cloudevents.filters import Predicate, sql
from headwater.encoding.amqp_types import Symbol
from headwater.encoding.event_filter import Filter, compile_filter
from headwater.encoding.expression_position import TIME_END_MS, TIME_START_MS, Bounds
from headwater.errors import InvalidExpression, InvalidField, InvalidFilter
from headwater.log.partition import Partition
from headwater.log.reader import find_timestamp
from headwater.server.amqp.nodes import LogNode
from headwater.server.cloudevent_filter import CloudEventFilter
from headwater.server.http.endpoint import InVhost
from headwater.server.http.events.positions import (
    POSITION_CHARS_MAX,
    InvalidPosition,
    PositionText,
    read_position,
)
from headwater.server.http.problems import INVALID, UNKNOWN_PARTITION
from headwater.server.record_source import Selection

__all__ = ["Asked", "EventsAsked", "asked_of"]

LIMIT_MAX = 1000
WAIT_S_MAX = 60.0
FIRST, NEXT = "first", "next"
_SQL = Symbol("amqp:event-streams-sql-filter")


Expression = Annotated[str, Meta(max_length=CHARACTERS_MAX)]


class EventsAsked(InVhost, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which events, from where on."""

    partition: Annotated[
        list[str], Meta(description="Ids or names of the partitions; all of the log if there is none.")
    ] = msgspec.field(default_factory=list)
    offset: Annotated[
        Annotated[str, Meta(pattern="^(first|next|[0-9]{1,19})$")] | None,
        Meta(
            description="Where to begin: an offset, in each of the partitions; `first`, which is the default, or"
            " `next` for what comes from now on.",
        ),
    ] = None
    position: Annotated[
        Annotated[str, Meta(max_length=POSITION_CHARS_MAX)] | None,
        Meta(
            description="Where to go on: `next` of an earlier answer, or the id of an event.",
        ),
    ] = None
    since: Annotated[
        str | None, Meta(description="Begin with what was accepted at this time (RFC 3339) or later.")
    ] = None
    until: Annotated[
        str | None, Meta(description="End before what was accepted at this time (RFC 3339) or later.")
    ] = None
    filter: Annotated[
        Expression | None,
        Meta(description="An expression in CloudEvents SQL that must be true."),
    ] = None
    filters: Annotated[
        Expression | None,
        Meta(
            description="Filters as CloudEvents Subscriptions have them, a JSON array that must hold as a whole.",
        ),
    ] = None
    sql: Annotated[
        Expression | None,
        Meta(
            description="A filter of Event Streams: SQL over the sections of AMQP messages.",
        ),
    ] = None
    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX, description="Events in an answer, at most.")] = 100
    wait: Annotated[
        float,
        Meta(ge=0, le=WAIT_S_MAX, description="Seconds to wait for an event if there is none."),
    ] = 0.0


class Asked(msgspec.Struct, frozen=True):
    """What is to be read, by partitions of a log as they are now."""

    node: LogNode
    numbers: Sequence[int]
    """Of the partitions among those of the node."""
    offsets: Sequence[int]
    """Where each is begun."""
    selections: Sequence[Selection | None]
    takes_all_partitions: bool
    filter_key: tuple[str | None, ...]
    """The same for those who want the same events."""

    @property
    def ids(self) -> list[str]:
        """Of the partitions."""
        return [self.node.ids[number] for number in self.numbers]

    @property
    def partitions(self) -> list[Partition]:
        """As they are read."""
        return [self.node.partitions[number] for number in self.numbers]

    def continued(self, offsets: Sequence[int]) -> Asked:
        """The same from other offsets on."""
        return msgspec.structs.replace(self, offsets=list(offsets))

    def position(self, offsets: Sequence[int]) -> str:
        """The text from which reading goes on at these offsets."""
        return PositionText(self.ids).at(offsets)


def asked_of(query: EventsAsked, node: LogNode, last_event_id: str | None) -> Asked:
    """What a request asks for; raises `Refused`. The id of the last event that was seen counts more than the query."""
    numbers = _numbers(query.partition, node)
    bounds = _bounds(query)
    made = _filter(query)
    selections = [_selection(made, bounds, node.partitions[number]) for number in numbers]
    offsets = _offsets(query, node, numbers, last_event_id, bounds)
    key = query.filter, query.filters, query.sql, query.since, query.until
    return Asked(node, numbers, offsets, selections, not query.partition, key)


def _numbers(wanted: Sequence[str], node: LogNode) -> Sequence[int]:
    if not wanted:
        return range(len(node.ids))
    known = {each.name: number for number, each in enumerate(node.partitions)}
    known |= {id_: number for number, id_ in enumerate(node.ids)}
    for each in wanted:
        if each not in known:
            raise UNKNOWN_PARTITION.refused(f"{node.name!r:.100} has no partition {each!r:.100}")
    return sorted({known[each] for each in wanted})


def _offsets(
    query: EventsAsked, node: LogNode, numbers: Sequence[int], last_event_id: str | None, bounds: Bounds
) -> list[int]:
    """Where each partition is begun."""
    ids = [node.ids[number] for number in numbers]
    position = last_event_id or query.position
    named: Mapping[str, int] = {}
    if position:
        try:
            named = read_position(position, ids)
        except InvalidPosition as error:
            what = "Last-Event-ID" if last_event_id else "position"
            raise INVALID.refused(f"{what} is of no use here: {error}") from error
    return [
        _offset(query, node.partitions[number], named.get(id_), bounds, is_named=bool(position))
        for number, id_ in zip(numbers, ids, strict=True)
    ]


def _offset(
    query: EventsAsked, partition: Partition, named: int | None, bounds: Bounds, *, is_named: bool
) -> int:
    first, end = partition.first_offset, partition.committed_offset
    if named is None and not is_named and query.offset == NEXT:
        return end
    if named is None and not is_named and query.offset not in (None, FIRST):
        named = int(query.offset or 0)
    if named is not None and named > end:
        raise INVALID.refused(f"offset {named} is behind the end of {partition.name!r}, which is {end}")
    offset = first if named is None else max(named, first)  # what is gone is passed over
    if bounds.time_start_ms > TIME_START_MS:
        offset = max(offset, find_timestamp(partition, bounds.time_start_ms))
    return offset


def _bounds(query: EventsAsked) -> Bounds:
    start = TIME_START_MS if query.since is None else _milliseconds("since", query.since)
    end = TIME_END_MS if query.until is None else _milliseconds("until", query.until)
    return Bounds(time_start_ms=start, time_end_ms=end)


def _milliseconds(name: str, text: str) -> int:
    """A time, up to the next whole millisecond."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.utcoffset() is None:
            raise ValueError
        return -int(-moment.timestamp() * 1000 // 1)
    except (ValueError, OverflowError):
        raise INVALID.refused(
            f"{name} is {text!r:.100}, and no time as 2026-01-31T12:00:00Z; write + as %2B"
        ) from None


def _filter(query: EventsAsked) -> CloudEventFilter | Filter | None:
    given = [each for each in (query.filter, query.filters, query.sql) if each is not None]
    if len(given) > 1:
        raise INVALID.refused("filter, filters and sql exclude one another; give one of them")
    try:
        if query.sql is not None:
            return compile_filter(_SQL, query.sql)
        if given:
            return CloudEventFilter(_predicate(query))
    except (InvalidExpression, InvalidField, InvalidFilter) as error:
        raise INVALID.refused(str(error)) from error
    return None


def _predicate(query: EventsAsked) -> Predicate:
    if query.filter is not None:
        return sql(query.filter)
    try:
        filters: Any = msgspec.json.decode(query.filters or "")
    except (msgspec.DecodeError, RecursionError) as error:
        raise INVALID.refused(f"filters is no JSON: {error}") from error
    return read_filter({"filters": filters}).predicate


def _selection(
    made: CloudEventFilter | Filter | None, bounds: Bounds, partition: Partition
) -> Selection | None:
    """What is wanted of a partition; None for everything."""
    latest = partition.committed_offset
    if made is None:
        if bounds == Bounds():
            return None
        return Selection(_Everything(), latest, msgspec.structs.replace(bounds, is_exact=True))
    if isinstance(made, Filter):
        bounds = bounds.meet(made.bounds(latest))
    return Selection(made, latest, bounds)


class _Everything:
    """Lets through what is within bounds."""

    def matching(self, event: object, spans: Sequence[int], first: int, count: int) -> list[int]:
        """All of them."""
        return list(range(first, first + count))

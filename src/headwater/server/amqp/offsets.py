"""Event Stream Extensions, section 5.2: what the filters of a source select, and where a link begins to read for it.

Without a filter that names a position it begins with what is accepted from now on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from headwater.amqp.definitions import Condition
from headwater.cloudevents.stored_filter import compile_link_filter
from headwater.encoding.amqp_types import Described, Symbol, Timestamp
from headwater.encoding.event_filter import EVENT_STREAMS_FILTERS, Filter, all_of, compile_filter
from headwater.encoding.expression_position import TIME_START_MS
from headwater.errors import InvalidExpression, InvalidField
from headwater.log.partition import Partition
from headwater.log.reader import find_timestamp, last_chunk_offset
from headwater.server.amqp.nodes import Refused
from headwater.server.record_source import Selection

__all__ = ["Start", "start_of"]

OFFSET_SPEC = Symbol("rabbitmq:stream-offset-spec")


class Start(msgspec.Struct, frozen=True):
    """What a link asked for, and the filters that say so."""

    position: str | int | None = None
    applied: dict[Symbol, Any] = msgspec.field(default_factory=dict)
    filter: Filter | None = None
    is_event_streams: bool = False
    """Whether a filter of Event Stream Extensions is among them."""

    @property
    def names_position(self) -> bool:
        """Whether it says where to begin, and not only what is wanted."""
        return self.position is not None or (self.filter is not None and self.filter.starts_at_earliest)

    def selection(self, partition: Partition, latest: int | None = None) -> Selection | None:
        """What is wanted of a partition, with `@latest` as it was fixed, or is now; None for everything."""
        if self.filter is None:
            return None
        latest = partition.committed_offset if latest is None else latest
        return Selection(self.filter, latest, self.filter.bounds(latest))

    def offset(
        self, partition: Partition, selection: Selection | None, *, is_later_than_link: bool = False
    ) -> int:
        """The offset at which a link begins to read a partition; of one that came later all is from now on."""
        offset = partition.first_offset
        if not is_later_than_link or self.position not in (None, "next"):
            offset = self._position_in(partition)
        if selection is None:
            return offset
        bounds = selection.bounds
        if bounds.time_start_ms > TIME_START_MS:
            offset = max(offset, find_timestamp(partition, bounds.time_start_ms))
        return max(offset, bounds.offset_start)

    def _position_in(self, partition: Partition) -> int:
        match self.position:
            case "first":
                return partition.first_offset
            case "last":
                last = last_chunk_offset(partition)
                return partition.committed_offset if last is None else last
            case Timestamp():
                return find_timestamp(partition, self.position)
            case int():
                return self.position
            case None if self.filter is not None and self.filter.starts_at_earliest:
                return partition.first_offset
            case _:
                return partition.committed_offset


def start_of(filters: Mapping[Symbol, Any]) -> Start:
    """What the filters of a source say; those that are unknown are left out of what is applied. Raises `Refused`."""
    position: str | int | None = None
    applied: dict[Symbol, Any] = {}
    selecting: list[Filter] = []
    is_event_streams = False
    for name, given in filters.items():
        value = given.value if isinstance(given, Described) else given
        descriptor = given.descriptor if isinstance(given, Described) else name
        if descriptor == OFFSET_SPEC:
            position = _checked_position(value)
        else:
            try:
                found = compile_filter(descriptor, value) or compile_link_filter(descriptor, value)
            except (InvalidExpression, InvalidField) as error:
                raise Refused(Condition.INVALID_FIELD, str(error)) from error
            if found is None:
                continue
            selecting.append(found)
            is_event_streams = is_event_streams or descriptor in EVENT_STREAMS_FILTERS
        applied[name] = given
    return Start(position, applied, all_of(selecting) if selecting else None, is_event_streams)


def _checked_position(value: object) -> str | int:
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if is_number or value in ("first", "last", "next"):
        assert isinstance(value, str | int)
        return value
    raise Refused(
        Condition.INVALID_FIELD,
        f"{OFFSET_SPEC} is {value!r:.100}; it is first, last, next, an offset or a timestamp",
    )

"""Events of some partitions from a position on, some at a time: each partition in its order, all of them in turns."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.server.http.events.asked import Asked
from headwater.server.http.events.showing import Shower
from headwater.server.record_source import RecordSource

__all__ = ["EventReader", "ShownEvent"]

PART_COUNT_MAX = 64
"""Events of one partition before others have their turn."""


class ShownEvent(msgspec.Struct, frozen=True, gc=False):
    """One event, as it is written for clients."""

    number: int
    """Of its partition among those that are read."""
    offset: int
    accepted_ms: int
    json: bytes


class EventReader:
    """Reads what was asked for; `when_read` is called when the disk has given what was waited for."""

    def __init__(self, asked: Asked, when_read: Callable[[], None]) -> None:
        self._when_read = when_read
        self._next = 0
        self.offsets = list(asked.offsets)
        """Of the events that come next, by the numbers of the partitions that are read."""
        self._sources = [
            RecordSource(partition, offset, id_, selection)
            for partition, offset, id_, selection in zip(
                asked.partitions, asked.offsets, asked.ids, asked.selections, strict=True
            )
        ]
        self._showers = [Shower(asked.node.log.name, id_) for id_ in asked.ids]

    @property
    def is_waiting(self) -> bool:
        """Whether the disk is asked."""
        return any(each.is_waiting for each in self._sources)

    @property
    def may_have_more(self) -> bool:
        """Whether there may be more at once."""
        return any(each.records or each.has_passed_over for each in self._sources)

    @property
    def has_ended(self) -> bool:
        """Whether nothing that is still to come can be wanted."""
        return all(each.has_ended and not each.records for each in self._sources)

    def read(self, count_max: int, bytes_max: int) -> list[ShownEvent]:
        """The next events, up to so many and so many bytes, but at least one if there is any."""
        found: list[ShownEvent] = []
        byte_count = idle = 0
        while len(found) < count_max and byte_count < bytes_max and idle < len(self._sources):
            part_max = min(count_max - len(found), PART_COUNT_MAX)
            number = self._next
            taken = self._read_from(number, found, part_max, bytes_max - byte_count)
            byte_count += taken
            idle = 0 if taken else idle + 1
            if byte_count < bytes_max:
                self._next = (number + 1) % len(self._sources)
        return found

    def close(self) -> None:
        """Let go of what was read."""
        for source in self._sources:
            source.close()

    def _read_from(self, number: int, found: list[ShownEvent], count_max: int, bytes_max: int) -> int:
        """Add events of one partition; gives their bytes."""
        source, shower = self._sources[number], self._showers[number]
        byte_count = 0
        while count_max and byte_count < bytes_max:
            if source.is_waiting or not (source.records or source.fill(self._when_read)):
                break
            records = source.records[0]
            at, offset, accepted_ms = SPAN_FIELDS * records.first, records.offset, source.timestamp_ms
            head, _, rest, end = records.spans[at : at + SPAN_FIELDS]
            if head < 0:
                json = shower.bytes_json(bytes(records.data[rest:end]), offset, accepted_ms)
            else:
                json = shower.json(records.data, rest, end, offset, accepted_ms)
            found.append(ShownEvent(number, offset, accepted_ms, json))
            source.take(1)
            byte_count += len(json)
            count_max -= 1
        self.offsets[number] = source.position
        return byte_count

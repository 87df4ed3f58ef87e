"""Where a link begins to read: RabbitMQ's filter for streams; without one, with what is accepted from now on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from headwater.amqp.definitions import Condition
from headwater.encoding.amqp_types import Described, Symbol, Timestamp
from headwater.log.partition import Partition
from headwater.log.reader import find_timestamp, last_chunk_offset
from headwater.server.amqp.nodes import Refused

__all__ = ["Start", "start_of"]

OFFSET_SPEC = Symbol("rabbitmq:stream-offset-spec")


class Start(msgspec.Struct, frozen=True):
    """What a link asked for, and the filters that say so."""

    position: str | int | None = None
    applied: dict[Symbol, Any] = msgspec.field(default_factory=dict)

    def offset(self, partition: Partition) -> int:
        """The offset at which a link begins to read a partition."""
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
            case _:
                return partition.committed_offset


def start_of(filters: Mapping[Symbol, Any]) -> Start:
    """What the filters of a source say; others are left out of what is applied. Raises `Refused`."""
    for name, given in filters.items():
        value = given.value if isinstance(given, Described) else given
        descriptor = given.descriptor if isinstance(given, Described) else name
        if descriptor != OFFSET_SPEC:
            continue
        is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if value not in ("first", "last", "next") and not is_number:
            raise Refused(
                Condition.INVALID_FIELD,
                f"{OFFSET_SPEC} is {value!r:.100}; it is first, last, next, an offset or a timestamp",
            )
        return Start(value, {name: given})
    return Start()

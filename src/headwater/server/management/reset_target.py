"""Where an operator has consumers go on from: the first event that is there, the end, an offset, a time."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headwater.errors import OffsetBeyondEnd, UnknownPartition
from headwater.log.log import Log
from headwater.log.partition import Partition
from headwater.log.reader import find_timestamp
from headwater.server.management.consumer_errors import InvalidTarget
from headwater.server.management.turns import in_turns

__all__ = ["EARLIEST", "LATEST", "TARGET_CHARS_MAX", "ResetTarget", "offsets_of", "parse_target"]

EARLIEST, LATEST = "earliest", "latest"
TARGET_CHARS_MAX = 40
OFFSET_MAX = (1 << 63) - 1

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ResetTarget:
    """One of the four; neither offset nor time: the end."""

    is_earliest: bool = False
    offset: int | None = None
    time_ms: int | None = None

    def offset_in(self, partition: Partition) -> int:
        """The offset of a partition that is meant; raises `OffsetBeyondEnd`."""
        if self.is_earliest:
            return partition.first_offset
        if self.time_ms is not None:
            return find_timestamp(partition, self.time_ms)
        end = partition.committed_offset
        if self.offset is None:
            return end
        if self.offset > end:
            raise OffsetBeyondEnd(partition.name, self.offset, end)
        return max(self.offset, partition.first_offset)


def parse_target(given: object) -> ResetTarget:
    """What a word, an offset or a time means; raises `InvalidTarget`."""
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= OFFSET_MAX:
        return ResetTarget(offset=given)
    if not isinstance(given, str) or len(given) > TARGET_CHARS_MAX:
        raise InvalidTarget(given)
    if given == EARLIEST:
        return ResetTarget(is_earliest=True)
    if given == LATEST:
        return ResetTarget()
    if given.isascii() and given.isdigit():
        return parse_target(int(given))
    try:
        time = datetime.fromisoformat(given)
    except ValueError:
        raise InvalidTarget(given) from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return ResetTarget(time_ms=-((_EPOCH - time) // timedelta(milliseconds=1)))


async def offsets_of(
    log: Log, target: ResetTarget, wanted: str | None = None, among: Container[int] | None = None
) -> dict[int, int]:
    """The offset that is meant in each partition, by its number: in all, or in the one wanted, by its id or name.

    Those that are not `among` these are left out. Raises `UnknownPartition`, `OffsetBeyondEnd`.
    """
    chosen = [each for each in _chosen(log, wanted) if among is None or each[0] in among]
    if not chosen:
        raise UnknownPartition(log.name, wanted or "")
    return {number: target.offset_in(partition) async for number, partition in in_turns(chosen)}


def _chosen(log: Log, wanted: str | None) -> Sequence[tuple[int, Partition]]:
    every = list(zip(log.numbers, log.partitions, strict=True))
    if wanted is None:
        return every
    ids = log.definition.partition_ids
    names = ids if wanted in ids else [partition.name for partition in log.partitions]
    return [each for each, name in zip(every, names, strict=True) if name == wanted]

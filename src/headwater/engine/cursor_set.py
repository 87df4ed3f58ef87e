"""The cursors that one owner, a subscription or a group, has on the partitions of its log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from headwater.engine.cursor import Cursor, CursorLimits
from headwater.engine.cursor_flushes import CursorFlushes, WaitOver
from headwater.engine.cursor_record import Position, encode_position
from headwater.engine.delivery import Run
from headwater.engine.state_record import Delete, Put, cursor_key

__all__ = ["CursorSet", "PartitionRun"]

C = TypeVar("C", bound=Hashable)


class PartitionRun(msgspec.Struct, frozen=True, gc=False):
    """Offsets of a partition to deliver."""

    partition: int
    run: Run


class CursorSet(Generic[C]):
    """By partition; durable ones have flushes, others are forgotten with the process."""

    __slots__ = ("_flushes", "by_partition", "digest", "limits")

    def __init__(
        self, digest: bytes, limits: CursorLimits, flushes: CursorFlushes[C, Any] | None = None
    ) -> None:
        self.digest = digest
        self.limits = limits
        self.by_partition: dict[int, Cursor[C]] = {}
        self._flushes = flushes

    def begin(self, partition: int, offset: int) -> Cursor[C]:
        """Stand at an offset of a partition: for the first time, or leaving behind what was."""
        cursor = self.by_partition.get(partition)
        if cursor is None:
            key, changed = self._place(partition)
            cursor = self.by_partition[partition] = Cursor(offset, self.limits, key, changed)
        else:
            cursor.reset(offset)
        return cursor

    def restore(self, positions: Mapping[int, Position], ends: Mapping[int, int]) -> list[Delete]:
        """Stand where records say, on partitions that end so; gives what removes those of partitions that are gone."""
        for partition, end in ends.items():
            if partition in positions:
                key, changed = self._place(partition)
                position = positions[partition]
                self.by_partition[partition] = Cursor.restored(position, end, self.limits, key, changed)
        return [
            Delete(cursor_key(self.digest, partition)) for partition in positions if partition not in ends
        ]

    def grow(self, firsts: Mapping[int, int]) -> None:
        """The log has these partitions: new ones are read from their beginning, which is at these offsets."""
        for partition, first in firsts.items():
            if partition not in self.by_partition:
                self.begin(partition, first)

    def keep(self, partitions: Collection[int]) -> list[WaitOver | Delete]:
        """The log has these partitions and no others: cursors on others are forgotten."""
        return self._forget([partition for partition in self.by_partition if partition not in partitions])

    def limit(self, limits: CursorLimits) -> None:
        """What cursors may cost, and what becomes of messages that nobody takes, is this from now on."""
        self.limits = limits
        for cursor in self.by_partition.values():
            cursor.limits = limits

    def take(
        self, consumer: C, count_max: int, ends: Mapping[int, int], partitions: Sequence[int]
    ) -> list[PartitionRun]:
        """Hand out up to so many messages of these partitions, the first ones first."""
        found = []
        for partition in partitions:
            if count_max <= 0:
                break
            for run in self.by_partition[partition].take(consumer, count_max, ends[partition]):
                found.append(PartitionRun(partition, run))
                count_max -= run.end - run.first
        return found

    def vanish(self, consumer: C) -> int:
        """A consumer is gone; gives how many messages are due again by it."""
        return sum(cursor.vanish(consumer) for cursor in self.by_partition.values())

    def with_dead_letters(self) -> list[tuple[int, Cursor[C]]]:
        """The cursors that have something for the dead-letter log, with their partitions."""
        return [(number, cursor) for number, cursor in self.by_partition.items() if cursor.has_dead_letters]

    def available(self, ends: Mapping[int, int]) -> int:
        """Messages of these partitions that could be handed out."""
        cursors = self.by_partition
        return sum(cursors[number].available(end) for number, end in ends.items() if number in cursors)

    def lag(self, ends: Mapping[int, int]) -> int:
        """Messages that are not settled."""
        return sum(cursor.lag(ends.get(number, 0)) for number, cursor in self.by_partition.items())

    def held_counts(self) -> Counter[C]:
        """Messages that each consumer holds."""
        found: Counter[C] = Counter()
        for cursor in self.by_partition.values():
            for consumer, count in cursor.held_counts():
                found[consumer] += count
        return found

    @property
    def lost_count(self) -> int:
        """Messages that retention took before they were settled."""
        return sum(cursor.lost_count for cursor in self.by_partition.values())

    def puts(self, *partitions: int) -> list[Put]:
        """The records of cursors as they stand, to be put before that of their owner; of all, or of those named."""
        if self._flushes is None:
            return []
        cursors = [self.by_partition[partition] for partition in partitions or self.by_partition]
        return [Put(cursor.key, encode_position(cursor.position())) for cursor in cursors]

    def end(self) -> list[WaitOver | Delete]:
        """Forget all cursors; gives what removes their records, to be carried out behind that of their owner."""
        return self._forget(list(self.by_partition))

    def _forget(self, partitions: list[int]) -> list[WaitOver | Delete]:
        cursors = [self.by_partition.pop(partition) for partition in partitions]
        if self._flushes is None:
            return []
        waited = tuple(what for cursor in cursors for what in self._flushes.forget(cursor))
        return [*(Delete(cursor.key) for cursor in cursors), *([WaitOver(waited)] if waited else [])]

    def _place(self, partition: int) -> tuple[bytes, set[Cursor[C]] | None]:
        if self._flushes is None:
            return b"", None
        return cursor_key(self.digest, partition), self._flushes.changed

"""One topic subscription: its consumers, and how its messages are divided between them.

The shell calls `deal` when there are messages, or credit, or when it is told to; what a consumer got it sends, and
`settle`s what comes back. One that is not shared is a subscription with one consumer.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from headwater.engine.cursor import CursorLimits
from headwater.engine.cursor_flushes import CursorFlushes
from headwater.engine.cursor_set import CursorSet, PartitionRun
from headwater.engine.delivery import Outcome
from headwater.engine.link_id import LinkId
from headwater.engine.subscription_record import Definition

__all__ = ["DEAL_COUNT_MAX", "Deal", "TopicSubscription"]

DEAL_COUNT_MAX = 1_024
"""Messages that a consumer gets of one deal at most, so that nobody waits long for its turn."""

C = TypeVar("C", bound=Hashable)


class Deal(msgspec.Struct, Generic[C], frozen=True):
    """Messages for a consumer."""

    consumer: C
    runs: list[PartitionRun]


class TopicSubscription(Generic[C]):
    """Where a subscription stands, and who consumes from it."""

    __slots__ = ("_partition_turn", "consumers", "cursors", "definition")

    def __init__(self, definition: Definition, limits: CursorLimits, flushes: CursorFlushes[C, Any]) -> None:
        self.definition = definition
        self.cursors: CursorSet[C] = CursorSet(
            definition.id.digest, limits, flushes if definition.is_durable else None
        )
        self.consumers: dict[C, LinkId] = {}
        """Whose turn it is first."""
        self._partition_turn = 0

    def deal(self, credit: Mapping[C, int], ends: Mapping[int, int]) -> list[Deal[C]]:
        """Divide what there is between the consumers that have credit, evenly and in turn.

        A consumer gets no more than its credit. What a filter keeps from it costs none, so whoever leaves messages out
        deals again. A partition that `ends` leaves out has no turn.
        """
        waiting = [consumer for consumer in self.consumers if credit.get(consumer, 0) > 0]
        left = self.cursors.available(ends)
        deals = []
        for served, consumer in enumerate(waiting):
            if left <= 0:
                break
            share = -(-left // (len(waiting) - served))
            runs = self.cursors.take(
                consumer, min(share, credit[consumer], DEAL_COUNT_MAX), ends, self._partitions_in_turn(ends)
            )
            if runs:
                left -= sum(each.run.end - each.run.first for each in runs)
                deals.append(Deal(consumer, runs))
                self.consumers[consumer] = self.consumers.pop(consumer)
        return deals

    def settle(
        self,
        consumer: C,
        partition: int,
        first: int,
        end: int,
        outcome: Outcome,
        *,
        is_undeliverable_here: bool = False,
    ) -> int:
        """What became of messages; durable with the sequence of the partition's cursor that it gives.

        Of a partition that is gone nothing is settled: 0.
        """
        cursor = self.cursors.by_partition.get(partition)
        if cursor is None:
            return 0
        return cursor.settle(consumer, first, end, outcome, is_undeliverable_here=is_undeliverable_here)

    def join(self, consumer: C, link: LinkId) -> None:
        """A consumer attached."""
        assert consumer not in self.consumers, "a consumer attaches once"
        self.consumers[consumer] = link

    def leave(self, consumer: C) -> bool:
        """A consumer is gone; says whether others have something to do by it."""
        del self.consumers[consumer]
        if not self.consumers:
            self.consumers.clear()  # which gives its memory back: most subscriptions are idle
        return self.cursors.vanish(consumer) > 0 and bool(self.consumers)

    def _partitions_in_turn(self, ends: Mapping[int, int]) -> list[int]:
        partitions = [each for each in self.cursors.by_partition if each in ends]
        if len(partitions) > 1:
            self._partition_turn = (self._partition_turn + 1) % len(partitions)
            partitions = partitions[self._partition_turn :] + partitions[: self._partition_turn]
        return partitions

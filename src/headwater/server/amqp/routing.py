"""Event Stream Extensions, sections 4.2 and 4.6.6 to 4.6.7: which partition of a log each message of a run goes to.

In this order: the one that the link is bound to, the one that a delivery annotation names, that of the key in a message
annotation, the one that the link is at.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from headwater.amqp.definitions import Condition, ErrorValue
from headwater.amqp.event_streams import GROUP_KEY, TARGET_PARTITION
from headwater.amqp.events import Deliveries
from headwater.encoding._hash_kernel import hash_spans
from headwater.encoding._key_kernel import NONE, UNREADABLE, find_annotations, sort_spans
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.amqp_message import SectionCode
from headwater.server.amqp.nodes import LogNode, no_partition

__all__ = ["Routing", "Share", "SortedRun"]

_REFUSED = -1
_NAME_BYTES_TOLD = 100
_GROUP_KEY = GROUP_KEY.encode()
_TARGET_PARTITION = TARGET_PARTITION.encode()


class Share(NamedTuple):
    """What of a sorted run goes to one partition."""

    partition: int
    first: int
    end: int


class SortedRun(msgspec.Struct, frozen=True):
    """A run of messages in the order of their partitions."""

    count: int
    """Of all messages, those that are refused included."""
    spans: array[int]
    numbers: array[int]
    """Which message of the run each one is, in the order of `spans`."""
    shares: Sequence[Share]
    refused: Sequence[tuple[array[int], ErrorValue]]


class Routing:
    """What the hints of messages mean for a node."""

    def __init__(self, node: LogNode) -> None:
        self._node = node
        self._count = len(node.ids)

    @cached_property
    def _numbers(self) -> dict[bytes, int]:
        return {id_.encode("ascii"): number for number, id_ in enumerate(self._node.ids)}

    def may_choose(self, event: Deliveries) -> bool:
        """Whether it has to be looked whether messages of a run say where they go."""
        return self._count > 1 or event.annotated_count > 0

    def route(self, event: Deliveries, index: int, count: int, otherwise: int) -> SortedRun | int | None:
        """Where so many messages from a number on go: to one partition, or to several, or refused.

        None if none of them says anything. In a run in which some do, the others go to the partition `otherwise`.
        """
        numbers = array("q", [otherwise]) * count
        is_keyed = self._count > 1 and self._follow_keys(event, index, numbers)
        targets = self._targets(event, index, count) if event.annotated_count else []
        if not is_keyed and not targets:
            return None
        refused = self._follow_targets(targets, numbers)
        chosen = set(numbers)
        if len(chosen) == 1 and not refused:
            return chosen.pop()
        return self._sorted(event, index, numbers, refused)

    def _follow_keys(self, event: Deliveries, index: int, numbers: array[int]) -> bool:
        """Write the partitions of those messages that have a key; gives whether one has."""
        count = len(numbers)
        found = array("q", bytes(16 * count))
        section = SectionCode.MESSAGE_ANNOTATIONS
        keyed, _ = find_annotations(event.buffer, event.spans, index, count, section, _GROUP_KEY, found)
        if keyed:
            hash_spans(event.buffer, found, count, self._count, numbers)
        return keyed > 0

    def _targets(self, event: Deliveries, index: int, count: int) -> list[tuple[int, bytes | None]]:
        """The messages that name a partition, and what they name; None if that cannot be read."""
        found = array("q", bytes(16 * count))
        section = SectionCode.DELIVERY_ANNOTATIONS
        find_annotations(event.buffer, event.spans, index, count, section, _TARGET_PARTITION, found)
        return [
            (number, None if start == UNREADABLE else bytes(event.buffer[start:end]))
            for number, (start, end) in enumerate(zip(found[::2], found[1::2], strict=True))
            if start != NONE
        ]

    def _follow_targets(
        self, targets: Sequence[tuple[int, bytes | None]], numbers: array[int]
    ) -> list[tuple[array[int], ErrorValue]]:
        """Write the partitions of the messages that name one; gives those that name one to which they cannot go."""
        refused: dict[bytes | None, array[int]] = {}
        for number, target in targets:
            partition = _REFUSED if target is None else self._numbers.get(target, _REFUSED)
            numbers[number] = partition
            if partition == _REFUSED:
                refused.setdefault(target, array("q")).append(number)
        return [(those, self._refusal(target)) for target, those in refused.items()]

    def _refusal(self, target: bytes | None) -> ErrorValue:
        if target is None:
            return ErrorValue(
                Condition.INVALID_FIELD, f"{TARGET_PARTITION} is a symbol in a map of delivery annotations"
            )
        name = target[:_NAME_BYTES_TOLD].decode("utf-8", "replace")
        if self._node.is_bound:
            return ErrorValue(
                Condition.NOT_ALLOWED,
                f"the message is for partition {name!r}, its link is bound to {self._node.ids[0]!r}",
            )
        return no_partition(name, self._node.ids, self._node.name).value

    def _sorted(
        self,
        event: Deliveries,
        index: int,
        partitions: array[int],
        refused: Sequence[tuple[array[int], ErrorValue]],
    ) -> SortedRun:
        count = len(partitions)
        counts = array("q", bytes(8 * self._count))
        spans, numbers = array("q", bytes(8 * SPAN_FIELDS * count)), array("q", bytes(8 * count))
        total = sort_spans(event.spans, index, count, partitions, counts, spans, numbers)
        shares, first = [], 0
        for partition in sorted(set(partitions) - {_REFUSED}):
            shares.append(Share(partition, first, first + counts[partition]))
            first += counts[partition]
        assert first == total, "every message has one place"
        return SortedRun(count, spans, numbers, shares, refused)

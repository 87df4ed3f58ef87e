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
from headwater.encoding._key_kernel import NONE, UNUSUAL, find_annotations, sort_spans
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.amqp_message import SectionCode
from headwater.encoding.annotations import annotation_of
from headwater.encoding.murmur3 import partition_of
from headwater.errors import MalformedValue
from headwater.server.amqp.nodes import LogNode, Refused, check_partition

__all__ = ["Routing", "Share", "SortedRun"]

_REFUSED = -1
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
        keyed, unusual = find_annotations(event.buffer, event.spans, index, count, section, _GROUP_KEY, found)
        if keyed:
            hash_spans(event.buffer, found, count, self._count, numbers)
        if unusual:
            for number in _unusual(found):
                at = SPAN_FIELDS * (index + number) + 2
                start, end = event.spans[at : at + 2]
                try:
                    key = annotation_of(event.buffer, start, end, section, _GROUP_KEY)
                except MalformedValue:
                    continue
                if key is not None:
                    keyed += 1
                    numbers[number] = partition_of(key, self._count)
        return keyed > 0

    def _targets(self, event: Deliveries, index: int, count: int) -> list[tuple[int, bytes | MalformedValue]]:
        """The messages that name a partition, and what they name."""
        found = array("q", bytes(16 * count))
        section = SectionCode.DELIVERY_ANNOTATIONS
        find_annotations(event.buffer, event.spans, index, count, section, _TARGET_PARTITION, found)
        targets: list[tuple[int, bytes | MalformedValue]] = []
        for number in range(count):
            start, end = found[2 * number], found[2 * number + 1]
            if start == NONE:
                continue
            if start != UNUSUAL:
                targets.append((number, bytes(event.buffer[start:end])))
                continue
            at = SPAN_FIELDS * (index + number) + 1
            start, end = event.spans[at : at + 2]
            try:
                target = annotation_of(event.buffer, start, end, section, _TARGET_PARTITION)
            except MalformedValue as error:
                targets.append((number, error))
            else:
                if target is not None:
                    targets.append((number, target))
        return targets

    def _follow_targets(
        self, targets: Sequence[tuple[int, bytes | MalformedValue]], numbers: array[int]
    ) -> list[tuple[array[int], ErrorValue]]:
        """Write the partitions of the messages that name one; gives those that name one to which they cannot go."""
        refused: dict[bytes | MalformedValue, array[int]] = {}
        for number, target in targets:
            partition = self._numbers.get(target, _REFUSED) if isinstance(target, bytes) else _REFUSED
            numbers[number] = partition
            if partition == _REFUSED:
                refused.setdefault(target, array("q")).append(number)
        return [(those, self._refusal(target)) for target, those in refused.items()]

    def _refusal(self, target: bytes | MalformedValue) -> ErrorValue:
        if isinstance(target, MalformedValue):
            return ErrorValue(Condition.INVALID_FIELD, f"the delivery annotations: {target}")
        name = target[:100].decode("utf-8", "replace")
        if self._node.is_bound:
            return ErrorValue(
                Condition.NOT_ALLOWED,
                f"the message is for partition {name!r}, its link is bound to {self._node.ids[0]!r}",
            )
        try:
            check_partition(name, self._node.ids, self._node.name)
        except Refused as refused:
            return refused.value
        raise AssertionError("a partition that is there is not refused")

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


def _unusual(found: array[int]) -> list[int]:
    return [number for number, start in enumerate(found[::2]) if start == UNUSUAL]

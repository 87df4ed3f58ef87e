"""Event Stream Extensions, section 4: links that asked for no partition, and are bound to one that the node chooses."""

from __future__ import annotations

from collections import Counter

from headwater.amqp.definitions import Role
from headwater.amqp.link import Link
from headwater.log.partition import Partition
from headwater.server.amqp.nodes import LogNode

__all__ = ["BoundLinks"]


class BoundLinks:
    """Which partition each link is bound to, whoever chose it; senders and receivers are spread by themselves."""

    def __init__(self) -> None:
        self._partitions: dict[Link, Partition] = {}
        self._counts: Counter[tuple[Role, Partition]] = Counter()

    def choose(self, link: Link, node: LogNode, old: Link | None) -> LogNode:
        """Bind a link to the partition with the fewest, if its log wants that of who asks for none.

        `old` is the link that it takes the place of: its partition is as good as any other.
        """
        wants = node.log.definition.settings.partition_binding == "assign"
        if not wants or node.is_bound or not node.partitions:
            return node
        place = None if old is None else self._partitions.get(old)
        counts = [self._counts[link.role, each] - (each is place) for each in node.partitions]
        least = min(counts)
        fewest = [number for number, count in enumerate(counts) if count == least]
        kept = [number for number in fewest if node.partitions[number] is place]
        return node.bound(node.ids[(kept or fewest)[0]])

    def add(self, link: Link, node: LogNode) -> None:
        """A link is attached."""
        if node.is_bound:
            partition = self._partitions[link] = node.partitions[0]
            self._counts[link.role, partition] += 1

    def discard(self, link: Link) -> None:
        """A link is gone."""
        partition = self._partitions.pop(link, None)
        if partition is None:
            return
        key = link.role, partition
        self._counts[key] -= 1
        if not self._counts[key]:
            del self._counts[key]

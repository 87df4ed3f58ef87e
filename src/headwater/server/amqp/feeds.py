"""The partitions of a log as they are read by runs of offsets that a cursor hands out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from headwater.log.partition import Partition
from headwater.server.amqp.feed import Feed
from headwater.server.amqp.nodes import LogNode, whole
from headwater.server.amqp.offsets import Start
from headwater.server.record_source import Selection

__all__ = ["Feeds"]


class Feeds:
    """Two feeds for a partition, made when they are needed: one goes ahead, the other reads again what came back."""

    def __init__(
        self,
        node: LogNode,
        start: Start,
        when_read: Callable[[], None],
        lows: Mapping[int, int] | None = None,
    ) -> None:
        """Where `lows` tells how far consumers had come, `@latest` was fixed before that."""
        self.when_read = when_read
        self.partitions = node.numbered
        self.selects = False
        """Whether there are messages that are not wanted, which only a look at them tells."""
        self._node = node
        self._start = start
        self._lows = dict(lows or {})
        self._ids: dict[int, str] = {}
        self._selections: dict[int, Selection | None] = {}
        self._ahead: dict[int, Feed] = {}
        self._again: dict[int, Feed] = {}
        self._ends: dict[int, int] = {}
        """Where nothing that is still to come can be wanted."""
        self._take_in()

    def follow(self) -> tuple[list[Partition], list[Partition]]:
        """Keep up with a log to which partitions were added, or from which some were taken; gives both."""
        if self._node.is_bound:
            return [], []
        before = self.partitions
        self._node = whole(self._node.log)
        self.partitions = self._node.numbered
        gone = [number for number in before if number not in self.partitions]
        for number in gone:
            for feeds in (self._ahead, self._again):
                if number in feeds:
                    feeds.pop(number).close()
        for number, partition in self.partitions.items():
            # Of a new one everything came later than `@latest`.
            self._lows.setdefault(number, partition.first_offset)
        self._take_in()
        added = [each for number, each in self.partitions.items() if number not in before]
        return added, [before[number] for number in gone]

    def _take_in(self) -> None:
        self._ids = dict(zip(self.partitions, self._node.ids, strict=True))
        for feeds in (self._ahead, self._again):
            for number, feed in feeds.items():
                feed.rename(self._ids[number])
        for number, partition in self.partitions.items():
            if number not in self._selections:
                self._selections[number] = self._start.selection(partition, self._lows.get(number))
        self.selects = any(
            each is not None and not each.bounds.is_exact for each in self._selections.values()
        )

    def id_of(self, number: int) -> str:
        """What clients call a partition."""
        return self._ids[number]

    def start_of(self, number: int) -> int:
        """The offset at which a new consumer begins a partition."""
        return self._start.offset(self.partitions[number], self._selections[number])

    def ends(self, numbers: Iterable[int] | None = None) -> dict[int, int]:
        """Where partitions end, of all or of some; those of which the disk is asked are left out."""
        found = {}
        for number in self.partitions if numbers is None else numbers:
            if not self.is_waiting(number):
                found[number] = self._end(number, self._selections[number])
        return found

    @property
    def are_waiting(self) -> bool:
        """Whether the disk is asked for anything."""
        return any(self.is_waiting(number) for number in self.partitions)

    def is_waiting(self, number: int) -> bool:
        """Whether the disk is asked for something of a partition, which cannot be read until it answers."""
        ahead, again = self._ahead.get(number), self._again.get(number)
        return (ahead is not None and ahead.is_waiting) or (again is not None and again.is_waiting)

    def at(self, number: int, offset: int) -> Feed:
        """The feed of a partition, which goes on from this offset."""
        feed = self._ahead.get(number)
        if feed is None:
            feed = self._ahead[number] = self._made(number, offset)
        elif offset < feed.since:
            feed = self._again.get(number)
            if feed is None:
                feed = self._again[number] = self._made(number, offset)
        feed.seek(offset)
        return feed

    def note_end(self, number: int, feed: Feed) -> None:
        """A feed may have found that nothing more can be wanted of its partition."""
        if feed.has_ended and feed is self._ahead.get(number):
            self._ends[number] = feed.position

    def close(self) -> None:
        """Let go of what was read."""
        for feed in (*self._ahead.values(), *self._again.values()):
            feed.close()
        self._ahead.clear()
        self._again.clear()

    def _end(self, number: int, selection: Selection | None) -> int:
        end = self.partitions[number].committed_offset
        if selection is not None:
            end = min(end, selection.bounds.offset_end, self._ends.get(number, end))
        return end

    def _made(self, number: int, offset: int) -> Feed:
        return Feed(self.partitions[number], offset, self._ids[number], self._selections[number])

"""Links on which clients receive from a log: as many messages as credit, window and socket allow, in few writes."""

from __future__ import annotations

import time
from collections.abc import Sequence

from headwater.amqp.definitions import Condition, ErrorValue
from headwater.amqp.messaging import Accepted, DeliveryState
from headwater.amqp.sender_link import SenderLink
from headwater.encoding.ranges import IdRange
from headwater.errors import PartitionDeleted, StorageError
from headwater.log.partition import Partition
from headwater.server.amqp.feed import Feed
from headwater.server.amqp.intake import error_of
from headwater.server.amqp.limits import SENDING_S_MAX
from headwater.server.amqp.link_owner import LinkHandler, LinkOwner
from headwater.server.amqp.nodes import LogNode, Refused, whole
from headwater.server.amqp.offsets import Start

__all__ = ["Consuming"]

BYTES_PER_TURN = 1 << 20
BYTES_PER_WRITE = 128 * 1024


class Consuming(LinkHandler):
    """A link with a log as its source.

    One that is bound to no partition follows its log: of a partition that is added it gets all that is asked for, from
    its first event on, and its next delivery says that its partitions are others.
    """

    def __init__(self, link: SenderLink, owner: LinkOwner, node: LogNode, start: Start) -> None:
        """Raises `StorageError` if it cannot be found where to begin."""
        self.link: SenderLink = link
        self.name = node.name
        self.feeds = [
            _feed(partition, id_, start) for id_, partition in zip(node.ids, node.partitions, strict=True)
        ]
        self.log = node.log
        self._start = start
        self._changed: tuple[str, ...] | None = None
        """The partitions, if they are others than the client knows of."""
        self._owner = owner
        self._next = 0
        self._is_closed = False
        self._is_called = False
        for feed in self.feeds:
            feed.partition.on_deleted.add(self._deleted)
        if not node.is_bound:
            node.log.on_partitions_changed.add(self._partitions_changed)
            node.log.on_deleted.add(self._deleted)

    def start(self) -> None:
        self._call_soon()

    def flow(self) -> None:
        self._call_soon()

    def settled(self, ranges: Sequence[IdRange], state: DeliveryState | None, *, is_settled: bool) -> None:
        # A log keeps no account of who has read what: whatever the outcome, it is the end of the delivery.
        if not is_settled:
            for ids in ranges:
                self.link.settle(ids, state or Accepted())
            self._owner.answered()

    def close(self) -> None:
        self._is_closed = True
        self.log.on_partitions_changed.discard(self._partitions_changed)
        self.log.on_deleted.discard(self._deleted)
        for feed in self.feeds:
            self._leave(feed)

    def pump(self) -> None:
        """Send what there is, as far as credit, window, socket and this turn of the loop allow."""
        self._is_called = False
        if self._is_closed:
            return
        if not self._owner.may_read(self.name):
            error = ErrorValue(Condition.UNAUTHORIZED_ACCESS, f"reading {self.name!r} is no longer allowed")
            self._owner.break_link(self.link, error)
            return
        self.link.send_rest()
        left = BYTES_PER_TURN
        turn_end = time.monotonic() + SENDING_S_MAX
        while self.link.may_send and self._owner.can_deliver():
            if left <= 0:
                self._call_soon()
                break
            if not self._send_some():
                if any(feed.has_passed_over for feed in self.feeds):
                    self._call_soon()
                else:
                    self._wait_for_more()
                break
            left -= self._owner.flush()
            if time.monotonic() > turn_end:
                left = 0
        if not self.link.credit:
            self._drained()

    def _send_some(self) -> bool:
        """Send from the next partition that has messages; False if none has."""
        for _ in self.feeds:
            feed = self.feeds[self._next]
            if not feed.is_waiting:
                try:
                    sent = feed.send(self.link, BYTES_PER_WRITE, self._call_soon, announced=self._changed)
                except StorageError as error:
                    self._failed(feed.partition, error)
                    return False
                except Refused as refused:
                    self._owner.break_link(self.link, refused.value)
                    return False
                if sent:
                    self._changed = None
                    return True
            self._next = (self._next + 1) % len(self.feeds)
            if feed.has_passed_over:
                return False
        return False

    def _wait_for_more(self) -> None:
        if self._is_closed:
            return
        for feed in self.feeds:
            if not feed.is_waiting:
                feed.partition.on_committed.add(self._committed)
        if not any(feed.is_waiting for feed in self.feeds):
            self._drained()

    def _drained(self) -> None:
        if self.link.is_draining:
            self.link.drained()
            self._owner.answered()

    def _committed(self) -> None:
        self._owner.guarded(self.pump)

    def _call_soon(self) -> None:
        if not self._is_called and not self._is_closed:
            self._is_called = True
            self._owner.call_soon(self.pump)

    def _partitions_changed(self) -> None:
        self._owner.guarded(self._follow)

    def _follow(self) -> None:
        """Read the partitions that the log has now."""
        node, known = whole(self.log), {feed.partition: feed for feed in self.feeds}
        added = [partition for partition in node.partitions if partition not in known]
        gone = [feed for partition, feed in known.items() if partition not in node.partitions]
        if not (added or gone):
            return
        for id_, partition in zip(node.ids, node.partitions, strict=True):
            if partition in known:
                known[partition].rename(id_)
                continue
            try:
                feed = known[partition] = _added_feed(partition, id_, self._start)
            except StorageError as error:
                self._failed(partition, error)
                return
            self.feeds.append(feed)
            partition.on_deleted.add(self._deleted)
        for feed in gone:
            self._leave(feed)
        self.feeds, self._next = [known[partition] for partition in node.partitions], 0
        self._changed = node.ids
        self._call_soon()

    def _leave(self, feed: Feed) -> None:
        feed.close()
        feed.partition.on_committed.discard(self._committed)
        feed.partition.on_deleted.discard(self._deleted)

    def _failed(self, partition: Partition, error: StorageError) -> None:
        if not isinstance(error, PartitionDeleted):
            self._owner.note_failure(partition, error)
        self._owner.break_link(self.link, error_of(error))

    def _deleted(self) -> None:
        self._owner.break_link(
            self.link, ErrorValue(Condition.RESOURCE_DELETED, f"{self.name!r} was deleted")
        )


def _feed(partition: Partition, partition_id: str, start: Start) -> Feed:
    selection = start.selection(partition)
    return Feed(partition, start.offset(partition, selection), partition_id, selection)


def _added_feed(partition: Partition, partition_id: str, start: Start) -> Feed:
    """Of a partition that came later than the link, to which it was empty as it was attached."""
    selection = start.selection(partition, partition.first_offset)
    offset = start.offset(partition, selection, is_later_than_link=True)
    return Feed(partition, offset, partition_id, selection)

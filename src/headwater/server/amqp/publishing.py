"""Links on which clients send to a log: runs of transfers go to a partition, and are settled when they are on disk."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable

from headwater.amqp.definitions import Condition, ErrorValue
from headwater.amqp.events import Deliveries
from headwater.amqp.receiver_link import ReceiverLink
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.server.amqp.credit import CreditGiver
from headwater.server.amqp.intake import Intake
from headwater.server.amqp.link_owner import LinkHandler, LinkOwner
from headwater.server.amqp.nodes import LogNode
from headwater.server.amqp.routing import Routing, SortedRun

__all__ = ["Publishing"]

RUN_BYTES_MAX = 64 * 1024
"""Without a key messages stay on one partition until a run ends or has this size: larger chunks, even spread."""


class Publishing(LinkHandler):
    """A link with a log as its target."""

    def __init__(self, link: ReceiverLink, owner: LinkOwner, node: LogNode) -> None:
        self.link: ReceiverLink = link
        self.name = node.name
        self.partitions = partitions = node.partitions
        self._log = node.log
        self.intake = Intake(link, owner)
        self._owner = owner
        self._credit = CreditGiver(link, owner, lambda: all(each.has_room for each in partitions))
        self._routing = Routing(node)
        self._chosen = 0
        self._run_bytes = 0
        for each in partitions:
            each.on_deleted.add(self._deleted)
        if not node.is_bound:
            node.log.on_deleted.add(self._deleted)

    def start(self) -> None:
        self._credit.give()

    def deliveries(self, event: Deliveries, index: int) -> int:
        if not self._owner.may_write(self.name):
            error = ErrorValue(
                Condition.UNAUTHORIZED_ACCESS, f"writing to {self.name!r} is no longer allowed"
            )
            self._owner.break_link(self.link, error)
            return event.count
        if self.intake.refuses_format(event, index):
            return event.count
        route = None
        if self._routing.may_choose(event):
            route = self._routing.route(event, index, event.count - index, self._chosen)
        index = self._spread(event, index) if route is None else self._take_to(event, index, route)
        if index < event.count:
            return index
        self._end_run()
        self._credit.give()
        return index

    def flow(self) -> None:
        self._credit.give()

    def when_settled(self, call: Callable[[], None]) -> bool:
        return self.intake.when_settled(call)

    def close(self) -> None:
        self._credit.stop()
        for each in self.partitions:
            each.on_deleted.discard(self._deleted)
        self._log.on_deleted.discard(self._deleted)

    def _spread(self, event: Deliveries, index: int) -> int:
        """Take messages that do not say where they go."""
        while index < event.count:
            partition = self.partitions[self._chosen]
            if not partition.has_room:
                return index
            following = self.intake.append(event, index, self._run_end(event, index), partition)
            if following == index:
                return index
            self._note_run(event.spans, index, following)
            index = following
        return index

    def _take_to(self, event: Deliveries, index: int, route: SortedRun | int) -> int:
        """Take messages to where they go: to several partitions all of them, or none until all of these have room."""
        if isinstance(route, int):
            partition = self.partitions[route]
            while index < event.count:
                following = self.intake.append(event, index, event.count, partition)
                if following == index:
                    break
                index = following
            return index
        if not all(self.partitions[share.partition].has_room for share in route.shares):
            return index
        self.intake.append_sorted(event, index, route, self.partitions)
        return event.count

    def _run_end(self, event: Deliveries, index: int) -> int:
        """The number behind the last message from this one on that goes to the same partition."""
        if len(self.partitions) == 1:
            return event.count
        spans = event.spans
        full = spans[SPAN_FIELDS * index + 2] + RUN_BYTES_MAX - self._run_bytes
        numbers = range(index, event.count - 1)
        return index + bisect_left(numbers, full, key=lambda number: spans[SPAN_FIELDS * number + 3]) + 1

    def _note_run(self, spans: array[int], index: int, following: int) -> None:
        if len(self.partitions) > 1:
            last = SPAN_FIELDS * (following - 1)
            self._run_bytes += spans[last + 3] - spans[SPAN_FIELDS * index + 2]
            if self._run_bytes >= RUN_BYTES_MAX:
                self._end_run()

    def _end_run(self) -> None:
        self._run_bytes = 0
        self._chosen = (self._chosen + 1) % len(self.partitions)

    def _deleted(self) -> None:
        self._owner.break_link(
            self.link, ErrorValue(Condition.RESOURCE_DELETED, f"{self.name!r} was deleted")
        )

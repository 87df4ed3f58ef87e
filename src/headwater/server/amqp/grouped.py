"""Event Stream Extensions, section 4.5: links that consume in a group.

start ──> Groups.attach ──┬─> attached: to one partition, or agnostic and assigned some; the attach is answered
                          ├─> pending: nothing is said for now
                          └─> refused
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from headwater.amqp.definitions import Condition, ErrorValue
from headwater.amqp.event_streams import EPOCH
from headwater.amqp.sender_link import SenderLink
from headwater.encoding.amqp_types import Symbol
from headwater.engine.cursor import Cursor
from headwater.engine.delivery import Outcome
from headwater.engine.group import Group
from headwater.engine.group_effects import Attached, GroupAttach, GroupRefusal, GroupRefused
from headwater.engine.group_record import GroupDefinition
from headwater.engine.subscriptions import Departure
from headwater.errors import StorageError
from headwater.log.partition import Partition
from headwater.server.amqp.accounted_link import AccountedLink
from headwater.server.amqp.feeds import Feeds
from headwater.server.amqp.limits import SENDING_S_MAX
from headwater.server.amqp.link_owner import LinkOwner
from headwater.server.amqp.nodes import LogNode
from headwater.server.amqp.offsets import Start
from headwater.server.consumers.consumer import Member
from headwater.server.consumers.consumers import Consumers
from headwater.server.management.policies import cursor_limits, group_policy

__all__ = ["Grouped"]

MESSAGES_PER_TURN = 8_192
TAKEN_MAX = 4_096


class Grouped(AccountedLink):
    """A member of a consumer group."""

    def __init__(
        self,
        link: SenderLink,
        owner: LinkOwner,
        consumers: Consumers,
        node: LogNode,
        start: Start,
        definition: GroupDefinition,
        asked: GroupAttach,
        accept: Callable[[str | None, int], None],
    ) -> None:
        """`accept` answers the attach, with the id of a partition and the epoch."""
        super().__init__(link, owner, consumers, node.name)
        self._node = node
        self._definition = definition
        self._asked = asked
        self._accept = accept
        self._feeds = Feeds(node, start, self._call_soon)
        self._group: Group[Member] | None = None
        self._granted: Attached[Member] | None = None
        self._is_called = False
        self._starting: set[int] = set()
        """Partitions whose first position is on its way to the disk: what is sent before could be lost with it."""
        self._watched: set[Partition] = set()

    # LinkHandler

    def start(self) -> None:
        policies = self._node.log.definition.settings
        self._consumers.join(
            self,
            self._definition,
            self._asked,
            group_policy(policies),
            self._node.log.numbers,
            cursor_limits(policies),
        )

    def flow(self) -> None:
        self._call_soon()

    def pump(self) -> None:
        """Send what there is, as far as credit, window, socket and this turn of the loop allow."""
        self._is_called = False
        group = self._group
        if self._is_closed or group is None or not self._may_read():
            return
        self.link.send_rest()
        left = MESSAGES_PER_TURN
        turn_end = time.monotonic() + SENDING_S_MAX
        while room := self.room(self._feeds):
            if left <= 0:
                self._call_soon()
                break
            owned = [each for each in group.partitions_of(self) if each not in self._starting]
            done_count = self.send(
                self._feeds, group.take(self, min(room, TAKEN_MAX), self._feeds.ends(owned))
            )
            if not done_count:
                break
            left = 0 if time.monotonic() > turn_end else left - done_count
        if not (self._starting or self._feeds.are_waiting or left <= 0):
            self.drained()

    def depart(self, how: Departure) -> None:
        self._consumers.leave(self, is_closed=how is Departure.CLOSE)
        self._bury()

    def close(self) -> None:
        super().close()
        self._watch(set())
        self._feeds.close()

    # Member

    def attached(self, attached: Attached[Member]) -> None:
        """It is in the group: answer, and begin."""
        self._group = self._consumers.groups.of(self)
        self._granted = attached
        if self._is_closed or self._group is None:
            return  # what put it out of the group comes next
        answer = partial(self._owner.guarded, partial(self._answer_attach, attached))
        if attached.partition is None:
            answer()
        else:
            self._place(attached.partition, answer, starts=attached.needs_start)

    def group_refused(self, refused: GroupRefused[Member]) -> None:
        """It is not in the group."""
        words = f"{refused.why.value}: {self._definition.id.name!r:.100} on {self._definition.id.log!r:.100}"
        info: dict[Symbol, Any] | None = None
        if refused.epoch is not None:
            words += f"; the current epoch is {refused.epoch}"
            info = {EPOCH: refused.epoch}
        self._owner.break_link(self.link, ErrorValue(_CONDITIONS[refused.why], words, info))

    def rebalanced(self) -> None:
        """Others are to have the partition: the client attaches anew, and gets one that is free."""
        if self._granted is not None and not self.link.is_attached:
            self._owner.guarded(partial(self._accept_as, self._granted))
        self._owner.end_link(self.link)

    def assigned(self) -> None:
        """It has other partitions from now on."""
        if self._is_closed or self._group is None:
            return
        self._feeds.follow()
        partitions = self._group.partitions_of(self)
        for number in partitions:
            self._place(number, self._call_soon, starts=number not in self._group.cursors.by_partition)
        self._watch({self._feeds.partitions[number] for number in partitions})
        self.announce(partitions, self._feeds)
        self._call_soon()

    def revoked(self, partition: int) -> None:
        """What it holds of a partition is no longer its."""
        self._offsets.forget(partition)
        self._bury()

    def ended(self) -> None:
        """The group is no more."""
        words = f"consumer group {self._definition.id.name!r:.100} of {self.name!r:.100} was ended"
        self._owner.break_link(self.link, ErrorValue(Condition.RESOURCE_DELETED, words))

    # AccountedLink

    def _settle(
        self, partition: int, first: int, end: int, outcome: Outcome, *, is_undeliverable_here: bool = False
    ) -> tuple[Cursor[Any], int] | None:
        assert self._group is not None, "what was sent was taken from the group"
        cursor = self._group.cursors.by_partition.get(partition)
        if cursor is None:
            return None  # the partition is gone
        sequence, effects = self._group.settle(
            self, partition, first, end, outcome, is_undeliverable_here=is_undeliverable_here
        )
        if effects:
            self._consumers.group_changed(effects)
        return cursor, sequence

    def _bury(self) -> None:
        if self._group is not None:
            self._consumers.bury_of_group(self._group)

    def _more_is_due(self) -> None:
        self._call_soon()

    # Helpers

    def _answer_attach(self, attached: Attached[Member]) -> None:
        self._accept_as(attached)
        self._owner.answered()
        if (number := attached.partition) is not None:
            self._watch({self._feeds.partitions[number]})
        self._call_soon()

    def _accept_as(self, attached: Attached[Member]) -> None:
        number = attached.partition
        self._accept(None if number is None else self._feeds.id_of(number), attached.epoch)

    def _place(self, number: int, then: Callable[[], None], *, starts: bool) -> None:
        """See that the group has a position in a partition, on disk; one that it starts is where the filter says, or
        behind all that is there."""
        assert self._group is not None, "it is in the group"
        self._starting.add(number)

        def placed(error: StorageError | None = None) -> None:
            self._starting.discard(number)
            if self._is_closed:
                return
            if error is None:
                then()
            else:
                self.failed(error)

        if starts:
            try:
                offset = self._feeds.start_of(number)
            except StorageError as error:
                placed(error)
                return
            self._consumers.begin(self._group, number, offset, placed)
        elif not self._consumers.wait_until_placed(self._group.cursors.by_partition[number], placed):
            placed()

    def _watch(self, partitions: set[Partition]) -> None:
        """Be called when there is more in these, and no others."""
        for partition in self._watched - partitions:
            partition.on_committed.discard(self._call_soon)
        for partition in partitions - self._watched:
            partition.on_committed.add(self._call_soon)
        self._watched = partitions

    def _call_soon(self) -> None:
        if not self._is_called and not self._is_closed:
            self._is_called = True
            self._owner.call_soon(self.pump)


_CONDITIONS: dict[GroupRefusal, Symbol] = {
    GroupRefusal.NOT_CONFIGURED: Condition.NOT_FOUND,
    GroupRefusal.TOO_MANY: Condition.RESOURCE_LIMIT_EXCEEDED,
    GroupRefusal.NAME_TOO_LONG: Condition.INVALID_FIELD,
    GroupRefusal.UNKNOWN_PARTITION: Condition.NOT_FOUND,
    GroupRefusal.BAD_EPOCH: Condition.INVALID_FIELD,
    GroupRefusal.OWNED: Condition.RESOURCE_LOCKED,
    GroupRefusal.STALE_EPOCH: Condition.RESOURCE_LOCKED,
    GroupRefusal.NONE_FREE: Condition.LINK_DETACH_FORCED,
    GroupRefusal.WAITED_TOO_LONG: Condition.LINK_DETACH_FORCED,
}

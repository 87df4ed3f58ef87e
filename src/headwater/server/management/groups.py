"""Consumer groups: listed, made, reset and ended by operators, whichever door they come by."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.engine.group import Group
from headwater.engine.group_effects import GroupRefusal
from headwater.engine.group_record import GroupDefinition, GroupId
from headwater.errors import StorageError
from headwater.log.store import Store
from headwater.server.consumers.consumer import Member
from headwater.server.consumers.consumers import Consumers
from headwater.server.management.consumer_errors import GroupExists, GroupNotMade, UnknownGroup
from headwater.server.management.consumer_shapes import GroupSummary
from headwater.server.management.consumer_views import View, group_id
from headwater.server.management.pages import page_of
from headwater.server.management.policies import cursor_limits, group_policy
from headwater.server.management.reset_target import ResetTarget, offsets_of
from headwater.server.management.turns import in_turns
from headwater.server.management.viewer import Viewer

__all__ = ["ManagedGroups"]


class ManagedGroups:
    """The groups of all logs. Who may do what is asked by the doors, of `Viewer`."""

    def __init__(self, store: Store, consumers: Consumers) -> None:
        self._store = store
        self._consumers = consumers

    def seen_by(self, viewer: Viewer, vhost: str, log: str | None = None) -> Iterator[Group[Member]]:
        """Those of a vhost, or of a log, that a user learns of."""
        groups = self._consumers.groups
        for group in groups if log is None else groups.on_log(vhost, log):
            id_ = group.definition.id
            if id_.vhost == vhost and viewer.sees_consumers(vhost, id_.log):
                yield group

    def is_there(self, group: Group[Member]) -> bool:
        """Whether it has not ended meanwhile."""
        return self._consumers.groups.find(group.definition.id) is group

    async def page(
        self, viewer: Viewer, vhost: str, log: str | None, after: str, count_max: int
    ) -> tuple[list[GroupSummary], str | None]:
        """Those that a user learns of, by their ids from one on, and the id that the next page begins after."""
        page, following = await page_of(self.seen_by(viewer, vhost, log), group_id, after, count_max)
        view = self.view(viewer)
        turns = in_turns(page, lambda group: len(group.partitions))
        return [view.group_summary(group) async for group in turns if self.is_there(group)], following

    def find(self, vhost: str, log: str, name: str) -> Group[Member]:
        """The group of this name; raises `UnknownLog`, `UnknownGroup`."""
        self._store.log(log, vhost)
        group = self._consumers.groups.find(GroupId(vhost, log, name))
        if group is None:
            raise UnknownGroup(log, name)
        return group

    def view(self, viewer: Viewer) -> View:
        """What shows them to a user as they are at this moment."""
        return View(self._store, viewer)

    async def make(self, vhost: str, log: str, name: str, start: ResetTarget | None) -> Group[Member]:
        """Make a group, durably; where it has no position yet it begins at `start`, or with its first consumer.

        One that links made is an operator's from now on. Raises `UnknownLog`, `GroupExists`, `GroupNotMade`.
        """
        of_log = self._store.log(log, vhost)
        starts = {} if start is None else await offsets_of(of_log, start)
        id_ = GroupId(vhost, log, name)
        before = self._consumers.groups.find(id_)
        if before is not None and before.definition.is_configured:
            raise GroupExists(log, name)
        settings = of_log.definition.settings
        definition = GroupDefinition(id_, of_log.definition.id, is_configured=True)
        write = self._consumers.configure_group(
            definition, group_policy(settings), of_log.numbers, cursor_limits(settings)
        )
        if isinstance(write, GroupRefusal):
            raise GroupNotMade(name, write.value)
        group = self.find(vhost, log, name)
        begun = group.cursors.by_partition
        starts = {number: offset for number, offset in starts.items() if number not in begun}
        try:
            if starts:
                write = self._consumers.reset_group(id_, starts)
            await write.wait()
        except StorageError:
            if before is None:
                self._consumers.end_group(id_)
            raise
        return group

    async def reset(self, group: Group[Member], target: ResetTarget, partition_id: str | None) -> None:
        """Have a group go on from elsewhere, durably, in one partition or in all.

        Raises `UnknownGroup`, `UnknownPartition`, `OffsetBeyondEnd`; then nothing has changed.
        """
        id_ = group.definition.id
        offsets = await offsets_of(self._store.log(id_.log, id_.vhost), target, partition_id)
        if not self.is_there(group):
            raise UnknownGroup(id_.log, id_.name)
        left = {number: offsets[number] for number in group.partitions if number in offsets}
        if left:
            await self._consumers.reset_group(id_, left).wait()

    async def end(self, group: Group[Member]) -> None:
        """End a group with its positions, durably; its links are told that it is no more."""
        write = self._consumers.end_group(group.definition.id)
        if write is not None:
            await write.wait()

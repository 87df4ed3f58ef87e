"""Single active consumer (RabbitMQ Streams protocol, ConsumerUpdate): one member of a group reads, the others wait.

    join, leave, stepped_down ──> the group decides who should be active ──> Update effects

Of a plain stream the first member stays active until it leaves. Of a partition of a super stream it is the member whose
number is the partition's index modulo their count, so that partitions spread over consumers. The one before steps down,
and answers, before its successor is told: never do two read at once.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

import msgspec

__all__ = ["GroupId", "SingleActive", "Update"]

M = TypeVar("M", bound=Hashable)


class GroupId(msgspec.Struct, frozen=True, gc=False):
    """The consumers of one name on one stream."""

    vhost: str
    stream: str
    name: str


class Update(msgspec.Struct, Generic[M], frozen=True):
    """Tell a member that it is active from now on, or not."""

    member: M
    active: bool


class _Group(Generic[M]):
    def __init__(self, partition_index: int | None) -> None:
        self.partition_index = partition_index
        self.members: list[M] = []
        self.active: M | None = None
        self.stepping_down: M | None = None

    def wanted(self) -> M | None:
        """The member that should be active."""
        if not self.members:
            return None
        if self.partition_index is not None:
            return self.members[self.partition_index % len(self.members)]
        return self.active if self.active is not None else self.members[0]

    def settle(self) -> list[Update[M]]:
        """Go one step towards the wanted member; nothing while an answer is awaited."""
        wanted = self.wanted()
        if self.stepping_down is not None or wanted == self.active:
            return []
        if self.active is None:
            assert wanted is not None
            self.active = wanted
            return [Update(wanted, True)]
        self.stepping_down, self.active = self.active, None
        return [Update(self.stepping_down, False)]


class SingleActive(Generic[M]):
    """All groups of a server; members are whatever names a subscription of a connection."""

    def __init__(self) -> None:
        self._groups: dict[GroupId, _Group[M]] = {}

    def join(self, group_id: GroupId, member: M, partition_index: int | None = None) -> list[Update[M]]:
        """A consumer subscribed; one that is to wait is told nothing."""
        group = self._groups.setdefault(group_id, _Group(partition_index))
        assert member not in group.members
        group.members.append(member)
        return group.settle()

    def leave(self, group_id: GroupId, member: M) -> list[Update[M]]:
        """A consumer unsubscribed, or its connection is gone."""
        group = self._groups.get(group_id)
        if group is None or member not in group.members:
            return []
        group.members.remove(member)
        if not group.members:
            del self._groups[group_id]
            return []
        if group.active == member:
            group.active = None
        if group.stepping_down == member:
            group.stepping_down = None
        return group.settle()

    def stepped_down(self, group_id: GroupId, member: M) -> list[Update[M]]:
        """A member answered that it no longer reads; an answer that nobody awaits changes nothing."""
        group = self._groups.get(group_id)
        if group is None or group.stepping_down != member:
            return []
        group.stepping_down = None
        return group.settle()

    def disband(self, vhost: str, stream: str) -> None:
        """The stream is gone: nobody is told anything any more."""
        for group_id in [each for each in self._groups if (each.vhost, each.stream) == (vhost, stream)]:
            del self._groups[group_id]

    def active(self, group_id: GroupId) -> M | None:
        """The member that may read now."""
        group = self._groups.get(group_id)
        return None if group is None else group.active

    def members(self, group_id: GroupId) -> tuple[M, ...]:
        """All members, in the order in which they came."""
        group = self._groups.get(group_id)
        return () if group is None else tuple(group.members)

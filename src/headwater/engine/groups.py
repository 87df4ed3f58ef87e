"""All consumer groups of a server (ES-12 to ES-20): which there are, and which a link is in.

The policy of the log comes with every attach, and when it changes.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from headwater.engine.cursor import DEFAULT_LIMITS, CursorLimits
from headwater.engine.cursor_flushes import CursorFlushes
from headwater.engine.cursor_record import Position
from headwater.engine.group import Group
from headwater.engine.group_effects import (
    Attached,
    Evicted,
    GroupAttach,
    GroupEffect,
    GroupEnded,
    GroupPolicy,
    GroupRefusal,
    GroupRefused,
    GroupReset,
    PartitionGone,
    Pending,
    Rebalanced,
)
from headwater.engine.group_record import GROUP_NAME_BYTES_MAX, GroupDefinition, GroupId
from headwater.engine.state_record import Delete, Put

__all__ = ["Groups"]

M = TypeVar("M", bound=Hashable)


class Groups(Generic[M]):
    """The registry."""

    def __init__(self, flushes: CursorFlushes[M, Any]) -> None:
        self._flushes = flushes
        self._by_log: dict[tuple[str, str], dict[GroupId, Group[M]]] = {}
        self._of: dict[M, Group[M]] = {}
        self._timed: set[Group[M]] = set()
        """Those for which a time may be set."""

    def __iter__(self) -> Iterator[Group[M]]:
        """All of them, as they are at this moment."""
        return iter([group for groups in self._by_log.values() for group in groups.values()])

    def find(self, id_: GroupId) -> Group[M] | None:
        """The group of that name."""
        return self._by_log.get((id_.vhost, id_.log), {}).get(id_)

    def on_log(self, vhost: str, log: str) -> Iterator[Group[M]]:
        """The groups of a log."""
        return iter(tuple(self._by_log.get((vhost, log), {}).values()))

    def of(self, member: M) -> Group[M] | None:
        """The group that a link is in, or waits for."""
        return self._of.get(member)

    def attach(
        self,
        member: M,
        definition: GroupDefinition,
        asked: GroupAttach,
        policy: GroupPolicy,
        partitions: Collection[int],
        now_ms: int,
        limits: CursorLimits = DEFAULT_LIMITS,
    ) -> list[GroupEffect[M]]:
        """A link asks to consume in a group, which is made if the policy has it so."""
        group = self.find(definition.id)
        if group is None:
            why = self._refusal(definition.id, policy)
            if why is not None:
                return [GroupRefused(member, why)]
            group = self._add(Group(definition, policy, partitions, limits, self._flushes))
            effects = group.attach(member, asked, now_ms)
            if member not in group.members:
                self._forget(group)
                return self._known(group, effects)
            return self._known(group, [group.put(), *effects])
        effects = group.change_policy(policy, now_ms)
        return self._known(group, effects + group.attach(member, asked, now_ms))

    def leave(self, *members: M, is_closed: bool, now_ms: int) -> list[GroupEffect[M]]:
        """Links are gone, all at once: nothing goes from one to another. One that is in no group changes nothing."""
        gone: dict[Group[M], list[M]] = {}
        for member in members:
            group = self._of.pop(member, None)
            if group is not None:
                gone.setdefault(group, []).append(member)
        return [
            effect
            for group, left in gone.items()
            for effect in self._known(group, group.leave(*left, is_closed=is_closed, now_ms=now_ms))
        ]

    @property
    def next_tick_ms(self) -> int | None:
        """When `tick` has something to do."""
        times = [group.next_tick_ms for group in self._timed]
        return min((time for time in times if time is not None), default=None)

    def tick(self, now_ms: int) -> list[GroupEffect[M]]:
        """End what has waited for long enough, in all groups."""
        effects: list[GroupEffect[M]] = []
        for group in tuple(self._timed):
            next_ms = group.next_tick_ms
            if next_ms is None or next_ms <= now_ms:
                effects += self._known(group, group.tick(now_ms))
        return effects

    # Operators, and logs

    def configure(
        self,
        definition: GroupDefinition,
        policy: GroupPolicy,
        partitions: Collection[int],
        limits: CursorLimits = DEFAULT_LIMITS,
    ) -> list[GroupEffect[M]] | GroupRefusal:
        """Make a group; one that links made is kept as it is from now on."""
        group = self.find(definition.id)
        if group is None:
            why = self._refusal(definition.id, policy, is_configured=True)
            if why is not None:
                return why
            group = self._add(Group(definition, policy, partitions, limits, self._flushes))
        group.definition = definition
        return [group.put()]

    def reset(self, id_: GroupId, offsets: Mapping[int, int], now_ms: int) -> list[GroupEffect[M]]:
        """Have a group go on from these offsets of partitions; one that is not there does not."""
        group = self.find(id_)
        return [] if group is None else self._known(group, group.reset(offsets, now_ms))

    def end(self, id_: GroupId) -> list[GroupEffect[M]]:
        """End a group, whoever is in it; one that is not there is ended already."""
        group = self.find(id_)
        if group is None:
            return []
        self._forget(group)
        return self._known(group, group.end())

    def log_deleted(self, vhost: str, log: str) -> list[GroupEffect[M]]:
        """The log is gone, and its groups with it."""
        return [effect for group in self.on_log(vhost, log) for effect in self.end(group.definition.id)]

    def log_changed(
        self, vhost: str, log: str, firsts: Mapping[int, int], now_ms: int
    ) -> list[GroupEffect[M]]:
        """The log has these partitions now, in this order, whose events begin at these offsets."""
        return [
            effect
            for group in self.on_log(vhost, log)
            for effect in self._known(group, group.log_changed(firsts, now_ms))
        ]

    def policy_changed(
        self, vhost: str, log: str, policy: GroupPolicy, limits: CursorLimits, now_ms: int
    ) -> list[GroupEffect[M]]:
        """What a log wants of its groups is this from now on."""
        effects: list[GroupEffect[M]] = []
        for group in self.on_log(vhost, log):
            group.cursors.limit(limits)
            effects += self._known(group, group.change_policy(policy, now_ms))
        return effects

    def overtaken(self, vhost: str, log: str, partition: int, first_retained: int) -> dict[GroupId, int]:
        """Retention took what lies before an offset; gives which groups lost how many messages by it."""
        lost = {}
        for group in self.on_log(vhost, log):
            cursor = group.cursors.by_partition.get(partition)
            count = 0 if cursor is None else cursor.overtake(first_retained)
            if count:
                lost[group.definition.id] = count
        return lost

    # Restart

    def restore(
        self,
        definition: GroupDefinition,
        epochs: Mapping[int, int],
        positions: Mapping[int, Position],
        ends: Mapping[int, int],
        policy: GroupPolicy,
        limits: CursorLimits = DEFAULT_LIMITS,
    ) -> list[Put | Delete]:
        """A group as its records tell, on a log whose partitions end so; nobody is in it.

        Gives what brings its records up to the log: a crash may have taken what was written when that changed.
        """
        group = self._add(Group(definition, policy, tuple(ends), limits, self._flushes, epochs))
        deletes = group.cursors.restore(positions, ends)
        new = [partition for partition in ends if partition not in epochs]
        if not new:
            return [*deletes]
        puts = []
        if positions:
            group.cursors.grow(dict.fromkeys(new, 0))
            puts = group.cursors.puts(*new)
        return [*puts, group.put(), *deletes]

    def _refusal(
        self, id_: GroupId, policy: GroupPolicy, *, is_configured: bool = False
    ) -> GroupRefusal | None:
        if not (policy.makes_groups or is_configured):
            return GroupRefusal.NOT_CONFIGURED
        if len(id_.name.encode("utf-8", "surrogatepass")) > GROUP_NAME_BYTES_MAX:
            return GroupRefusal.NAME_TOO_LONG
        if len(self._by_log.get((id_.vhost, id_.log), {})) >= policy.groups_max:
            return GroupRefusal.TOO_MANY
        return None

    def _add(self, group: Group[M]) -> Group[M]:
        id_ = group.definition.id
        self._by_log.setdefault((id_.vhost, id_.log), {})[id_] = group
        return group

    def _forget(self, group: Group[M]) -> None:
        id_ = group.definition.id
        groups = self._by_log[id_.vhost, id_.log]
        del groups[id_]
        self._timed.discard(group)
        if not groups:
            del self._by_log[id_.vhost, id_.log]

    def _known(self, group: Group[M], effects: list[GroupEffect[M]]) -> list[GroupEffect[M]]:
        """Keep up with who is in the group by what it did, and whether it waits for a time."""
        if group.next_tick_ms is None or self.find(group.definition.id) is not group:
            self._timed.discard(group)
        else:
            self._timed.add(group)
        for effect in effects:
            match effect:
                case Attached(member=member) | Pending(member=member):
                    self._of[member] = group
                case (
                    GroupRefused(member=member)
                    | Evicted(member=member)
                    | Rebalanced(member=member)
                    | GroupReset(member=member)
                    | PartitionGone(member=member)
                ):
                    self._of.pop(member, None)
                case GroupEnded(members=members):
                    for member in members:
                        self._of.pop(member, None)
                case _:
                    pass
        return effects

"""One consumer group on one log: who owns which partition, by which epoch, and where the group stands (ES-12 to ES-20).

    a link names a partition ──────> it owns it, if nobody does or its epoch is greater than the owner's
    it names none ── ASSIGN ───────> it gets a free one; none free: it waits, or is refused, and a container with two
                  │                  more than its own gives one up
                  └─ DYNAMIC ──────> partitions are spread over all such links, and move once their owner has settled

The shell carries effects out in their order and gives the time of its clock. Messages are taken and settled here, on
the cursors of the group, by whoever owns the partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import Any, Generic, TypeVar

from headwater.engine.cursor import CursorLimits
from headwater.engine.cursor_flushes import CursorFlushes
from headwater.engine.cursor_set import CursorSet, PartitionRun
from headwater.engine.delivery import Outcome
from headwater.engine.group_effects import (
    Assigned,
    Attached,
    Binding,
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
    Revoked,
)
from headwater.engine.group_record import EPOCH_MAX, GroupDefinition, put_group
from headwater.engine.link_id import LinkId
from headwater.engine.partition_spread import spread
from headwater.engine.state_record import GROUP, Delete, Put, owner_key

__all__ = ["Group"]

M = TypeVar("M", bound=Hashable)


class _Share(Generic[M]):
    """A partition within the group."""

    __slots__ = ("epoch", "move_by_ms", "moves_to", "owner", "reserved_for", "reserved_until_ms")

    def __init__(self, epoch: int = 0) -> None:
        self.epoch = epoch
        self.owner: M | None = None
        self.moves_to: M | None = None
        """Who gets it when its owner has settled what it holds, or at the latest at `move_by_ms`."""
        self.move_by_ms = 0
        self.reserved_for: str | None = None
        """The container that may be assigned it until `reserved_until_ms`."""
        self.reserved_until_ms = 0


class _Member:
    __slots__ = ("asked", "is_assigned", "partition")

    def __init__(self, asked: GroupAttach, partition: int | None, *, is_assigned: bool) -> None:
        self.asked = asked
        self.partition = partition
        """None: agnostic."""
        self.is_assigned = is_assigned
        """Whether the node chose the partition, and may take it back."""


class Group(Generic[M]):
    """The members of a group and its positions."""

    def __init__(
        self,
        definition: GroupDefinition,
        policy: GroupPolicy,
        partitions: Collection[int],
        limits: CursorLimits,
        flushes: CursorFlushes[M, Any],
        epochs: Mapping[int, int] | None = None,
    ) -> None:
        self.definition = definition
        self.policy = policy
        self.cursors: CursorSet[M] = CursorSet(definition.id.digest, limits, flushes)
        self._shares: dict[int, _Share[M]] = {
            partition: _Share((epochs or {}).get(partition, 0)) for partition in partitions
        }
        """By partition, in the order of the log."""
        self._members: dict[M, _Member] = {}
        self._pending: dict[M, tuple[GroupAttach, int]] = {}
        """What they asked, and until when they wait."""
        self._told: dict[M, tuple[int, ...]] = {}
        self._turn = 0

    # What operators see

    @property
    def members(self) -> tuple[M, ...]:
        """All that are attached, in the order in which they came."""
        return tuple(self._members)

    @property
    def pending(self) -> tuple[M, ...]:
        """All that wait for a partition."""
        return tuple(self._pending)

    @property
    def partitions(self) -> tuple[int, ...]:
        """Those of the log, in its order."""
        return tuple(self._shares)

    @property
    def epochs(self) -> dict[int, int]:
        """By partition."""
        return {partition: share.epoch for partition, share in self._shares.items()}

    def owner_of(self, partition: int) -> M | None:
        """The member that settles messages of a partition, if it has one."""
        return self._shares[partition].owner

    def link_of(self, member: M) -> LinkId:
        """What a member is, or one that waits."""
        found = self._members.get(member)
        return self._pending[member][0].link if found is None else found.asked.link

    def holdings(self) -> dict[M, list[int]]:
        """What `partitions_of` says of each member that has any."""
        found: dict[M, list[int]] = {}
        for number, share in self._shares.items():
            if share.owner is not None and share.moves_to is None:
                found.setdefault(share.owner, []).append(number)
        return found

    def partitions_of(self, member: M) -> tuple[int, ...]:
        """Those whose messages the member gets now; asked often, so no others are looked at."""
        each = self._members.get(member)
        if each is None or each.partition is None:
            return self._told.get(member, ())
        return (each.partition,)

    def put(self) -> Put:
        """The record as it stands."""
        return put_group(self.definition, self.epochs)

    # Members

    def attach(self, member: M, asked: GroupAttach, now_ms: int) -> list[GroupEffect[M]]:
        """A link asks to consume in this group."""
        if asked.epoch is not None and not 0 <= asked.epoch <= EPOCH_MAX:
            return [GroupRefused(member, GroupRefusal.BAD_EPOCH)]
        if asked.partition is not None and asked.partition not in self._shares:
            return [GroupRefused(member, GroupRefusal.UNKNOWN_PARTITION)]
        effects: list[GroupEffect[M]] = []
        old = self._same_link(asked)
        if old is not None:
            before = self._members.get(old)
            self._release(old)
            effects.append(Evicted(old))
            if (
                before is not None
                and before.partition is not None
                and asked.partition in {None, before.partition}
            ):
                is_assigned = before.is_assigned and asked.partition is None
                return effects + self._own(member, asked, before.partition, is_assigned=is_assigned)
        if len(self._members) >= self.policy.members_max:
            effects.append(GroupRefused(member, GroupRefusal.TOO_MANY))
        elif asked.partition is not None:
            effects += self._attach_to(member, asked, asked.partition)
        elif self.policy.binding is Binding.DYNAMIC:
            self._members[member] = _Member(asked, None, is_assigned=True)
            effects.append(Attached(member, None, 0, False))
        else:
            return effects + self._attach_to_any(member, asked, now_ms)
        return effects + self._fill(now_ms)

    def leave(self, *members: M, is_closed: bool, now_ms: int) -> list[GroupEffect[M]]:
        """Links are gone, all at once; those that receivers closed take epochs with them (ES-20)."""
        changed = [self._release(member, is_closed=is_closed) for member in members]
        effects: list[GroupEffect[M]] = [self.put()] if any(changed) else []
        return effects + self._fill(now_ms)

    def log_changed(self, firsts: Mapping[int, int], now_ms: int) -> list[GroupEffect[M]]:
        """The log has these partitions now; a group that was there before reads new ones from their first offset on."""
        gone = [partition for partition in self._shares if partition not in firsts]
        new = [partition for partition in firsts if partition not in self._shares]
        is_old = bool(self.cursors.by_partition)
        effects: list[GroupEffect[M]] = []
        for partition in gone:
            effects += self._part_with(partition)
        self._shares = {partition: self._shares.get(partition) or _Share() for partition in firsts}
        deletes = self.cursors.keep(firsts)
        for partition in new if is_old else ():
            effects += self.begin(partition, firsts[partition])
        effects += [self.put()] if gone or new else []
        return [*effects, *deletes, *self._fill(now_ms)]

    def change_policy(self, policy: GroupPolicy, now_ms: int) -> list[GroupEffect[M]]:
        """The log wants this of its groups now; links that the node placed by other rules attach anew."""
        is_same, self.policy = self.policy.binding is policy.binding, policy
        if is_same:
            return []
        effects: list[GroupEffect[M]] = []
        for member in [member for member, each in self._members.items() if each.is_assigned]:
            self._release(member)
            effects.append(Rebalanced(member))
        for share in self._shares.values():
            share.reserved_for = None
        waiting, self._pending = self._pending, {}
        for member, (asked, _) in waiting.items():
            effects += self.attach(member, asked, now_ms)
        return effects + self._fill(now_ms)

    @property
    def next_tick_ms(self) -> int | None:
        """When `tick` has something to do."""
        times = [until_ms for _, until_ms in self._pending.values()]
        for share in self._shares.values():
            times += [share.move_by_ms] if share.moves_to is not None else []
            times += [share.reserved_until_ms] if share.reserved_for is not None else []
        return min(times, default=None)

    def tick(self, now_ms: int) -> list[GroupEffect[M]]:
        """End what has waited for long enough."""
        effects: list[GroupEffect[M]] = []
        for member in [member for member, (_, until_ms) in self._pending.items() if until_ms <= now_ms]:
            del self._pending[member]
            effects.append(GroupRefused(member, GroupRefusal.WAITED_TOO_LONG))
        for number, share in self._shares.items():
            if share.reserved_for is not None and share.reserved_until_ms <= now_ms:
                share.reserved_for = None
            if share.moves_to is not None and share.move_by_ms <= now_ms:
                effects += self._revoke(number)
        return effects + self._fill(now_ms)

    def end(self) -> list[GroupEffect[M]]:
        """The group is no more."""
        members = (*self._members, *self._pending)
        for member in members:
            self._release(member)
        own = Delete(owner_key(GROUP, self.definition.id.digest))
        return [GroupEnded(members), own, *self.cursors.end()]

    # Messages

    def begin(self, partition: int, offset: int) -> list[GroupEffect[M]]:
        """Start, or start anew, at an offset; what is answered because of it waits for the put.

        Of what owners hold nothing is settled any more.
        """
        self.cursors.begin(partition, offset)
        return [*self.cursors.puts(partition)]

    def reset(self, offsets: Mapping[int, int], now_ms: int) -> list[GroupEffect[M]]:
        """Go on from these offsets of partitions; links that have one of them are to attach anew."""
        moved = [
            member for member in self._members if any(number in offsets for number, _ in self._owned(member))
        ]
        for member in moved:
            self._release(member)
        effects: list[GroupEffect[M]] = []
        for partition, offset in offsets.items():
            effects += self.begin(partition, offset)
        return [*effects, *(GroupReset(member) for member in moved), *self._fill(now_ms)]

    def take(self, member: M, count_max: int, ends: Mapping[int, int]) -> list[PartitionRun]:
        """Messages for a member, of all its partitions in turn; one that `ends` leaves out has none."""
        owned = self.partitions_of(member)
        partitions = [each for each in owned if each in self.cursors.by_partition and each in ends]
        if len(partitions) > 1:
            self._turn = (self._turn + 1) % len(partitions)
            partitions = partitions[self._turn :] + partitions[: self._turn]
        return self.cursors.take(member, count_max, ends, partitions)

    def settle(
        self,
        member: M,
        partition: int,
        first: int,
        end: int,
        outcome: Outcome,
        *,
        is_undeliverable_here: bool = False,
    ) -> tuple[int, list[GroupEffect[M]]]:
        """What became of messages: the sequence that makes it durable, and who gets a partition by it.

        Of a partition that is gone nothing is settled: 0.
        """
        cursor = self.cursors.by_partition.get(partition)
        if cursor is None:
            return 0, []
        sequence = cursor.settle(member, first, end, outcome, is_undeliverable_here=is_undeliverable_here)
        share = self._shares[partition]
        if share.moves_to is None or share.owner != member or cursor.holds_any(member):
            return sequence, []
        self._hand_over(partition)
        return sequence, self._tell()

    # Owning

    def _attach_to(self, member: M, asked: GroupAttach, partition: int) -> list[GroupEffect[M]]:
        """The link asks for this partition (ES-19)."""
        share = self._shares[partition]
        effects: list[GroupEffect[M]] = []
        if share.owner is None:
            if asked.epoch is not None and asked.epoch < share.epoch:
                return [GroupRefused(member, GroupRefusal.STALE_EPOCH, share.epoch)]
        elif asked.epoch is None or asked.epoch <= share.epoch:
            return [GroupRefused(member, GroupRefusal.OWNED, share.epoch)]
        elif self._members[share.owner].partition is None:
            share.moves_to = member
            effects += self._revoke(partition)
        else:
            effects.append(Evicted(share.owner))
            self._release(share.owner)
        return effects + self._own(member, asked, partition, is_assigned=False)

    def _attach_to_any(self, member: M, asked: GroupAttach, now_ms: int) -> list[GroupEffect[M]]:
        """The link asks for a partition, whichever (ES-14)."""
        if self._free(asked):
            return self._own(member, asked, self._free(asked)[0], is_assigned=True)
        if not self.policy.keeps_pending:
            effects = self._rebalance([asked.link.container], now_ms)
            return [GroupRefused(member, GroupRefusal.NONE_FREE), *effects]
        if len(self._pending) >= self.policy.pending_count_max:
            return [GroupRefused(member, GroupRefusal.TOO_MANY)]
        self._pending[member] = (asked, now_ms + self.policy.pending_ms_max)
        effects = self._fill(now_ms)
        return effects if member in self._members else [Pending(member), *effects]

    def _own(
        self, member: M, asked: GroupAttach, partition: int, *, is_assigned: bool
    ) -> list[GroupEffect[M]]:
        share = self._shares[partition]
        share.owner, share.moves_to, share.reserved_for = member, None, None
        self._members[member] = _Member(asked, partition, is_assigned=is_assigned)
        effects: list[GroupEffect[M]] = []
        if asked.epoch is not None and asked.epoch > share.epoch:
            share.epoch = asked.epoch
            effects.append(self.put())
        needs_start = asked.has_start or partition not in self.cursors.by_partition
        return [*effects, Attached(member, partition, share.epoch, needs_start)]

    def _release(self, member: M, *, is_closed: bool = False) -> bool:
        """Take a member out; what it held is due again. Says whether an epoch changed."""
        self._pending.pop(member, None)
        self._told.pop(member, None)
        changed = False
        for number, share in self._owned(member):
            changed = changed or (is_closed and share.epoch > 0)
            share.epoch = 0 if is_closed else share.epoch
            self._hand_over(number)
        each = self._members.pop(member, None)
        if each is not None and each.partition is None:
            for share in self._shares.values():
                if share.moves_to == member:
                    share.moves_to = None
        return changed

    def _hand_over(self, partition: int) -> None:
        """The owner gives a partition up to whom it moves to, if to anybody."""
        share = self._shares[partition]
        cursor = self.cursors.by_partition.get(partition)
        if cursor is not None and share.owner is not None:
            cursor.vanish(share.owner)
        share.owner, share.moves_to = share.moves_to, None

    def _revoke(self, partition: int) -> list[GroupEffect[M]]:
        """An agnostic link gives a partition up, whatever it still holds of it."""
        owner = self._shares[partition].owner
        self._hand_over(partition)
        return [] if owner is None else [Revoked(owner, partition)]

    def _part_with(self, partition: int) -> list[GroupEffect[M]]:
        """The owner of a partition that is gone has it no more; one that is bound to it goes with it."""
        share = self._shares[partition]
        share.moves_to = None
        if share.owner is None or self._members[share.owner].partition is None:
            return self._revoke(partition)
        owner = share.owner
        self._release(owner)
        return [PartitionGone(owner)]

    def _owned(self, member: M) -> Iterator[tuple[int, _Share[M]]]:
        each = self._members.get(member)
        if each is not None and each.partition is not None:
            return iter([(each.partition, self._shares[each.partition])])
        return ((number, share) for number, share in self._shares.items() if share.owner == member)

    def _same_link(self, asked: GroupAttach) -> M | None:
        for member, each in self._members.items():
            if each.asked.link == asked.link:
                return member
        return next((each for each, (other, _) in self._pending.items() if other.link == asked.link), None)

    # Spreading

    def _fill(self, now_ms: int) -> list[GroupEffect[M]]:
        """Give away what is free, and even out what is not."""
        effects = self._grant()
        if self._pending:
            waiting = [asked.link.container for asked, _ in self._pending.values()]
            effects += self._rebalance(waiting, now_ms)
        if self.policy.binding is Binding.DYNAMIC:
            self._move(now_ms)
            effects += self._tell()
        return effects

    def _free(self, asked: GroupAttach) -> list[int]:
        return [
            number
            for number, share in self._shares.items()
            if share.owner is None and _may_have(share, asked)
        ]

    def _load(self) -> Counter[str]:
        """Partitions that the node gave to each container, or keeps for it."""
        load = Counter(each.asked.link.container for each in self._members.values() if each.is_assigned)
        load.update(share.reserved_for for share in self._shares.values() if share.reserved_for is not None)
        return load

    def _grant(self) -> list[GroupEffect[M]]:
        """Free partitions go to those that wait: first to the containers that have least."""
        effects: list[GroupEffect[M]] = []
        free = {number: share for number, share in self._shares.items() if share.owner is None}
        if not (free and self._pending):
            return effects
        load = self._load()
        waiting = [
            (load[asked.link.container], place, member)
            for place, (member, (asked, _)) in enumerate(self._pending.items())
        ]
        heapify(waiting)
        while waiting and free:
            count, place, member = heappop(waiting)
            asked, _ = self._pending[member]
            container = asked.link.container
            if count < load[container]:
                heappush(waiting, (load[container], place, member))
                continue
            number = next((number for number, share in free.items() if _may_have(share, asked)), None)
            if number is not None:
                load[container] += free.pop(number).reserved_for is None
                del self._pending[member]
                effects += self._own(member, asked, number, is_assigned=True)
        return effects

    def _rebalance(self, starved: list[str], now_ms: int) -> list[GroupEffect[M]]:
        """Links of a container that has two more than one that got nothing are closed, the last first (ES-15)."""
        effects: list[GroupEffect[M]] = []
        load = self._load()
        most = max(load, key=load.__getitem__, default="")
        for container in starved:
            if load[most] - load[container] < 2:
                continue
            last = self._last_assigned(most)
            partition = None if last is None else self._members[last].partition
            if last is None or partition is None:
                continue
            self._release(last)
            effects.append(Rebalanced(last))
            share = self._shares[partition]
            share.reserved_for, share.reserved_until_ms = container, now_ms + self.policy.reserved_ms
            load[most] -= 1
            load[container] += 1
            most = max(load, key=load.__getitem__)
        return effects + self._grant() if effects else []

    def _last_assigned(self, container: str) -> M | None:
        for member, each in reversed(self._members.items()):
            if each.is_assigned and each.partition is not None and each.asked.link.container == container:
                return member
        return None

    def _move(self, now_ms: int) -> None:
        """Spread what no link is bound to over the agnostic ones (ES-16)."""
        agnostic = [member for member, each in self._members.items() if each.partition is None]
        owners = {
            number: share.owner if share.moves_to is None else share.moves_to
            for number, share in self._shares.items()
            if share.owner is None or self._members[share.owner].partition is None
        }
        for number, member in spread(agnostic, owners).items():
            share = self._shares[number]
            if share.owner == member:
                share.moves_to = None
                continue
            if share.moves_to is None:
                share.move_by_ms = now_ms + self.policy.move_ms_max
            share.moves_to = member
            cursor = self.cursors.by_partition.get(number)
            if share.owner is None or cursor is None or not cursor.holds_any(share.owner):
                self._hand_over(number)

    def _tell(self) -> list[GroupEffect[M]]:
        """Agnostic links learn of what changed for them."""
        effects: list[GroupEffect[M]] = []
        owned: dict[M, list[int]] = {}
        for number, share in self._shares.items():
            if share.owner is not None and share.moves_to is None:
                owned.setdefault(share.owner, []).append(number)
        for member, each in self._members.items():
            if each.partition is not None:
                continue
            partitions = tuple(owned.get(member, ()))
            if partitions != self._told.get(member, ()):
                self._told[member] = partitions
                unplaced = tuple(one for one in partitions if one not in self.cursors.by_partition)
                effects.append(Assigned(member, partitions, unplaced))
        return effects


def _may_have(share: _Share[M], asked: GroupAttach) -> bool:
    """Whether a link may be given a partition that is free."""
    return share.reserved_for in {None, asked.link.container} and (
        asked.epoch is None or asked.epoch >= share.epoch
    )

"""Subscriptions, termini and groups of several policies, for the simulation of their crashes."""

from __future__ import annotations

from random import Random
from typing import Any

from headwater.engine.cursor import Cursor
from headwater.engine.cursor_record import Position
from headwater.engine.cursor_set import PartitionRun
from headwater.engine.delivery import Outcome
from headwater.engine.group import Group
from headwater.engine.group_effects import Attached, Binding, GroupAttach, GroupPolicy
from headwater.engine.group_record import GroupDefinition, GroupId, decode_group
from headwater.engine.groups import Groups
from headwater.engine.link_id import LinkId
from headwater.engine.state_record import Delete
from headwater.engine.subscription_record import Kind, decode_definition
from headwater.engine.subscriptions import Attach, Departure, Subscriptions
from headwater.engine.topic_subscription import TopicSubscription
from tests.simulation.consumer_account import Account, Message
from tests.simulation.consumer_node import LIMITS, Node

__all__ = ["KINDS", "Bound", "Fenced", "Moving", "Shared", "Terminus", "live"]

STEPS = 300


class Shared(Node):
    """A shared durable subscription; it begins anywhere, and reads partitions that come later from their beginning."""

    is_shared = True

    def engine(self) -> None:
        self.all: Subscriptions[str] = Subscriptions(self.flushes)

    def tag_of(self, value: bytes) -> int:
        return decode_definition(value).timeout_ms

    def restore(self, value: bytes, positions: dict[int, Position]) -> list[Delete]:
        deletes = self.all.restore(decode_definition(value), positions, self.ends, self.now_ms, LIMITS)
        self.note_starts(self.retained)
        return deletes

    def attach(self, member: str, tag: int) -> list[Any]:
        assert self.account is not None
        starts = {
            number: self.account.start(number, self.random.randint(self.retained[number], end))
            for number, end in self.ends.items()
        }
        kept = self.subscription()
        attach = Attach(
            "/",
            "orders",
            1,
            LinkId(member, "s") if self.is_shared else LinkId("c", "t"),
            is_global=self.is_shared,
            is_shared=self.is_shared,
            is_durable=True,
            kind=Kind.SUBSCRIPTION if self.is_shared else Kind.TERMINUS,
            timeout_ms=tag if kept is None else kept.definition.timeout_ms,
        )
        return self.all.attach(member, attach, starts, LIMITS)

    def depart(self, member: str) -> list[Any]:
        return self.all.depart(member, Departure.CONNECTION_CLOSE, self.now_ms)

    def end(self) -> list[Any]:
        return [
            effect for each in self.all.on_log("/", "orders") for effect in self.all.end(each.definition.id)
        ]

    def change(self, firsts: dict[int, int]) -> list[Any]:
        self.note_starts(firsts)
        return self.all.log_changed("/", "orders", firsts)

    def note_starts(self, firsts: dict[int, int]) -> None:
        if self.account is not None:
            for number in self.ends:
                self.account.start(number, firsts[number])

    def take(self, credit: dict[str, int]) -> list[tuple[str, PartitionRun]]:
        subscription = self.subscription()
        deals = [] if subscription is None else subscription.deal(credit, self.ends)
        return [(deal.consumer, each) for deal in deals for each in deal.runs]

    def settle(self, member: str, message: Message, outcome: Outcome) -> int:
        subscription = self.subscription()
        assert subscription is not None
        return subscription.settle(member, message[0], message[1], message[1] + 1, outcome)

    def cursors(self) -> dict[int, Cursor[str]]:
        subscription = self.subscription()
        return {} if subscription is None else subscription.cursors.by_partition

    def is_served(self) -> bool:
        return bool(self.members)

    def subscription(self) -> TopicSubscription[str] | None:
        return next(self.all.on_log("/", "orders"), None)


class Terminus(Shared):
    """A durable terminus: the same link comes again, and takes itself over."""

    is_shared = False


class Moving(Node):
    """A consumer group whose partitions are spread over its links, and move."""

    policy = GroupPolicy(binding=Binding.DYNAMIC, move_ms_max=200)

    def engine(self) -> None:
        self.all: Groups[str] = Groups(self.flushes)

    def tag_of(self, value: bytes) -> int:
        return decode_group(value)[0].log_id

    def restore(self, value: bytes, positions: dict[int, Position]) -> list[Any]:
        definition, epochs = decode_group(value)
        deletes = self.all.restore(definition, epochs, positions, self.ends, self.policy, LIMITS)
        assert self.account is not None
        for number in self.cursors():
            self.account.start(number, 0)  # where it is one that came before the crash
        return deletes

    def asked(self, member: str) -> GroupAttach:
        return GroupAttach(LinkId(member[0], member))

    def attach(self, member: str, tag: int) -> list[Any]:
        definition = GroupDefinition(GroupId("/", "orders", "g"), tag)
        asked = self.asked(member)
        effects = self.all.attach(member, definition, asked, self.policy, self.ends, self.now_ms, LIMITS)
        if self.group() is None:
            self.account = None  # refused, so that no group was made
        return effects

    def depart(self, member: str) -> list[Any]:
        return self.all.leave(member, is_closed=False, now_ms=self.now_ms)

    def end(self) -> list[Any]:
        return [
            effect for each in self.all.on_log("/", "orders") for effect in self.all.end(each.definition.id)
        ]

    def change(self, firsts: dict[int, int]) -> list[Any]:
        group = self.group()
        if self.account is not None and group is not None and self.cursors():
            new = firsts.keys() - group.epochs.keys()
            if not self.cursors().keys() - self.account.unready:
                self.account.unready |= new  # a crash may leave the group without any position
            for number in new:
                self.account.start(number, firsts[number])
        return self.all.log_changed("/", "orders", firsts, self.now_ms)

    def take(self, credit: dict[str, int]) -> list[tuple[str, PartitionRun]]:
        self.did(self.all.tick(self.now_ms))
        group = self.group()
        if group is None:
            return []
        unready = self.unready()
        ends = {number: end for number, end in self.ends.items() if number not in unready}
        return [(member, each) for member in credit for each in group.take(member, credit[member], ends)]

    def unready(self) -> set[int]:
        """Partitions that nothing is taken of yet."""
        return set() if self.account is None else self.account.unready

    def begin(self, partitions: tuple[int, ...]) -> list[Any]:
        group, effects = self.group(), []
        assert group is not None
        assert self.account is not None
        for number in partitions:
            assert number not in self.account.starts, "where the group starts is forgotten"
            start = self.random.randint(self.retained[number], self.ends[number])
            effects += group.begin(number, self.account.start(number, start))
        return effects

    def settle(self, member: str, message: Message, outcome: Outcome) -> int:
        group = self.group()
        assert group is not None
        sequence, effects = group.settle(member, message[0], message[1], message[1] + 1, outcome)
        self.did(effects)
        return sequence

    def cursors(self) -> dict[int, Cursor[str]]:
        group = self.group()
        return {} if group is None else group.cursors.by_partition

    def is_served(self) -> bool:
        group = self.group()
        if group is None:
            return False
        return self.ends.keys() == {number for each in group.members for number in group.partitions_of(each)}

    def group(self) -> Group[str] | None:
        return next(self.all.on_log("/", "orders"), None)


class Bound(Moving):
    """A consumer group whose links are bound to a partition each, wait for one, and are closed for others."""

    policy = GroupPolicy(keeps_pending=True, pending_ms_max=10**9)


class Fenced(Moving):
    """A consumer group whose links name partitions and epochs: an owner that was told an epoch is safe from less."""

    policy = GroupPolicy()

    def __init__(self, random: Random) -> None:
        self.asked_by: dict[str, GroupAttach] = {}
        self.partition_of: dict[str, int] = {}
        super().__init__(random)

    def asked(self, member: str) -> GroupAttach:
        link = LinkId(member[0], member)
        self.asked_by[member] = GroupAttach(link)
        if not self.is_calm and self.random.random() < 0.8:
            epoch = self.random.choice([None, *range(6)])
            self.asked_by[member] = GroupAttach(link, self.random.choice(list(self.ends)), epoch)
        return self.asked_by[member]

    def owns(self, attached: Attached[str]) -> None:
        account, member, partition = self.account, attached.member, attached.partition
        assert account is not None
        assert partition is not None
        known, asked = account.epochs.get(partition, 0), self.asked_by[member].epoch
        assert attached.epoch >= known, "an epoch that its owner was told is forgotten"
        assert asked is None or asked >= known, "a link with a lower epoch owns the partition"
        self.partition_of[member] = partition
        self.state.when_synced(lambda: self.tell_epoch(account, attached))

    def tell_epoch(self, account: Account, attached: Attached[str]) -> None:
        """A link is told its epoch, unless it is gone."""
        partition = attached.partition
        if partition is not None and self.partition_of.get(attached.member) == partition:
            account.epochs[partition] = attached.epoch

    def depart(self, member: str) -> list[Any]:
        is_closed, account = self.random.random() < 0.2, self.account
        partition = self.partition_of.pop(member, None)
        if is_closed and account is not None and partition is not None:
            account.epochs[partition] = 0
        return self.all.leave(member, is_closed=is_closed, now_ms=self.now_ms)


KINDS: list[type[Node]] = [Shared, Terminus, Moving, Bound, Fenced]


def live(kind: type[Node], seed: int) -> Node:
    """A node after some hundred steps, with everything settled in the end; raises `AssertionError`."""
    node = kind(Random(seed))
    node.run(STEPS)
    node.drain()
    return node

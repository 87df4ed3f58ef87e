"""Positions of consumers under crashes: a `$state` that may lose whatever it did not confirm, and a client that counts.

What was settled and confirmed to be on disk never comes again. Whatever comes again was unsettled, or settled after the
last flush. Nothing is left out, and what comes for the first time comes in order.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any, TypeAlias

import pytest

from headwater.engine.cursor import CursorLimits
from headwater.engine.cursor_flushes import CursorFlushes
from headwater.engine.cursor_record import Position, decode_position
from headwater.engine.cursor_set import PartitionRun
from headwater.engine.delivery import Outcome
from headwater.engine.group_effects import (
    Assigned,
    Attached,
    Binding,
    GroupAttach,
    GroupPolicy,
    GroupRefused,
    Rebalanced,
    Revoked,
)
from headwater.engine.group_record import GroupDefinition, GroupId, decode_group
from headwater.engine.groups import Groups
from headwater.engine.link_id import LinkId
from headwater.engine.state_record import CURSOR, GROUP, SUBSCRIPTION, Delete, Put, unowned
from headwater.engine.subscription_record import decode_definition
from headwater.engine.subscriptions import Attach, Departure, Subscriptions
from headwater.log.state import decode_record, encode_record

PARTITIONS = 3
LIMITS = CursorLimits(ranges_max=60, unsettled_max=80)
Message: TypeAlias = tuple[int, int]


class State:
    """Records in order; what is not confirmed may be on disk after a crash, or not, from some point on."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.confirmed = 0

    def put(self, key: bytes, value: bytes | None) -> None:
        self.records.append(encode_record(key, value))

    def crash(self, random: Random) -> None:
        del self.records[random.randint(self.confirmed, len(self.records)) :]
        self.confirmed = len(self.records)

    def values(self) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for record in self.records:
            key, value = decode_record(record)
            if value is None:
                found.pop(key, None)
            else:
                found[key] = value
        return found


class Node:
    """What both kinds share: the log, `$state`, flushes, and what clients saw."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.state = State()
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        self.now_ms = 0
        self.members: set[str] = set()
        self.next = 0
        self.held: dict[str, set[Message]] = {}
        self.delivered: Counter[Message] = Counter()
        self.excused: Counter[Message] = Counter()
        self.settled: set[Message] = set()
        self.told: set[Message] = set()
        self.front = dict.fromkeys(range(PARTITIONS), -1)
        self.restart()

    def restart(self) -> None:
        self.flushes: CursorFlushes[str, set[Message]] = CursorFlushes()
        self.engine()
        values = self.state.values()
        owners = {key: value for key, value in values.items() if not key.startswith(CURSOR)}
        cursors = {key: value for key, value in values.items() if key.startswith(CURSOR)}
        self.did(unowned(cursors, [key.partition(b"/")[2] for key in owners]))
        for key, value in owners.items():
            digest = key.partition(b"/")[2]
            self.restore(
                value,
                {
                    int.from_bytes(each[-4:], "big"): decode_position(cursors[each])
                    for each in cursors
                    if each.startswith(CURSOR + digest)
                },
            )

    def engine(self) -> None:
        raise NotImplementedError

    def restore(self, value: bytes, positions: dict[int, Position]) -> None:
        raise NotImplementedError

    def attach(self, member: str) -> list[Any]:
        raise NotImplementedError

    def depart(self, member: str) -> list[Any]:
        raise NotImplementedError

    def take(self, credit: dict[str, int]) -> list[tuple[str, PartitionRun]]:
        raise NotImplementedError

    def settle(self, member: str, message: Message, outcome: Outcome) -> int:
        raise NotImplementedError

    def cursor(self, partition: int) -> Any:
        raise NotImplementedError

    def did(self, effects: list[Any]) -> None:
        for effect in effects:
            match effect:
                case Put(key=key, value=value):
                    self.state.put(key, value)
                case Delete(key=key):
                    self.state.put(key, None)
                case Assigned(needs_start=partitions):
                    self.begin(partitions)
                case Attached(partition=int(partition), needs_start=True):
                    self.begin((partition,))
                case Revoked(member=member, partition=partition):
                    held = {each for each in self.held.get(member, ()) if each[0] == partition}
                    self.held.get(member, set()).difference_update(held)
                    self.excused.update(held)
                case Rebalanced(member=member) | GroupRefused(member=member):
                    self.gone(member)
                case _:
                    pass

    def gone(self, member: str) -> None:
        self.members.discard(member)
        self.excused.update(self.held.pop(member, set()))

    def begin(self, partitions: tuple[int, ...]) -> None:
        raise NotImplementedError

    # What happens

    def append(self) -> None:
        self.ends[self.random.randrange(PARTITIONS)] += self.random.randint(1, 20)

    def join(self) -> None:
        """The attach is answered when its records are durable, so before that nothing is delivered."""
        if len(self.members) < 4:
            self.next += 1
            member = f"{'abcd'[self.next % 4]}{self.next}"
            self.did(self.attach(member))
            self.state.confirmed = len(self.state.records)
            self.members.add(member)

    def vanish(self) -> None:
        if self.members:
            member = self.random.choice(sorted(self.members))
            self.gone(member)
            self.did(self.depart(member))

    def deliver(self) -> None:
        credit = {member: self.random.randint(0, 12) for member in self.members}
        for member, each in self.take(credit):
            for offset in range(each.run.first, each.run.end):
                message = (each.partition, offset)
                assert message not in self.told, "settled on disk, and delivered again"
                assert offset < self.ends[each.partition]
                if not self.delivered[message]:
                    assert offset == self.front[each.partition] + 1, "out of order, or left out"
                    self.front[each.partition] = offset
                self.delivered[message] += 1
                self.held.setdefault(member, set()).add(message)
                holders = sum(message in messages for messages in self.held.values())
                reasons = self.excused[message] + holders + (message in self.settled)
                assert self.delivered[message] == reasons, "again without a reason"

    def answer(self) -> None:
        for member in sorted(self.held):
            messages = sorted(self.held[member])
            for message in self.random.sample(messages, self.random.randint(0, min(len(messages), 8))):
                outcome = self.random.choice([Outcome.ACCEPTED] * 4 + [Outcome.RELEASED, Outcome.FAILED])
                self.answer_one(member, message, outcome)

    def answer_one(self, member: str, message: Message, outcome: Outcome) -> None:
        held = self.cursor(message[0]).unsettled(member)
        assert any(first <= message[1] < end for first, end in held)
        self.held[member].discard(message)
        sequence = self.settle(member, message, outcome)
        if outcome is Outcome.ACCEPTED:
            self.settled.add(message)
            self.told.update(*self.flushes.wait(self.cursor(message[0]), sequence, {message}))
        else:
            self.excused[message] += 1

    def flush(self) -> None:
        flushes = self.flushes.begin(self.random.randint(1, 4))
        for flush in flushes:
            self.state.put(flush.key, flush.value)
        fate = self.random.random()
        if fate < 0.7:
            self.state.confirmed = len(self.state.records)
            for flush in flushes:
                self.told.update(*self.flushes.done(flush))
        elif fate < 0.85:  # refused, so none of it is there
            del self.state.records[len(self.state.records) - len(flushes) :]
            for flush in flushes:
                self.flushes.failed(flush)
        else:  # the machine dies before anybody hears of it
            self.crash()

    def crash(self) -> None:
        self.state.crash(self.random)
        self.members.clear()
        for messages in self.held.values():
            self.excused.update(messages)
        self.held.clear()
        self.excused.update(self.settled - self.told)
        self.settled = set(self.told)
        self.restart()

    def run(self, steps: int) -> None:
        choices = [self.append, self.join, self.vanish, self.deliver, self.deliver, self.answer, self.answer]
        for _ in range(steps):
            self.now_ms += 10
            self.random.choice([*choices, self.flush, self.flush])()
            if self.random.random() < 0.01:
                self.crash()

    def drain(self) -> None:
        """With consumers that take all there is, everything is settled in the end."""
        self.join()
        total = sum(self.ends.values())
        for _ in range(20 * total):
            self.now_ms += 10_000
            self.deliver()
            for member in sorted(self.held):
                for message in sorted(self.held[member]):
                    self.answer_one(member, message, Outcome.ACCEPTED)
            if all(self.front[partition] == end - 1 for partition, end in self.ends.items()) and not any(
                self.cursor(partition).lag(end) for partition, end in self.ends.items() if end
            ):
                return
        raise AssertionError("not everything came")


class Subscribed(Node):
    """A shared durable subscription."""

    def engine(self) -> None:
        self.all: Subscriptions[str] = Subscriptions(self.flushes)

    def restore(self, value: bytes, positions: dict[int, Position]) -> None:
        self.all.restore(decode_definition(value), positions, self.ends, self.now_ms, LIMITS)

    def attach(self, member: str) -> list[Any]:
        attach = Attach("/", "orders", 1, LinkId(member, "s"), True, True, True)
        return self.all.attach(member, attach, dict.fromkeys(range(PARTITIONS), 0), LIMITS)

    def depart(self, member: str) -> list[Any]:
        return self.all.depart(member, Departure.CONNECTION_CLOSE, self.now_ms)

    def take(self, credit: dict[str, int]) -> list[tuple[str, PartitionRun]]:
        found = []
        for subscription in self.all.on_log("/", "orders"):
            for deal in subscription.deal(credit, self.ends):
                found += [(deal.consumer, each) for each in deal.runs]
        return found

    def settle(self, member: str, message: Message, outcome: Outcome) -> int:
        (subscription,) = self.all.on_log("/", "orders")
        return subscription.settle(member, message[0], message[1], message[1] + 1, outcome)

    def cursor(self, partition: int) -> Any:
        (subscription,) = self.all.on_log("/", "orders")
        return subscription.cursors.by_partition[partition]


class Grouped(Node):
    """A consumer group whose partitions move."""

    policy = GroupPolicy(binding=Binding.DYNAMIC, move_ms_max=200)

    def engine(self) -> None:
        self.all: Groups[str] = Groups(self.flushes)

    def restore(self, value: bytes, positions: dict[int, Position]) -> None:
        definition, epochs = decode_group(value)
        self.all.restore(definition, epochs, positions, self.ends, self.policy, LIMITS)

    def attach(self, member: str) -> list[Any]:
        definition = GroupDefinition(GroupId("/", "orders", "g"), 1)
        asked = GroupAttach(LinkId(member[0], member))
        return self.all.attach(member, definition, asked, self.policy, range(PARTITIONS), self.now_ms, LIMITS)

    def depart(self, member: str) -> list[Any]:
        return self.all.leave(member, is_closed=False, now_ms=self.now_ms)

    def take(self, credit: dict[str, int]) -> list[tuple[str, PartitionRun]]:
        self.did(self.all.tick(self.now_ms))
        return [
            (member, each)
            for group in self.all.on_log("/", "orders")
            for member, count in credit.items()
            for each in group.take(member, count, self.ends)
        ]

    def begin(self, partitions: tuple[int, ...]) -> None:
        (group,) = self.all.on_log("/", "orders")
        for partition in partitions:
            self.did(group.begin(partition, 0))

    def settle(self, member: str, message: Message, outcome: Outcome) -> int:
        (group,) = self.all.on_log("/", "orders")
        sequence, effects = group.settle(member, message[0], message[1], message[1] + 1, outcome)
        self.did(effects)
        return sequence

    def cursor(self, partition: int) -> Any:
        (group,) = self.all.on_log("/", "orders")
        return group.cursors.by_partition[partition]


class Bound(Grouped):
    """A consumer group whose links are assigned a partition each, and some are closed for others."""

    policy = GroupPolicy(keeps_pending=True, pending_ms_max=10**9)


@pytest.mark.parametrize("kind", [Subscribed, Grouped, Bound])
@pytest.mark.parametrize("seed", range(25))
def test_nothing_settled_comes_again_and_nothing_is_left_out(kind: type[Node], seed: int) -> None:
    node = kind(Random(seed))
    node.run(300)
    while len(node.members) < PARTITIONS:
        node.join()
    node.drain()
    assert sum(node.delivered.values()) >= sum(node.ends.values()) > 0


def test_the_simulation_sees_a_settlement_that_is_told_before_it_is_on_disk() -> None:
    class Hasty(Subscribed):
        def answer_one(self, member: str, message: Message, outcome: Outcome) -> None:
            super().answer_one(member, message, outcome)
            self.told.update({message} & self.settled)

    def run_all() -> None:
        for seed in range(25):
            Hasty(Random(seed)).run(300)

    with pytest.raises(AssertionError, match="settled on disk"):
        run_all()


def test_the_simulation_reaches_crashes_redeliveries_and_flushes() -> None:
    node = Subscribed(Random(1))
    node.run(300)
    assert max(node.delivered.values()) > 1
    assert node.told
    assert any(key.startswith(SUBSCRIPTION) for key in node.state.values())
    grouped = Grouped(Random(1))
    grouped.run(300)
    assert any(key.startswith(GROUP) for key in grouped.state.values())

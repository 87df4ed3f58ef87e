"""Consumers over crashes: a `$state` that may lose whatever it did not confirm, and an account of every message.

What was settled and told to be on disk never comes again. Whatever comes again was unsettled, or settled after the last
flush. Nothing is left out, and what comes for the first time comes in order. Each check can fail: a server that is
broken on purpose is found out by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headwater.engine.group_record import decode_group
from headwater.engine.state_record import CURSOR, Delete, Put
from tests.simulation.consumer_kinds import KINDS, Bound, Fenced, Moving, Shared, Terminus, live
from tests.simulation.consumer_node import LIMITS, Node

SEEDS_MAX = 200
"""So many schedules at most until a broken server is found out."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(30))
def test_nothing_settled_comes_again_and_nothing_is_left_out(kind: type[Node], seed: int) -> None:
    live(kind, seed)


@pytest.mark.parametrize("kind", KINDS)
def test_the_schedules_reach_what_they_are_to_reach(kind: type[Node]) -> None:
    nodes = [live(kind, seed) for seed in range(10)]
    accounts = [account for node in nodes for account in node.accounts.values()]
    assert sum(node.crash_count for node in nodes) > 50
    assert len(accounts) > len(nodes)
    assert sum(len(set(node.letters.records)) for node in nodes) > 20
    assert any(set(node.ends) != {0, 1, 2} for node in nodes)
    assert any(any(node.retained.values()) for node in nodes)
    assert sum(max(account.delivered.values(), default=0) > 1 for account in accounts) > 5
    if kind is Fenced:
        assert any(epoch for account in accounts for epoch in account.epochs.values())


class TellsEarly(Shared):
    """A settlement is told before it is on disk."""

    def wait(self, partition: int, sequence: int, call: Callable[[], None]) -> None:
        call()


class TellsNever(Moving):
    """A settlement is on disk, and nobody is told."""

    def wait(self, partition: int, sequence: int, call: Callable[[], None]) -> None:
        pass


class LosesFlushes(Terminus):
    """A flush is taken for done that never reached the disk."""

    def flush(self) -> None:
        self.flushed_ms = self.now_ms
        for flush in self.flushes.begin(9):
            for call in self.flushes.done(flush):
                call()


class PutsOwnersFirst(Shared):
    """A subscription is on disk before its cursors, so that a crash makes it begin elsewhere."""

    def did(self, effects: list[Any]) -> None:
        super().did(sorted(effects, key=lambda each: isinstance(each, Put) and each.key.startswith(CURSOR)))


class DeletesCursorsFirst(Shared):
    """A subscription that ends loses its cursors before itself, so that a crash brings it back without them."""

    def did(self, effects: list[Any]) -> None:
        is_last = [isinstance(each, Delete) and not each.key.startswith(CURSOR) for each in effects]
        super().did(
            [each for _, each in sorted(zip(is_last, effects, strict=True), key=lambda pair: pair[0])]
        )


class LetsGoOfWaitersEarly(Shared):
    """The end of a subscription confirms what waited, before the end is on disk."""

    def did(self, effects: list[Any]) -> None:
        super().did(effects)
        for effect in effects:
            for call in getattr(effect, "waited", ()):
                call()


class BelievesLettersEarly(Bound):
    """A dead letter is settled before it is on disk."""

    def sync_letters(self) -> None:
        if self.chance(0.1):
            self.letters.crash(self.random)


class SkipsRetention(Shared):
    """A restart does not ask what retention has taken."""

    def overtake(self) -> None:
        pass


class ForgetsTheGone(Shared):
    """A consumer that is gone keeps what it held."""

    def depart(self, member: str) -> list[Any]:
        return []


class KeepsToItsPartitions(Shared):
    """A partition that comes later is nobody's."""

    def change(self, firsts: dict[int, int]) -> list[Any]:
        self.note_starts(firsts)
        return self.all.log_changed(
            "/", "orders", {key: firsts[key] for key in self.cursors() if key in firsts}
        )


class KnowsAllPartitions(Moving):
    """A restart takes partitions for known ones that came just before the crash."""

    def restore(self, value: bytes, positions: dict[int, Any]) -> list[Any]:
        definition, epochs = decode_group(value)
        known = {number: epochs.get(number, 0) for number in self.ends}
        return self.all.restore(definition, known, positions, self.ends, self.policy, LIMITS)


class TellsEpochsEarly(Fenced):
    """A link is told its epoch before that is on disk."""

    def did(self, effects: list[Any]) -> None:
        super().did(effects)
        if self.account is not None and (group := self.group()) is not None:
            self.account.epochs.update({key: epoch for key, epoch in group.epochs.items() if epoch})


class ForgetsEpochs(Fenced):
    """A restart takes every epoch for 0."""

    def restore(self, value: bytes, positions: dict[int, Any]) -> list[Any]:
        deletes = super().restore(value, positions)
        group = self.group()
        assert group is not None
        for share in group._shares.values():
            share.epoch = 0
        return deletes


class StartsEarly(Bound):
    """An attach is answered, and messages go out, before it is on disk where the group starts."""

    def attach(self, member: str, tag: int) -> list[Any]:
        self.unanswered.discard(member)
        self.members.add(member)
        return super().attach(member, tag)

    def unready(self) -> set[int]:
        return set()


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        (TellsEarly, "settled on disk"),
        (TellsNever, "settled before a flush"),
        (LosesFlushes, "settled on disk"),
        (PutsOwnersFirst, "left out|again without a reason"),
        (DeletesCursorsFirst, "settled on disk, and delivered again|out of order"),
        (LetsGoOfWaitersEarly, "settled on disk"),
        (BelievesLettersEarly, "neither accepted nor a dead letter"),
        (SkipsRetention, "what retention took"),
        (ForgetsTheGone, "not everything came"),
        (KeepsToItsPartitions, "not everything came"),
        (KnowsAllPartitions, "where the group starts is forgotten"),
        (TellsEpochsEarly, "epoch"),
        (ForgetsEpochs, "epoch"),
        (StartsEarly, "a start that is not on disk"),
    ],
)
def test_the_simulation_finds_a_server_that_is_broken(broken: type[Node], found: str) -> None:
    def live_often() -> None:
        for seed in range(SEEDS_MAX):
            live(broken, seed)

    with pytest.raises(AssertionError, match=found):
        live_often()

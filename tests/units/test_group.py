"""One consumer group: ownership, epochs, waiting, and spreading; then members that come, go and are killed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headwater.engine.cursor import CursorLimits
from headwater.engine.cursor_flushes import CursorFlushes, WaitOver
from headwater.engine.delivery import Outcome, Run
from headwater.engine.group import Group
from headwater.engine.group_effects import (
    Assigned,
    Attached,
    Binding,
    Evicted,
    GroupAttach,
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
from headwater.engine.group_record import GroupDefinition, GroupId, decode_group
from headwater.engine.link_id import LinkId
from headwater.engine.state_record import Delete, Put, cursor_key

DEFINITION = GroupDefinition(GroupId("/", "orders", "billing"))
DYNAMIC = GroupPolicy(binding=Binding.DYNAMIC, move_ms_max=100)
WAITING = GroupPolicy(keeps_pending=True, pending_ms_max=1000)


def group_of(
    partitions: int | list[int],
    policy: GroupPolicy | None = None,
    epochs: dict[int, int] | None = None,
    flushes: CursorFlushes[str, str] | None = None,
) -> Group[str]:
    """Of so many partitions, or of these."""
    numbers = list(range(partitions)) if isinstance(partitions, int) else partitions
    return Group(
        DEFINITION, policy or GroupPolicy(), numbers, CursorLimits(), flushes or CursorFlushes(), epochs
    )


def attach(group: Group[str], member: str, *, now_ms: int = 0, **asked: Any) -> list[Any]:
    """A member `a1` is a link of container `a`, unless another is named."""
    link = asked.pop("link", LinkId(member[0], member))
    effects = group.attach(member, GroupAttach(link, **asked), now_ms)
    for effect in effects:
        match effect:
            case Attached(partition=int(partition), needs_start=True):
                group.begin(partition, 0)
            case Assigned(needs_start=partitions):
                for partition in partitions:
                    group.begin(partition, 0)
    return effects


def leave(group: Group[str], member: str, *, is_closed: bool = False, now_ms: int = 0) -> list[Any]:
    return group.leave(member, is_closed=is_closed, now_ms=now_ms)


def offsets(group: Group[str], member: str, count: int, end: int = 100) -> list[tuple[int, int, int]]:
    ends = dict.fromkeys(range(20), end)
    return [(each.partition, each.run.first, each.run.end) for each in group.take(member, count, ends)]


def test_a_link_owns_the_partition_that_it_names_and_its_epoch_is_told() -> None:
    group = group_of(3)
    assert attach(group, "a1", partition=1) == [Attached("a1", 1, 0, True)]
    assert group.partitions_of("a1") == (1,)
    assert attach(group, "b1", partition=3) == [GroupRefused("b1", GroupRefusal.UNKNOWN_PARTITION)]


@pytest.mark.parametrize("epoch", [None, 0, 4, 5])
def test_a_second_link_without_a_greater_epoch_is_refused_and_told_the_current_one(epoch: int | None) -> None:
    group = group_of(2)
    put, attached = attach(group, "a1", partition=0, epoch=5)
    assert decode_group(put.value)[1] == {0: 5, 1: 0}
    assert attached == Attached("a1", 0, 5, True)
    assert attach(group, "b1", partition=0, epoch=epoch) == [GroupRefused("b1", GroupRefusal.OWNED, 5)]


def test_a_greater_epoch_evicts_the_owner_and_is_recorded_before_it_is_told() -> None:
    group = group_of(2)
    attach(group, "a1", partition=0, epoch=5)
    assert offsets(group, "a1", 3) == [(0, 0, 3)]
    evicted, put, attached = attach(group, "b1", partition=0, epoch=6)
    assert (evicted, attached) == (Evicted("a1"), Attached("b1", 0, 6, False))
    assert decode_group(put.value)[1] == {0: 6, 1: 0}
    assert offsets(group, "b1", 3) == [(0, 0, 3)]
    assert offsets(group, "a1", 3) == []
    assert leave(group, "a1", is_closed=True) == []
    assert group.epochs == {0: 6, 1: 0}


@pytest.mark.parametrize("epoch", [-1, 1 << 63])
def test_an_epoch_that_no_long_can_be_is_refused(epoch: int) -> None:
    assert attach(group_of(1), "a1", partition=0, epoch=epoch) == [GroupRefused("a1", GroupRefusal.BAD_EPOCH)]


def test_the_same_link_takes_itself_over_and_keeps_its_epoch() -> None:
    group = group_of(2)
    attach(group, "a1", partition=0, epoch=5)
    same = LinkId("a", "a1")
    assert attach(group, "a2", link=same, partition=0, epoch=3) == [
        Evicted("a1"),
        Attached("a2", 0, 5, False),
    ]
    assert attach(group, "a3", link=same) == [Evicted("a2"), Attached("a3", 0, 5, False)]
    evicted, attached = attach(group, "a4", link=same, partition=1)
    assert (evicted, attached) == (Evicted("a3"), Attached("a4", 1, 0, True))


def test_an_epoch_survives_what_is_no_close_and_a_restart_and_fences_lower_ones() -> None:
    group = group_of(2)
    attach(group, "a1", partition=0, epoch=5)
    assert leave(group, "a1") == []
    again = group_of(2, epochs=decode_group(group.put().value)[1])
    assert attach(again, "b1", partition=0, epoch=4) == [GroupRefused("b1", GroupRefusal.STALE_EPOCH, 5)]
    assert attach(again, "b1", partition=0) == [Attached("b1", 0, 5, True)]


def test_an_epoch_is_0_again_when_the_receiver_closes() -> None:
    group = group_of(2)
    attach(group, "a1", partition=0, epoch=5)
    (put,) = leave(group, "a1", is_closed=True)
    assert decode_group(put.value)[1] == {0: 0, 1: 0}
    assert attach(group, "b1", partition=0, epoch=1)[1:] == [Attached("b1", 0, 1, False)]


def test_a_link_that_names_no_partition_gets_a_free_one_and_none_is_left_for_the_last() -> None:
    group = group_of(2)
    assert attach(group, "a1") == [Attached("a1", 0, 0, True)]
    assert attach(group, "b1") == [Attached("b1", 1, 0, True)]
    assert attach(group, "c1") == [GroupRefused("c1", GroupRefusal.NONE_FREE)]


def test_an_assigned_partition_is_one_whose_epoch_is_not_above_what_is_asked() -> None:
    group = group_of(2, epochs={0: 7})
    assert attach(group, "a1", epoch=3)[1:] == [Attached("a1", 1, 3, True)]
    assert attach(group, "b1", epoch=3) == [GroupRefused("b1", GroupRefusal.NONE_FREE)]


def test_a_pending_link_gets_what_becomes_free_and_is_refused_when_it_waited_for_too_long() -> None:
    group = group_of(1, WAITING)
    attach(group, "a1")
    assert attach(group, "b1", now_ms=10) == [Pending("b1")]
    assert attach(group, "c1", now_ms=20) == [Pending("c1")]
    assert leave(group, "a1", now_ms=30) == [Attached("b1", 0, 0, False)]
    assert group.next_tick_ms == 1020
    assert group.tick(1019) == []
    assert group.tick(1020) == [GroupRefused("c1", GroupRefusal.WAITED_TOO_LONG)]
    assert leave(group, "c1") == []


def test_no_more_wait_than_may() -> None:
    group = group_of(1, GroupPolicy(keeps_pending=True, pending_count_max=1))
    attach(group, "a1")
    attach(group, "b1")
    assert attach(group, "c1") == [GroupRefused("c1", GroupRefusal.TOO_MANY)]
    full = group_of(5, GroupPolicy(members_max=1))
    attach(full, "a1")
    assert attach(full, "b1", partition=3) == [GroupRefused("b1", GroupRefusal.TOO_MANY)]


def test_a_newcomer_gets_its_share_of_one_that_has_more_but_never_what_it_chose() -> None:
    group = group_of(4, WAITING)
    attach(group, "a0", partition=0)
    for number in (1, 2, 3):
        attach(group, f"a{number}")
    assert attach(group, "b1") == [Rebalanced("a3"), Attached("b1", 3, 0, False)]
    assert attach(group, "a3") == [Pending("a3")]
    assert attach(group, "b2") == [Pending("b2")]
    assert group.partitions_of("a0") == (0,)


def test_without_waiting_what_was_taken_for_a_newcomer_is_kept_for_it_for_a_while() -> None:
    group = group_of(2, GroupPolicy(reserved_ms=100))
    attach(group, "a1")
    attach(group, "a2")
    assert attach(group, "b1") == [GroupRefused("b1", GroupRefusal.NONE_FREE), Rebalanced("a2")]
    assert attach(group, "a2", now_ms=50) == [GroupRefused("a2", GroupRefusal.NONE_FREE)]
    assert attach(group, "b1", now_ms=60) == [Attached("b1", 1, 0, False)]
    leave(group, "b1")
    attach(group, "a2")
    attach(group, "b1", now_ms=200)
    assert group.next_tick_ms == 300
    group.tick(300)
    assert attach(group, "a2", now_ms=301) == [Attached("a2", 1, 0, False)]


def test_a_filter_decides_where_a_link_starts_and_else_the_position_of_the_group() -> None:
    group = group_of(1)
    attach(group, "a1")
    offsets(group, "a1", 10)
    group.settle("a1", 0, 0, 4, Outcome.ACCEPTED)
    leave(group, "a1")
    assert attach(group, "b1") == [Attached("b1", 0, 0, False)]
    assert offsets(group, "b1", 8) == [(0, 4, 10), (0, 10, 12)]
    leave(group, "b1")
    effects = group.attach("c1", GroupAttach(LinkId("c", "c1"), has_start=True), 0)
    assert effects == [Attached("c1", 0, 0, True)]
    (put,) = group.begin(0, 50)
    assert isinstance(put, Put)
    assert offsets(group, "c1", 1) == [(0, 50, 51)]


def test_partitions_are_spread_over_agnostic_links_and_move_when_their_owner_has_settled() -> None:
    group = group_of(4, DYNAMIC)
    assert attach(group, "a1") == [Attached("a1", None, 0, False), Assigned("a1", (0, 1, 2, 3), (0, 1, 2, 3))]
    while offsets(group, "a1", 5, 5):
        pass
    assert attach(group, "b1") == [Attached("b1", None, 0, False), Assigned("a1", (0, 1), ())]
    assert offsets(group, "b1", 5) == []
    sequence, effects = group.settle("a1", 2, 0, 4, Outcome.ACCEPTED)
    assert effects == []
    _, effects = group.settle("a1", 2, 4, 5, Outcome.RELEASED)
    assert effects == [Assigned("b1", (2,), ())]
    assert offsets(group, "b1", 2) == [(2, 4, 5), (2, 5, 6)]
    assert group.next_tick_ms == 100
    assert group.tick(100) == [Revoked("a1", 3), Assigned("b1", (2, 3), ())]
    assert group.settle("a1", 3, 0, 5, Outcome.ACCEPTED)[1] == []
    assert group.cursors.by_partition[3].low == 0
    assert sequence > 1


def test_a_member_that_is_gone_leaves_its_partitions_to_the_others_at_once() -> None:
    group = group_of(3, DYNAMIC)
    attach(group, "a1")
    attach(group, "b1")
    while offsets(group, "a1", 5, 5):
        pass
    assert leave(group, "a1") == [Assigned("b1", (0, 1, 2), ())]
    assert offsets(group, "b1", 1)[0][1] == 0
    assert leave(group, "b1") == []


def test_a_link_that_chooses_takes_a_partition_out_of_the_spread() -> None:
    group = group_of(3, DYNAMIC)
    attach(group, "a1")
    assert attach(group, "b1", partition=1) == [GroupRefused("b1", GroupRefusal.OWNED, 0)]
    revoked, _, attached, assigned = attach(group, "b1", partition=1, epoch=1)
    assert revoked == Revoked("a1", 1)
    assert (attached, assigned) == (Attached("b1", 1, 1, False), Assigned("a1", (0, 2), ()))
    assert leave(group, "b1") == [Assigned("a1", (0, 1, 2), ())]


def test_a_log_that_grows_gives_its_partitions_to_those_who_wait_or_share() -> None:
    group = group_of(1, WAITING)
    attach(group, "a1")
    attach(group, "b1")
    cursor, own, attached = group.log_changed(dict.fromkeys([0, 1], 0), 0)
    assert (cursor, own, attached) == (*group.cursors.puts(1), group.put(), Attached("b1", 1, 0, False))
    dynamic = group_of(1, DYNAMIC)
    attach(dynamic, "a1")
    assert dynamic.log_changed(dict.fromkeys([0, 1, 2], 0), 0)[3:] == [Assigned("a1", (0, 1, 2), ())]


BOUND = 1 << 31


def test_partitions_have_any_numbers_and_are_given_away_in_the_order_of_the_log() -> None:
    group = group_of([3, BOUND + 9, BOUND + 2], epochs={BOUND + 2: 4, 8: 1})
    assert attach(group, "a1", partition=0) == [GroupRefused("a1", GroupRefusal.UNKNOWN_PARTITION)]
    assert attach(group, "a1", partition=BOUND + 9) == [Attached("a1", BOUND + 9, 0, True)]
    assert attach(group, "a2") == [Attached("a2", 3, 0, True)]
    assert attach(group, "a3") == [Attached("a3", BOUND + 2, 4, True)]
    assert group.epochs == {3: 0, BOUND + 9: 0, BOUND + 2: 4}
    assert offsets(group, "a1", 2, 100) == []
    assert group.take("a1", 2, {BOUND + 9: 100})[0].partition == BOUND + 9
    dynamic = group_of([BOUND + 7, 1, BOUND], DYNAMIC)
    assert attach(dynamic, "a1")[1].partitions == (BOUND + 7, 1, BOUND)
    attach(dynamic, "b1")
    assert dynamic.partitions_of("a1") == (BOUND + 7, 1)


def test_a_partition_that_goes_ends_the_link_that_is_bound_to_it_and_takes_its_epoch_and_position() -> None:
    group = group_of([4, BOUND], WAITING)
    attach(group, "a1", partition=BOUND, epoch=5)
    attach(group, "b1")
    attach(group, "c1")
    gone, put, delete = group.log_changed(dict.fromkeys([4], 0), 0)
    assert isinstance(put, Put)
    assert (gone, delete) == (PartitionGone("a1"), Delete(cursor_key(DEFINITION.id.digest, BOUND)))
    assert decode_group(put.value)[1] == {4: 0}
    assert (group.members, group.pending) == (("b1",), ("c1",))
    assert list(group.cursors.by_partition) == [4]
    assert leave(group, "a1", is_closed=True) == []
    *_, attached = group.log_changed({4: 0, BOUND: 7}, 0)
    assert attached == Attached("c1", BOUND, 0, False)
    assert offsets(group, "c1", 3) == []
    assert group.take("c1", 3, {BOUND: 9})[0].run.first == 7


def test_an_agnostic_link_loses_what_goes_and_what_it_settled_there_is_told_to_it() -> None:
    flushes: CursorFlushes[str, str] = CursorFlushes()
    group = group_of([0, 5, BOUND], DYNAMIC, flushes=flushes)
    attach(group, "a1")
    for partition in (0, 5, BOUND):
        group.take("a1", 30, {partition: 10})
    sequence, _ = group.settle("a1", BOUND, 0, 4, Outcome.ACCEPTED)
    assert flushes.wait(group.cursors.by_partition[BOUND], sequence, "settled") == []
    attach(group, "b1")
    assert group.partitions_of("a1") == (0, 5)
    assert group.log_changed(dict.fromkeys([5, 0], 0), 0) == [
        Revoked("a1", BOUND),
        group.put(),
        Delete(cursor_key(DEFINITION.id.digest, BOUND)),
        WaitOver(("settled",)),
        Assigned("a1", (5,), ()),
    ]
    assert group.settle("a1", BOUND, 4, 10, Outcome.ACCEPTED) == (0, [])
    assert group.settle("a1", 0, 0, 10, Outcome.ACCEPTED)[1] == [Assigned("b1", (0,), ())]
    assert group.log_changed(dict.fromkeys([], 0), 0)[:2] == [Revoked("a1", 5), Revoked("b1", 0)]
    assert group.partitions_of("b1") == ()


def test_a_reset_moves_the_group_and_parts_with_those_who_had_these_partitions() -> None:
    group = group_of(2)
    attach(group, "a1", partition=0, epoch=7)
    attach(group, "b1", partition=1)
    assert offsets(group, "a1", 10) == [(0, 0, 10)]
    offsets(group, "b1", 10)
    effects = group.reset({0: 5}, 0)
    assert effects == [*group.cursors.puts(0), GroupReset("a1")]
    assert (group.members, group.owner_of(0), group.owner_of(1)) == (("b1",), None, "b1")
    # What the link that is gone held is settled by nobody, and nothing of it comes with a raised count.
    assert group.settle("a1", 0, 0, 10, Outcome.ACCEPTED)[1] == []
    assert attach(group, "a1", partition=0, epoch=7) == [Attached("a1", 0, 7, False)]
    assert [each.run for each in group.take("a1", 3, {0: 100})] == [Run(5, 8, 0)]
    assert group.cursors.held_counts() == {"a1": 3, "b1": 10}


def test_a_reset_gives_a_partition_to_who_waits_and_a_position_to_one_that_had_none() -> None:
    group = group_of(2, WAITING)
    attach(group, "a1", partition=0)
    group.reset({1: 9}, 0)
    assert attach(group, "b1") == [Attached("b1", 1, 0, False)]
    assert attach(group, "c1") == [Pending("c1")]
    assert (group.link_of("c1"), group.link_of("b1")) == (LinkId("c", "c1"), LinkId("b", "b1"))
    assert group.reset({1: 3}, 0)[1:] == [GroupReset("b1"), Attached("c1", 1, 0, False)]
    assert offsets(group, "c1", 2) == [(1, 3, 5)]


def test_an_agnostic_link_is_parted_with_when_one_of_its_partitions_is_reset() -> None:
    group = group_of(2, DYNAMIC)
    attach(group, "a1")
    attach(group, "b1")
    mine = group.partitions_of("a1")
    effects = group.reset({mine[0]: 4}, 0)
    assert GroupReset("a1") in effects
    assert GroupReset("b1") not in effects
    assert group.partitions_of("b1") == (0, 1)


def test_the_end_of_a_group_names_all_that_are_in_it_or_wait() -> None:
    group = group_of(1, WAITING)
    attach(group, "a1")
    attach(group, "b1")
    ended, *deletes = group.end()
    assert ended == GroupEnded(("a1", "b1"))
    assert [type(each) for each in deletes] == [Delete, Delete]
    assert (group.members, group.pending) == ((), ())


class Members(RuleBasedStateMachine):
    """Containers with several links each, which do as they are told; every message is delivered by its owner alone."""

    CONTAINERS = ("a", "b", "c", "d")
    NUMBERS = (0, 1, 2, 3, 7, BOUND, BOUND + 1, BOUND + 40)

    @initialize(
        policy=st.sampled_from([GroupPolicy(), WAITING, DYNAMIC]),
        partitions=st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=6, unique=True),
    )
    def begin(self, policy: GroupPolicy, partitions: list[int]) -> None:
        self.flushes: CursorFlushes[str, str] = CursorFlushes()
        self.group = group_of(partitions, policy, flushes=self.flushes)
        self.partitions, self.now_ms, self.next = partitions, 0, 0
        self.links: dict[str, str] = {}  # all that our side has not ended: "attached" or "pending"
        self.unsettled: dict[str, set[tuple[int, int]]] = {}
        self.settled: set[tuple[int, int]] = set()
        self.explained: Counter[tuple[int, int]] = Counter()  # deliveries that ended unsettled
        self.delivered: Counter[tuple[int, int]] = Counter()
        self.front = dict.fromkeys(partitions, -1)

    def did(self, effects: list[Any]) -> None:
        for effect in effects:
            match effect:
                case Attached(member=member, partition=partition, needs_start=needs_start):
                    self.links[member] = "attached"
                    if partition is not None and needs_start:
                        self.group.begin(partition, 0)
                case Pending(member=member):
                    self.links[member] = "pending"
                case Assigned(needs_start=partitions):
                    for partition in partitions:
                        self.group.begin(partition, 0)
                case (
                    GroupRefused(member=member)
                    | Evicted(member=member)
                    | Rebalanced(member=member)
                    | PartitionGone(member=member)
                ):
                    self.links.pop(member, None)
                    self.explained.update(self.unsettled.pop(member, set()))
                case Revoked(member=member, partition=partition):
                    held = {each for each in self.unsettled.get(member, ()) if each[0] == partition}
                    self.unsettled.get(member, set()).difference_update(held)
                    self.explained.update(held)
                case Put() | Delete():
                    pass
                case _:
                    raise AssertionError(effect)

    @rule(
        container=st.sampled_from(CONTAINERS),
        partition=st.none() | st.sampled_from(NUMBERS),
        epoch=st.none() | st.integers(0, 3),
    )
    def attach(self, container: str, partition: int | None, epoch: int | None) -> None:
        self.next += 1
        member = f"{container}{self.next}"
        self.did(
            self.group.attach(member, GroupAttach(LinkId(container, member), partition, epoch), self.now_ms)
        )

    @rule(container=st.sampled_from(CONTAINERS))
    def attach_to_any(self, container: str) -> None:
        self.attach(container, None, None)

    @rule(data=st.data(), is_closed=st.booleans())
    def leave(self, data: st.DataObject, is_closed: bool) -> None:
        if self.links:
            member = data.draw(st.sampled_from(sorted(self.links)))
            del self.links[member]
            self.explained.update(self.unsettled.pop(member, set()))
            self.did(self.group.leave(member, is_closed=is_closed, now_ms=self.now_ms))

    @rule(container=st.sampled_from(CONTAINERS))
    def kill(self, container: str) -> None:
        for member in [each for each in self.links if each[0] == container]:
            if self.links.pop(member, None) is None:  # closed by what the one before it did
                continue
            self.explained.update(self.unsettled.pop(member, set()))
            self.did(self.group.leave(member, is_closed=False, now_ms=self.now_ms))

    @rule(after_ms=st.integers(1, 800))
    def tick(self, after_ms: int) -> None:
        self.now_ms += after_ms
        self.did(self.group.tick(self.now_ms))

    @rule(number=st.sampled_from(NUMBERS), place=st.integers(0, 8))
    def add(self, number: int, place: int) -> None:
        if number not in self.partitions:
            self.partitions.insert(place, number)
            self.front[number] = -1
            self.did(self.group.log_changed(dict.fromkeys(self.partitions, 0), self.now_ms))

    @rule(data=st.data())
    def take_away(self, data: st.DataObject) -> None:
        """All that was known of the partition is forgotten on our side, too."""
        if not self.partitions:
            return
        number = data.draw(st.sampled_from(self.partitions))
        self.partitions.remove(number)
        self.did(self.group.log_changed(dict.fromkeys(self.partitions, 0), self.now_ms))
        for messages in (self.settled, *self.unsettled.values()):
            messages.difference_update([each for each in messages if each[0] == number])
        for counts in (self.explained, self.delivered):
            for message in [each for each in counts if each[0] == number]:
                del counts[message]

    @rule(credit=st.integers(1, 5))
    def deliver(self, credit: int) -> None:
        ends = dict.fromkeys(self.partitions, 30)
        for member in [each for each, state in self.links.items() if state == "attached"]:
            for each in self.group.take(member, credit, ends):
                assert each.partition in self.group.partitions_of(member)
                for offset in range(each.run.first, each.run.end):
                    message = (each.partition, offset)
                    assert message not in self.settled
                    self.delivered[message] += 1
                    if self.delivered[message] == 1:
                        assert offset == self.front[each.partition] + 1
                        self.front[each.partition] = offset
                    self.unsettled.setdefault(member, set()).add(message)

    @rule(data=st.data(), outcome=st.sampled_from(Outcome))
    def settle(self, data: st.DataObject, outcome: Outcome) -> None:
        holders = sorted(member for member, messages in self.unsettled.items() if messages)
        if not holders:
            return
        member = data.draw(st.sampled_from(holders))
        partition, offset = data.draw(st.sampled_from(sorted(self.unsettled[member])))
        held = self.group.cursors.by_partition[partition].unsettled(member)
        assert any(first <= offset < end for first, end in held)
        self.unsettled[member].discard((partition, offset))
        if outcome in {Outcome.ACCEPTED, Outcome.REJECTED}:
            self.settled.add((partition, offset))
        else:
            self.explained[partition, offset] += 1
        self.did(self.group.settle(member, partition, offset, offset + 1, outcome)[1])

    @invariant()
    def every_partition_has_one_owner_and_every_repeat_a_reason(self) -> None:
        if not hasattr(self, "group"):
            return
        assert set(self.group.members) == {each for each, state in self.links.items() if state == "attached"}
        assert set(self.group.pending) == {each for each, state in self.links.items() if state == "pending"}
        owned = [partition for member in self.group.members for partition in self.group.partitions_of(member)]
        assert len(owned) == len(set(owned))
        assert list(self.group.epochs) == self.partitions
        assert set(owned) | set(self.group.cursors.by_partition) <= set(self.partitions)
        keys = {cursor_key(DEFINITION.id.digest, number) for number in self.partitions}
        assert {cursor.key for cursor in self.flushes.changed} <= keys
        holding = Counter(message for messages in self.unsettled.values() for message in messages)
        for message, count in self.delivered.items():
            assert count == self.explained[message] + holding[message] + (message in self.settled)

    @invariant()
    def the_spread_is_even(self) -> None:
        if not hasattr(self, "group") or not self.group.members:
            return
        members = self.group._members
        agnostic = [each for each, member in members.items() if member.partition is None]
        if agnostic:
            wanted = Counter(share.moves_to or share.owner for share in self.group._shares.values())
            loads = [wanted[each] for each in agnostic]
            assert max(loads) - min(loads) <= 1
            assert None not in wanted
        for each in members:
            has = [number for number, share in self.group._owned(each) if share.moves_to is None]
            assert self.group.partitions_of(each) == tuple(has)
        load = self.group._load()
        for asked, _ in self.group._pending.values():
            assert max(load.values(), default=0) - load[asked.link.container] < 2


TestMembers = Members.TestCase
TestMembers.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)

"""The registry of consumer groups."""

from __future__ import annotations

from typing import Any

from headwater.engine.cursor_flushes import CursorFlushes
from headwater.engine.cursor_record import Position
from headwater.engine.delivery import Outcome
from headwater.engine.group_effects import (
    Attached,
    Evicted,
    GroupAttach,
    GroupEnded,
    GroupPolicy,
    GroupRefusal,
    GroupRefused,
    GroupReset,
    PartitionGone,
    Pending,
)
from headwater.engine.group_record import GroupDefinition, GroupId, decode_group
from headwater.engine.groups import Groups
from headwater.engine.link_id import LinkId
from headwater.engine.state_record import Delete, Put, cursor_key

ID = GroupId("/", "orders", "billing")
DEFINITION = GroupDefinition(ID, 7)


def attach(
    groups: Groups[str], member: str, policy: GroupPolicy | None = None, name: str = "billing", **asked: Any
) -> list[Any]:
    definition = GroupDefinition(GroupId("/", "orders", name), 7)
    request = GroupAttach(LinkId(member[0], member), **asked)
    return groups.attach(member, definition, request, policy or GroupPolicy(), (0, 1), 0)


def new() -> Groups[str]:
    return Groups(CursorFlushes())


def test_an_attach_makes_the_group_and_its_record_comes_before_the_answer() -> None:
    groups = new()
    put, attached = attach(groups, "a1")
    assert isinstance(put, Put)
    assert decode_group(put.value) == (DEFINITION, {0: 0, 1: 0})
    assert attached == Attached("a1", 0, 0, True)
    group = groups.of("a1")
    assert group is not None
    assert list(groups.on_log("/", "orders")) == [groups.find(ID)] == [group]


def test_where_groups_are_configured_others_are_refused() -> None:
    groups = new()
    policy = GroupPolicy(makes_groups=False)
    assert attach(groups, "a1", policy) == [GroupRefused("a1", GroupRefusal.NOT_CONFIGURED)]
    effects = groups.configure(GroupDefinition(ID, 7, True), policy, (0, 1))
    assert isinstance(effects, list)
    assert attach(groups, "a1", policy) == [Attached("a1", 0, 0, True)]


def test_a_refused_attach_leaves_no_group_behind() -> None:
    groups = new()
    assert attach(groups, "a1", partition=9) == [GroupRefused("a1", GroupRefusal.UNKNOWN_PARTITION)]
    assert (groups.find(ID), groups.of("a1")) == (None, None)


def test_groups_and_names_have_bounds() -> None:
    groups = new()
    policy = GroupPolicy(groups_max=1)
    attach(groups, "a1", policy)
    assert attach(groups, "b1", policy, "other") == [GroupRefused("b1", GroupRefusal.TOO_MANY)]
    other = GroupDefinition(GroupId("/", "orders", "other"))
    assert groups.configure(other, policy, (0, 1)) is GroupRefusal.TOO_MANY
    assert attach(groups, "b1", None, "x" * 5000) == [GroupRefused("b1", GroupRefusal.NAME_TOO_LONG)]


def test_who_is_in_which_group_is_known_as_long_as_it_is_so() -> None:
    groups = new()
    waiting = GroupPolicy(keeps_pending=True)
    attach(groups, "a1", waiting, partition=0)
    attach(groups, "b1", waiting)
    assert attach(groups, "c1", waiting) == [Pending("c1")]
    assert attach(groups, "d1", waiting, partition=0, epoch=1)[0] == Evicted("a1")
    assert groups.of("a1") is None
    assert groups.leave("a1", is_closed=True, now_ms=0) == []
    assert groups.leave("b1", is_closed=True, now_ms=0) == [Attached("c1", 1, 0, True)]
    assert groups.next_tick_ms is None
    assert groups.of("c1") is groups.find(ID)


def test_one_who_waited_for_too_long_is_in_no_group() -> None:
    groups = new()
    waiting = GroupPolicy(keeps_pending=True, pending_ms_max=50)
    for member in ("a1", "b1", "c1"):
        attach(groups, member, waiting)
    assert groups.next_tick_ms == 50
    assert groups.tick(49) == []
    assert groups.tick(50) == [GroupRefused("c1", GroupRefusal.WAITED_TOO_LONG)]
    assert groups.of("c1") is None


def test_a_deleted_log_ends_its_groups() -> None:
    groups = new()
    attach(groups, "a1")
    attach(groups, "b1", None, "other")
    ended = [effect for effect in groups.log_deleted("/", "orders") if not isinstance(effect, Delete)]
    assert ended == [GroupEnded(("a1",)), GroupEnded(("b1",))]
    assert groups.of("a1") is None
    assert groups.end(ID) == []


def test_a_restart_finds_epochs_and_positions() -> None:
    groups = new()
    *puts, delete = groups.restore(
        DEFINITION, {0: 3, 5: 2}, {0: Position(40), 5: Position(1)}, {0: 100, 1: 100}, GroupPolicy()
    )
    known = groups.find(ID)
    assert known is not None
    assert (puts, delete) == ([*known.cursors.puts(1), known.put()], Delete(cursor_key(ID.digest, 5)))
    assert {number: cursor.low for number, cursor in known.cursors.by_partition.items()} == {0: 40, 1: 0}
    assert attach(groups, "a1", partition=0) == [Attached("a1", 0, 3, False)]
    group = groups.of("a1")
    assert group is not None
    assert [each.run.first for each in group.take("a1", 1, {0: 100})] == [40]
    assert groups.log_changed("/", "orders", dict.fromkeys((0, 1, 9), 0), 0) != []
    assert group.epochs == {0: 3, 1: 0, 9: 0}


def test_one_whose_partition_is_gone_is_in_no_group() -> None:
    groups = new()
    attach(groups, "a1", partition=1)
    attach(groups, "b1", None, "other", partition=0)
    effects = groups.log_changed("/", "orders", {0: 0}, 0)
    assert [effect for effect in effects if not isinstance(effect, Put)] == [PartitionGone("a1")]
    assert groups.of("a1") is None
    assert groups.of("b1") is not None
    assert groups.log_changed("/", "bills", dict.fromkeys((), 0), 0) == []


def test_retention_takes_from_groups_and_says_so() -> None:
    groups = new()
    attach(groups, "a1")
    group = groups.of("a1")
    assert group is not None
    group.begin(0, 10)
    group.take("a1", 5, {0: 100})
    group.settle("a1", 0, 10, 15, Outcome.ACCEPTED)
    assert groups.overtaken("/", "orders", 0, 20) == {ID: 5}
    assert groups.overtaken("/", "orders", 1, 20) == {}


def test_a_reset_of_a_group_that_is_there_takes_its_members_out() -> None:
    groups = new()
    attach(groups, "a1", partition=0)
    attach(groups, "b1", name="other", partition=0)
    assert [group.definition.id.name for group in groups] == ["billing", "other"]
    assert GroupReset("a1") in groups.reset(ID, {0: 5}, 0)
    assert groups.of("a1") is None
    assert groups.of("b1") is not None
    assert groups.reset(GroupId("/", "orders", "no such"), {0: 5}, 0) == []

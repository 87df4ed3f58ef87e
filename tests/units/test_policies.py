"""What the policies of a log mean to the engine: unless a log says otherwise, what the engine does by itself."""

from __future__ import annotations

from headwater.engine.cursor import CursorLimits
from headwater.engine.delivery_counts import COUNT_MAX
from headwater.engine.group_effects import Binding, GroupPolicy
from headwater.log.settings import LogPolicies, LogSettings
from headwater.server.management.policies import cursor_limits, group_policy


def test_a_log_without_policies_of_its_own_has_those_of_the_engine() -> None:
    assert group_policy(LogSettings()) == GroupPolicy()
    assert cursor_limits(LogSettings()) == CursorLimits()


def test_each_policy_of_groups_is_told_to_the_engine() -> None:
    policies = LogPolicies(
        group_binding="dynamic",
        group_creation="configured",
        group_waiting="wait",
        group_wait_ms_max=1,
        group_reserved_ms=2,
        group_move_ms_max=3,
        group_members_max=4,
        groups_max=5,
    )
    assert group_policy(policies) == GroupPolicy(
        binding=Binding.DYNAMIC,
        makes_groups=False,
        keeps_pending=True,
        pending_ms_max=1,
        reserved_ms=2,
        move_ms_max=3,
        members_max=4,
        groups_max=5,
    )


def test_dead_letters_are_kept_where_there_is_a_log_for_them() -> None:
    assert cursor_limits(LogPolicies(delivery_count_max=3)) == CursorLimits()
    assert cursor_limits(LogPolicies(dead_letter_log="dead")) == CursorLimits(keeps_rejected=True)
    both = cursor_limits(LogPolicies(delivery_count_max=3, dead_letter_log="dead"))
    assert both == CursorLimits(delivery_count_max=3, keeps_rejected=True)


def test_every_count_that_a_log_may_set_can_be_exceeded() -> None:
    assert LogPolicies(delivery_count_max=COUNT_MAX - 1).delivery_count_max == COUNT_MAX - 1

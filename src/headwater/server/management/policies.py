"""What the policies of a log mean to its consumer groups and cursors."""

from __future__ import annotations

from headwater.engine.cursor import CursorLimits
from headwater.engine.group_effects import Binding, GroupPolicy
from headwater.log.settings import LogPolicies

__all__ = ["cursor_limits", "group_policy"]


def group_policy(policies: LogPolicies) -> GroupPolicy:
    """What the log wants of its consumer groups."""
    return GroupPolicy(
        binding=Binding(policies.group_binding),
        makes_groups=policies.group_creation == "attach",
        keeps_pending=policies.group_waiting == "wait",
        pending_ms_max=policies.group_wait_ms_max,
        reserved_ms=policies.group_reserved_ms,
        move_ms_max=policies.group_move_ms_max,
        members_max=policies.group_members_max,
        groups_max=policies.groups_max,
    )


def cursor_limits(policies: LogPolicies) -> CursorLimits:
    """What becomes of messages of the log that nobody takes."""
    has_dead_letters = policies.dead_letter_log is not None
    return CursorLimits(
        delivery_count_max=policies.delivery_count_max if has_dead_letters else None,
        keeps_rejected=has_dead_letters,
    )

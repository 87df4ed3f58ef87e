"""What a consumer group is told, what it tells, and the policy that a log sets for its groups (ES-12 to ES-16)."""

from __future__ import annotations

import enum
from collections.abc import Hashable
from typing import Generic, TypeAlias, TypeVar

import msgspec

from headwater.engine.cursor_flushes import WaitOver
from headwater.engine.link_id import LinkId
from headwater.engine.state_record import Delete, Put

__all__ = [
    "Assigned",
    "Attached",
    "Binding",
    "Evicted",
    "GroupAttach",
    "GroupEffect",
    "GroupEnded",
    "GroupPolicy",
    "GroupRefusal",
    "GroupRefused",
    "GroupReset",
    "PartitionGone",
    "Pending",
    "Rebalanced",
    "Revoked",
]

M = TypeVar("M", bound=Hashable)


class Binding(enum.Enum):
    """What becomes of a link that names a group and no partition."""

    ASSIGN = "assign"
    """It is bound to a free partition (ES-14, ES-15)."""
    DYNAMIC = "dynamic"
    """It stays agnostic: partitions are spread over such links and move between them (ES-16)."""


class GroupPolicy(msgspec.Struct, frozen=True):
    """What a log wants of its consumer groups."""

    binding: Binding = Binding.ASSIGN
    makes_groups: bool = True
    """Whether an attach makes the group it names; else only configured ones are there."""
    keeps_pending: bool = False
    """Whether an attach waits when no partition is free; else it is refused."""
    pending_ms_max: int = 60_000
    pending_count_max: int = 1_000
    reserved_ms: int = 5_000
    """How long a partition that was taken away for a refused container waits for it to come again."""
    move_ms_max: int = 5_000
    """How long a partition that moves waits for what its owner holds unsettled."""
    members_max: int = 1_000
    groups_max: int = 1_000
    """Groups of one log."""


class GroupAttach(msgspec.Struct, frozen=True):
    """What a receiving link asks of a group."""

    link: LinkId
    partition: int | None = None
    epoch: int | None = None
    has_start: bool = False
    """Whether its filter says where it starts; else the group's position does (ES-15)."""


class GroupRefusal(enum.Enum):
    """Why a link is refused."""

    NOT_CONFIGURED = "there is no such consumer group, and links do not make any"
    TOO_MANY = "there are as many groups, or members of this one, as there may be"
    NAME_TOO_LONG = "the group's name is too long to be kept"
    UNKNOWN_PARTITION = "the log has no such partition"
    BAD_EPOCH = "an epoch is a number from 0 to 9223372036854775807"
    OWNED = "the partition has an owner in this group, and the epoch is not greater than its"
    STALE_EPOCH = "a greater epoch has owned the partition in this group"
    NONE_FREE = "all partitions have owners in this group"
    WAITED_TOO_LONG = "no partition became free in time"


class Attached(msgspec.Struct, Generic[M], frozen=True):
    """Answer the attach, when the puts before are durable."""

    member: M
    partition: int | None
    """None: the link is agnostic; `Assigned` tells its partitions."""
    epoch: int
    needs_start: bool
    """Whether the shell says where to start, with `begin`, before it takes anything."""


class Pending(msgspec.Struct, Generic[M], frozen=True):
    """Leave the attach unanswered for now."""

    member: M


class GroupRefused(msgspec.Struct, Generic[M], frozen=True):
    """Refuse the attach."""

    member: M
    why: GroupRefusal
    epoch: int | None = None
    """The current one, where that is what stands against it."""


class Evicted(msgspec.Struct, Generic[M], frozen=True):
    """End the link with `amqp:link:stolen`; it has left the group already."""

    member: M


class Rebalanced(msgspec.Struct, Generic[M], frozen=True):
    """Close the link gracefully, for it to attach anew; it has left the group already."""

    member: M


class GroupReset(msgspec.Struct, Generic[M], frozen=True):
    """The group goes on from elsewhere: end the link, for it to attach anew; it has left the group already."""

    member: M


class Assigned(msgspec.Struct, Generic[M], frozen=True):
    """An agnostic link has these partitions from now on; the next delivery says so (ES-17)."""

    member: M
    partitions: tuple[int, ...]
    needs_start: tuple[int, ...]
    """Those where the group has no position yet: the shell says it with `begin`."""


class Revoked(msgspec.Struct, Generic[M], frozen=True):
    """A partition is no longer an agnostic link's, which holds messages of it, maybe: it did not settle them before the
    partition had to move, or the log has the partition no longer.

    Forget which offsets those deliveries are of: whatever the receiver says of them settles nothing.
    """

    member: M
    partition: int


class PartitionGone(msgspec.Struct, Generic[M], frozen=True):
    """The log has the link's partition no longer: end the link; it has left the group already."""

    member: M


class GroupEnded(msgspec.Struct, Generic[M], frozen=True):
    """The group is no more; end the links that are on it, pending ones included."""

    members: tuple[M, ...]


GroupEffect: TypeAlias = (
    Attached[M]
    | Pending[M]
    | GroupRefused[M]
    | Evicted[M]
    | Rebalanced[M]
    | GroupReset[M]
    | Assigned[M]
    | Revoked[M]
    | PartitionGone[M]
    | GroupEnded[M]
    | WaitOver
    | Put
    | Delete
)

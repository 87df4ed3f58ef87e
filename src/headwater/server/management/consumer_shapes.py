"""Consumer groups and subscriptions as all doors show them: the fields are names of attributes and keys of JSON."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

__all__ = [
    "ConsumerShown",
    "GroupPositionShown",
    "GroupShown",
    "GroupSummary",
    "MemberShown",
    "NativeConfig",
    "PositionShown",
    "SubscriptionShown",
    "SubscriptionSummary",
]

Lag = Annotated[
    int,
    Meta(
        description="Events that are not settled; those that a filter leaves out count until they are passed."
    ),
]


class PositionShown(msgspec.Struct, frozen=True, kw_only=True):
    """Where consumers stand in one partition."""

    partition: Annotated[str, Meta(description="Its id.")]
    position: Annotated[
        int | None, Meta(description="Everything before it is settled; null where nobody has begun.")
    ]
    next_offset: Annotated[
        int | None, Meta(description="Of the event that is delivered for the first time next.")
    ]
    end_offset: Annotated[int, Meta(description="Of the event that will be appended next.")]
    lag: Annotated[int | None, Meta(description="Events that are not settled; null where nobody has begun.")]
    unsettled_count: Annotated[int, Meta(description="Events that consumers hold.")]
    due_count: Annotated[int, Meta(description="Events that are to be delivered again.")]
    dead_letter_count: Annotated[int, Meta(description="Events on their way to the dead-letter log.")]
    lost_count: Annotated[int, Meta(description="Events that retention removed before they were settled.")]


class GroupPositionShown(PositionShown, frozen=True, kw_only=True):
    """Where a group stands in one partition, and who reads it."""

    epoch: int
    owner: Annotated[str | None, Meta(description="Name of the link that has the partition.")]


class ConsumerShown(msgspec.Struct, frozen=True, kw_only=True):
    """A link that consumes."""

    container: str
    link: str
    user: str
    connection: Annotated[
        str | None, Meta(description="As /connections names it; null where the user may not see it there.")
    ]
    unsettled_count: Annotated[int, Meta(description="Events that it holds.")]


class MemberShown(ConsumerShown, frozen=True, kw_only=True):
    """A link that consumes in a group."""

    is_waiting: Annotated[bool, Meta(description="Whether it has to wait until a partition is free.")]
    partitions: Annotated[list[str], Meta(description="Ids of those whose events it gets.")]


class GroupSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer group in short."""

    id: Annotated[str, Meta(description="Names of log and group, percent-encoded, with a slash between.")]
    log: str
    vhost: str
    name: str
    is_configured: Annotated[bool, Meta(description="Whether an operator made it, and no link.")]
    member_count: int
    waiting_count: int
    lag: Lag
    unsettled_count: int
    due_count: int
    lost_count: int


class GroupShown(GroupSummary, frozen=True, kw_only=True):
    """A consumer group."""

    policy: Annotated[
        dict[str, str | int], Meta(description="What its log wants of groups: settings of the log.")
    ]
    members: list[MemberShown]
    partitions: list[GroupPositionShown]


class NativeConfig(msgspec.Struct, frozen=True):
    """What tells a subscription that a client of a door made for itself."""

    native: bool = True


class SubscriptionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A topic subscription, a durable terminus, or a receiver of which no account is kept, in short."""

    id: str
    protocol: Literal["AMQP"] = "AMQP"
    sink: Annotated[str, Meta(description="Address from which its consumers fetch events.")]
    config: NativeConfig = NativeConfig()
    log: str
    vhost: str
    name: Annotated[str, Meta(description="Of its links; of a subscription up to the first |.")]
    container: Annotated[str | None, Meta(description="Whose links it is for; null: of any container.")]
    user: Annotated[str | None, Meta(description="Whose it is; null: of any user who may read the log.")]
    kind: Literal["subscription", "terminus", "receiver"]
    is_shared: bool
    is_durable: bool
    is_global: bool
    partition: Annotated[str | None, Meta(description="Id of the only one that it is for, if it is for one.")]
    expiry: Literal["link-detach", "session-end", "connection-close", "never"]
    timeout_ms: Annotated[int, Meta(description="So long after that it ends, unless a consumer comes.")]
    link_filters: Annotated[dict[str, str], Meta(description="Filters of its links by name, as text.")]
    consumer_count: int
    lag: Lag
    unsettled_count: int
    due_count: int
    lost_count: int


class SubscriptionShown(SubscriptionSummary, frozen=True, kw_only=True):
    """A topic subscription, a durable terminus, or a receiver of which no account is kept."""

    consumers: list[ConsumerShown]
    partitions: list[PositionShown]

"""What the engine's effects ask of a link that consumes with an account: of a topic subscription, or in a group."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from headwater.engine.group_effects import Attached, GroupRefused
from headwater.engine.subscriptions import Granted, Refused
from headwater.engine.topic_subscription import TopicSubscription
from headwater.errors import StorageError

__all__ = ["Consumer", "Member", "Subscriber"]


class Consumer(Hashable, Protocol):
    """A link with an account of what it took and settled."""

    @property
    def connection_name(self) -> str:
        """Of the connection that the link is on."""

    def failed(self, error: StorageError) -> None:
        """What the link asked for could not be recorded: end it."""

    def stolen(self) -> None:
        """Another link took its place, which it has left already: end it."""

    def reset(self) -> None:
        """What it consumes from goes on from elsewhere, and it has left that already: end it, to attach anew."""

    def ended(self) -> None:
        """What it consumed from is no more: end it."""


class Subscriber(Consumer, Protocol):
    """A link that consumes from a topic subscription, or a durable terminus."""

    def granted(self, granted: Granted[Subscriber]) -> None:
        """It is attached: answer, and begin."""

    def refused(self, refused: Refused[Subscriber]) -> None:
        """It is not."""

    def woken(self, subscription: TopicSubscription[Subscriber]) -> None:
        """There are messages to deal."""


class Member(Consumer, Protocol):
    """A link that consumes in a group."""

    def attached(self, attached: Attached[Member]) -> None:
        """It is in the group: answer, and begin."""

    def group_refused(self, refused: GroupRefused[Member]) -> None:
        """It is not."""

    def rebalanced(self) -> None:
        """It has left the group, to attach anew: close the link gracefully."""

    def assigned(self) -> None:
        """It has other partitions than before; the group knows which."""

    def revoked(self, partition: int) -> None:
        """What it holds of a partition is no longer its."""

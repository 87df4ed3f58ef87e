"""Topic subscriptions, and durable termini (Event Stream Extensions, section 4.7): links with a position that is kept.

start ──> Subscriptions.attach ──┬─> granted: the attach is answered, the dealer of the subscription sends
                                 └─> refused
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headwater.amqp.definitions import Condition, ErrorValue
from headwater.amqp.sender_link import SenderLink
from headwater.encoding.amqp_types import Symbol
from headwater.engine.cursor import Cursor
from headwater.engine.cursor_set import PartitionRun
from headwater.engine.delivery import Outcome
from headwater.engine.subscription_record import Definition
from headwater.engine.subscriptions import Attach, Departure, Granted, Refusal, Refused
from headwater.engine.topic_subscription import TopicSubscription
from headwater.server.amqp.accounted_link import AccountedLink
from headwater.server.amqp.dealing import Dealer, Dealers
from headwater.server.amqp.feeds import Feeds
from headwater.server.amqp.link_owner import LinkOwner
from headwater.server.amqp.nodes import LogNode
from headwater.server.amqp.offsets import Start
from headwater.server.consumers.consumer import Subscriber
from headwater.server.consumers.consumers import Consumers
from headwater.server.management.policies import cursor_limits

__all__ = ["Subscribing", "condition_of"]


class Subscribing(AccountedLink):
    """A link that consumes from a topic subscription, or a durable terminus."""

    def __init__(
        self,
        link: SenderLink,
        owner: LinkOwner,
        consumers: Consumers,
        dealers: Dealers,
        node: LogNode,
        start: Start,
        attach: Attach,
        accept: Callable[[Definition, LogNode], None],
    ) -> None:
        """Raises `StorageError` if it cannot be found where to begin."""
        super().__init__(link, owner, consumers, node.name)
        self._dealers = dealers
        self._node = node
        self._start = start
        self._attach = attach
        self._accept = accept
        self._subscription: TopicSubscription[Subscriber] | None = None
        self._dealer: Dealer | None = None
        self._starts: dict[int, int] = {}
        if consumers.subscriptions.find(attach) is None:
            feeds = Feeds(node, start, lambda: None)
            self._starts = {number: feeds.start_of(number) for number in feeds.partitions}

    # LinkHandler

    def start(self) -> None:
        limits = cursor_limits(self._node.log.definition.settings)
        self._consumers.subscribe(self, self._attach, self._starts, limits)

    def flow(self) -> None:
        self.pump()

    def pump(self) -> None:
        self.link.send_rest()
        self._owner.answered()
        self._more_is_due()

    def depart(self, how: Departure) -> None:
        self._consumers.depart(self, how)
        if self._subscription is not None:
            self._dealers.leave(self._subscription)
            self._bury()

    @property
    def awaits_more(self) -> bool:
        return self._consumers.subscriptions.awaits_more(self)

    # Subscriber

    def granted(self, granted: Granted[Subscriber]) -> None:
        """It is attached: answer, and begin."""
        if self._is_closed:
            return
        self._subscription, definition = granted.subscription, granted.subscription.definition
        if definition.bound_partition is not None:
            self._node = self._node.bound_to(definition.bound_partition)
        self._dealer = self._dealers.of(granted.subscription, self._node, self._start)
        self._owner.guarded(lambda: self._accept(definition, self._node))
        self._owner.answered()
        self._dealer.follow()

    def refused(self, refused: Refused[Subscriber]) -> None:
        """It is not attached."""
        words = f"{refused.why.value}: {self._attach.link.name!r:.100} on {self._attach.log!r:.100}"
        self._owner.break_link(self.link, ErrorValue(condition_of(refused.why), words))

    def woken(self, subscription: TopicSubscription[Subscriber]) -> None:
        """There is something to deal, perhaps of other partitions than before."""
        if self._dealer is not None:
            self._dealer.follow()

    def ended(self) -> None:
        """The subscription is no more."""
        words = f"the subscription of link {self.link.name!r:.100} to {self.name!r:.100} was ended"
        self._owner.break_link(self.link, ErrorValue(Condition.RESOURCE_DELETED, words))

    # AccountedLink

    def take(self, feeds: Feeds, runs: list[PartitionRun]) -> int:
        """Send what was dealt to this link; gives how many messages are done with."""
        done_count = 0

        def send() -> None:
            nonlocal done_count
            done_count = self.send(feeds, runs)

        self._owner.guarded(send)
        return done_count

    def _settle(
        self, partition: int, first: int, end: int, outcome: Outcome, *, is_undeliverable_here: bool = False
    ) -> tuple[Cursor[Any], int] | None:
        assert self._subscription is not None, "what was sent was granted before"
        cursor = self._subscription.cursors.by_partition.get(partition)
        if cursor is None:
            return None
        sequence = self._subscription.settle(
            self, partition, first, end, outcome, is_undeliverable_here=is_undeliverable_here
        )
        return cursor, sequence

    def _bury(self) -> None:
        if self._subscription is not None:
            self._consumers.bury_of_subscription(self._subscription)

    def _more_is_due(self) -> None:
        if self._dealer is not None:
            self._dealer.call_soon()


def condition_of(why: Refusal) -> Symbol:
    """The condition that tells a client of a refusal."""
    return _CONDITIONS[why]


_CONDITIONS: dict[Refusal, Symbol] = {
    Refusal.IN_USE: Condition.RESOURCE_LOCKED,
    Refusal.OTHER_PROPERTIES: Condition.PRECONDITION_FAILED,
    Refusal.OTHER_FILTER: Condition.PRECONDITION_FAILED,
    Refusal.NAME_TOO_LONG: Condition.INVALID_FIELD,
    Refusal.TOO_MANY: Condition.RESOURCE_LIMIT_EXCEEDED,
    Refusal.UNKNOWN: Condition.NOT_FOUND,
}

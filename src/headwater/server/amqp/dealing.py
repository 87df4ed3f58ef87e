"""A topic subscription's messages, divided between the links of this door that consume from it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, cast

from headwater.engine.topic_subscription import TopicSubscription
from headwater.server.amqp.feeds import Feeds
from headwater.server.amqp.limits import SENDING_S_MAX
from headwater.server.amqp.nodes import LogNode
from headwater.server.amqp.offsets import Start
from headwater.server.consumers.consumer import Subscriber

if TYPE_CHECKING:
    from headwater.server.amqp.subscribing import Subscribing

__all__ = ["Dealer", "Dealers"]

MESSAGES_PER_TURN = 8_192


class Dealer:
    """Deals when messages come, when there is credit, and when something is to be delivered again."""

    def __init__(
        self,
        subscription: TopicSubscription[Subscriber],
        node: LogNode,
        start: Start,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        lows = {number: cursor.low for number, cursor in subscription.cursors.by_partition.items()}
        self._subscription = subscription
        self._feeds = Feeds(node, start, self.call_soon, lows)
        self._loop = loop
        self._is_called = False
        self._is_closed = False
        for partition in self._feeds.partitions.values():
            partition.on_committed.add(self.call_soon)

    def close(self) -> None:
        """The last consumer is gone."""
        self._is_closed = True
        self._feeds.close()
        for partition in self._feeds.partitions.values():
            partition.on_committed.discard(self.call_soon)

    def follow(self) -> None:
        """The log may have other partitions than before."""
        added, gone = self._feeds.follow()
        for partition in added:
            partition.on_committed.add(self.call_soon)
        for partition in gone:
            partition.on_committed.discard(self.call_soon)
        if added or gone:
            for consumer in self._consumers():
                consumer.announce(self._feeds.partitions, self._feeds)
        self.call_soon()

    def call_soon(self) -> None:
        """Deal in the next turn of the loop."""
        if not self._is_called and not self._is_closed:
            self._is_called = True
            self._loop.call_soon(self._deal)

    def _deal(self) -> None:
        """Deal what there is, as far as this turn of the loop allows."""
        self._is_called = False
        left = MESSAGES_PER_TURN
        turn_end = time.monotonic() + SENDING_S_MAX
        while not self._is_closed:
            if left <= 0:
                self.call_soon()
                return
            done_count = self._deal_once()
            if not done_count:
                break
            left = 0 if time.monotonic() > turn_end else left - done_count
        if not self._feeds.are_waiting:
            for consumer in self._consumers():
                consumer.drained()

    def _deal_once(self) -> int:
        """Give every consumer with room its share; gives how many messages are done with."""
        consumers = self._consumers()
        room = {consumer: consumer.room(self._feeds) for consumer in consumers}
        if not any(room.values()):
            return 0
        deals = self._subscription.deal(cast("dict[Subscriber, int]", room), self._feeds.ends())
        return sum(cast("Subscribing", deal.consumer).take(self._feeds, deal.runs) for deal in deals)

    def _consumers(self) -> list[Subscribing]:
        return cast("list[Subscribing]", list(self._subscription.consumers))


class Dealers:
    """Of all subscriptions that have consumers."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._all: dict[TopicSubscription[Subscriber], Dealer] = {}

    def of(self, subscription: TopicSubscription[Subscriber], node: LogNode, start: Start) -> Dealer:
        """The one of a subscription, made for its first consumer; if it is not shared for each, with its filter."""
        dealer = self._all.get(subscription)
        if dealer is not None and not subscription.definition.is_shared:
            dealer.close()
            dealer = None
        if dealer is None:
            dealer = self._all[subscription] = Dealer(subscription, node, start, self._loop)
        return dealer

    def leave(self, subscription: TopicSubscription[Subscriber]) -> None:
        """A consumer is gone."""
        if not subscription.consumers and subscription in self._all:
            self._all.pop(subscription).close()

"""AMQP Binding and Mapping for JMS, section 5.6: a link without a source, which ends a subscription as it closes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headwater.amqp.sender_link import SenderLink
from headwater.engine.subscriptions import Departure
from headwater.engine.topic_subscription import TopicSubscription
from headwater.server.amqp.link_owner import LinkHandler
from headwater.server.consumers.consumer import Subscriber
from headwater.server.consumers.consumers import Consumers

__all__ = ["Unsubscribing"]


class Unsubscribing(LinkHandler):
    """Ends durable subscriptions when the client closes it, unless somebody consumes from them; a detach ends none."""

    def __init__(
        self,
        link: SenderLink,
        consumers: Consumers,
        subscriptions: Sequence[TopicSubscription[Subscriber]],
    ) -> None:
        self.link = link
        self._consumers = consumers
        self._subscriptions = subscriptions

    def depart(self, how: Departure) -> None:
        if how is not Departure.CLOSE:
            return
        for subscription in self._subscriptions:
            if not subscription.consumers:  # who came after the attach keeps it
                self._consumers.end_subscription(subscription.definition.id)

    def when_settled(self, call: Callable[[], None]) -> bool:
        return self._consumers.when_written(call)

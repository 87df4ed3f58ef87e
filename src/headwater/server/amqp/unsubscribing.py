"""AMQP Binding and Mapping for JMS, section 5.6: a link without a source, which ends a subscription as it closes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headwater.amqp.sender_link import SenderLink
from headwater.engine.subscription_record import SubscriptionId
from headwater.engine.subscriptions import Departure
from headwater.server.amqp.link_owner import LinkHandler
from headwater.server.consumers.consumers import Consumers

__all__ = ["Unsubscribing"]


class Unsubscribing(LinkHandler):
    """Ends durable subscriptions when the client closes it; who only detaches keeps them."""

    def __init__(self, link: SenderLink, consumers: Consumers, ids: Sequence[SubscriptionId]) -> None:
        self.link = link
        self._consumers = consumers
        self._ids = ids

    def depart(self, how: Departure) -> None:
        if how is Departure.CLOSE:
            for id_ in self._ids:
                self._consumers.end_subscription(id_)

    def when_settled(self, call: Callable[[], None]) -> bool:
        return self._consumers.when_written(call)

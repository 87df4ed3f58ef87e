"""/subscriptions: those that clients of the AMQP door made by attaching, listed, looked at, reset and ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headwater.server.http.endpoint import USER, Answer, Call, Endpoint, InVhost, forbidden
from headwater.server.http.problems import INVALID, NOT_DURABLE, UNKNOWN_PARTITION, UNKNOWN_SUBSCRIPTION
from headwater.server.http.resetting import ConsumerPage, Reset
from headwater.server.management.consumer_shapes import SubscriptionShown, SubscriptionSummary
from headwater.server.management.consumer_views import NativeSubscription
from headwater.server.management.reset_target import parse_target
from headwater.server.management.subscriptions import ManagedSubscriptions

__all__ = ["SubscriptionEndpoints"]


class SubscriptionList(msgspec.Struct, frozen=True):
    """Subscriptions by their ids."""

    subscriptions: list[SubscriptionSummary]
    next: Annotated[
        str | None, Meta(description="What to give as `after` for the next page; null on the last one.")
    ]


class SubscriptionEndpoints:
    """What /subscriptions does with what clients subscribed to by attaching."""

    def __init__(self, subscriptions: ManagedSubscriptions) -> None:
        self._subscriptions = subscriptions

    def endpoints(self) -> Sequence[Endpoint[Any, Any]]:
        """All of them."""
        path, unknown = "/subscriptions/{subscription}", (UNKNOWN_SUBSCRIPTION,)
        shown = Answer(200, SubscriptionShown)
        return [
            Endpoint(
                "GET",
                "/subscriptions",
                self.list_subscriptions,
                USER,
                [Answer(200, SubscriptionList)],
                ConsumerPage,
            ),
            Endpoint("GET", path, self.get_subscription, USER, [shown], InVhost, problems=unknown),
            Endpoint(
                "POST",
                path + "/reset",
                self.reset_subscription,
                USER,
                [shown],
                InVhost,
                Reset,
                problems=(*unknown, NOT_DURABLE, UNKNOWN_PARTITION, INVALID),
            ),
            Endpoint("DELETE", path, self.end_subscription, USER, [Answer(204)], InVhost, problems=unknown),
        ]

    async def list_subscriptions(self, call: Call[ConsumerPage, None]) -> SubscriptionList:
        """List the subscriptions to logs that the user may read, by id."""
        query = call.query
        page = await self._subscriptions.page(call, query.vhost, query.log, query.after, query.limit)
        return SubscriptionList(*page)

    async def get_subscription(self, call: Call[InVhost, None]) -> SubscriptionShown:
        """Show a subscription with its consumers, and where it stands in each partition."""
        return self._subscriptions.view(call).subscription(self._subscription(call))

    async def reset_subscription(self, call: Call[InVhost, Reset]) -> SubscriptionShown:
        """Have a durable subscription go on from elsewhere; its links are ended, to attach anew.

        For who may end it.
        """
        subscription, wanted = self._subscription_to_change(call), call.body
        call.changed = f"partition {wanted.partition or 'all'} to {wanted.to}"
        await self._subscriptions.reset(subscription, parse_target(wanted.to), wanted.partition)
        return self._subscriptions.view(call).subscription(subscription)

    async def end_subscription(self, call: Call[InVhost, None]) -> None:
        """End a subscription; its links are told that it is no more.

        Everybody may end the own ones; others take the permissions read and configure on the log, or the role admin.
        """
        await self._subscriptions.end(self._subscription_to_change(call))

    def _subscription(self, call: Call[InVhost, Any]) -> NativeSubscription:
        return self._subscriptions.find(call, call.query.vhost, call.part("subscription"))

    def _subscription_to_change(self, call: Call[InVhost, Any]) -> NativeSubscription:
        found = self._subscription(call)
        if not self._subscriptions.may_change(call, found):
            raise forbidden("read and configure the log of this subscription")
        return found

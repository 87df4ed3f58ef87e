"""Topic subscriptions and durable termini: listed, reset and ended by operators, whichever door they come by."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.engine.topic_subscription import TopicSubscription
from headwater.log.store import Store
from headwater.server.consumers.consumer import Subscriber
from headwater.server.consumers.consumers import Consumers
from headwater.server.management.consumer_errors import NotDurable, UnknownSubscription
from headwater.server.management.consumer_shapes import SubscriptionSummary
from headwater.server.management.consumer_views import View, subscription_id
from headwater.server.management.pages import page_of
from headwater.server.management.reset_target import ResetTarget, offsets_of
from headwater.server.management.turns import in_turns
from headwater.server.management.viewer import Viewer

__all__ = ["ManagedSubscriptions"]


class ManagedSubscriptions:
    """Those of all logs."""

    def __init__(self, store: Store, consumers: Consumers) -> None:
        self._store = store
        self._consumers = consumers

    def seen_by(
        self, viewer: Viewer, vhost: str, log: str | None = None
    ) -> Iterator[TopicSubscription[Subscriber]]:
        """Those of a vhost, or of a log, that a user learns of."""
        subscriptions = self._consumers.subscriptions
        for each in subscriptions if log is None else subscriptions.on_log(vhost, log):
            id_ = each.definition.id
            if id_.vhost == vhost and viewer.sees_consumers(vhost, id_.log) and self.is_there(each):
                yield each

    def is_there(self, subscription: TopicSubscription[Subscriber]) -> bool:
        """Whether it has not ended meanwhile."""
        return self._consumers.subscriptions.with_digest(subscription.cursors.digest) is subscription

    async def page(
        self, viewer: Viewer, vhost: str, log: str | None, after: str, count_max: int
    ) -> tuple[list[SubscriptionSummary], str | None]:
        """Those that a user learns of, by their ids from one on, and the id that the next page begins after."""
        page, following = await page_of(self.seen_by(viewer, vhost, log), subscription_id, after, count_max)
        view = self.view()
        turns = in_turns(page, lambda each: len(each.cursors.by_partition))
        return [view.subscription_summary(each) async for each in turns if self.is_there(each)], following

    def find(self, viewer: Viewer, vhost: str, id_: str) -> TopicSubscription[Subscriber]:
        """The one with this id; raises `UnknownSubscription`, also if the user is not to learn of it."""
        try:
            found = self._consumers.subscriptions.with_digest(bytes.fromhex(id_))
        except ValueError:
            found = None
        if found is None or found.definition.id.vhost != vhost:
            raise UnknownSubscription(id_)
        if not viewer.sees_consumers(vhost, found.definition.id.log):
            raise UnknownSubscription(id_)
        return found

    def may_change(self, viewer: Viewer, subscription: TopicSubscription[Subscriber]) -> bool:
        """Whether a user may reset and end it: everybody the own ones."""
        id_ = subscription.definition.id
        is_own = id_.user == viewer.identity.user and viewer.access.may_read(
            viewer.identity, id_.vhost, id_.log
        )
        return is_own or viewer.may_change_consumers(id_.vhost, id_.log)

    def view(self) -> View:
        """What shows them as they are at this moment."""
        return View(self._store)

    async def reset(
        self, subscription: TopicSubscription[Subscriber], target: ResetTarget, partition_id: str | None
    ) -> None:
        """Have a subscription go on from elsewhere, durably, in one partition or in all.

        Raises `NotDurable`, `UnknownSubscription`, `UnknownPartition`, `OffsetBeyondEnd`; then nothing has changed.
        """
        id_ = subscription.definition.id
        if not subscription.definition.is_durable:
            raise NotDurable(id_.name)
        log, begun = self._store.log(id_.log, id_.vhost), subscription.cursors.by_partition
        offsets = await offsets_of(log, target, partition_id, begun)
        if not self.is_there(subscription):
            raise UnknownSubscription(subscription_id(subscription))
        left = {number: offset for number, offset in offsets.items() if number in begun}
        if left:
            await self._consumers.reset_subscription(id_, left).wait()

    async def end(self, subscription: TopicSubscription[Subscriber]) -> None:
        """End a subscription, durably; its links are told that it is no more."""
        write = self._consumers.end_subscription(subscription.definition.id)
        if write is not None:
            await write.wait()

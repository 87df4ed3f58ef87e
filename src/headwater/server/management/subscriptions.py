"""What clients of the AMQP door subscribed to: listed, reset and ended by operators, whichever door they come by."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.log.store import Store
from headwater.server.consumers.consumers import Consumers
from headwater.server.management.consumer_errors import NotDurable, UnknownSubscription
from headwater.server.management.consumer_shapes import SubscriptionSummary
from headwater.server.management.consumer_views import NativeSubscription, View, subscription_id
from headwater.server.management.pages import page_of
from headwater.server.management.receivers import LiveReceiver, LiveReceivers, connection_of
from headwater.server.management.reset_target import ResetTarget, offsets_of
from headwater.server.management.turns import in_turns
from headwater.server.management.viewer import Viewer

__all__ = ["ManagedSubscriptions"]


class ManagedSubscriptions:
    """Topic subscriptions, durable termini, and receivers of which no account is kept."""

    def __init__(self, store: Store, consumers: Consumers, receivers: LiveReceivers) -> None:
        self._store = store
        self._consumers = consumers
        self._receivers = receivers

    def seen_by(self, viewer: Viewer, vhost: str, log: str | None = None) -> Iterator[NativeSubscription]:
        """Those of a vhost, or of a log, that a user learns of."""
        subscriptions = self._consumers.subscriptions
        for each in subscriptions if log is None else subscriptions.on_log(vhost, log):
            id_ = each.definition.id
            if id_.vhost == vhost and _sees(viewer, each) and self.is_there(each):
                yield each
        for receiver in self._receivers():
            is_wanted = receiver.vhost == vhost and log in (None, receiver.log)
            if is_wanted and _sees(viewer, receiver) and receiver.is_there():
                yield receiver

    def is_there(self, subscription: NativeSubscription) -> bool:
        """Whether it has not ended meanwhile."""
        if isinstance(subscription, LiveReceiver):
            return subscription.is_there()
        return self._consumers.subscriptions.with_digest(subscription.cursors.digest) is subscription

    async def page(
        self, viewer: Viewer, vhost: str, log: str | None, after: str, count_max: int
    ) -> tuple[list[SubscriptionSummary], str | None]:
        """Those that a user learns of, by their ids from one on, and the id that the next page begins after."""
        page, following = await page_of(self.seen_by(viewer, vhost, log), subscription_id, after, count_max)
        view = self.view(viewer)
        turns = in_turns(page, self.cost)
        return [view.subscription_summary(each) async for each in turns if self.is_there(each)], following

    def cost(self, subscription: NativeSubscription) -> int:
        """How much work it is to show one: partitions to be looked at."""
        if isinstance(subscription, LiveReceiver):
            return len(subscription.offsets())
        return len(subscription.cursors.by_partition)

    def find(self, viewer: Viewer, vhost: str, id_: str) -> NativeSubscription:
        """The one with this id; raises `UnknownSubscription`, also if the user is not to learn of it."""
        found = self._find(id_)
        if found is None:
            raise UnknownSubscription(id_)
        if _place(found)[0] != vhost or not _sees(viewer, found):
            raise UnknownSubscription(id_)
        return found

    def _find(self, id_: str) -> NativeSubscription | None:
        try:
            return self._consumers.subscriptions.with_digest(bytes.fromhex(id_))
        except ValueError:
            on_connection = self._receivers(connection_of(id_))
            return next((each for each in on_connection if each.id == id_), None)

    def may_change(self, viewer: Viewer, subscription: NativeSubscription) -> bool:
        """Whether a user may reset and end it: everybody the own ones."""
        vhost, log, user = _place(subscription)
        is_own = user == viewer.identity.user and viewer.access.may_read(viewer.identity, vhost, log)
        return is_own or viewer.may_change_consumers(vhost, log)

    def view(self, viewer: Viewer) -> View:
        """What shows them to a user as they are at this moment."""
        return View(self._store, viewer)

    async def reset(
        self, subscription: NativeSubscription, target: ResetTarget, partition_id: str | None
    ) -> None:
        """Have a subscription go on from elsewhere, durably, in one partition or in all.

        Raises `NotDurable`, `UnknownSubscription`, `UnknownPartition`, `OffsetBeyondEnd`; then nothing has changed.
        """
        if isinstance(subscription, LiveReceiver):
            raise NotDurable(subscription.name)
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

    async def end(self, subscription: NativeSubscription) -> None:
        """End a subscription, durably; its links are told that it is no more."""
        if isinstance(subscription, LiveReceiver):
            subscription.end()
            return
        write = self._consumers.end_subscription(subscription.definition.id)
        if write is not None:
            await write.wait()


def _sees(viewer: Viewer, subscription: NativeSubscription) -> bool:
    vhost, log, _ = _place(subscription)
    if isinstance(subscription, LiveReceiver) and not viewer.sees_connections_of(subscription.user):
        return False  # whose id says where its client is
    return viewer.sees_consumers(vhost, log)


def _place(subscription: NativeSubscription) -> tuple[str, str, str | None]:
    """Vhost, log and user."""
    if isinstance(subscription, LiveReceiver):
        return subscription.vhost, subscription.log, subscription.user
    id_ = subscription.definition.id
    return id_.vhost, id_.log, id_.user

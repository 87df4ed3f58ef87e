"""What is shown of a consumer group or a subscription at this moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias
from urllib.parse import quote

from headwater.encoding.amqp_decoder import decode
from headwater.encoding.amqp_types import Described
from headwater.engine.cursor import Cursor
from headwater.engine.cursor_set import CursorSet
from headwater.engine.group import Group
from headwater.engine.link_id import LinkId
from headwater.engine.subscription_record import Expiry, Kind
from headwater.engine.topic_subscription import TopicSubscription
from headwater.errors import MalformedValue
from headwater.log.log import Log
from headwater.log.settings import LogPolicies
from headwater.log.store import Store
from headwater.server.consumers.consumer import Consumer, Member, Subscriber
from headwater.server.management.consumer_shapes import (
    ConsumerShown,
    GroupPositionShown,
    GroupShown,
    GroupSummary,
    MemberShown,
    PositionShown,
    SubscriptionShown,
    SubscriptionSummary,
)
from headwater.server.management.receivers import LiveReceiver
from headwater.server.management.viewer import Viewer

__all__ = ["NativeSubscription", "View", "group_id", "subscription_id"]

NativeSubscription: TypeAlias = TopicSubscription[Subscriber] | LiveReceiver
"""Whatever a client subscribed to by attaching."""

GROUP_POLICIES = tuple(name for name in LogPolicies.__struct_fields__ if name.startswith("group_"))


def group_id(group: Group[Member]) -> str:
    """What names a group at all doors."""
    id_ = group.definition.id
    return f"{quote(id_.log, safe='')}/{quote(id_.name, safe='')}"


def subscription_id(subscription: NativeSubscription) -> str:
    """What names a subscription at all doors."""
    if isinstance(subscription, LiveReceiver):
        return subscription.id
    return subscription.cursors.digest.hex()


class View:
    """What one user is shown. Looks at logs once, however many of their consumers are shown."""

    def __init__(self, store: Store, viewer: Viewer) -> None:
        self._store = store
        self._viewer = viewer
        self._places: dict[tuple[str, str], _Place] = {}

    def group_summary(self, group: Group[Member]) -> GroupSummary:
        """A group in short."""
        return GroupSummary(**self._of_group(group))

    def group(self, group: Group[Member]) -> GroupShown:
        """A group with its members, and where it stands."""
        place = self._place(group.definition.id.vhost, group.definition.id.log)
        settings = place.log.definition.settings
        return GroupShown(
            **self._of_group(group),
            policy={name: getattr(settings, name) for name in GROUP_POLICIES},
            members=list(self._members(group, place)),
            partitions=[
                _group_position(group, number, epoch, place) for number, epoch in group.epochs.items()
            ],
        )

    def subscription_summary(self, subscription: NativeSubscription) -> SubscriptionSummary:
        """A subscription in short."""
        if isinstance(subscription, LiveReceiver):
            return SubscriptionSummary(**self._of_receiver(subscription))
        return SubscriptionSummary(**self._of_subscription(subscription))

    def subscription(self, subscription: NativeSubscription) -> SubscriptionShown:
        """A subscription with its consumers, and where it stands."""
        if isinstance(subscription, LiveReceiver):
            return self._receiver(subscription)
        id_, cursors = subscription.definition.id, subscription.cursors
        place, held = self._place(id_.vhost, id_.log), cursors.held_counts()
        return SubscriptionShown(
            **self._of_subscription(subscription),
            consumers=[
                ConsumerShown(**self._consumer(each, link, held[each]))
                for each, link in subscription.consumers.items()
            ],
            partitions=[
                PositionShown(**_position(number, cursor, place))
                for number, cursor in cursors.by_partition.items()
            ],
        )

    def _of_group(self, group: Group[Member]) -> dict[str, Any]:
        definition = group.definition
        return {
            "id": group_id(group),
            "log": definition.id.log,
            "vhost": definition.id.vhost,
            "name": definition.id.name,
            "is_configured": definition.is_configured,
            "member_count": len(group.members),
            "waiting_count": len(group.pending),
            **self._sums(definition.id.vhost, definition.id.log, group.cursors),
        }

    def _of_subscription(self, subscription: TopicSubscription[Subscriber]) -> dict[str, Any]:
        definition = subscription.definition
        id_, bound = definition.id, definition.bound_partition
        return {
            "id": subscription_id(subscription),
            "sink": id_.log,
            "log": id_.log,
            "vhost": id_.vhost,
            "name": id_.name,
            "container": id_.container,
            "user": id_.user,
            "kind": _KINDS[id_.kind],
            "is_shared": definition.is_shared,
            "is_durable": definition.is_durable,
            "is_global": id_.container is None,
            "partition": None if bound is None else self._place(id_.vhost, id_.log).id_of(bound),
            "expiry": _EXPIRIES[definition.expiry],
            "timeout_ms": definition.timeout_ms,
            "link_filters": _filter_texts(definition.filter),
            "consumer_count": len(subscription.consumers),
            **self._sums(id_.vhost, id_.log, subscription.cursors),
        }

    def _consumer(self, consumer: Consumer, link: LinkId, unsettled_count: int) -> dict[str, Any]:
        return {
            "container": link.container,
            "link": link.name,
            "user": link.user,
            "connection": consumer.connection_name if self._viewer.sees_connections_of(link.user) else None,
            "unsettled_count": unsettled_count,
        }

    def _members(self, group: Group[Member], place: _Place) -> Iterator[MemberShown]:
        held, holdings = group.cursors.held_counts(), group.holdings()
        for members, is_waiting in ((group.members, False), (group.pending, True)):
            for member in members:
                yield MemberShown(
                    **self._consumer(member, group.link_of(member), held[member]),
                    is_waiting=is_waiting,
                    partitions=[place.id_of(number) for number in holdings.get(member, ())],
                )

    def _receiver(self, receiver: LiveReceiver) -> SubscriptionShown:
        link = ConsumerShown(
            container=receiver.container,
            link=receiver.name,
            user=receiver.user,
            connection=receiver.connection,
            unsettled_count=0,
        )
        positions = self._positions_of(receiver)
        return SubscriptionShown(**self._of_receiver(receiver), consumers=[link], partitions=positions)

    def _of_receiver(self, receiver: LiveReceiver) -> dict[str, Any]:
        positions = self._positions_of(receiver)
        is_bound = len(positions) < len(self._place(receiver.vhost, receiver.log).ends)
        return {
            "id": receiver.id,
            "sink": receiver.log,
            "log": receiver.log,
            "vhost": receiver.vhost,
            "name": receiver.name,
            "container": receiver.container,
            "user": receiver.user,
            "kind": "receiver",
            "is_shared": False,
            "is_durable": False,
            "is_global": False,
            "partition": positions[0].partition if is_bound and len(positions) == 1 else None,
            "expiry": "link-detach",
            "timeout_ms": 0,
            "link_filters": dict(receiver.filters()),
            "consumer_count": 1,
            "lag": sum(each.lag or 0 for each in positions),
            "unsettled_count": 0,
            "due_count": 0,
            "lost_count": 0,
        }

    def _positions_of(self, receiver: LiveReceiver) -> list[PositionShown]:
        place, offsets = self._place(receiver.vhost, receiver.log), receiver.offsets()
        return [
            PositionShown(
                partition=place.id_of(number),
                position=offsets[partition],
                next_offset=offsets[partition],
                end_offset=partition.committed_offset,
                lag=max(partition.committed_offset - offsets[partition], 0),
                unsettled_count=0,
                due_count=0,
                dead_letter_count=0,
                lost_count=0,
            )
            for number, partition in place.partitions.items()
            if partition in offsets
        ]

    def _sums(self, vhost: str, log: str, cursors: CursorSet[Any]) -> dict[str, int]:
        every = cursors.by_partition.values()
        return {
            "lag": cursors.lag(self._place(vhost, log).ends),
            "unsettled_count": sum(cursor.unsettled_count for cursor in every),
            "due_count": sum(cursor.due_count for cursor in every),
            "lost_count": cursors.lost_count,
        }

    def _place(self, vhost: str, log: str) -> _Place:
        place = self._places.get((vhost, log))
        if place is None:
            place = self._places[vhost, log] = _Place(self._store.log(log, vhost))
        return place


class _Place:
    """A log, its partitions by number."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.partitions = dict(zip(log.numbers, log.partitions, strict=True))
        self.ends = {number: partition.committed_offset for number, partition in self.partitions.items()}
        self._ids: Mapping[int, str] | None = None

    def id_of(self, number: int) -> str:
        """The id of a partition; of one that is gone already its number."""
        if self._ids is None:
            self._ids = dict(zip(self.log.numbers, self.log.definition.partition_ids, strict=True))
        return self._ids.get(number, str(number))


def _position(number: int, cursor: Cursor[Any] | None, place: _Place) -> dict[str, Any]:
    end = place.ends.get(number, 0)
    return {
        "partition": place.id_of(number),
        "position": None if cursor is None else cursor.low,
        "next_offset": None if cursor is None else cursor.next_offset,
        "end_offset": end,
        "lag": None if cursor is None else cursor.lag(end),
        "unsettled_count": 0 if cursor is None else cursor.unsettled_count,
        "due_count": 0 if cursor is None else cursor.due_count,
        "dead_letter_count": 0 if cursor is None else cursor.dead_letter_count,
        "lost_count": 0 if cursor is None else cursor.lost_count,
    }


def _group_position(group: Group[Member], number: int, epoch: int, place: _Place) -> GroupPositionShown:
    owner = group.owner_of(number)
    return GroupPositionShown(
        **_position(number, group.cursors.by_partition.get(number), place),
        epoch=epoch,
        owner=None if owner is None else group.link_of(owner).name,
    )


def _filter_texts(encoded: bytes) -> dict[str, str]:
    """The filters of a subscription, which are kept as the AMQP map that its links gave."""
    if not encoded:
        return {}
    try:
        found, _ = decode(encoded, 0, len(encoded))
    except MalformedValue:
        found = None
    if not isinstance(found, dict):
        return {"": "it is not understood"}
    return {
        str(name): str(given.value if isinstance(given, Described) else given)
        for name, given in found.items()
    }


_KINDS = {Kind.SUBSCRIPTION: "subscription", Kind.TERMINUS: "terminus"}
_EXPIRIES = {
    Expiry.LINK_DETACH: "link-detach",
    Expiry.SESSION_END: "session-end",
    Expiry.CONNECTION_CLOSE: "connection-close",
    Expiry.NEVER: "never",
}

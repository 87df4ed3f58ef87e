"""All topic subscriptions and durable termini of a server: who may attach to which, and when they end.

What the source of an attach asks for (a to g as in the document), and what becomes of it:

| case | shared | durable | global | when its last consumer goes |
|---|---|---|---|---|
| a    |        |         |        | it is no subscription: every receiver gets all |
| b, c |        | yes     | no, yes | it stays when detached, ends when closed; one consumer at a time |
| d, e | yes    |         | no, yes | it ends |
| f, g | yes    | yes     | no, yes | it stays when detached, ends when closed |

The shell carries effects out in their order. It answers a `Granted` attach when the puts before it are durable, and
gives the time of its clock with whatever may begin or end a time-out.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from headwater.engine.cursor import DEFAULT_LIMITS, CursorLimits
from headwater.engine.cursor_flushes import CursorFlushes, WaitOver
from headwater.engine.cursor_record import Position
from headwater.engine.link_id import LinkId
from headwater.engine.state_record import SUBSCRIPTION, Delete, Put, owner_key
from headwater.engine.subscription_record import (
    FILTER_BYTES_MAX,
    NAME_BYTES_MAX,
    Definition,
    Expiry,
    Kind,
    SubscriptionId,
    put_definition,
    subscription_name,
)
from headwater.engine.topic_subscription import TopicSubscription

__all__ = [
    "CONSUMERS_MAX",
    "Attach",
    "Departure",
    "Ended",
    "Granted",
    "NotASubscription",
    "Refusal",
    "Refused",
    "Reset",
    "Stolen",
    "SubscriptionEffect",
    "Subscriptions",
    "Woken",
]

CONSUMERS_MAX = 10_000
"""Consumers of one shared subscription."""
REATTACH_MS = 60_000
"""So long at least a subscription waits for consumers whose links an operator's reset has ended."""

C = TypeVar("C", bound=Hashable)


class Attach(msgspec.Struct, frozen=True):
    """What a receiving link asks of a log."""

    vhost: str
    log: str
    log_id: int
    link: LinkId
    is_global: bool = False
    is_shared: bool = False
    is_durable: bool = False
    kind: Kind = Kind.SUBSCRIPTION
    bound_partition: int | None = None
    """The only one it asks for."""
    filter: bytes = b""
    expiry: Expiry = Expiry.NEVER
    timeout_ms: int = 0


class Departure(enum.IntEnum):
    """How a link went; each of the first three is contained in those behind it."""

    DETACH = 0
    SESSION_END = 1
    CONNECTION_CLOSE = 2
    CLOSE = 3
    """Detached with closed: the consumer wants the subscription no more (TS-9)."""


class Refusal(enum.Enum):
    """Why an attach is refused."""

    IN_USE = "another consumer is attached to this subscription"
    OTHER_PROPERTIES = "the subscription exists with other properties (shared, durable, partitions)"
    OTHER_FILTER = "the subscription exists with another filter"
    NAME_TOO_LONG = "container, link name or filter is too long to be kept"
    TOO_MANY = "there are as many subscriptions, or consumers of this one, as there may be"
    UNKNOWN = "there is no subscription of this name"


class NotASubscription(msgspec.Struct, Generic[C], frozen=True):
    """Case a: the link reads the log for itself."""

    consumer: C


class Granted(msgspec.Struct, Generic[C], frozen=True):
    """The consumer is attached."""

    consumer: C
    subscription: TopicSubscription[C]
    is_new: bool


class Refused(msgspec.Struct, Generic[C], frozen=True):
    """The consumer is not attached."""

    consumer: C
    why: Refusal


class Stolen(msgspec.Struct, Generic[C], frozen=True):
    """The same link came again, elsewhere: end this one (`amqp:link:stolen`). It has left already."""

    consumer: C


class Reset(msgspec.Struct, Generic[C], frozen=True):
    """The subscription goes on from elsewhere: end the link, for it to attach anew. It has left already."""

    consumer: C


class Woken(msgspec.Struct, Generic[C], frozen=True):
    """Messages are due again: deal."""

    subscription: TopicSubscription[C]


class Ended(msgspec.Struct, Generic[C], frozen=True):
    """The subscription is no more; links that are still on it are to be ended (`amqp:resource-deleted`)."""

    subscription: TopicSubscription[C]
    consumers: tuple[C, ...]


SubscriptionEffect: TypeAlias = (
    NotASubscription[C]
    | Granted[C]
    | Refused[C]
    | Stolen[C]
    | Reset[C]
    | Woken[C]
    | Ended[C]
    | WaitOver
    | Put
    | Delete
)


class Subscriptions(Generic[C]):
    """The registry."""

    def __init__(self, flushes: CursorFlushes[C, Any], subscriptions_max: int = 100_000) -> None:
        self.subscriptions_max = subscriptions_max
        self._flushes = flushes
        self._all: dict[SubscriptionId, TopicSubscription[C]] = {}
        self._by_digest: dict[bytes, TopicSubscription[C]] = {}
        self._by_log: dict[tuple[str, str], dict[SubscriptionId, TopicSubscription[C]]] = {}
        self._of: dict[C, TopicSubscription[C]] = {}
        self._left: dict[C, TopicSubscription[C]] = {}
        """Last consumers whose departure is not yet what lets the time-out run."""
        self._ends_at_ms: dict[SubscriptionId, int] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[TopicSubscription[C]]:
        """All of them, as they are at this moment."""
        return iter(tuple(self._all.values()))

    def with_digest(self, digest: bytes) -> TopicSubscription[C] | None:
        """The one that this stands for in keys."""
        return self._by_digest.get(digest)

    # Attaching

    def find(self, attach: Attach) -> TopicSubscription[C] | None:
        """What an attach would resume; then no offsets to start from need to be looked up."""
        terminus = self._all.get(_id_of(attach, Kind.TERMINUS))
        if terminus is not None and attach.is_durable and not attach.is_shared:
            return terminus
        return self._all.get(_id_of(attach, Kind.SUBSCRIPTION))

    def attach(
        self,
        consumer: C,
        attach: Attach,
        starts: Mapping[int, int],
        limits: CursorLimits = DEFAULT_LIMITS,
    ) -> list[SubscriptionEffect[C]]:
        """A link asks to consume; a new subscription has the partitions of `starts`, from these offsets on."""
        subscription = self.find(attach)
        if subscription is None:
            if not (attach.is_shared or attach.is_durable):
                return [NotASubscription(consumer)]
            if _is_too_long(attach):
                return [Refused(consumer, Refusal.NAME_TOO_LONG)]
            if len(self._all) >= self.subscriptions_max:
                return [Refused(consumer, Refusal.TOO_MANY)]
            return self._begin(consumer, attach, starts, limits)
        why = _refusal(subscription, attach)
        if why is not None:
            return [Refused(consumer, why)]
        effects: list[SubscriptionEffect[C]] = []
        if not attach.is_shared:
            effects += [Stolen(other) for other in list(subscription.consumers)]
            for other in list(subscription.consumers):
                subscription.leave(other)
                del self._of[other]
        self._join(consumer, subscription, attach.link)
        definition = msgspec.structs.replace(
            subscription.definition, filter=attach.filter, expiry=attach.expiry, timeout_ms=attach.timeout_ms
        )
        if definition != subscription.definition:
            subscription.definition = definition
            effects += [put_definition(definition)] if definition.is_durable else []
        return [*effects, Granted(consumer, subscription, False)]

    def _begin(
        self, consumer: C, attach: Attach, starts: Mapping[int, int], limits: CursorLimits
    ) -> list[SubscriptionEffect[C]]:
        is_terminus = attach.kind is Kind.TERMINUS and attach.is_durable and not attach.is_shared
        definition = Definition(
            _id_of(attach, Kind.TERMINUS if is_terminus else Kind.SUBSCRIPTION),
            attach.log_id,
            attach.is_shared,
            attach.is_durable,
            attach.bound_partition,
            attach.filter,
            attach.expiry,
            attach.timeout_ms,
        )
        subscription = self._add(definition, limits)
        for partition, offset in starts.items():
            subscription.cursors.begin(partition, offset)
        self._join(consumer, subscription, attach.link)
        puts = [*subscription.cursors.puts(), put_definition(definition)] if attach.is_durable else []
        return [*puts, Granted(consumer, subscription, True)]

    def _join(self, consumer: C, subscription: TopicSubscription[C], link: LinkId) -> None:
        subscription.join(consumer, link)
        self._of[consumer] = subscription
        self._ends_at_ms.pop(subscription.definition.id, None)
        for other in [other for other, left in self._left.items() if left is subscription]:
            del self._left[other]

    # Departing

    def depart(self, consumer: C, how: Departure, now_ms: int) -> list[SubscriptionEffect[C]]:
        """A link went, or what it was on: its session, its connection. May be told again with what comes later."""
        subscription = self._of.pop(consumer, None)
        effects: list[SubscriptionEffect[C]] = []
        if subscription is not None:
            effects += [Woken(subscription)] if subscription.leave(consumer) else []
        else:
            subscription = self._left.pop(consumer, None)
        if subscription is None or subscription.consumers:
            return effects
        definition = subscription.definition
        if how is Departure.CLOSE or not definition.is_durable:
            return effects + self.end(definition.id)
        if definition.expiry is Expiry.NEVER:
            return effects
        if how < definition.expiry:
            self._left[consumer] = subscription
            return effects
        self._ends_at_ms[definition.id] = now_ms + definition.timeout_ms
        return effects + self.expire(now_ms)

    def awaits_more(self, consumer: C) -> bool:
        """Whether a link that is gone is to be told of again when its session ends, or its connection."""
        return consumer in self._left

    @property
    def next_expiry_ms(self) -> int | None:
        """When `expire` has something to do."""
        return min(self._ends_at_ms.values(), default=None)

    def expire(self, now_ms: int) -> list[SubscriptionEffect[C]]:
        """End what nobody came back to in time."""
        over = [id_ for id_, ends_at_ms in self._ends_at_ms.items() if ends_at_ms <= now_ms]
        return [effect for id_ in over for effect in self.end(id_)]

    def to_end(self, vhost: str, link: LinkId, *, is_global: bool) -> list[TopicSubscription[C]] | Refusal:
        """What a link with a null source may end by closing (JMS' unsubscribe), on any log."""
        wanted = _id_of(Attach(vhost, "", 0, link, is_global), Kind.SUBSCRIPTION)
        found = [
            subscription
            for id_, subscription in self._all.items()
            if id_.name == wanted.name  # few have it: the rest is dearer to compare
            and msgspec.structs.replace(id_, log="") == wanted
            and subscription.definition.is_durable
        ]
        if not found:
            return Refusal.UNKNOWN
        return Refusal.IN_USE if any(each.consumers for each in found) else found

    def end(self, id_: SubscriptionId) -> list[SubscriptionEffect[C]]:
        """End a subscription, whoever is on it; one that is not there is ended already."""
        subscription = self._all.pop(id_, None)
        if subscription is None:
            return []
        del self._by_digest[subscription.cursors.digest]
        on_log = self._by_log[id_.vhost, id_.log]
        del on_log[id_]
        if not on_log:
            del self._by_log[id_.vhost, id_.log]
        self._ends_at_ms.pop(id_, None)
        for consumer in [each for each, left in self._left.items() if left is subscription]:
            del self._left[consumer]
        consumers = tuple(subscription.consumers)
        for consumer in consumers:
            del self._of[consumer]
        subscription.consumers.clear()
        deletes = subscription.cursors.end()
        own = [Delete(owner_key(SUBSCRIPTION, id_.digest))] if subscription.definition.is_durable else []
        return [Ended(subscription, consumers), *own, *deletes]

    def reset(
        self, id_: SubscriptionId, offsets: Mapping[int, int], now_ms: int
    ) -> list[SubscriptionEffect[C]]:
        """Have a durable subscription go on from these offsets of partitions; its links are to attach anew."""
        subscription = self._all[id_]
        assert subscription.definition.is_durable, "others end with their consumers"
        consumers = tuple(subscription.consumers)
        for consumer in consumers:
            subscription.leave(consumer)
            del self._of[consumer]
        for partition, offset in offsets.items():
            subscription.cursors.begin(partition, offset)
        definition = subscription.definition
        if consumers and definition.expiry is not Expiry.NEVER:
            self._ends_at_ms[id_] = now_ms + max(definition.timeout_ms, REATTACH_MS)
        return [*subscription.cursors.puts(*offsets), *(Reset(each) for each in consumers)]

    # Logs

    def on_log(self, vhost: str, log: str) -> Iterator[TopicSubscription[C]]:
        """The subscriptions to a log."""
        return iter(tuple(self._by_log.get((vhost, log), {}).values()))

    def log_deleted(self, vhost: str, log: str) -> list[SubscriptionEffect[C]]:
        """The log is gone, and its subscriptions with it."""
        return [effect for each in self.on_log(vhost, log) for effect in self.end(each.definition.id)]

    def log_changed(self, vhost: str, log: str, firsts: Mapping[int, int]) -> list[SubscriptionEffect[C]]:
        """The log has these partitions now, whose events begin so: those who subscribed to all of it get new ones."""
        effects: list[SubscriptionEffect[C]] = []
        for subscription in self.on_log(vhost, log):
            bound = subscription.definition.bound_partition
            if bound is None:
                known = set(subscription.cursors.by_partition)
                effects += subscription.cursors.keep(firsts)
                subscription.cursors.grow(firsts)
                effects += [Woken(subscription)] if known != firsts.keys() else []
            elif bound not in firsts:
                effects += self.end(subscription.definition.id)
        return effects

    def retention_floor(self, vhost: str, log: str, partition: int, offset_at_limit: int) -> int | None:
        """The first offset that retention is to leave, if any.

        Durable subscriptions hold it back, but not below the offset at which what they hold would be beyond its limit.
        """
        lows = [
            each.cursors.by_partition[partition].low
            for each in self.on_log(vhost, log)
            if each.definition.is_durable and partition in each.cursors.by_partition
        ]
        return max(min(lows), offset_at_limit) if lows else None

    def overtaken(
        self, vhost: str, log: str, partition: int, first_retained: int
    ) -> dict[SubscriptionId, int]:
        """Retention took what lies before an offset; gives who lost how many messages by it."""
        lost = {}
        for subscription in self.on_log(vhost, log):
            cursor = subscription.cursors.by_partition.get(partition)
            count = 0 if cursor is None else cursor.overtake(first_retained)
            if count:
                lost[subscription.definition.id] = count
        return lost

    # Restart

    def restore(
        self,
        definition: Definition,
        positions: Mapping[int, Position],
        ends: Mapping[int, int],
        now_ms: int,
        limits: CursorLimits = DEFAULT_LIMITS,
    ) -> list[Delete]:
        """A durable subscription as its records tell; all links are gone, so its time-out runs.

        Gives what removes its positions in partitions that are gone, and all of it where its only one is.
        """
        subscription = self._add(definition, limits)
        deletes = subscription.cursors.restore(positions, ends)
        bound = definition.bound_partition
        if bound is None:
            subscription.cursors.grow(dict.fromkeys(ends, 0))
        elif bound not in ends:
            own = [each for each in self.end(definition.id) if isinstance(each, Delete)]
            return own + deletes
        if definition.expiry is not Expiry.NEVER:
            self._ends_at_ms[definition.id] = now_ms + definition.timeout_ms
        return deletes

    def _add(self, definition: Definition, limits: CursorLimits) -> TopicSubscription[C]:
        subscription = TopicSubscription(definition, limits, self._flushes)
        id_ = definition.id
        self._all[id_] = self._by_digest[subscription.cursors.digest] = subscription
        self._by_log.setdefault((id_.vhost, id_.log), {})[id_] = subscription
        return subscription


def _id_of(attach: Attach, kind: Kind) -> SubscriptionId:
    link = attach.link
    name = link.name if kind is Kind.TERMINUS else subscription_name(link.name)
    container, user = (None, None) if attach.is_global else (link.container, link.user)
    return SubscriptionId(attach.vhost, attach.log, container, name, kind, user)


def _is_too_long(attach: Attach) -> bool:
    names = (attach.link.container, attach.link.name)
    return len(attach.filter) > FILTER_BYTES_MAX or any(
        len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX for name in names
    )


def _refusal(subscription: TopicSubscription[C], attach: Attach) -> Refusal | None:
    """Why an existing subscription is not for this attach (TS-6, TS-10)."""
    definition = subscription.definition
    is_terminus = definition.id.kind is Kind.TERMINUS
    asked = (attach.is_shared, attach.is_durable)
    if asked != (definition.is_shared, definition.is_durable):
        return Refusal.OTHER_PROPERTIES
    if attach.bound_partition != definition.bound_partition and attach.bound_partition is not None:
        return Refusal.OTHER_PROPERTIES
    if len(attach.filter) > FILTER_BYTES_MAX:
        return Refusal.NAME_TOO_LONG
    if attach.filter != definition.filter and not is_terminus:
        return Refusal.OTHER_FILTER
    if not attach.is_shared and any(link != attach.link for link in subscription.consumers.values()):
        return Refusal.IN_USE
    if len(subscription.consumers) >= CONSUMERS_MAX:
        return Refusal.TOO_MANY
    return None

"""How far consumers are behind the ends of their logs, as far as the server knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from headwater.log.log import Log
from headwater.log.partition import Partition
from headwater.server.amqp.consuming import Consuming
from headwater.server.amqp.door import Door as AmqpDoor
from headwater.server.consumers.consumers import Consumers
from headwater.server.streams.door import Door as StreamDoor

__all__ = ["Lag", "kept_lags", "live_lags"]


class Lag(NamedTuple):
    """Events that consumers of one kind have before them; of several without a name the most of one."""

    kind: str
    """group, subscription, stream or amqp."""
    consumer: str
    """The name of a group or a subscription; all others are one."""
    events: int


def kept_lags(log: Log, consumers: Consumers) -> Iterator[Lag]:
    """Of those whose position the server keeps: events that they have not settled."""
    place = log.definition.vhost, log.name
    groups, subscriptions = (
        list(consumers.groups.on_log(*place)),
        list(consumers.subscriptions.on_log(*place)),
    )
    if not groups and not subscriptions:
        return
    ends = {
        number: partition.committed_offset
        for number, partition in zip(log.numbers, log.partitions, strict=True)
    }
    for group in groups:
        yield Lag("group", group.definition.id.name, group.cursors.lag(ends))
    for subscription in subscriptions:
        yield Lag("subscription", subscription.definition.id.name, subscription.cursors.lag(ends))


def live_lags(streams: StreamDoor, amqp: AmqpDoor) -> dict[Partition, dict[str, int]]:
    """Of clients that read now, and keep their positions themselves: the most of each kind, by partition."""
    found: dict[Partition, dict[str, int]] = {}
    for kind, partition, offset in (*_of_streams(streams), *_of_amqp(amqp)):
        behind = max(partition.committed_offset - offset, 0)
        by_kind = found.setdefault(partition, {})
        by_kind[kind] = max(by_kind.get(kind, 0), behind)
    return found


def _of_streams(door: StreamDoor) -> Iterable[tuple[str, Partition, int]]:
    for connection in list(door.connections):
        if connection.session is not None:
            for subscription in list(connection.session.subscriptions.values()):
                yield "stream", subscription.partition, subscription.offset


def _of_amqp(door: AmqpDoor) -> Iterable[tuple[str, Partition, int]]:
    for connection in list(door.connections):
        if connection.container is not None:
            for handler in list(connection.container.links.values()):
                if isinstance(handler, Consuming):
                    for feed in handler.feeds:
                        yield "amqp", feed.partition, feed.offset

"""How far consumers are behind the ends of their logs, as far as the server knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from headwater.engine.cursor_set import CursorSet
from headwater.log.log import Log
from headwater.log.partition import Partition
from headwater.server.amqp.consuming import Consuming
from headwater.server.amqp.door import Door as AmqpDoor
from headwater.server.consumers.consumers import Consumers
from headwater.server.management.turns import in_turns
from headwater.server.streams.door import Door as StreamDoor

__all__ = ["kept_lags", "live_lags"]


LABEL_CHARS_MAX = 200
"""Of names, which peers choose; of those that are the same so far the most of one is told."""


async def kept_lags(log: Log, consumers: Consumers, named_max: int) -> dict[tuple[str, str], int]:
    """Events that those whose position the server keeps have not settled, by kind, group or subscription, and name.

    Of several with one name the most of one; those beyond `named_max` have none.
    """
    ends = {
        number: partition.committed_offset
        for number, partition in zip(log.numbers, log.partitions, strict=True)
    }
    found: dict[tuple[str, str], int] = {}
    every = _with_positions(log.definition.vhost, log.name, consumers)
    async for kind, name, cursors in in_turns(every, lambda each: len(each[2].by_partition)):
        key = kind, name[:LABEL_CHARS_MAX]
        if key not in found and len(found) >= named_max:
            key = kind, ""
        found[key] = max(found.get(key, 0), cursors.lag(ends))
    return found


def _with_positions(vhost: str, log: str, consumers: Consumers) -> Iterator[tuple[str, str, CursorSet[Any]]]:
    for group in consumers.groups.on_log(vhost, log):
        yield "group", group.definition.id.name, group.cursors
    for subscription in consumers.subscriptions.on_log(vhost, log):
        yield "subscription", subscription.definition.id.name, subscription.cursors


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

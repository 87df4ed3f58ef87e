"""What consumers had taken and settled before the server stopped, out of `$state`."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from headwater.engine.cursor_record import Position, decode_position
from headwater.engine.group_record import decode_group
from headwater.engine.groups import Groups
from headwater.engine.state_record import (
    CURSOR,
    GROUP,
    SUBSCRIPTION,
    Delete,
    Put,
    cursor_key_parts,
    unowned,
)
from headwater.engine.subscription_record import decode_definition
from headwater.engine.subscriptions import Subscriptions
from headwater.errors import MalformedState
from headwater.log.log import Log
from headwater.log.store import Store
from headwater.server.consumers.consumer import Member, Subscriber
from headwater.server.management.policies import cursor_limits, group_policy

__all__ = ["restore"]

logger = logging.getLogger("headwater.consumers")

T = TypeVar("T")


def restore(
    store: Store, subscriptions: Subscriptions[Subscriber], groups: Groups[Member], now_ms: int
) -> list[Put | Delete]:
    """Fill the registries; gives what brings the records up to the logs, which may have changed before a crash."""
    positions = _positions(store)
    puts: list[Put] = []
    deletes: list[Delete] = []
    for key, definition in _records(store, SUBSCRIPTION, decode_definition):
        log = _log_of(store, definition.id.vhost, definition.id.log, definition.log_id)
        if log is None:
            deletes.append(Delete(key))
            continue
        found, limits = positions.get(definition.id.digest, {}), cursor_limits(log.definition.settings)
        deletes += subscriptions.restore(definition, found, _ends(log, found), now_ms, limits)
    for key, (group, epochs) in _records(store, GROUP, decode_group):
        log = _log_of(store, group.id.vhost, group.id.log, group.log_id)
        if log is None:
            deletes.append(Delete(key))
            continue
        found, limits = positions.get(group.id.digest, {}), cursor_limits(log.definition.settings)
        policy = group_policy(log.definition.settings)
        for change in groups.restore(group, epochs, found, _ends(log, found), policy, limits):
            puts.append(change) if isinstance(change, Put) else deletes.append(change)
    _overtake(store, subscriptions, groups)
    return [*puts, *deletes, *_unowned(store, {delete.key for delete in deletes})]


def _unowned(store: Store, gone: set[bytes]) -> list[Delete]:
    owners = [
        key[len(kind) :]
        for kind in (SUBSCRIPTION, GROUP)
        for key, _ in store.state.items(kind)
        if key not in gone
    ]
    return unowned((key for key, _ in store.state.items(CURSOR)), owners)


def _overtake(store: Store, subscriptions: Subscriptions[Subscriber], groups: Groups[Member]) -> None:
    """Retention may have gone on after the last positions were written."""
    for (vhost, name), log in store.logs.items():
        for number, partition in zip(log.numbers, log.partitions, strict=True):
            subscriptions.overtaken(vhost, name, number, partition.first_offset)
            groups.overtaken(vhost, name, number, partition.first_offset)


def _positions(store: Store) -> dict[bytes, dict[int, Position]]:
    """By the digest of their owner, and by partition."""
    found: dict[bytes, dict[int, Position]] = defaultdict(dict)
    for key, position in _records(store, CURSOR, decode_position):
        digest, partition = cursor_key_parts(key)
        found[digest][partition] = position
    return found


def _records(store: Store, kind: bytes, read: Callable[[bytes], T]) -> Iterator[tuple[bytes, T]]:
    """Those of a kind; one that cannot be read stays where it is, and somebody is told."""
    for key, value in store.state.items(kind):
        try:
            yield key, read(value)
        except MalformedState as error:
            logger.error(
                "a record of a consumer is not understood, and is left alone: %s %s", key.hex(), error
            )


def _log_of(store: Store, vhost: str, name: str, log_id: int) -> Log | None:
    log = store.logs.get((vhost, name))
    return log if log is not None and log.definition.id == log_id else None


def _ends(log: Log, positions: Mapping[int, Position]) -> dict[int, int]:
    """Where partitions end, as positions are held to it: what was confirmed from memory may be gone behind that.

    From the disk nothing is gone: a position beyond the end is one that waits for what is yet to come.
    """
    ends = {}
    for number, partition in zip(log.numbers, log.partitions, strict=True):
        ends[number] = partition.committed_offset
        if number in positions and partition.settings.durability == "disk":
            ends[number] = max(ends[number], positions[number].low)
    return ends

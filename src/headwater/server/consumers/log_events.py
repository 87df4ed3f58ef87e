"""What happens to logs, told to their consumers: partitions come and go, old events are removed, policies change."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from headwater.log.log import Log, LogDefinition
from headwater.log.partition import Partition
from headwater.log.store import Store
from headwater.server.consumers.consumers import Consumers

__all__ = ["follow_logs"]

logger = logging.getLogger("headwater.consumers")


def follow_logs(store: Store, consumers: Consumers) -> None:
    """Keep consumers up with the logs of a store, and what they need in them."""
    events = _LogEvents(store, consumers)
    store.on_log_changed.add(events.changed)
    store.on_log_deleted.add(events.deleted)
    store.on_events_removed.add(events.removed)
    store.retention_holds = events.first_needed


class _LogEvents:
    def __init__(self, store: Store, consumers: Consumers) -> None:
        self._store = store
        self._consumers = consumers

    def changed(self, log: Log, before: LogDefinition) -> None:
        if log.definition.partitions != before.partitions:
            offsets = (partition.first_offset for partition in log.partitions)
            firsts = dict(zip(log.numbers, offsets, strict=True))
            self._consumers.log_changed(log.definition.vhost, log.name, firsts)
        if log.definition.settings != before.settings:
            self._consumers.policies_changed(log)

    def deleted(self, log: Log) -> None:
        self._consumers.log_deleted(log.definition.vhost, log.name)

    def removed(self, partition: Partition, first_offset: int) -> None:
        for log, number in self._logs_with(partition):
            place = (log.definition.vhost, log.name, number, first_offset)
            for subscription, count in self._consumers.subscriptions.overtaken(*place).items():
                logger.warning(
                    "%s: %d messages were removed before subscription %r settled them",
                    partition.name,
                    count,
                    subscription.name,
                )
            for group, count in self._consumers.groups.overtaken(*place).items():
                logger.warning(
                    "%s: %d messages were removed before group %r settled them",
                    partition.name,
                    count,
                    group.name,
                )
        self._consumers.note_changes()

    def first_needed(self, partition: Partition, offset_at_limit: int) -> int | None:
        """Durable subscriptions hold retention back; groups read what is there, as stream consumers do."""
        subscriptions = self._consumers.subscriptions
        floors = [
            subscriptions.retention_floor(log.definition.vhost, log.name, number, offset_at_limit)
            for log, number in self._logs_with(partition)
        ]
        return min((floor for floor in floors if floor is not None), default=None)

    def _logs_with(self, partition: Partition) -> Iterator[tuple[Log, int]]:
        """The log that a partition is of, and those that it is bound to, each with the number that it has there."""
        for log in self._store.logs.values():
            for number, each in zip(log.numbers, log.partitions, strict=True):
                if each is partition:
                    yield log, number

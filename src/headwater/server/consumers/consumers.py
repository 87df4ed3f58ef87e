"""Topic subscriptions, durable termini and consumer groups of a server: the shell around `headwater.engine`.

a link attaches, settles, goes ──> engine ──> effects ──> `$state`, then answers to links
cursors that changed ── every `cursor_flush_ms` ──> `$state` ──> settlements that waited for it
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from headwater.engine.cursor import Cursor, CursorLimits
from headwater.engine.cursor_flushes import CursorFlush, CursorFlushes
from headwater.engine.group import Group
from headwater.engine.group_effects import (
    Assigned,
    Attached,
    Evicted,
    GroupAttach,
    GroupEffect,
    GroupEnded,
    GroupPolicy,
    GroupRefusal,
    GroupRefused,
    GroupReset,
    PartitionGone,
    Pending,
    Rebalanced,
    Revoked,
)
from headwater.engine.group_record import GroupDefinition, GroupId
from headwater.engine.groups import Groups
from headwater.engine.state_record import GROUP, Put, owner_key
from headwater.engine.subscription_record import SubscriptionId
from headwater.engine.subscriptions import (
    Attach,
    Departure,
    Ended,
    Granted,
    Refused,
    Reset,
    Stolen,
    SubscriptionEffect,
    Subscriptions,
    Woken,
)
from headwater.engine.topic_subscription import TopicSubscription
from headwater.errors import StorageError
from headwater.log.log import Log
from headwater.log.store import Store
from headwater.server.consumers.consumer import Member, Subscriber
from headwater.server.consumers.dead_letters import DeadLetters
from headwater.server.consumers.effects import Effects
from headwater.server.consumers.restart import restore
from headwater.server.consumers.state_writer import StateWriter, Write
from headwater.server.management.policies import cursor_limits, group_policy

__all__ = ["Consumers"]

FLUSHES_PER_TURN = 1_024
"""Cursors that are written in one turn; the next turn has the others."""
RETRY_S = 1.0
"""So long after a record could not be written it is tried again."""

logger = logging.getLogger("headwater.consumers")


class Consumers:
    """The registries of the engine, and what of them is on disk."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop, flush_interval_s: float) -> None:
        self._store = store
        self._loop = loop
        self._flush_interval_s = flush_interval_s
        self._writer = StateWriter(store.state, self._note_failure)
        self._effects = Effects(self._writer)
        self._flushes: CursorFlushes[Any, Callable[[], None]] = CursorFlushes()
        self._flush_timer: asyncio.TimerHandle | None = None
        self._expiry_timer: asyncio.TimerHandle | None = None
        self._retry_timer: asyncio.TimerHandle | None = None
        self._leaving: dict[bool, list[Member]] = {True: [], False: []}
        """Links of groups that went since the last look, by whether their receivers closed them."""
        self.subscriptions: Subscriptions[Subscriber] = Subscriptions(self._flushes)
        self.groups: Groups[Member] = Groups(self._flushes)
        for change in restore(store, self.subscriptions, self.groups, self._now_ms()):
            self._writer.put(change) if isinstance(change, Put) else self._writer.delete(change)
        self._dead_letters = DeadLetters(store, loop, self.note_changes)
        for log in store.logs.values():
            self._bury_all(log)
        self._note_times()
        self.note_changes()

    def close(self) -> None:
        """Put what has changed into `$state`; the store makes it durable as it closes."""
        self._note_leaving()
        self._dead_letters.close()
        for timer in (self._flush_timer, self._expiry_timer, self._retry_timer):
            if timer is not None:
                timer.cancel()
        while flushes := self._flushes.begin(FLUSHES_PER_TURN):
            for flush in flushes:
                self._writer.put(Put(flush.key, flush.value))

    # Topic subscriptions and durable termini

    def subscribe(
        self, consumer: Subscriber, attach: Attach, starts: Mapping[int, int], limits: CursorLimits
    ) -> None:
        """A link asks to consume; it is told what becomes of it."""
        self._of_subscriptions(self.subscriptions.attach(consumer, attach, starts, limits))

    def depart(self, consumer: Subscriber, how: Departure) -> None:
        """A link of a subscription went, or what it was on."""
        self._of_subscriptions(self.subscriptions.depart(consumer, how, self._now_ms()))

    def reset_subscription(self, id_: SubscriptionId, offsets: Mapping[int, int]) -> Write:
        """Have a durable subscription go on from these offsets of partitions; gives what makes that durable."""
        return _written(self._of_subscriptions(self.subscriptions.reset(id_, offsets, self._now_ms())))

    def end_subscription(self, id_: SubscriptionId) -> Write | None:
        """End a subscription, whoever is on it; gives what makes that durable, if anything was."""
        return self._of_subscriptions(self.subscriptions.end(id_))

    # Groups

    def join(
        self,
        member: Member,
        definition: GroupDefinition,
        asked: GroupAttach,
        policy: GroupPolicy,
        partitions: Collection[int],
        limits: CursorLimits,
    ) -> None:
        """A link asks to consume in a group; it is told what becomes of it."""
        self._note_leaving()
        now_ms = self._now_ms()
        effects = self.groups.attach(member, definition, asked, policy, partitions, now_ms, limits)
        group = self.groups.find(definition.id)
        if group is not None and self._writer.has_failed(owner_key(GROUP, definition.id.digest)):
            effects.insert(0, group.put())  # nobody is told of what a restart would not find
        self._of_groups(effects)

    def begin(
        self, group: Group[Member], partition: int, offset: int, then: Callable[[StorageError | None], None]
    ) -> None:
        """A group starts, or starts anew, at an offset of a partition; tells when that is on disk."""
        _written(self._of_groups(group.begin(partition, offset))).then(then)
        self.note_changes()

    def leave(self, member: Member, *, is_closed: bool) -> None:
        """A link of a group is gone, and perhaps others go with it, to which nothing of what it had is to go."""
        if not any(self._leaving.values()):
            self._loop.call_soon(self._note_leaving)
        self._leaving[is_closed].append(member)

    def _note_leaving(self) -> None:
        for is_closed, members in self._leaving.items():
            if members:
                self._leaving[is_closed] = []
                self._of_groups(self.groups.leave(*members, is_closed=is_closed, now_ms=self._now_ms()))

    def configure_group(
        self,
        definition: GroupDefinition,
        policy: GroupPolicy,
        partitions: Collection[int],
        limits: CursorLimits,
    ) -> Write | GroupRefusal:
        """Make a group, or keep one that links made; gives what makes that durable, or why it cannot be."""
        self._note_leaving()
        effects = self.groups.configure(definition, policy, partitions, limits)
        return effects if isinstance(effects, GroupRefusal) else _written(self._of_groups(effects))

    def reset_group(self, id_: GroupId, offsets: Mapping[int, int]) -> Write:
        """Have a group go on from these offsets of partitions; gives what makes that durable."""
        self._note_leaving()
        return _written(self._of_groups(self.groups.reset(id_, offsets, self._now_ms())))

    def end_group(self, id_: GroupId) -> Write | None:
        """End a group, whoever is in it; gives what makes that durable, if there was one."""
        self._note_leaving()
        return self._of_groups(self.groups.end(id_))

    def group_changed(self, effects: Iterable[GroupEffect[Member]]) -> None:
        """Carry out what settling messages in a group has brought."""
        self._of_groups(effects)

    # Dead letters

    def bury_of_subscription(self, subscription: TopicSubscription[Subscriber]) -> None:
        """Write what it gave up into the dead-letter log."""
        id_ = subscription.definition.id
        log = self._store.logs.get((id_.vhost, id_.log))
        if log is not None:
            self._dead_letters.bury(log, subscription.cursors, f"subscription {id_.name}")

    def bury_of_group(self, group: Group[Member]) -> None:
        """Write what it gave up into the dead-letter log."""
        id_ = group.definition.id
        log = self._store.logs.get((id_.vhost, id_.log))
        if log is not None:
            self._dead_letters.bury(log, group.cursors, f"group {id_.name}")

    def _bury_all(self, log: Log) -> None:
        for subscription in self.subscriptions.on_log(log.definition.vhost, log.name):
            self.bury_of_subscription(subscription)
        for group in self.groups.on_log(log.definition.vhost, log.name):
            self.bury_of_group(group)

    # Settling

    def wait(self, cursor: Cursor[Any], sequence: int, call: Callable[[], None]) -> bool:
        """Call when the settlement of this sequence is on disk; False if it is already."""
        return not self._flushes.wait(cursor, sequence, call)

    def wait_until_placed(self, cursor: Cursor[Any], call: Callable[[], None]) -> bool:
        """Call when a restart would find the cursor; False if it would already."""
        return not cursor.durable_sequence and self.wait(cursor, cursor.sequence, call)

    def when_written(self, call: Callable[[], None]) -> bool:
        """Call when all records that were put or removed so far are on disk; False if they are already."""
        self._note_leaving()
        return self._writer.when_written(call)

    def note_changes(self) -> None:
        """Cursors have changed: write them soon."""
        if self._flush_timer is None and self._flushes.changed:
            self._flush_timer = self._loop.call_later(self._flush_interval_s, self._flush)

    def _flush(self) -> None:
        self._flush_timer = None
        for flush in self._flushes.begin(FLUSHES_PER_TURN):
            self._writer.put(Put(flush.key, flush.value)).then(
                lambda error, flush=flush: self._flushed(flush, error)  # type: ignore[misc]
            )
        self.note_changes()

    def _flushed(self, flush: CursorFlush[Any], error: StorageError | None) -> None:
        if error is None:
            for call in self._flushes.done(flush):
                call()
            return
        logger.error("where consumers stand cannot be written, and is tried again: %s", error)
        self._flushes.failed(flush)
        if self._flush_timer is None:
            self._flush_timer = self._loop.call_later(RETRY_S, self._flush)

    # Logs

    def log_deleted(self, vhost: str, log: str) -> None:
        """A log is gone, and with it all that consumed from it."""
        self._note_leaving()
        self._of_subscriptions(self.subscriptions.log_deleted(vhost, log))
        self._of_groups(self.groups.log_deleted(vhost, log))

    def log_changed(self, vhost: str, log: str, firsts: Mapping[int, int]) -> None:
        """A log has these partitions now, in this order."""
        self._note_leaving()
        self._of_subscriptions(self.subscriptions.log_changed(vhost, log, firsts))
        self._of_groups(self.groups.log_changed(vhost, log, firsts, self._now_ms()))
        self.note_changes()

    def policies_changed(self, log: Log) -> None:
        """What a log wants of its consumers has changed; it holds for those that are there, too."""
        self._note_leaving()
        limits, policy = cursor_limits(log.definition.settings), group_policy(log.definition.settings)
        for subscription in self.subscriptions.on_log(log.definition.vhost, log.name):
            subscription.cursors.limit(limits)
        now_ms = self._now_ms()
        self._of_groups(self.groups.policy_changed(log.definition.vhost, log.name, policy, limits, now_ms))

    # Effects

    def _of_subscriptions(self, effects: Iterable[SubscriptionEffect[Subscriber]]) -> Write | None:
        return self._carry_out(effects, self._subscription_effect)

    def _of_groups(self, effects: Iterable[GroupEffect[Member]]) -> Write | None:
        return self._carry_out(effects, self._group_effect)

    def _carry_out(
        self, effects: Iterable[Any], act: Callable[[Any, StorageError | None], None]
    ) -> Write | None:
        last = self._effects.carry_out(effects, act)
        self._note_times()
        self.note_changes()
        return last

    def _subscription_effect(
        self, effect: SubscriptionEffect[Subscriber], error: StorageError | None
    ) -> None:
        match effect:
            case Granted() if error is not None:
                effect.consumer.failed(error)
                if effect.is_new:
                    self.end_subscription(effect.subscription.definition.id)
            case Granted():
                effect.consumer.granted(effect)
            case Refused():
                effect.consumer.refused(effect)
            case Stolen():
                effect.consumer.stolen()
            case Reset():
                effect.consumer.reset()
            case Woken(subscription=subscription):
                for consumer in list(subscription.consumers)[:1]:
                    consumer.woken(subscription)
            case Ended(consumers=consumers):
                for consumer in consumers:
                    consumer.ended()
            case _:
                raise AssertionError(f"{effect} is no effect of a subscription")

    def _group_effect(self, effect: GroupEffect[Member], error: StorageError | None) -> None:
        match effect:
            case Attached(member=member) | Assigned(member=member) if error is not None:
                member.failed(error)
            case Attached(member=member):
                member.attached(effect)
            case Assigned(member=member):
                member.assigned()
            case GroupRefused(member=member):
                member.group_refused(effect)
            case Evicted() | Rebalanced() | GroupReset() | PartitionGone():
                _tell_that_it_left(effect)
            case Revoked(member=member):
                member.revoked(effect.partition)
            case GroupEnded(members=members):
                for member in members:
                    member.ended()
            case Pending():
                pass
            case _:
                raise AssertionError(f"{effect} is no effect of a group")

    # Time

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def _note_times(self) -> None:
        """Look again when the next time-out ends."""
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
            self._expiry_timer = None
        times = [self.subscriptions.next_expiry_ms, self.groups.next_tick_ms]
        next_ms = min((each for each in times if each is not None), default=None)
        if next_ms is not None:
            self._expiry_timer = self._loop.call_at(next_ms / 1000, self._time_passed)

    def _time_passed(self) -> None:
        self._expiry_timer = None
        self._note_leaving()
        now_ms = self._now_ms()
        self._of_subscriptions(self.subscriptions.expire(now_ms))
        self._of_groups(self.groups.tick(now_ms))

    def _note_failure(self) -> None:
        if self._retry_timer is None:
            self._retry_timer = self._loop.call_later(RETRY_S, self._try_again)

    def _try_again(self) -> None:
        self._retry_timer = None
        self._writer.try_again()


def _written(write: Write | None) -> Write:
    assert write is not None, "something was put"
    return write


def _tell_that_it_left(
    effect: Evicted[Member] | Rebalanced[Member] | GroupReset[Member] | PartitionGone[Member],
) -> None:
    match effect:
        case Evicted(member=member):
            member.stolen()
        case Rebalanced(member=member):
            member.rebalanced()
        case GroupReset(member=member):
            member.reset()
        case PartitionGone(member=member):
            member.ended()

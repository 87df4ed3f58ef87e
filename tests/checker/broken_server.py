"""`headwater`, broken on purpose: `python -m tests.checker.broken_server KIND serve …`; the checker must see it."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

from headwater.cli.main import main
from headwater.encoding.chunk import encode_snapshot, seal_chunk
from headwater.engine.cursor import Cursor
from headwater.engine.delivery import Outcome
from headwater.engine.group import Group
from headwater.engine.single_active import GroupId, SingleActive, Update
from headwater.errors import StorageError
from headwater.log import chunk_writer
from headwater.log.partition import Partition
from headwater.log.store import Store
from headwater.log.tracking import Tracking
from headwater.server.consumers.consumers import Consumers
from headwater.server.record_source import RecordSource
from headwater.server.streams.consuming import Subscription
from headwater.server.streams.session import Session

__all__ = ["BROKEN"]

SKIPPED_EVERY = 50
SETTLED_EVERY = 50


def confirm_at_once() -> None:
    """Messages are confirmed when they were taken, before any disk."""

    def when_taken(_self: Partition, call: Callable[[StorageError | None], None]) -> None:
        call(None)

    mock.patch.object(Partition, "when_settled", when_taken).start()


def forget_sequences() -> None:
    """What publishers have sent is forgotten with each restart."""
    committed = Tracking.committed

    def committed_by_known(
        self: Tracking, publishers: Mapping[bytes, int], offsets: Mapping[bytes, int], now_ms: int
    ) -> None:
        # In a life of its own a publisher is known before its first commit; at recovery nobody is.
        known = {name: sequence for name, sequence in publishers.items() if name in self._publishers}
        committed(self, known, offsets, now_ms)

    mock.patch.object(Tracking, "committed", committed_by_known).start()


def all_active() -> None:
    """Everybody who joins a group may read."""
    join = SingleActive.join

    def join_as_active(
        self: SingleActive[object], group_id: GroupId, member: object, partition_index: int | None = None
    ) -> list[Update[object]]:
        join(self, group_id, member, partition_index)
        return [Update(member, True)]

    mock.patch.object(SingleActive, "join", join_as_active).start()


def skip_chunks() -> None:
    """Now and then a chunk is not delivered, though the client has the room for it."""
    deliver, numbers = Session.deliver, itertools.count(1)

    def deliver_with_gaps(self: Session, subscription: Subscription, chunk: memoryview) -> None:
        is_last = subscription.offset == subscription.partition.committed_offset
        if is_last or next(numbers) % SKIPPED_EVERY:
            deliver(self, subscription, chunk)
        else:
            subscription.credit += 1

    mock.patch.object(Session, "deliver", deliver_with_gaps).start()


def skip_messages() -> None:
    """Now and then a message is not delivered over AMQP."""
    fill, numbers = RecordSource.fill, itertools.count(1)

    def fill_with_gaps(self: RecordSource, when_read: Callable[[], None]) -> bool:
        has_found = fill(self, when_read)
        if has_found and self.records[0].count > 1 and not next(numbers) % SKIPPED_EVERY:
            self.records[0].pass_over(1)
        return has_found

    mock.patch.object(RecordSource, "fill", fill_with_gaps).start()


def lose_stored_offsets() -> None:
    """Stored offsets are told while the server lives, and stand in no chunk."""

    def seal_without_offsets(*arguments: Any, **named: Any) -> int:
        return seal_chunk(*arguments, **{**named, "offsets": {}})

    def snapshot_without_offsets(publishers: Mapping[bytes, tuple[int, int]], _offsets: object) -> bytes:
        return encode_snapshot(publishers, {})

    mock.patch.object(chunk_writer, "seal_chunk", seal_without_offsets).start()
    mock.patch.object(chunk_writer, "encode_snapshot", snapshot_without_offsets).start()


def settle_too_little() -> None:
    """Now and then a group takes what was accepted for released."""
    settle, numbers = Group.settle, itertools.count(1)

    def settle_some(
        self: Group[Any], member: Any, partition: int, first: int, end: int, outcome: Outcome, **how: Any
    ) -> Any:
        is_kept = outcome is Outcome.ACCEPTED and not next(numbers) % SETTLED_EVERY
        return settle(self, member, partition, first, end, Outcome.RELEASED if is_kept else outcome, **how)

    mock.patch.object(Group, "settle", settle_some).start()


def settle_too_much() -> None:
    """What a consumer held when it went counts as settled."""

    def vanish_settled(self: Cursor[Any], consumer: Any) -> int:
        return self.settle(consumer, 0, self.next_offset, Outcome.ACCEPTED)

    mock.patch.object(Cursor, "vanish", vanish_settled).start()


def two_owners() -> None:
    """Every member of a group gets events of all partitions."""

    def everything(self: Group[Any], _member: Any) -> tuple[int, ...]:
        return tuple(self.epochs)

    mock.patch.object(Group, "partitions_of", everything).start()


def forget_failures() -> None:
    """What a consumer held when it went comes again as if it came for the first time."""

    def vanish_released(self: Cursor[Any], consumer: Any) -> int:
        return self.settle(consumer, 0, self.next_offset, Outcome.RELEASED)

    mock.patch.object(Cursor, "vanish", vanish_released).start()


def settle_before_disk() -> None:
    """Consumers of subscriptions are told that their settlements are on disk, where they come a second later."""
    begin = Consumers.__init__

    def begin_slowly(
        self: Consumers, store: Store, loop: asyncio.AbstractEventLoop, _flush_interval_s: float
    ) -> None:
        begin(self, store, loop, 1.0)

    def wait_not(_self: Consumers, *_what: object) -> bool:
        return False

    mock.patch.object(Consumers, "__init__", begin_slowly).start()
    mock.patch.object(Consumers, "wait", wait_not).start()


BROKEN: dict[str, Callable[[], None]] = {
    "confirm_at_once": confirm_at_once,
    "forget_sequences": forget_sequences,
    "all_active": all_active,
    "skip_chunks": skip_chunks,
    "skip_messages": skip_messages,
    "lose_stored_offsets": lose_stored_offsets,
    "settle_before_disk": settle_before_disk,
    "settle_too_little": settle_too_little,
    "settle_too_much": settle_too_much,
    "two_owners": two_owners,
    "forget_failures": forget_failures,
}

if __name__ == "__main__":
    BROKEN[sys.argv.pop(1)]()
    main()

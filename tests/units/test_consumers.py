"""Consumers on a real store: what is answered when, what a restart finds, and a disk that fails in between."""

from __future__ import annotations

import asyncio
import errno
import heapq
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from headwater.engine.delivery import Outcome
from headwater.engine.group import Group
from headwater.engine.group_effects import Attached, GroupAttach, GroupRefusal, GroupRefused
from headwater.engine.group_record import GroupDefinition, GroupId
from headwater.engine.link_id import LinkId
from headwater.engine.state_record import CURSOR, GROUP
from headwater.errors import StorageError
from headwater.log.log import PartitionDefinition
from headwater.log.settings import LogSettings
from headwater.log.store import Store
from headwater.server.consumers.consumer import Member
from headwater.server.consumers.consumers import RETRY_S, Consumers
from headwater.server.consumers.log_events import follow_logs
from headwater.server.management.policies import cursor_limits, group_policy
from tests.failing_files import FailingFiles
from tests.log_material import append

FLUSH_S = 0.05


class Clock:
    """What of an event loop is asked: time that goes when a test says so."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self._due: list[tuple[float, int, _Handle]] = []
        self._number = 0

    def time(self) -> float:
        return self.now_s

    def call_soon(self, call: Callable[..., None], *arguments: Any) -> _Handle:
        return self.call_at(self.now_s, call, *arguments)

    def call_later(self, seconds: float, call: Callable[..., None], *arguments: Any) -> _Handle:
        return self.call_at(self.now_s + seconds, call, *arguments)

    def call_at(self, when: float, call: Callable[..., None], *arguments: Any) -> _Handle:
        self._number += 1
        handle = _Handle(lambda: call(*arguments))
        heapq.heappush(self._due, (when, self._number, handle))
        return handle

    def go(self, seconds: float = 0.0) -> None:
        """Let time pass, and do what is due."""
        self.now_s += seconds
        while self._due and self._due[0][0] <= self.now_s:
            heapq.heappop(self._due)[2].run()


class _Handle:
    def __init__(self, call: Callable[[], None]) -> None:
        self.run = call

    def cancel(self) -> None:
        self.run = lambda: None


class Link:
    """A member that notes what it is told, begins at 0 where it is told to begin, and leaves when it has to."""

    def __init__(self, node: Node, name: str) -> None:
        self.name = self.connection_name = name
        self.told: list[Any] = []
        self.group: Group[Member] | None = None
        self._node = node

    def attached(self, attached: Attached[Member]) -> None:
        self.group = self._node.consumers.groups.of(self)
        if self.group is None:
            return
        self.told.append(attached.partition)
        if attached.needs_start and attached.partition is not None:
            self.begin(attached.partition)

    def begin(self, partition: int) -> None:
        assert self.group is not None
        self._node.consumers.begin(self.group, partition, 0, lambda error: self.told.append(error or "begun"))

    def assigned(self) -> None:
        assert self.group is not None, "it was attached before"
        partitions = self.group.partitions_of(self)
        self.told.append(partitions)
        for partition in partitions:
            if partition not in self.group.cursors.by_partition:
                self.begin(partition)

    def group_refused(self, refused: GroupRefused[Member]) -> None:
        self.told.append(refused.why)

    def failed(self, error: StorageError) -> None:
        self.told.append(type(error))
        self.leave()

    def stolen(self) -> None:
        self.told.append("stolen")

    def rebalanced(self) -> None:
        self.told.append("rebalanced")

    def ended(self) -> None:
        self.told.append("ended")

    def reset(self) -> None:
        self.told.append("reset")

    def revoked(self, partition: int) -> None:
        self.told.append(f"revoked {partition}")

    def leave(self, *, is_closed: bool = False) -> None:
        self._node.consumers.leave(self, is_closed=is_closed)

    def take(self, count: int) -> list[tuple[int, int, int]]:
        assert self.group is not None
        runs = self.group.take(self, count, self._node.ends())
        return [(each.partition, each.run.first, each.run.end) for each in runs]

    def settle(self, partition: int, first: int, end: int) -> int:
        assert self.group is not None
        sequence, effects = self.group.settle(self, partition, first, end, Outcome.ACCEPTED)
        self._node.consumers.group_changed(effects)
        self._node.consumers.note_changes()
        return sequence


class Node:
    """A store with a log of three partitions, and its consumers."""

    def __init__(self, folder: Path) -> None:
        self.files = FailingFiles()
        self.clock = Clock()
        self._folder = folder
        self.store: Store
        self.consumers: Consumers
        self.open()
        parts = [PartitionDefinition(f"orders-{number}", str(number)) for number in range(3)]
        self.store.create_log("orders", kind="super_stream", partitions=parts)
        for partition in self.store.log("orders").partitions:
            append(partition, *(b"%d" % number for number in range(10)))
        self.store.flush()

    def open(self) -> None:
        self.store = Store.open(self._folder, files=self.files)
        loop = cast("asyncio.AbstractEventLoop", self.clock)
        self.consumers = Consumers(self.store, loop, FLUSH_S)
        follow_logs(self.store, self.consumers)

    def restart(self) -> None:
        self.consumers.close()
        self.store.close()
        self.open()

    def crash(self) -> None:
        """What was not written is lost."""
        self.store.abandon()
        self.open()

    def ends(self) -> dict[int, int]:
        log = self.store.log("orders")
        return {
            number: each.committed_offset for number, each in zip(log.numbers, log.partitions, strict=True)
        }

    def policies(self, **changes: Any) -> None:
        settings = msgspec.structs.replace(LogSettings(), **changes)
        self.store.change_settings("orders", settings)

    def join(self, name: str, group: str = "g", *, container: str | None = None, **asked: Any) -> Link:
        link, log = Link(self, name), self.store.log("orders")
        definition = GroupDefinition(GroupId("/", "orders", group), log.definition.id)
        settings = log.definition.settings
        self.consumers.join(
            link,
            definition,
            GroupAttach(LinkId(container or name, name), **asked),
            group_policy(settings),
            log.numbers,
            cursor_limits(settings),
        )
        return link

    def joined(self, name: str, **asked: Any) -> Link:
        """One that is attached, and whose position is on disk."""
        link = self.join(name, **asked)
        self.store.flush()
        return link

    def records(self, kind: bytes) -> int:
        return len(list(self.store.state.items(kind)))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.consumers.close()
    node.store.close()


# In order


def test_an_attach_is_answered_when_what_it_rests_on_is_on_disk(node: Node) -> None:
    link = node.join("a")
    assert link.told == []
    node.store.flush()
    assert link.told == [0, "begun"]
    assert node.join("b", container="b").told == [1]


def test_effects_without_a_record_do_not_overtake_those_that_wait_for_one(node: Node) -> None:
    node.policies(group_binding="dynamic")
    first, second = node.join("a"), node.join("b")
    assert (first.told, second.told) == ([], [])
    node.store.flush()
    assert first.told[:3] == [None, (0, 1), (0, 1)]
    assert second.told[:2] == [None, (2,)]
    assert first.told[3:] + second.told[2:] == ["begun"] * 3


def test_one_who_went_before_the_answer_gets_none_and_leaves_its_place(node: Node) -> None:
    gone = node.join("a", partition=1)
    gone.leave()
    heir = node.join("b", partition=1)
    node.store.flush()
    assert heir.told == [1, "begun"]
    assert gone.group is None


def test_one_whose_partition_was_stolen_before_its_answer_is_told_that_alone(node: Node) -> None:
    first = node.join("a", partition=1, epoch=1)
    second = node.join("b", partition=1, epoch=2)
    node.store.flush()
    assert first.group is None
    assert first.told[-1] == "stolen"
    assert second.told == [1, "begun"]


def test_links_that_go_together_give_one_another_nothing(node: Node) -> None:
    node.policies(group_waiting="wait")
    here = [node.joined(f"a{number}", container="a") for number in range(5)]
    other = [node.joined(f"b{number}", container="b") for number in range(1)]
    assert [each.told for each in here[3:]] == [[], []]
    for link in here:
        link.leave()
    node.clock.go()
    node.store.flush()
    assert [each.told for each in here[3:]] == [[], []]
    assert other[0].told == [2], "which was the third of the five before"


def test_who_comes_in_the_turn_in_which_another_goes_finds_its_place_free(node: Node) -> None:
    owner = node.joined("a", partition=0, epoch=7)
    owner.leave(is_closed=True)
    heir = node.join("b", partition=0, epoch=1)
    assert heir.told == []
    node.store.flush()
    assert heir.told == [0]
    node.crash()
    assert node.join("c", partition=0, epoch=1).told == [0], "the epoch began anew"


# Time


def test_who_waits_too_long_is_refused_and_a_kept_partition_is_given_away(node: Node) -> None:
    node.policies(group_waiting="wait", group_wait_ms_max=1_000)
    for number in range(3):
        node.joined(f"a{number}", container=f"a{number}")
    late = node.join("late", container="a0")
    node.clock.go(0.9)
    assert late.told == []
    node.clock.go(0.2)
    assert late.told == [GroupRefusal.WAITED_TOO_LONG]


def test_a_partition_that_moves_is_taken_when_its_time_is_over(node: Node) -> None:
    node.policies(group_binding="dynamic", group_move_ms_max=300)
    first = node.joined("a")
    assert first.take(30) != []
    second = node.joined("b")
    assert second.told == [None]
    node.clock.go(0.4)
    assert first.told[-1].startswith("revoked")
    assert len(second.told[-1]) == 1


# Restart


def test_epochs_and_positions_are_found_again(node: Node) -> None:
    link = node.joined("a", partition=1, epoch=3)
    assert link.take(6) == [(1, 0, 6)]
    link.settle(1, 0, 2)
    link.settle(1, 4, 5)
    node.restart()
    again = node.join("a", partition=1, epoch=2)
    assert again.told == [GroupRefusal.STALE_EPOCH]
    again = node.join("a", partition=1)
    assert again.told == [1]
    assert again.take(10) == [(1, 2, 4), (1, 5, 10)]


def test_a_crash_takes_what_was_settled_after_the_last_flush_and_no_more(node: Node) -> None:
    link = node.joined("a", partition=1)
    link.take(6)
    node.clock.go(FLUSH_S)
    node.store.flush()
    link.settle(1, 0, 2)
    node.clock.go(FLUSH_S)
    node.store.flush()
    link.settle(1, 2, 4)
    node.crash()
    assert node.join("a", partition=1).take(10)[0] == (1, 2, 10)


def test_a_settlement_is_told_to_be_durable_when_it_is(node: Node) -> None:
    link = node.joined("a", partition=1)
    node.clock.go(FLUSH_S)
    node.store.flush()
    link.take(6)
    assert link.group is not None
    cursor, told = link.group.cursors.by_partition[1], []
    assert node.consumers.wait(cursor, link.settle(1, 0, 2), lambda: told.append("durable"))
    node.clock.go(FLUSH_S)
    assert told == []
    node.store.flush()
    assert told == ["durable"]
    assert not node.consumers.wait(cursor, cursor.sequence, lambda: told.append("again"))


def test_groups_of_a_log_that_went_while_the_server_was_down_are_not_restored(node: Node) -> None:
    node.joined("a", partition=1)
    node.consumers.close()
    node.store.close()
    node.store = Store.open(node._folder, files=node.files)
    node.store.delete_log("orders")
    node.store.close()
    node.open()
    node.store.flush()
    assert (node.records(GROUP), node.records(CURSOR)) == (0, 0)


# A disk that fails


def test_a_group_that_cannot_be_recorded_is_told_and_nobody_joins_it_before_it_is(node: Node) -> None:
    node.files.write_error = errno.ENOSPC
    link = node.join("a")
    node.store.flush()
    assert len(link.told) == 1
    assert issubclass(link.told[0], StorageError)
    node.files.write_error = errno.ENOSPC
    second = node.join("b")
    node.store.flush()
    assert issubclass(second.told[0], StorageError)
    third = node.join("c")
    assert third.told == []
    node.store.flush()
    assert third.told == [0, "begun"]
    assert third.take(3) == [(0, 0, 3)]
    third.settle(0, 0, 3)
    node.clock.go(FLUSH_S)
    node.store.flush()
    node.crash()
    assert node.join("c").take(1) == [(0, 3, 4)]


def test_a_record_that_could_not_be_written_is_written_later_though_nobody_asks(node: Node) -> None:
    node.joined("a", partition=0)
    owner = node.joined("b", partition=1, epoch=5)
    node.files.write_error = errno.ENOSPC
    owner.leave(is_closed=True)
    node.clock.go()
    node.store.flush()
    node.clock.go(RETRY_S)
    node.store.flush()
    node.crash()
    group = node.consumers.groups.find(GroupId("/", "orders", "g"))
    assert group is not None
    assert group.epochs[1] == 0


def test_positions_that_cannot_be_written_wait_and_are_tried_again(node: Node) -> None:
    link = node.joined("a", partition=0)
    node.clock.go(FLUSH_S)
    node.store.flush()
    link.take(5)
    assert link.group is not None
    cursor, told = link.group.cursors.by_partition[0], []
    node.consumers.wait(cursor, link.settle(0, 0, 5), lambda: told.append("durable"))
    node.files.write_error = errno.EIO
    node.clock.go(FLUSH_S)
    node.store.flush()
    assert told == []
    node.clock.go(RETRY_S)
    node.store.flush()
    assert told == ["durable"]
    node.crash()
    assert node.join("a", partition=0).take(1) == [(0, 5, 6)]


def test_a_group_that_was_ended_does_not_come_back_when_its_removal_had_failed(node: Node) -> None:
    link = node.joined("a", partition=0)
    node.clock.go(FLUSH_S)
    node.store.flush()
    node.files.write_error = errno.ENOSPC
    node.consumers.end_group(GroupId("/", "orders", "g"))
    node.store.flush()
    assert link.told[-1] == "ended"
    node.clock.go(RETRY_S)
    node.store.flush()
    node.crash()
    assert (node.records(GROUP), node.records(CURSOR)) == (0, 0)
    assert node.consumers.groups.find(GroupId("/", "orders", "g")) is None


def test_a_position_that_cannot_be_recorded_fails_the_attach_and_the_next_one_waits_for_it(
    node: Node,
) -> None:
    node.joined("a", partition=0)
    node.files.write_error = errno.ENOSPC
    link = node.join("b", partition=1)
    assert link.told == [1]
    node.store.flush()
    assert isinstance(link.told[1], StorageError)
    assert link.group is not None
    placed: list[str] = []
    cursor = link.group.cursors.by_partition[1]
    assert node.consumers.wait_until_placed(cursor, lambda: placed.append("placed"))
    node.clock.go(RETRY_S)
    node.store.flush()
    assert placed == ["placed"]
    assert not node.consumers.wait_until_placed(cursor, lambda: placed.append("again"))


# Logs and policies


def test_a_deleted_log_ends_its_groups_and_their_records(node: Node) -> None:
    link = node.joined("a", partition=0)
    node.store.delete_log("orders")
    node.store.flush()
    assert link.told[-1] == "ended"
    assert (node.records(GROUP), node.records(CURSOR)) == (0, 0)


def test_a_policy_that_changes_has_links_attach_anew_that_the_node_had_placed(node: Node) -> None:
    placed, chosen = node.joined("a"), node.joined("b", partition=2)
    node.policies(group_binding="dynamic")
    assert placed.told[-1] == "rebalanced"
    assert chosen.told == [2, "begun"]
    again = node.joined("a2")
    assert again.told[:2] == [None, (0, 1)]


def test_configured_groups_are_recorded_and_bounded(node: Node) -> None:
    node.policies(group_creation="configured", groups_max=1)
    assert node.join("a").told == [GroupRefusal.NOT_CONFIGURED]
    log = node.store.log("orders")
    policy, limits = group_policy(log.definition.settings), cursor_limits(log.definition.settings)
    named = [
        GroupDefinition(GroupId("/", "orders", name), log.definition.id, is_configured=True)
        for name in ("g", "h")
    ]
    write = node.consumers.configure_group(named[0], policy, log.numbers, limits)
    assert not isinstance(write, GroupRefusal)
    assert node.consumers.configure_group(named[1], policy, log.numbers, limits) is GroupRefusal.TOO_MANY
    node.store.flush()
    assert write.is_done
    node.crash()
    assert node.join("a").told[:1] == [0]

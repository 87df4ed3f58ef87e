"""Operators' changes of consumer groups on a real store: what a restart finds, and a disk that fails in between."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from headwater.errors import OffsetBeyondEnd, StorageError, UnknownLog
from headwater.server.management.consumer_errors import GroupExists, GroupNotMade, UnknownGroup
from headwater.server.management.groups import ManagedGroups
from headwater.server.management.reset_target import parse_target
from tests.units.test_consumers import Node

T = TypeVar("T")
TURNS = 20


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.consumers.close()
    node.store.close()


def managed(node: Node) -> ManagedGroups:
    return ManagedGroups(node.store, node.consumers)


def done(node: Node, work: Coroutine[Any, Any, T], *, is_flushed: bool = True) -> T:
    """What comes of it, when the disk has answered."""

    async def carry_out() -> T:
        task = asyncio.ensure_future(work)
        for _ in range(TURNS):
            await asyncio.sleep(0)
        if is_flushed:
            assert not task.done() or task.exception() is not None, "it waits for the disk"
            node.store.flush()
        return await asyncio.wait_for(task, 10)

    return asyncio.run(carry_out())


def positions(node: Node, name: str = "billing") -> dict[int, int]:
    cursors = managed(node).find("/", "orders", name).cursors.by_partition
    return {number: cursor.low for number, cursor in cursors.items()}


def test_a_group_that_was_made_is_found_after_a_crash_with_its_positions(node: Node) -> None:
    done(node, managed(node).make("/", "orders", "billing", parse_target("latest")))
    node.crash()
    assert positions(node) == {0: 10, 1: 10, 2: 10}
    assert managed(node).find("/", "orders", "billing").definition.is_configured
    with pytest.raises(GroupExists):
        done(node, managed(node).make("/", "orders", "billing", None))


def test_a_group_that_could_not_be_recorded_is_not_there(node: Node) -> None:
    node.files.write_error = errno.ENOSPC
    with pytest.raises(StorageError):
        done(node, managed(node).make("/", "orders", "billing", parse_target("earliest")))
    with pytest.raises(UnknownGroup):
        managed(node).find("/", "orders", "billing")
    node.store.flush()
    node.crash()
    with pytest.raises(UnknownGroup):
        managed(node).find("/", "orders", "billing")


def test_one_that_links_made_outlives_that_it_could_not_be_kept(node: Node) -> None:
    link = node.joined("a", group="billing")
    node.files.write_error = errno.ENOSPC
    with pytest.raises(StorageError):
        done(node, managed(node).make("/", "orders", "billing", None))
    assert managed(node).find("/", "orders", "billing").members == (link,)


def test_a_reset_that_was_answered_survives_a_crash(node: Node) -> None:
    link = node.joined("a", group="billing", partition=1)
    group = managed(node).find("/", "orders", "billing")
    done(node, managed(node).reset(group, parse_target(4), None))
    assert link.told[-1] == "reset"
    node.crash()
    assert positions(node) == {0: 4, 1: 4, 2: 4}


def test_a_reset_that_failed_is_said_to_have_failed_and_is_tried_again_by_itself(node: Node) -> None:
    node.joined("a", group="billing", partition=0)
    group = managed(node).find("/", "orders", "billing")
    node.files.write_error = errno.ENOSPC
    with pytest.raises(StorageError):
        done(node, managed(node).reset(group, parse_target(4), "0"))
    assert positions(node) == {0: 4}
    node.clock.go(10)
    node.store.flush()
    node.crash()
    assert positions(node) == {0: 4}


def test_nobody_is_told_of_a_reset_before_it_is_on_disk(node: Node) -> None:
    link = node.joined("a", group="billing", partition=0)
    told = list(link.told)
    group = managed(node).find("/", "orders", "billing")

    async def begin() -> None:
        task = asyncio.ensure_future(managed(node).reset(group, parse_target(4), None))
        for _ in range(TURNS):
            await asyncio.sleep(0)
        assert (link.told, task.done()) == (told, False)
        node.store.flush()
        assert link.told == [*told, "reset"]
        await task

    asyncio.run(begin())


def test_an_end_that_was_answered_survives_a_crash(node: Node) -> None:
    link = node.joined("a", group="billing")
    group = managed(node).find("/", "orders", "billing")
    done(node, managed(node).end(group))
    assert link.told[-1] == "ended"
    node.crash()
    with pytest.raises(UnknownGroup):
        managed(node).find("/", "orders", "billing")


def test_what_cannot_be_is_refused_at_once(node: Node) -> None:
    groups = managed(node)
    for name, log, start, error in (
        ("billing", "no such log", None, UnknownLog),
        ("x" * 4097, "orders", None, GroupNotMade),
        ("billing", "orders", 11, OffsetBeyondEnd),
    ):
        target = None if start is None else parse_target(start)
        with pytest.raises(error):
            done(node, groups.make("/", log, name, target), is_flushed=False)
    with pytest.raises(UnknownGroup):
        groups.find("/", "orders", "billing")


def test_a_group_that_ended_while_it_was_to_be_reset_is_not_there(node: Node) -> None:
    node.joined("a", group="billing")
    group = managed(node).find("/", "orders", "billing")
    done(node, managed(node).end(group))
    with pytest.raises(UnknownGroup):
        done(node, managed(node).reset(group, parse_target("earliest"), None), is_flushed=False)

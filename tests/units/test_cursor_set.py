"""The cursors of one owner."""

from __future__ import annotations

from headwater.engine.cursor import DEFAULT_LIMITS
from headwater.engine.cursor_flushes import CursorFlushes, WaitOver
from headwater.engine.cursor_record import Position, decode_position
from headwater.engine.cursor_set import CursorSet, PartitionRun
from headwater.engine.delivery import Outcome, Run
from headwater.engine.state_record import Delete, cursor_key, owner_digest

DIGEST = owner_digest(b"group/", "/", "orders", "g")


def durable() -> CursorSet[str]:
    flushes: CursorFlushes[str, str] = CursorFlushes()
    return CursorSet(DIGEST, DEFAULT_LIMITS, flushes)


def test_what_is_taken_comes_from_the_partitions_in_the_order_they_are_named() -> None:
    cursors = durable()
    for partition in range(3):
        cursors.begin(partition, 10)
    ends = {0: 12, 1: 10, 2: 20}
    assert cursors.available(ends) == 12
    assert cursors.take("a", 5, ends, [2, 1, 0]) == [PartitionRun(2, Run(10, 15, 0))]
    assert cursors.take("a", 7, ends, [0, 1, 2]) == [
        PartitionRun(0, Run(10, 12, 0)),
        PartitionRun(2, Run(15, 20, 0)),
    ]
    assert (cursors.available(ends), cursors.lag(ends)) == (0, 12)
    assert cursors.vanish("a") == cursors.available(ends) == 12


def test_records_are_of_the_cursors_that_are_named_and_all_end_with_their_owner() -> None:
    cursors = durable()
    cursors.begin(0, 10)
    assert cursors.restore({2: Position(4, ((6, 8),))}, {0: 100, 2: 100}) == []
    (put,) = cursors.puts(2)
    assert (put.key, decode_position(put.value)) == (cursor_key(DIGEST, 2), Position(4, ((6, 8),)))
    assert [each.key for each in cursors.puts()] == [cursor_key(DIGEST, 0), cursor_key(DIGEST, 2)]
    assert cursors.end() == [Delete(cursor_key(DIGEST, 0)), Delete(cursor_key(DIGEST, 2))]
    assert cursors.end() == []


def test_one_without_flushes_leaves_nothing_in_state() -> None:
    cursors: CursorSet[str] = CursorSet(DIGEST, DEFAULT_LIMITS)
    cursors.begin(0, 0)
    cursors.take("a", 1, {0: 5}, [0])
    cursors.by_partition[0].settle("a", 0, 1, Outcome.ACCEPTED)
    assert (cursors.puts(), cursors.end()) == ([], [])


def test_a_cursor_that_is_begun_anew_forgets_and_new_partitions_start_at_their_beginning() -> None:
    cursors = durable()
    cursors.begin(0, 10)
    cursors.take("a", 5, {0: 20}, [0])
    cursors.begin(0, 3)
    assert cursors.lag({0: 20}) == 17
    cursors.grow({0: 0, 1: 0, 2: 0})
    cursors.grow({0: 0, 2: 7})
    assert [cursors.by_partition[each].next_offset for each in range(3)] == [3, 0, 0]
    assert cursors.by_partition[0].overtake(5) == cursors.lost_count == 2


def test_partitions_that_are_gone_leave_nothing_and_let_go_what_waited_for_them() -> None:
    flushes: CursorFlushes[str, str] = CursorFlushes()
    cursors: CursorSet[str] = CursorSet(DIGEST, DEFAULT_LIMITS, flushes)
    for partition in (3, 1 << 31, 7):
        cursors.begin(partition, 0)
        cursors.take("a", 5, {partition: 20}, [partition])
    sequence = cursors.by_partition[7].settle("a", 0, 5, Outcome.ACCEPTED)
    flushes.wait(cursors.by_partition[7], sequence, "told")
    gone = [Delete(cursor_key(DIGEST, 1 << 31)), Delete(cursor_key(DIGEST, 7))]
    assert cursors.keep([3, 4]) == [*gone, WaitOver(("told",))]
    assert [flush.key for flush in flushes.begin(9)] == [cursor_key(DIGEST, 3)]
    assert cursors.keep([3]) == []


def test_records_of_partitions_that_are_gone_are_removed_when_a_restart_finds_them() -> None:
    cursors = durable()
    found = cursors.restore({3: Position(8), 1 << 31: Position(9)}, {1 << 31: 100, 5: 0})
    assert found == [Delete(cursor_key(DIGEST, 3))]
    assert {number: cursor.low for number, cursor in cursors.by_partition.items()} == {1 << 31: 9}

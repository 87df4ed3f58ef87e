"""Flushing cursors: who is written, what waits for it, and what becomes of failures."""

from __future__ import annotations

from headwater.engine.cursor import Cursor
from headwater.engine.cursor_flushes import CursorFlushes
from headwater.engine.delivery import Outcome


def cursor_of(flushes: CursorFlushes[str, str], key: bytes) -> Cursor[str]:
    cursor: Cursor[str] = Cursor(0, None, key, flushes.changed)
    cursor.take("a", 10, 10)
    return cursor


def test_only_cursors_that_changed_are_written() -> None:
    flushes: CursorFlushes[str, str] = CursorFlushes()
    one, other = cursor_of(flushes, b"one"), cursor_of(flushes, b"other")
    assert {flush.key for flush in flushes.begin(10)} == {b"one", b"other"}
    other.settle("a", 0, 1, Outcome.ACCEPTED)
    one.settle("a", 0, 1, Outcome.RELEASED)
    assert [flush.key for flush in flushes.begin(10)] == [b"other"]
    assert flushes.begin(10) == []


def test_no_more_are_written_at_once_than_asked_for() -> None:
    flushes: CursorFlushes[str, str] = CursorFlushes()
    keys = [bytes([number]) for number in range(5)]
    cursors = [cursor_of(flushes, key) for key in keys]
    found = [[flush.key for flush in flushes.begin(2)] for _ in range(4)]
    assert [len(each) for each in found] == [2, 2, 1, 0]
    assert sorted(key for each in found for key in each) == [cursor.key for cursor in cursors]


def test_what_waits_goes_out_when_its_settlement_is_on_disk_and_not_before() -> None:
    flushes: CursorFlushes[str, str] = CursorFlushes()
    cursor = cursor_of(flushes, b"one")
    assert flushes.wait(cursor, cursor.settle("a", 0, 1, Outcome.ACCEPTED), "first") == []
    (flush,) = flushes.begin(1)
    assert flushes.wait(cursor, cursor.settle("a", 1, 2, Outcome.ACCEPTED), "second") == []
    assert flushes.done(flush) == ["first"]
    (flush,) = flushes.begin(1)
    flushes.failed(flush)
    (flush,) = flushes.begin(1)
    assert flushes.done(flush) == ["second"]
    assert flushes.wait(cursor, cursor.sequence, "at once") == ["at once"]


def test_a_cursor_that_is_deleted_is_written_no_more_and_holds_nothing_up() -> None:
    flushes: CursorFlushes[str, str] = CursorFlushes()
    cursor = cursor_of(flushes, b"one")
    flushes.wait(cursor, cursor.settle("a", 0, 1, Outcome.ACCEPTED), "first")
    (flush,) = flushes.begin(1)
    cursor.settle("a", 1, 2, Outcome.ACCEPTED)
    assert flushes.forget(cursor) == ["first"]
    cursor.settle("a", 2, 3, Outcome.ACCEPTED)
    assert flushes.begin(1) == []
    flushes.failed(flush)
    assert flushes.begin(1) == []


def test_nothing_waits_for_a_cursor_that_is_not_durable() -> None:
    flushes: CursorFlushes[str, str] = CursorFlushes()
    cursor: Cursor[str] = Cursor(0)
    cursor.take("consumer", 1, 10)
    sequence = cursor.settle("consumer", 0, 1, Outcome.ACCEPTED)
    assert flushes.wait(cursor, sequence, "at once") == ["at once"]

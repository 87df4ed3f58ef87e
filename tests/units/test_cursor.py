"""A cursor on one partition: each clause by itself, then all of it against a model that knows every message."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headwater.engine.cursor import Cursor, CursorLimits, Flush
from headwater.engine.cursor_record import RECORD_RANGES_MAX, Position, decode_position
from headwater.engine.delivery import DeadLetter, Outcome, Reason, Run

ACCEPTED, REJECTED, RELEASED, FAILED = Outcome.ACCEPTED, Outcome.REJECTED, Outcome.RELEASED, Outcome.FAILED


def new(offset: int = 0, **limits: int | bool | None) -> Cursor[str]:
    return Cursor(offset, CursorLimits(**limits))  # type: ignore[arg-type]


def restart(cursor: Cursor[str], end: int) -> Cursor[str]:
    flush = cursor.begin_flush()
    assert flush is not None
    return Cursor.restored(decode_position(flush.value), end, cursor.limits)


def test_messages_go_out_in_order_as_far_as_credit_and_the_log_go() -> None:
    cursor = new(100)
    assert cursor.take("a", 10, 105) == [Run(100, 105, 0)]
    assert cursor.take("a", 10, 105) == []
    assert cursor.take("b", 3, 200) == [Run(105, 108, 0)]
    assert (cursor.unsettled("a"), cursor.unsettled("b"), cursor.low) == ([(100, 105)], [(105, 108)], 100)


def test_the_low_mark_moves_when_what_is_below_is_settled() -> None:
    cursor = new()
    cursor.take("a", 10, 10)
    cursor.settle("a", 3, 6, ACCEPTED)
    assert (cursor.low, cursor.position()) == (0, Position(0, ((3, 6),)))
    cursor.settle("a", 0, 3, REJECTED)
    assert (cursor.low, cursor.position()) == (6, Position(6))
    assert (cursor.unsettled_count, cursor.lag(12)) == (4, 6)


def test_released_messages_come_again_first_with_their_count_as_it_was() -> None:
    cursor = new()
    cursor.take("a", 10, 100)
    cursor.settle("a", 4, 6, RELEASED)
    cursor.settle("a", 8, 9, RELEASED)
    assert cursor.take("b", 5, 100) == [Run(4, 6, 0), Run(8, 9, 0), Run(10, 12, 0)]


def test_failed_messages_come_again_with_a_raised_count() -> None:
    cursor = new()
    cursor.take("a", 10, 10)
    cursor.settle("a", 4, 6, FAILED)
    cursor.settle("a", 6, 8, RELEASED)
    assert cursor.take("b", 9, 10) == [Run(4, 6, 1), Run(6, 8, 0)]


def test_what_a_vanished_consumer_held_goes_to_the_others_with_a_raised_count() -> None:
    cursor = new()
    cursor.take("a", 4, 10)
    cursor.take("b", 2, 10)
    cursor.settle("a", 1, 2, ACCEPTED)
    assert cursor.vanish("a") == 3
    assert cursor.take("b", 9, 10) == [Run(0, 1, 1), Run(2, 4, 1), Run(6, 10, 0)]
    assert cursor.vanish("a") == 0


def test_undeliverable_here_keeps_a_message_from_that_consumer_alone() -> None:
    cursor = new()
    cursor.take("a", 3, 10)
    cursor.settle("a", 1, 2, FAILED, is_undeliverable_here=True)
    assert cursor.take("a", 1, 10) == [Run(3, 4, 0)]
    assert cursor.take("b", 1, 10) == [Run(1, 2, 1)]
    cursor.settle("b", 1, 2, RELEASED)
    cursor.vanish("a")
    assert cursor.take("a", 1, 3) == [Run(0, 1, 1)]
    assert cursor.take("a", 1, 3) == [Run(1, 2, 1)]


def test_nobody_settles_what_another_holds() -> None:
    cursor = new()
    cursor.take("a", 3, 10)
    before = cursor.sequence
    assert cursor.settle("b", 0, 3, ACCEPTED) == before
    assert cursor.settle("a", 3, 9, ACCEPTED) == before
    assert (cursor.low, cursor.unsettled("a")) == (0, [(0, 3)])


def test_a_message_beyond_its_delivery_count_is_a_dead_letter_with_its_reason() -> None:
    cursor = new(delivery_count_max=1)
    cursor.take("a", 3, 3)
    cursor.settle("a", 0, 3, FAILED)
    assert cursor.take_dead_letters(10) == []
    assert cursor.take("a", 3, 3) == [Run(0, 3, 1)]
    cursor.settle("a", 1, 2, FAILED)
    assert cursor.take("a", 3, 3) == []
    assert cursor.take_dead_letters(10) == [DeadLetter(1, 2, Reason.DELIVERY_COUNT, 2)]
    assert cursor.take_dead_letters(10) == []
    cursor.dead_letters_failed(1, 2)
    assert cursor.take_dead_letters(10) == [DeadLetter(1, 2, Reason.DELIVERY_COUNT, 2)]
    cursor.settle("a", 0, 1, ACCEPTED)
    assert cursor.low == 1
    cursor.dead_letters_written(1, 2)
    assert cursor.low == 2


def test_a_rejected_message_is_settled_unless_there_is_a_log_for_it() -> None:
    cursor = new(keeps_rejected=True)
    cursor.take("a", 3, 3)
    cursor.settle("a", 0, 2, REJECTED)
    assert cursor.low == 0
    assert cursor.take_dead_letters(1) == [DeadLetter(0, 1, Reason.REJECTED, 0)]
    again = restart(cursor, 3)
    assert again.take("a", 9, 3) == [Run(2, 3, 0)]
    assert again.take_dead_letters(9) == [DeadLetter(0, 2, Reason.REJECTED, 0)]
    without = Cursor[str].restored(cursor.position(), 3)
    assert without.low == 2


def test_a_restart_finds_what_was_flushed_and_delivers_the_rest_again() -> None:
    cursor = new(10)
    cursor.take("a", 20, 40)
    cursor.settle("a", 12, 15, ACCEPTED)
    cursor.settle("a", 15, 16, FAILED)
    again = restart(cursor, 40)
    cursor.settle("a", 20, 25, ACCEPTED)
    assert again.take("b", 9, 40) == [Run(10, 12, 0), Run(15, 16, 1), Run(16, 22, 0)]
    assert not again.is_dirty


def test_a_log_that_lost_its_end_makes_its_last_messages_unsettled_and_says_so() -> None:
    position = Position(10, ((12, 14), (16, 20)), raised=((14, 16, 2),))
    cursor = Cursor[str].restored(position, 13)
    assert cursor.take("a", 9, 13) == [Run(10, 12, 0)]
    assert cursor.take("a", 9, 15) == [Run(13, 15, 0)]
    assert cursor.is_dirty
    assert Cursor[str].restored(position, 5).take("a", 2, 9) == [Run(5, 7, 0)]


def test_a_settlement_is_durable_when_a_flush_behind_it_is() -> None:
    cursor = new()
    cursor.take("a", 10, 10)
    first = cursor.settle("a", 0, 1, ACCEPTED)
    flush = cursor.begin_flush()
    second = cursor.settle("a", 1, 2, ACCEPTED)
    assert flush is not None
    assert cursor.durable_sequence < first
    cursor.flushed(flush)
    assert first <= cursor.durable_sequence < second
    assert cursor.is_dirty
    assert cursor.settle("a", 5, 6, RELEASED) == second


def test_a_failed_flush_is_tried_again() -> None:
    cursor = new()
    flush = cursor.begin_flush()
    assert flush is not None
    assert cursor.begin_flush() is None
    cursor.flush_failed()
    again = cursor.begin_flush()
    assert again == flush


def test_retention_that_overtakes_counts_what_is_lost() -> None:
    cursor = new()
    cursor.take("a", 6, 20)
    cursor.settle("a", 0, 2, ACCEPTED)
    cursor.settle("a", 4, 6, RELEASED)
    assert cursor.overtake(10) == 6
    assert (cursor.low, cursor.next_offset, cursor.lost_count) == (2, 10, 6)
    cursor.settle("a", 2, 3, ACCEPTED)
    assert cursor.lost_count == 6
    cursor.vanish("a")
    assert (cursor.low, cursor.lost_count) == (10, 7)
    assert cursor.take("a", 1, 20) == [Run(10, 11, 0)]
    assert restart(cursor, 20).lost_count == 7


def test_a_dead_letter_that_is_gone_is_lost_unless_it_is_being_written() -> None:
    cursor = new(keeps_rejected=True)
    cursor.take("a", 4, 4)
    cursor.settle("a", 0, 4, REJECTED)
    cursor.take_dead_letters(2)
    assert cursor.overtake(4) == 2
    cursor.dead_letters_written(0, 1)
    cursor.dead_letters_failed(1, 2)
    assert (cursor.lost_count, cursor.low, cursor.take_dead_letters(9)) == (3, 4, [])


def test_a_fragmented_cursor_hands_out_nothing_new_until_gaps_are_closed() -> None:
    cursor = new(ranges_max=8)
    cursor.take("a", 20, 100)
    for offset in range(1, 20, 2):
        cursor.settle("a", offset, offset + 1, ACCEPTED)
    assert cursor.is_fragmented
    assert cursor.take("b", 5, 100) == []
    cursor.settle("a", 18, 19, RELEASED)
    assert cursor.take("b", 5, 100) == [Run(18, 19, 0)]
    for offset in range(0, 8, 2):
        assert not cursor.has_room_again()
        cursor.settle("a", offset, offset + 1, ACCEPTED)
    assert cursor.has_room_again()
    assert cursor.take("b", 5, 100) == [Run(20, 25, 0)]


def test_consumers_hold_no_more_unsettled_than_the_limit() -> None:
    cursor = new(unsettled_max=5)
    assert cursor.take("a", 9, 100) == [Run(0, 5, 0)]
    assert cursor.take("b", 9, 100) == []
    cursor.settle("a", 0, 2, ACCEPTED)
    assert cursor.take("b", 9, 100) == [Run(5, 7, 0)]


def test_more_gaps_than_a_record_holds_make_no_settlement_durable_that_is_not_in_it() -> None:
    cursor = new()
    cursor.take("a", 100_000, 100_000)
    cursor.settle("a", 0, 10, ACCEPTED)
    for offset in range(11, 40_000, 2):
        token = cursor.settle("a", offset, offset + 1, ACCEPTED)
    flush = cursor.begin_flush()
    assert flush is not None
    cursor.flushed(flush)
    assert (cursor.durable_sequence, decode_position(flush.value).low) == (0, 10)
    token = cursor.settle("a", 0, 100_000, ACCEPTED)
    flush = cursor.begin_flush()
    assert flush is not None
    cursor.flushed(flush)
    assert cursor.durable_sequence == token


def test_a_reset_goes_on_from_there_and_forgets_what_consumers_hold() -> None:
    cursor = new(keeps_rejected=True)
    cursor.take("a", 50, 100)
    cursor.settle("a", 3, 5, REJECTED)
    cursor.settle("a", 5, 7, FAILED)
    cursor.take_dead_letters(1)
    before = cursor.sequence
    cursor.reset(20)
    assert cursor.sequence > before
    assert (cursor.low, cursor.range_count, cursor.unsettled("a")) == (20, 0, [])
    assert cursor.take("a", 2, 100) == [Run(20, 22, 0)]


def traced_bytes(cursor: Cursor[str], count: int, gap: int) -> int:
    """What it costs that four consumers hold so many messages, and give every second one back."""
    tracemalloc.start()
    try:
        for consumer in "abcd":
            cursor.take(consumer, count // 4, count)
        for offset in range(1, count, 2) if gap else ():
            cursor.settle("abcd"[4 * offset // count], offset, offset + 1, RELEASED)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_million_unsettled_messages_cost_a_few_kilobytes() -> None:
    cursor = new()
    assert traced_bytes(cursor, 1_000_000, 0) < 20_000
    assert cursor.unsettled_count == 1_000_000


def test_the_worst_that_consumers_can_do_costs_less_than_20_bytes_a_message() -> None:
    cursor = new()
    assert traced_bytes(cursor, 50_000, 2) < 50_000 * 20
    assert cursor.unsettled_count + cursor.due_count == cursor.range_count == 50_000


@pytest.mark.parametrize("outcome", [ACCEPTED, FAILED])
def test_a_million_messages_half_settled_in_turns_cost_20_megabytes_at_most_whatever_is_done_with_them(
    outcome: Outcome,
) -> None:
    cursor, run = new(), 50
    tracemalloc.start()
    try:
        while cursor.next_offset < 1_000_000:
            for consumer in "abcd":
                cursor.take(consumer, 1_000, 1_000_000)
        for consumer in "abcd":
            for first, end in cursor.unsettled(consumer):
                for offset in range(first, end, 2 * run):
                    cursor.settle(consumer, offset, offset + run, outcome)
        assert cursor.range_count >= 10_000
        cursor.begin_flush()
        cursor.vanish("a")
        cursor.begin_flush()
        cursor.take("b", 1_000, 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_a_flush_makes_no_more_of_a_cursor_than_a_record_holds() -> None:
    cursor = new(keeps_rejected=True, delivery_count_max=9)
    cursor.take("a", 120_000, 120_000)
    for offset in range(0, 120_000, 6):
        cursor.settle("a", offset, offset + 1, ACCEPTED)
        cursor.settle("a", offset + 2, offset + 3, REJECTED)
        cursor.settle("a", offset + 4, offset + 5, FAILED)
    tracemalloc.start()
    try:
        assert cursor.begin_flush() is not None
        assert tracemalloc.get_traced_memory()[1] < 300 * RECORD_RANGES_MAX
    finally:
        tracemalloc.stop()
    position = cursor.position()
    assert (len(position.settled), len(position.rejected), len(position.raised)) == (19_999, 20_000, 20_000)
    assert cursor.position(2, 1) == Position(1, ((6, 7), (12, 13)), ((2, 3),), ((4, 5, 1),))


class CursorAgainstModel(RuleBasedStateMachine):
    """Every message has a state in a map; the disk keeps what was flushed."""

    CONSUMERS = ("a", "b", "c")

    @initialize(
        start=st.integers(0, 5),
        most=st.none() | st.integers(0, 2),
        keeps=st.booleans(),
        ranges_max=st.sampled_from([6, 1000]),
    )
    def begin(self, start: int, most: int | None, keeps: bool, ranges_max: int) -> None:
        self.limits = CursorLimits(ranges_max, 25, most, keeps)
        self.cursor: Cursor[str] = Cursor(start, self.limits)
        self.end = self.next = start
        self.retained = 0
        self.state: dict[int, str] = {}
        self.count: dict[int, int] = {}
        self.writing: set[int] = set()
        self.lost = 0
        self.settled_after: dict[int, int] = {}  # offset -> the sequence that makes it durable
        self.delivered_first: list[int] = []
        self.disk: Flush | None = None
        self.flush()

    def held(self, consumer: str) -> list[int]:
        return [offset for offset, state in self.state.items() if state == consumer]

    def again(self, offset: int) -> None:
        if offset < self.retained:
            self.state[offset] = "lost"
            self.lost += 1
            return
        most = self.limits.delivery_count_max
        dead = most is not None and self.count.get(offset, 0) > most
        self.state[offset] = "dead" if dead else "due"

    @rule(count=st.integers(1, 12))
    def append(self, count: int) -> None:
        self.end += count

    @rule(consumer=st.sampled_from(CONSUMERS), credit=st.integers(1, 12))
    def take(self, consumer: str, credit: int) -> None:
        was_full = self.cursor.is_fragmented
        due = sorted(offset for offset, state in self.state.items() if state == "due")
        runs = self.cursor.take(consumer, credit, self.end)
        got = [(offset, run.delivery_count) for run in runs for offset in range(run.first, run.end)]
        offsets = [offset for offset, _ in got]
        assert offsets == sorted(offsets)
        again = [offset for offset in offsets if offset < self.next]
        fresh = offsets[len(again) :]
        assert again == due[:credit]
        assert fresh == list(range(self.next, self.next + len(fresh)))
        room = self.limits.unsettled_max - sum(state in self.CONSUMERS for state in self.state.values())
        if not was_full:
            assert len(fresh) == max(min(credit - len(again), room - len(again), self.end - self.next), 0)
        assert all(count == self.count.get(offset, 0) for offset, count in got)
        self.state.update(dict.fromkeys(offsets, consumer))
        self.next += len(fresh)
        self.delivered_first += fresh

    @rule(
        consumer=st.sampled_from(CONSUMERS),
        outcome=st.sampled_from(Outcome),
        first=st.integers(0, 60),
        length=st.integers(1, 10),
    )
    def settle(self, consumer: str, outcome: Outcome, first: int, length: int) -> None:
        token = self.cursor.settle(consumer, first, first + length, outcome)
        for offset in self.held(consumer):
            if not first <= offset < first + length:
                continue
            if outcome is ACCEPTED or (outcome is REJECTED and not self.limits.keeps_rejected):
                self.state[offset] = "settled"
                self.settled_after[offset] = token
            elif outcome is REJECTED and offset < self.retained:
                self.state[offset] = "lost"
                self.lost += 1
            elif outcome is REJECTED:
                self.state[offset] = "dead"
                self.settled_after[offset] = token
            else:
                self.count[offset] = self.count.get(offset, 0) + (outcome is FAILED)
                self.again(offset)

    @rule(consumer=st.sampled_from(CONSUMERS))
    def vanish(self, consumer: str) -> None:
        held = self.held(consumer)
        assert self.cursor.vanish(consumer) == len(held)
        for offset in held:
            self.count[offset] = self.count.get(offset, 0) + 1
            self.again(offset)

    @rule(count=st.integers(1, 5), works=st.booleans())
    def write_dead_letters(self, count: int, works: bool) -> None:
        letters = self.cursor.take_dead_letters(count)
        dead = {offset for offset, state in self.state.items() if state == "dead"}
        got = [offset for letter in letters for offset in range(letter.first, letter.end)]
        assert set(got) <= dead
        assert len(got) == len(set(got)) == min(count, len(dead))
        for letter in letters:
            if works:
                token = self.cursor.dead_letters_written(letter.first, letter.end)
                for offset in range(letter.first, letter.end):
                    self.state[offset] = "settled"
                    self.settled_after.setdefault(offset, token)
            else:
                self.cursor.dead_letters_failed(letter.first, letter.end)

    @rule(ahead=st.integers(0, 15))
    def retain(self, ahead: int) -> None:
        self.retained = max(self.retained, min(self.cursor.low + ahead, self.end))
        lost = [o for o, state in self.state.items() if state in {"due", "dead"} and o < self.retained]
        lost += range(self.next, self.retained)
        assert self.cursor.overtake(self.retained) == len(lost)
        self.state.update(dict.fromkeys(lost, "lost"))
        self.next = max(self.next, self.retained)
        self.lost += len(lost)

    @rule(works=st.booleans())
    def flush(self, works: bool = True) -> None:
        flush = self.cursor.begin_flush()
        if flush is None:
            return
        if works:
            self.disk = flush
            self.cursor.flushed(flush)
        else:
            self.cursor.flush_failed()

    @precondition(lambda self: self.disk is not None)
    @rule()
    def crash(self) -> None:
        """Nothing that was durable comes again, nothing else is forgotten."""
        assert self.disk is not None
        durable = {o for o, token in self.settled_after.items() if token <= self.cursor.durable_sequence}
        before, lost_before = dict(self.state), self.lost
        self.cursor = Cursor.restored(decode_position(self.disk.value), self.end, self.limits)
        self.cursor.overtake(self.retained)
        kept = self.cursor.position()
        done = {offset for first, end in kept.settled for offset in range(first, end)}
        done.update(range(kept.low))
        dead = {o for ranges in self.cursor._dead.values() for run in ranges for o in range(*run)}
        assert durable <= done | dead
        counts = {offset: count for first, end, count in kept.raised for offset in range(first, end)}
        for offset, state in before.items():
            if offset in done and offset >= self.retained:
                assert state == "settled"
        forgotten = [
            o for o, state in before.items() if state not in {"due", "dead", "lost"} and o not in durable
        ]
        self.lost = self.cursor.lost_count
        assert self.lost <= lost_before + sum(o < self.retained for o in forgotten)
        self.next = self.cursor.next_offset
        self.count = counts
        self.state = {}
        for offset in range(self.next):
            self.state[offset] = "settled" if offset in done else "dead" if offset in dead else "due"
        self.settled_after = {offset: 0 for offset in durable if before.get(offset) != "dead"}
        self.settled_after.update(dict.fromkeys(durable & dead, 0))

    @invariant()
    def the_cursor_says_what_the_model_says(self) -> None:
        if not hasattr(self, "cursor"):
            return
        pending = [o for o, state in self.state.items() if state not in {"settled", "lost"}]
        assert self.cursor.low == min([self.next, *pending])
        assert self.cursor.lost_count == self.lost
        assert self.cursor.unsettled_count == sum(state in self.CONSUMERS for state in self.state.values())
        assert self.cursor.due_count == sum(state == "due" for state in self.state.values())
        assert self.cursor.lag(self.end) == len(pending) + self.end - self.next


TestCursorAgainstModel = CursorAgainstModel.TestCase
TestCursorAgainstModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

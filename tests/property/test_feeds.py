"""Partitions read in runs of offsets, forward and again, held against what was appended."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.amqp_message import Data, Message, encode_message
from headwater.encoding.amqp_types import Described, Symbol
from headwater.encoding.chunk import ReadableBuffer
from headwater.encoding.compression import Compression, pack_sub_batch
from headwater.encoding.event_filter import Filter
from headwater.encoding.expression import Literal
from headwater.log.partition import Partition
from headwater.server.amqp.feed import Feed
from headwater.server.amqp.feeds import Feeds
from headwater.server.amqp.nodes import whole
from headwater.server.amqp.offsets import Start, start_of
from headwater.server.record_source import ASKED_BYTES_MAX, ASKED_RECORDS_MAX, RecordSource, Selection
from tests.log_material import Machine, append

KEYS = 3
SQL = Symbol("amqp:event-streams-sql-filter")


@functools.cache
def record(number: int) -> bytes:
    return encode_message(
        Message(application_properties={"key": number % KEYS}, body=Data((b"message %d" % number,)))
    )


def filled(rng: Random, count: int) -> tuple[Machine, Partition]:
    """Records and sub-batches in chunks of all sizes, over several segments; little of it in memory."""
    machine = Machine(tail_bytes_max=rng.choice([1, 4_000, 1 << 20]))
    partition = machine.log(segment_bytes=4_096)
    number = 0
    while number < count:
        if rng.random() < 0.3:
            size = rng.randint(1, 40)
            batch = pack_sub_batch(
                [record(number + each) for each in range(size)], rng.choice(list(Compression))
            )
            partition.append(batch, 1, size, lambda error: None)
        else:
            size = rng.randint(1, 12)
            append(partition, *(record(number + each) for each in range(size)))
        number += size
        if rng.random() < 0.5:
            machine.store.flush()
    machine.store.flush()
    return machine, partition


def selection_of(words: str | None) -> Start:
    return Start() if words is None else start_of({Symbol("f"): Described(SQL, words)})


def taken(machine: Machine, source: RecordSource, end: int, most: int) -> list[tuple[int, bytes]]:
    """What comes next before an offset, so many at most."""
    found: list[tuple[int, bytes]] = []
    while len(found) < most:
        if not source.records and not source.fill(lambda: None):
            if source.is_waiting:
                machine.store.flush()
            elif not source.has_passed_over:
                break
            continue
        records = source.records[0]
        if records.offset >= end:
            break
        found.append((records.offset, bytes(records.first_record())))
        source.take(1)
    return found


class Wanted:
    """What a filter lets through, by a look at the numbers themselves."""

    def __init__(self, words: str | None, wants: Any) -> None:
        self.words = words
        self.wants = wants

    def within(self, first: int, end: int) -> list[tuple[int, bytes]]:
        return [(each, record(each)) for each in range(first, end) if self.wants(each)]


FILTERS = [
    Wanted(None, lambda _: True),
    Wanted("a.key = 1", lambda number: number % KEYS == 1),
    Wanted("a.key = 9", lambda _: False),
    Wanted("d.event-streams-offset >= '000000000000001e'", lambda number: number >= 30),
    Wanted(
        "d.event-streams-offset < '0000000000000050' AND a.key <> 0",
        lambda number: number < 80 and number % KEYS != 0,
    ),
    Wanted(
        "d.event-streams-offset = '0000000000000007' OR d.event-streams-offset = '0000000000000096'",
        lambda number: number in (7, 150),
    ),
    Wanted("d.event-streams-offset = '0000000000000014'", lambda number: number == 20),
]


@given(
    seed=st.integers(0, 2**32),
    chosen=st.sampled_from(FILTERS),
    cold=st.sampled_from([0.0, 0.5]),
    seeks=st.lists(st.tuples(st.integers(0, 210), st.integers(0, 60), st.integers(0, 50)), max_size=12),
)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_source_goes_to_any_offset_and_reads_on_from_there(
    seed: int, chosen: Wanted, cold: float, seeks: list[tuple[int, int, int]]
) -> None:
    machine, partition = filled(Random(seed), 200)
    machine.files.cold_read_chance = cold
    selection = selection_of(chosen.words).selection(partition)
    source = RecordSource(partition, 0, "0", selection)
    for offset, length, most in seeks:
        source.seek(offset)
        end = min(offset + length, partition.committed_offset)
        assert taken(machine, source, end, most) == chosen.within(offset, end)[:most]
        assert source.position >= offset
        if source.has_ended:
            assert not chosen.within(source.position, partition.committed_offset)
    source.close()


@given(
    seed=st.integers(0, 2**32),
    chosen=st.sampled_from(FILTERS),
    steps=st.lists(st.tuples(st.integers(1, 60), st.integers(0, 30), st.booleans()), max_size=15),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_feeds_go_ahead_and_read_again_what_came_back(
    seed: int, chosen: Wanted, steps: list[tuple[int, int, bool]]
) -> None:
    """As an account has it: new runs behind one another, older ones in between, each as far as there was credit."""
    machine, partition = filled(Random(seed), 200)
    feeds = Feeds(whole(machine.store.log("log")), selection_of(chosen.words), lambda: None)
    front, due = feeds.start_of(0), 0
    if chosen.words is None:
        front = 0
    for length, most, again in steps:
        ends = feeds.ends()
        first = Random(f"{seed} {due}").randint(0, front) if again and front else front
        end = min(first + length, ends[0])
        if first >= end:
            continue
        due += 1
        feed = feeds.at(0, first)
        found = taken(machine, feed, end, most)
        assert found == chosen.within(first, end)[:most]
        feeds.note_end(0, feed)
        reached = end if len(found) < most else (found[-1][0] + 1 if found else first)
        if not again:
            front = reached
    assert not chosen.within(feeds.ends()[0], partition.committed_offset), (
        "an end hides nothing that is wanted"
    )
    feeds.close()


def test_a_feed_that_looked_ahead_reads_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    partition = machine.log()
    append(partition, *(record(number) for number in range(5_000)))
    machine.store.flush()
    opened: list[int] = []
    made = Feed.__init__

    def counting(self: Feed, partition: Partition, offset: int, *more: Any) -> None:
        opened.append(offset)
        made(self, partition, offset, *more)

    monkeypatch.setattr(Feed, "__init__", counting)
    words = "d.event-streams-offset = '0000000000000001' OR d.event-streams-offset = '0000000000001387'"
    feeds = Feeds(whole(machine.store.log("log")), selection_of(words), lambda: None)
    found = []
    for first in range(0, 5_000, 250):
        found += taken(machine, feeds.at(0, first), first + 250, 10)
    assert [offset for offset, _ in found] == [1, 4_999]
    assert opened == [0]


def test_records_that_wait_are_not_at_the_end_even_if_nothing_comes_behind_them() -> None:
    machine = Machine()
    partition = machine.log()
    append(partition, *(record(number) for number in range(10)))
    machine.store.flush()
    start = selection_of("a.key = 1 AND d.event-streams-offset <= '0000000000000007'")
    source = RecordSource(partition, 0, "0", start.selection(partition))
    assert taken(machine, source, 10, 2) == [(1, record(1)), (4, record(4))]
    assert not source.has_ended
    assert taken(machine, source, 10, 2) == [(7, record(7))]
    assert source.has_ended


class _Counting:
    """A screen that lets nothing through, and remembers of how much it was asked at once."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def __call__(self, buffer: ReadableBuffer, spans: Sequence[int], numbers: Sequence[int]) -> list[int]:
        size = spans[SPAN_FIELDS * numbers[-1] + 3] - spans[SPAN_FIELDS * numbers[0] + 2]
        self.asked.append((len(numbers), size))
        return []


@pytest.mark.parametrize(
    ("record_bytes", "count", "asked_at_once"),
    [(10, 600, ASKED_RECORDS_MAX), (2_000, 400, 32), (90_000, 5, 1)],
)
def test_a_filter_is_asked_of_a_bounded_part_of_a_chunk_at_once(
    record_bytes: int, count: int, asked_at_once: int
) -> None:
    machine = Machine()
    partition = machine.log()
    one = encode_message(Message(body=Data((bytes(record_bytes),))))
    append(partition, *(one for _ in range(count)))
    machine.store.flush()
    screen = _Counting()
    filter_ = Filter(Literal(True), starts_at_earliest=True, screens=(screen,))
    source = RecordSource(partition, 0, "0", Selection(filter_, count, filter_.bounds(count)))
    assert taken(machine, source, count, 1) == []
    assert source.offset == count
    assert sum(records for records, _ in screen.asked) == count
    assert max(records for records, _ in screen.asked) == asked_at_once
    assert all(records == 1 or size <= ASKED_BYTES_MAX for records, size in screen.asked)


def test_a_slow_filter_lets_others_have_their_turn_after_each_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headwater.server.record_source.FILTERING_S_MAX", -1.0)
    machine = Machine()
    partition = machine.log()
    append(partition, *(record(number) for number in range(5 * ASKED_RECORDS_MAX)))
    machine.store.flush()
    source = RecordSource(partition, 0, "0", selection_of("a.key = 9").selection(partition))
    turns = 0
    while source.fill(lambda: None) or source.has_passed_over:
        turns += 1
    assert (turns, source.offset) == (5, 5 * ASKED_RECORDS_MAX)

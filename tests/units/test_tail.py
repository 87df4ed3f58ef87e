"""Tails hold the newest chunks of all partitions, and no more memory than was set."""

from __future__ import annotations

import tracemalloc
from collections import deque
from pathlib import Path

import pytest

from headwater.log.settings import LogSettings, StoreSettings
from headwater.log.store import Store
from headwater.log.tail import TailChunk, Tails
from tests.log_material import append


def chunk(number: int, size: int = 100) -> TailChunk:
    return TailChunk(number, 1, size, memoryview(bytearray(size)))


SIZE = chunk(0).held_bytes


def test_the_oldest_chunk_of_all_tails_goes_first() -> None:
    tails = Tails(3 * SIZE)
    first, second = deque[TailChunk](), deque[TailChunk]()
    for number in range(3):
        tails.keep(first, chunk(number))
    tails.keep(second, chunk(0))
    assert [kept.first_offset for kept in first] == [1, 2]
    assert len(second) == 1
    assert tails.bytes_held == 3 * SIZE


def test_a_chunk_above_the_bound_is_not_kept() -> None:
    tails, tail = Tails(SIZE - 1), deque[TailChunk]()
    tails.keep(tail, chunk(0))
    assert not tail
    assert tails.bytes_held == 0


def test_a_tail_that_is_dropped_holds_nothing_and_leaves_the_others_as_they_are() -> None:
    tails = Tails(10 * SIZE)
    gone, left = deque[TailChunk](), deque[TailChunk]()
    for number in range(4):
        tails.keep(gone, chunk(number))
        tails.keep(left, chunk(number))
    tails.drop(gone)
    assert not gone
    assert tails.bytes_held == 4 * SIZE
    for number in range(4, 12):
        tails.keep(left, chunk(number))
    assert [kept.first_offset for kept in left] == list(range(2, 12))


@pytest.mark.parametrize("size", [10, 3000])
def test_what_a_tail_counts_is_no_less_than_the_memory_it_takes(tmp_path: Path, size: int) -> None:
    store = Store.open(tmp_path / "data", StoreSettings(tail_bytes_max=1 << 20))
    partition = store.create_log("log", settings=LogSettings(durability="memory")).partitions[0]
    append(partition, bytes(size))
    store.flush()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(1000):
            append(partition, bytes(size))
            store.flush()
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(partition.tail) > 200
    assert taken < store.tails.bytes_held * 1.1
    store.close()

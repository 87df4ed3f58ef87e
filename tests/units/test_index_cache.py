"""Loaded indexes stay below a bound; the longest unused go first and come again."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.log.index import INDEX_ENTRY_BYTES, IndexEntry
from headwater.log.index_cache import IndexCache
from headwater.log.segment import Segment
from tests.log_material import Machine, append, read_all

SIZE = 10 * INDEX_ENTRY_BYTES


@pytest.fixture
def segments() -> list[Segment]:
    return [Segment(Path(f"{number}.segment"), number, 100, 0) for number in range(4)]


def test_an_index_is_loaded_once(segments: list[Segment]) -> None:
    loads: list[Segment] = []

    def load(segment: Segment) -> bytes:
        loads.append(segment)
        return bytes(SIZE)

    cache = IndexCache(10 * SIZE, load)
    assert cache.entries(segments[0]) is cache.entries(segments[0])
    assert loads == [segments[0]]
    cache.drop(segments[0])
    cache.drop(segments[1])
    assert cache.bytes_held == 0
    cache.entries(segments[0])
    assert loads == [segments[0], segments[0]]


def test_pending_entries_are_part_of_what_is_loaded(segments: list[Segment]) -> None:
    segments[0].index.append(IndexEntry(0, 0, 0, 64, 0))
    cache = IndexCache(10 * SIZE, lambda segment: bytes(SIZE))
    assert len(cache.entries(segments[0])) == SIZE + INDEX_ENTRY_BYTES


def test_the_longest_unused_go_when_the_bound_is_reached(segments: list[Segment]) -> None:
    cache = IndexCache(2 * SIZE, lambda segment: bytes(SIZE))
    cache.entries(segments[0])
    cache.entries(segments[1])
    cache.entries(segments[0])
    cache.entries(segments[2])
    assert cache.bytes_held == 2 * SIZE
    assert segments[1].index.cached is None
    assert segments[0].index.cached is not None
    assert segments[2].index.cached is not None


def test_one_index_above_the_bound_is_kept_while_it_is_used(segments: list[Segment]) -> None:
    cache = IndexCache(1, lambda segment: bytes(SIZE))
    for segment in segments:
        assert len(cache.entries(segment)) == SIZE
        assert cache.bytes_held == SIZE


def test_loaded_indexes_that_grow_stay_below_the_bound(segments: list[Segment]) -> None:
    cache = IndexCache(2 * SIZE, lambda segment: bytes(SIZE))
    cache.entries(segments[0])
    cache.entries(segments[1])
    cache.append(segments[2], IndexEntry(0, 0, 0, 64, 0))
    assert cache.bytes_held == 2 * SIZE
    cache.append(segments[1], IndexEntry(0, 0, 0, 64, 0))
    assert cache.bytes_held == SIZE + INDEX_ENTRY_BYTES == len(segments[1].index.cached or b"")
    assert segments[0].index.cached is None


def test_the_indexes_of_a_store_stay_below_their_bound_while_all_is_read() -> None:
    machine = Machine(index_bytes_max=200, tail_bytes_max=1)
    partition = machine.log(segment_bytes=1024)
    for number in range(40):
        append(partition, b"%02d " % number + bytes(300))
        machine.store.flush()
    assert len(partition.segments) > 5
    for offset in (0, 39, 20, 3, 35):
        assert read_all(partition, offset)[0][0] <= offset
        assert machine.store.indexes.bytes_held <= 200

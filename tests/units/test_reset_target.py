"""Where an operator has consumers go on from."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import OffsetBeyondEnd, UnknownPartition
from headwater.log.log import PartitionDefinition
from headwater.log.store import Store
from headwater.server.management.consumer_errors import InvalidTarget
from headwater.server.management.reset_target import OFFSET_MAX, ResetTarget, offsets_of, parse_target
from tests.log_material import append


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """With a log of two partitions, of 10 and 0 events."""
    store = Store.open(tmp_path)
    parts = [PartitionDefinition(f"orders-{number}", key) for number, key in enumerate(("a", "orders-0"))]
    log = store.create_log("orders", kind="super_stream", partitions=parts)
    append(log.partitions[0], *(b"%d" % number for number in range(10)))
    store.flush()
    yield store
    store.close()


def offsets(store: Store, given: object, partition: str | None = None) -> dict[int, int]:
    return asyncio.run(offsets_of(store.log("orders"), parse_target(given), partition))


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("earliest", ResetTarget(is_earliest=True)),
        ("latest", ResetTarget()),
        (0, ResetTarget(offset=0)),
        ("0017", ResetTarget(offset=17)),
        (OFFSET_MAX, ResetTarget(offset=OFFSET_MAX)),
        ("1970-01-01T00:00:01Z", ResetTarget(time_ms=1000)),
        ("1970-01-01T00:00:01", ResetTarget(time_ms=1000)),
        ("1970-01-01T01:00:01+01:00", ResetTarget(time_ms=1000)),
        ("1970-01-01T00:00:00.0001Z", ResetTarget(time_ms=1)),
        ("1969-12-31T23:59:59Z", ResetTarget(time_ms=-1000)),
    ],
)
def test_words_offsets_and_times_are_told_apart(given: object, meant: ResetTarget) -> None:
    assert parse_target(given) == meant


@pytest.mark.parametrize(
    "given",
    [
        "",
        "Earliest",
        "soon",
        "-1",
        "1.5",
        "1e3",
        "٣",
        -1,
        OFFSET_MAX + 1,
        "9" * 30,
        True,
        None,
        1.0,
        [],
        "e" * 41,
    ],
)
def test_anything_else_is_no_place(given: object) -> None:
    with pytest.raises(InvalidTarget, match="say earliest, latest, an offset"):
        parse_target(given)


@given(st.one_of(st.text(max_size=50), st.integers(), st.datetimes().map(str), st.binary(), st.floats()))
def test_whatever_is_given_is_a_place_or_refused(given: object) -> None:
    try:
        target = parse_target(given)
    except InvalidTarget:
        return
    assert target.offset is None or 0 <= target.offset <= OFFSET_MAX


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_time_is_the_first_millisecond_that_is_not_before_it(time: datetime) -> None:
    time_ms = parse_target(time.isoformat()).time_ms
    assert time_ms is not None
    exact_us = (time - datetime(1970, 1, 1, tzinfo=UTC)) // (datetime.resolution)
    assert 0 <= time_ms * 1000 - exact_us < 1000


def test_each_partition_has_its_own_offset(store: Store) -> None:
    assert offsets(store, "earliest") == {0: 0, 1: 0}
    assert offsets(store, "latest") == {0: 10, 1: 0}
    assert offsets(store, 0) == {0: 0, 1: 0}
    assert offsets(store, "1999-01-01") == {0: 0, 1: 0}
    assert offsets(store, "2999-01-01") == {0: 10, 1: 0}


def test_a_partition_is_meant_by_its_id_or_by_its_name_where_no_id_is_the_same(store: Store) -> None:
    assert offsets(store, 10, "a") == {0: 10}
    assert offsets(store, "latest", "orders-0") == {1: 0}  # the id of the second, and the name of the first
    assert offsets(store, "latest", "orders-1") == {1: 0}
    with pytest.raises(UnknownPartition):
        offsets(store, "latest", "b")


def test_an_offset_beyond_the_end_of_one_is_refused(store: Store) -> None:
    with pytest.raises(OffsetBeyondEnd, match="orders-1 ends at 0"):
        offsets(store, 5)


def test_partitions_that_are_not_among_those_asked_about_do_not_matter(store: Store) -> None:
    log = store.log("orders")
    assert asyncio.run(offsets_of(log, parse_target(5), among={0})) == {0: 5}
    with pytest.raises(UnknownPartition):
        asyncio.run(offsets_of(log, parse_target(0), "a", among={1}))


def test_an_offset_of_what_retention_took_means_the_first_event_that_is_left(store: Store) -> None:
    partition = store.log("orders").partitions[0]
    partition.truncate(10, lambda error: None)
    append(partition, b"eleventh", b"twelfth")
    store.flush()
    assert (partition.first_offset, partition.committed_offset) == (10, 12)
    assert [offsets(store, to, "a")[0] for to in (5, 10, 11, 12, "earliest")] == [10, 10, 11, 12, 10]

"""While a sync is under way nothing of it is confirmed, and no duplicate of it either."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.errors import StorageError
from headwater.log.partition import Partition
from headwater.log.store import Store
from tests.delayed_files import DelayedFiles
from tests.simulation.payloads import Message, make_entry, publish_body
from tests.simulation.rig import read_entries

REFERENCE = b"publisher"


@pytest.fixture
def files() -> DelayedFiles:
    return DelayedFiles()


@pytest.fixture
def store(tmp_path: Path, files: DelayedFiles) -> Iterator[Store]:
    store = Store.open(tmp_path, files=files)
    yield store
    files.go_on.set()
    store.close()


def publish(partition: Partition, ids: list[int], on_done: Callable[[StorageError | None], None]) -> None:
    body = publish_body([Message(i, make_entry(b"id%d" % i, 0)) for i in ids], filtered=False)
    partition.append_published(body, 0, len(body), len(ids), REFERENCE, bytearray(8 * len(ids)), 0, on_done)


def test_duplicates_of_what_is_being_synced_are_confirmed_no_earlier_than_their_originals(
    store: Store, files: DelayedFiles
) -> None:
    partition = store.create_log("delayed").partitions[0]
    confirmed: list[str] = []
    files.hold_back()
    publish(partition, [1, 2, 3], lambda error: confirmed.append(f"original {error}"))
    store.dispatch()
    assert files.entered.wait(30)
    publish(partition, [2, 3], lambda error: confirmed.append(f"duplicate {error}"))
    publish(partition, [3, 4], lambda error: confirmed.append(f"both {error}"))
    for _ in range(20):
        store.dispatch()
        store.collect()
    assert confirmed == []
    assert partition.committed_offset == 0
    assert partition.sequence(REFERENCE) is None
    files.go_on.set()
    store.flush()
    assert confirmed == ["original None", "duplicate None", "both None"]
    assert [data for _, data, _ in read_entries(partition)] == [
        make_entry(b"id%d" % i, 0) for i in (1, 2, 3, 4)
    ]
    assert partition.sequence(REFERENCE) == 4


def test_a_duplicate_of_what_was_gathered_waits_for_the_commit_too(store: Store, files: DelayedFiles) -> None:
    partition = store.create_log("delayed").partitions[0]
    confirmed: list[str] = []
    files.hold_back()
    publish(partition, [1], lambda _: confirmed.append("original"))
    publish(partition, [1], lambda _: confirmed.append("duplicate"))
    store.dispatch()
    assert files.entered.wait(30)
    store.collect()
    assert confirmed == []
    files.go_on.set()
    store.flush()
    assert confirmed == ["original", "duplicate"]
    assert partition.committed_offset == 1


def test_a_duplicate_of_what_is_on_disk_is_confirmed_without_being_stored(store: Store) -> None:
    partition = store.create_log("delayed").partitions[0]
    confirmed: list[str] = []
    publish(partition, [1], lambda _: confirmed.append("original"))
    store.flush()
    publish(partition, [1], lambda _: confirmed.append("duplicate"))
    store.flush()
    assert confirmed == ["original", "duplicate"]
    assert partition.committed_offset == 1


def test_readers_see_nothing_of_what_is_being_synced(store: Store, files: DelayedFiles) -> None:
    partition = store.create_log("delayed").partitions[0]
    publish(partition, [1], lambda _: None)
    store.flush()
    files.hold_back()
    publish(partition, [2], lambda _: None)
    store.dispatch()
    assert files.entered.wait(30)
    assert len(read_entries(partition)) == 1
    files.go_on.set()
    store.flush()
    assert len(read_entries(partition)) == 2

"""A write or a sync that fails: the batch and all behind it are refused, and a retry is stored exactly once."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.errors import DiskFull, PartitionReadOnly, StorageError, SyncFailed, WriteFailed
from headwater.log.files import Files
from headwater.log.partition import Partition
from headwater.log.store import Store
from tests.failing_files import FailingFiles
from tests.simulation.payloads import Message, make_entry, publish_body
from tests.simulation.rig import read_entries

REFERENCE = b"publisher"


@pytest.fixture
def files() -> FailingFiles:
    return FailingFiles()


class Opened:
    """A store on a data folder, opened again when asked to."""

    def __init__(self, folder: Path, files: Files) -> None:
        self._folder = folder
        self.store = Store.open(folder, files=files)

    def again(self) -> Store:
        """Close it in order and open it on a disk that does not fail."""
        self.store.close()
        self.store = Store.open(self._folder)
        return self.store


@pytest.fixture
def opened(tmp_path: Path, files: FailingFiles) -> Iterator[Opened]:
    opened = Opened(tmp_path, files)
    yield opened
    opened.store.close()


@pytest.fixture
def store(opened: Opened) -> Store:
    return opened.store


@pytest.fixture
def partition(store: Store) -> Partition:
    """A partition with the ids 1 and 2 on disk."""
    partition = store.create_log("failing").partitions[0]
    publish(partition, [1, 2], lambda error: None)
    store.flush()
    assert partition.committed_offset == 2
    return partition


def publish(partition: Partition, ids: list[int], on_done: Callable[[StorageError | None], None]) -> None:
    body = publish_body([Message(i, make_entry(b"id%d" % i, 100)) for i in ids], filtered=False)
    partition.append_published(body, 0, len(body), len(ids), REFERENCE, bytearray(8 * len(ids)), 0, on_done)


def stored_ids(partition: Partition) -> list[bytes]:
    return [data[4:].split(b" ")[0] for _, data, _ in read_entries(partition)]


@pytest.mark.parametrize(("code", "error"), [(errno.ENOSPC, DiskFull), (errno.EIO, WriteFailed)])
def test_a_failed_write_refuses_the_batch_and_all_behind_it(
    store: Store, files: FailingFiles, partition: Partition, code: int, error: type[StorageError]
) -> None:
    answers: list[StorageError | None] = []
    files.write_error = code
    publish(partition, [3, 4], answers.append)
    store.dispatch()
    publish(partition, [5], answers.append)
    publish(partition, [4], answers.append)  # a duplicate of one that is refused is refused
    store.flush()
    assert [type(answer) for answer in answers] == [error] * 3
    assert partition.next_offset == partition.committed_offset == 2
    assert partition.sequence(REFERENCE) == 2
    assert not partition.read_only
    assert stored_ids(partition) == [b"id1", b"id2"]


def test_the_retry_of_a_refused_batch_is_stored_exactly_once(
    store: Store, files: FailingFiles, partition: Partition, opened: Opened
) -> None:
    refused: list[StorageError | None] = []
    stored: list[StorageError | None] = []
    files.write_error = errno.ENOSPC
    publish(partition, [3, 4], refused.append)
    store.flush()
    assert len(refused) == 1
    assert refused[0] is not None
    publish(partition, [3, 4], stored.append)
    publish(partition, [3, 4, 5], stored.append)
    store.flush()
    assert stored == [None, None]
    expected = [b"id1", b"id2", b"id3", b"id4", b"id5"]
    assert stored_ids(partition) == expected
    again = opened.again()
    assert stored_ids(again.log("failing").partitions[0]) == expected
    assert again.log("failing").partitions[0].sequence(REFERENCE) == 5


def test_a_write_that_fails_in_a_new_segment_leaves_nothing_of_it(store: Store, files: FailingFiles) -> None:
    partition = store.create_log("new").partitions[0]
    answers: list[StorageError | None] = []
    files.write_error = errno.ENOSPC
    publish(partition, [1], answers.append)
    store.flush()
    publish(partition, [1], answers.append)
    store.flush()
    assert [type(answer) for answer in answers] == [DiskFull, type(None)]
    assert stored_ids(partition) == [b"id1"]
    assert partition.first_offset == 0


def test_after_a_failed_sync_the_partition_is_read_only_until_it_was_opened_again(
    store: Store, files: FailingFiles, partition: Partition, opened: Opened
) -> None:
    answers: list[StorageError | None] = []
    files.sync_error = errno.EIO
    publish(partition, [3], answers.append)
    store.dispatch()
    publish(partition, [4], answers.append)
    store.flush()
    assert [type(answer) for answer in answers] == [SyncFailed, SyncFailed]
    assert partition.read_only
    with pytest.raises(PartitionReadOnly):
        publish(partition, [3], answers.append)
    assert stored_ids(partition) == [b"id1", b"id2"]
    again = opened.again()
    reopened = again.log("failing").partitions[0]
    assert not reopened.read_only
    publish(reopened, [3, 4], answers.append)
    again.flush()
    assert answers[-1] is None
    assert stored_ids(reopened) == [b"id1", b"id2", b"id3", b"id4"]


def test_stored_offsets_of_a_refused_commit_are_written_with_the_next(
    store: Store, files: FailingFiles, partition: Partition, opened: Opened
) -> None:
    files.write_error = errno.ENOSPC
    partition.store_offset(b"consumer", 1)
    store.dispatch()
    store.flush()
    assert partition.stored_offset(b"consumer") is None
    store.flush()
    again = opened.again()
    assert again.log("failing").partitions[0].stored_offset(b"consumer") == 1

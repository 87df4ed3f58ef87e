"""Figures of commits: each is counted once, by the way it took and by what came of it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from headwater.log.figures import LATENCY_BOUNDS_S, CommitFigures
from headwater.log.settings import StoreSettings
from headwater.log.store import Store
from tests.failing_files import FailingFiles
from tests.log_material import append


def counted(figures: CommitFigures) -> int:
    return sum(figures.by_latency)


@pytest.mark.parametrize("direct_files_max", [8, 1], ids=["each by itself", "through the journal"])
def test_every_commit_is_counted_once_with_its_time_and_its_bytes(
    tmp_path: Path, direct_files_max: int
) -> None:
    store = Store.open(tmp_path, StoreSettings(direct_files_max=direct_files_max))
    partitions = [store.create_log(f"log-{number}").partitions[0] for number in range(3)]
    figures, before = store.commit_figures, counted(store.commit_figures)
    for partition in partitions:
        append(partition, b"a", b"b")
    store.flush()
    assert counted(figures) == before + len(partitions)
    assert figures.latency_s_sum > 0
    assert figures.failed_count == 0
    for partition in partitions:
        assert figures.bytes_by_log[partition.id.log_id] == partition.size_bytes
    assert len(figures.by_latency) == len(LATENCY_BOUNDS_S) + 1
    store.close()


def test_a_commit_that_failed_is_counted_as_that_alone(tmp_path: Path) -> None:
    files = FailingFiles()
    store = Store.open(tmp_path, files=files)
    partition = store.create_log("log").partitions[0]
    append(partition, b"a")
    store.flush()
    before = counted(store.commit_figures), store.commit_figures.bytes_by_log[partition.id.log_id]
    files.write_error = errno.EIO
    append(partition, b"b")
    store.flush()
    figures = store.commit_figures
    assert (counted(figures), figures.bytes_by_log[partition.id.log_id]) == before
    assert figures.failed_count == 1
    store.close()


def test_a_deleted_log_leaves_nothing_behind(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    partition = store.create_log("log").partitions[0]
    append(partition, b"a")
    store.flush()
    store.delete_log("log")
    assert partition.id.log_id not in store.commit_figures.bytes_by_log
    store.close()

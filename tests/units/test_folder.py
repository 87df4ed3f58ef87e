"""The data folder: its lock, its epoch, its definitions, and logs that come and go durably."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from random import Random

import pytest

from headwater.errors import DiskFull, FolderInUse, ForeignFile, NewerFormat, NoAccess
from headwater.log.folder import DataFolder
from headwater.log.log import LogDefinition, PartitionDefinition
from headwater.log.settings import LogSettings
from tests.log_material import DATA
from tests.simulation.faulty_files import FaultyFiles
from tests.simulation.rig import new_disk


@pytest.fixture
def files() -> FaultyFiles:
    return new_disk(1)


def opened(files: FaultyFiles) -> DataFolder:
    folder = DataFolder(files, DATA)
    folder.open()
    return folder


def definition(log_id: int) -> LogDefinition:
    name = f"log{log_id}"
    return LogDefinition(1, log_id, "/", name, "stream", (PartitionDefinition(name),), LogSettings())


def put(files: FaultyFiles, path: Path, data: bytes) -> None:
    if files.exists(path):
        files.remove(path)
    fd = files.open(path, create=True)
    files.write_and_sync(fd, 0, [data], sync=True)
    files.close(fd)
    files.sync_folder(path.parent)


def test_every_opening_raises_the_epoch_durably(files: FaultyFiles) -> None:
    for epoch in range(1, 5):
        folder = opened(files)
        assert folder.definition.epoch == epoch
        assert json.loads(files.read_file(DATA / "store.json"))["epoch"] == epoch
        folder.close()
        files = files.after_crash(files.rng)


def test_a_folder_is_open_once(files: FaultyFiles) -> None:
    folder = opened(files)
    with pytest.raises(FolderInUse):
        opened(files)
    folder.close()
    folder.close()
    opened(files).close()


def test_ids_of_logs_are_never_given_twice(files: FaultyFiles) -> None:
    folder = opened(files)
    assert [folder.take_log_id() for _ in range(3)] == [1, 2, 3]
    folder.close()
    assert opened(files.after_crash(files.rng)).take_log_id() == 4


def test_a_log_that_was_made_or_deleted_is_so_after_a_crash(files: FaultyFiles) -> None:
    folder = opened(files)
    for log_id in (1, 2, 10):
        folder.create_log(definition(log_id))
    removed = folder.delete_log(2)
    assert removed.name == "2.deleted"
    files = files.after_crash(files.rng)
    folder = opened(files)
    assert sorted(found.id for found in folder.definitions()) == [1, 10]
    assert files.names(DATA / "logs") == ["0", "1", "10"]


def test_a_log_that_was_not_finished_is_none(files: FaultyFiles) -> None:
    folder = opened(files)
    files.fail_write("*log.json.new", errno.ENOSPC)
    with pytest.raises(OSError, match="No space left"):
        folder.create_log(definition(1))
    assert list(folder.definitions()) == []
    assert files.names(DATA / "logs") == ["0"]


def test_a_deletion_that_is_not_durable_is_none(files: FaultyFiles) -> None:
    folder = opened(files)
    folder.create_log(definition(1))
    files.fail("sync_folder", "*logs", errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        folder.delete_log(1)
    assert [found.id for found in folder.definitions()] == [1]


@pytest.mark.parametrize(
    "data", [b'{"format": 2, "epoch": 1, "next_log_id": 1}', b'{"format": 99}', b'{"format": 2, "x": []}']
)
def test_a_newer_store_is_refused_and_stays_as_it_is(files: FaultyFiles, data: bytes) -> None:
    put(files, DATA / "store.json", data)
    with pytest.raises(NewerFormat, match=r"store\.json has format \d+, this version reads up to 1"):
        opened(files)
    assert files.read_file(DATA / "store.json") == data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"\xff\xfe",
        b"{}",
        b'{"format": 1}',
        b'{"format": 1, "epoch": -1, "next_log_id": 1}',
        b'{"format": 1, "epoch": 1, "next_log_id": 0}',
        b"[" * 200_000,
    ],
)
def test_a_store_that_is_none_is_refused_and_stays_as_it_is(files: FaultyFiles, data: bytes) -> None:
    put(files, DATA / "store.json", data)
    with pytest.raises(ForeignFile, match=r"store\.json was not written by headwater"):
        opened(files)
    assert files.read_file(DATA / "store.json") == data


def test_a_folder_of_logs_that_is_none_of_ours_is_told_and_stays(files: FaultyFiles) -> None:
    folder = opened(files)
    files.make_folder(DATA / "logs" / "77")
    put(files, DATA / "logs" / "77" / "note.txt", b"by hand")
    with pytest.raises(ForeignFile) as caught:
        list(folder.definitions())
    assert caught.value.path == str(DATA / "logs" / "77")
    assert files.names(DATA / "logs" / "77") == ["note.txt"]


def test_names_that_are_no_numbers_are_passed_over(files: FaultyFiles) -> None:
    folder = opened(files)
    put(files, DATA / "logs" / "note.txt", b"by hand")
    assert list(folder.definitions()) == []
    assert files.exists(DATA / "logs" / "note.txt")


@pytest.mark.parametrize(("code", "error"), [(errno.ENOSPC, DiskFull), (errno.EACCES, NoAccess)])
@pytest.mark.parametrize(
    ("what", "pattern"), [("lock", "*"), ("make_folder", "*/logs"), ("create", "*store.json.new")]
)
def test_what_hinders_opening_is_told_by_its_meaning(
    files: FaultyFiles, what: str, pattern: str, code: int, error: type[Exception]
) -> None:
    files.fail(what, pattern, code)
    folder = DataFolder(files, DATA)
    with pytest.raises(error):
        folder.open()
    folder.close()
    assert files.open_descriptors() == []


def test_missing_folders_above_are_made_durably(files: FaultyFiles) -> None:
    folder = DataFolder(files, DATA / "a" / "b")
    folder.open()
    folder.close()
    assert "store.json" in files.after_crash(Random(1)).names(DATA / "a" / "b")


def test_a_file_in_place_of_the_folder_is_told(files: FaultyFiles) -> None:
    put(files, DATA / "file", b"")
    with pytest.raises(ForeignFile):
        DataFolder(files, DATA / "file").open()

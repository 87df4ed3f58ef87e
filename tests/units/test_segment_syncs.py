"""A sync that failed spoils its segment, however many succeed after it; other segments are not touched by that."""

from __future__ import annotations

import errno

import pytest

from headwater.log.segment_syncs import SegmentSyncs
from tests.log_material import DATA
from tests.simulation.faulty_files import FaultyFiles
from tests.simulation.rig import new_disk

PATH, OTHER = DATA / "0.segment", DATA / "1.segment"


@pytest.fixture
def files() -> FaultyFiles:
    disk = new_disk(1)
    for path in (PATH, OTHER):
        disk.close(disk.open(path, create=True))
    return disk


def write(syncs: SegmentSyncs, files: FaultyFiles, fd: int) -> int:
    return syncs.checked(PATH, files.write_and_sync(fd, 0, [b"x"], sync=True))


def test_what_was_written_and_synced_is_durable(files: FaultyFiles) -> None:
    syncs = SegmentSyncs(files)
    fd = files.open(PATH, write=True)
    assert syncs.checked(PATH, files.write_and_sync(fd, 0, [b"durable"], sync=True)) == 0
    files.write(fd, 7, b" too")
    syncs.sync(PATH, fd)
    files.sync_folder(DATA)
    assert files.after_crash(files.rng).read_file(PATH) == b"durable too"


def test_a_failed_write_spoils_nothing(files: FaultyFiles) -> None:
    syncs = SegmentSyncs(files)
    files.fail_write(str(PATH), errno.ENOSPC)
    fd = files.open(PATH, write=True)
    assert write(syncs, files, fd) == errno.ENOSPC
    assert write(syncs, files, fd) == 0


@pytest.mark.parametrize("way", ["checked", "sync", "sync_closed"])
def test_after_a_failed_sync_no_later_one_is_believed(files: FaultyFiles, way: str) -> None:
    syncs = SegmentSyncs(files)
    fd = files.open(PATH, write=True)
    files.fail_sync(str(PATH))
    if way == "checked":
        assert write(syncs, files, fd) == -errno.EIO
    else:
        with pytest.raises(OSError, match="Input/output error"):
            syncs.sync(PATH, fd) if way == "sync" else syncs.sync_closed(PATH)
    assert write(syncs, files, fd) == -errno.EIO
    with pytest.raises(OSError, match="an earlier sync of it failed"):
        syncs.sync_closed(PATH)
    with pytest.raises(OSError, match="an earlier sync of it failed"):
        syncs.sync(PATH, fd)
    syncs.sync_closed(OTHER)
    files.close(fd)
    assert files.open_descriptors() == []

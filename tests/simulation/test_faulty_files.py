"""The simulated disk keeps exactly what a disk promises, and loses what it may lose."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from headwater.errors import FolderInUse
from tests.simulation.faulty_files import Crashed, FaultyFiles, Phase
from tests.simulation.inodes import PAGE_BYTES, SECTOR_BYTES

ROOT = Path("/")
FILE = Path("/a")


def disk_with(content: bytes, *, synced: bool = True, named: bool = True) -> tuple[FaultyFiles, int]:
    files = FaultyFiles()
    fd = files.open(FILE, create=True)
    files.write(fd, 0, content)
    if synced:
        files.sync(fd)
    if named:
        files.sync_folder(ROOT)
    return files, fd


def contents_after_crashes(files: FaultyFiles, path: Path = FILE, count: int = 200) -> set[bytes | None]:
    """Everything that crashes with different seeds leave under a name; `None` where it is gone."""
    found: set[bytes | None] = set()
    for seed in range(count):
        disk = files.after_crash(Random(seed))
        found.add(disk.read_file(path) if disk.exists(path) else None)
    return found


def names_after_crashes(files: FaultyFiles, path: Path = ROOT, count: int = 200) -> set[tuple[str, ...]]:
    return {tuple(files.after_crash(Random(seed)).names(path)) for seed in range(count)}


def test_what_was_synced_survives_every_crash() -> None:
    files, _ = disk_with(b"kept")
    assert contents_after_crashes(files) == {b"kept"}


def test_a_synced_file_is_lost_as_long_as_its_name_is_not_synced() -> None:
    files, _ = disk_with(b"kept", named=False)
    assert contents_after_crashes(files) == {b"kept", None}


def test_a_name_without_synced_data_leaves_a_file_of_any_length() -> None:
    files, _ = disk_with(bytes([7]) * 3000, synced=False)
    found = contents_after_crashes(files)
    assert None not in found
    lengths = {len(content) for content in found if content is not None}
    assert {0, 3000} <= lengths
    assert len(lengths) > 10
    assert any(
        content and not any(content[:SECTOR_BYTES]) for content in found
    )  # the length came, the page did not


def test_pages_survive_in_any_subset_and_torn_between_sectors() -> None:
    files, fd = disk_with(b"o" * (3 * PAGE_BYTES))
    files.write(fd, 0, b"n" * (3 * PAGE_BYTES))
    found = contents_after_crashes(files, count=600)
    assert None not in found
    pages = {tuple(content[i * PAGE_BYTES] for i in range(3)) for content in found if content is not None}
    assert len(pages) == 8
    edges = {
        i
        for content in found
        if content is not None
        for i in range(1, len(content))
        if content[i] != content[i - 1]
    }
    assert any(edge % PAGE_BYTES for edge in edges)
    assert all(edge % SECTOR_BYTES == 0 for edge in edges)


def test_durable_bytes_of_a_page_survive_what_is_written_behind_them() -> None:
    files, fd = disk_with(b"kept")
    files.write(fd, 4, b"lost" * 2000)
    assert all(content is not None and content[:4] == b"kept" for content in contents_after_crashes(files))


def test_a_cut_is_durable_with_the_next_sync_alone() -> None:
    files, fd = disk_with(b"0123456789")
    files.truncate(fd, 3)
    lengths = {len(content or b"") for content in contents_after_crashes(files)}
    assert {3, 10} <= lengths <= set(range(3, 11))
    files.sync(fd)
    assert contents_after_crashes(files) == {b"012"}


def test_bytes_behind_a_cut_read_as_zeros_when_the_file_grows_again() -> None:
    files, fd = disk_with(b"0123456789")
    files.truncate(fd, 3)
    files.write(fd, 6, b"x")
    assert files.read(fd, 0, 99) == b"012\0\0\0x"


def test_the_extremes_come_often() -> None:
    files, fd = disk_with(b"old", synced=True)
    files.write(fd, 0, b"new" * 4000)
    whole = [files.after_crash(Random(seed)).read_file(FILE) for seed in range(400)]
    assert whole.count(b"old") >= 60
    assert whole.count(b"new" * 4000) >= 60


def test_a_rename_leaves_the_old_name_or_the_new_one() -> None:
    files, _ = disk_with(b"kept")
    files.rename(FILE, Path("/b"))
    files.rename(Path("/b"), Path("/c"))
    assert names_after_crashes(files) == {("a",), ("b",), ("c",)}
    files.sync_folder(ROOT)
    assert names_after_crashes(files) == {("c",)}


def test_a_replaced_file_is_the_old_one_or_the_new_one() -> None:
    files, _ = disk_with(b"old")
    fd = files.open(Path("/a.new"), create=True)
    files.write_and_sync(fd, 0, [b"new"], sync=True)
    files.rename(Path("/a.new"), FILE)
    assert contents_after_crashes(files) == {b"old", b"new"}


def test_replace_file_keeps_its_promise_at_every_operation() -> None:
    reference, _ = disk_with(b"old")
    before = reference.operations
    reference.replace_file(FILE, b"new content")
    for operation in range(reference.operations - before):
        for phase in Phase:
            files, _ = disk_with(b"old")
            files.crash_in(operation, phase)
            with pytest.raises(Crashed):
                files.replace_file(FILE, b"new content")
            assert contents_after_crashes(files, count=20) <= {b"old", b"new content"}


def test_a_removed_file_comes_back_until_its_folder_is_synced() -> None:
    files, _ = disk_with(b"kept")
    files.remove(FILE)
    assert contents_after_crashes(files) == {b"kept", None}
    files.sync_folder(ROOT)
    assert contents_after_crashes(files) == {None}


def test_changes_of_one_folder_survive_in_any_subset() -> None:
    files = FaultyFiles()
    for name in "abc":
        files.make_folder(ROOT / name)
    assert len(names_after_crashes(files)) == 8


def test_a_move_between_folders_is_not_atomic() -> None:
    files, _ = disk_with(b"kept")
    files.make_folder(Path("/x"))
    files.sync_folder(ROOT)
    files.rename(FILE, Path("/x/a"))
    disks = [files.after_crash(Random(seed)) for seed in range(200)]
    assert {(disk.exists(FILE), disk.exists(Path("/x/a"))) for disk in disks} == {
        (before, after) for before in (False, True) for after in (False, True)
    }


def test_a_folder_that_is_not_durable_takes_its_files_with_it() -> None:
    files = FaultyFiles()
    files.make_folder(Path("/x"))
    fd = files.open(Path("/x/a"), create=True)
    files.write_and_sync(fd, 0, [b"1"], sync=True)
    files.sync_folder(Path("/x"))
    assert contents_after_crashes(files, Path("/x/a")) == {b"1", None}


@pytest.mark.parametrize("phase", list(Phase))
def test_a_crash_comes_at_the_chosen_operation(phase: Phase) -> None:
    files, fd = disk_with(b"")
    files.crash_in(1, phase)
    files.write(fd, 0, b"first")
    with pytest.raises(Crashed):
        files.write(fd, 5, b"second" * 1000)
    for call in (
        lambda: files.read(fd, 0, 1),
        lambda: files.names(ROOT),
        lambda: files.exists(FILE),
        lambda: files.sync(fd),
        lambda: files.sync_folder(ROOT),
    ):
        with pytest.raises(Crashed):
            call()
    written = len(files.after_process_crash().read_file(FILE))
    assert written == {Phase.BEFORE: 5, Phase.AFTER: 6005}.get(phase, written)
    assert 5 <= written <= 6005


def test_a_crash_in_the_middle_of_a_write_leaves_a_prefix() -> None:
    lengths = set()
    for seed in range(30):
        files = FaultyFiles(seed)
        fd = files.open(FILE, create=True)
        files.crash_in(0, Phase.MIDDLE)
        with pytest.raises(Crashed):
            files.write(fd, 0, b"x" * 9000)
        lengths.add(files.after_process_crash().size_of(FILE))
    assert len(lengths) > 20
    assert max(lengths) < 9000


def test_a_crash_in_the_middle_of_a_sync_makes_some_pages_durable() -> None:
    found = set()
    for seed in range(60):
        files = FaultyFiles(seed)
        fd = files.open(FILE, create=True)
        files.sync_folder(ROOT)
        files.write(fd, 0, b"x" * (4 * PAGE_BYTES))
        files.crash_in(0, Phase.MIDDLE)
        with pytest.raises(Crashed):
            files.sync(fd)
        found.add(files.after_crash(Random(seed)).read_file(FILE))
    assert len(found) > 20


def test_the_write_and_the_sync_are_two_operations() -> None:
    files, fd = disk_with(b"")
    files.crash_in(1, Phase.BEFORE)
    with pytest.raises(Crashed):
        files.write_and_sync(fd, 0, [b"12", b"34"], sync=True)
    assert contents_after_crashes(files) >= {b"", b"1234"}


def test_reads_are_counted_when_asked_for() -> None:
    files, fd = disk_with(b"1")
    before = files.operations
    files.read(fd, 0, 1)
    assert files.operations == before
    files.count_reads = True
    files.crash_in(0, Phase.BEFORE)
    with pytest.raises(Crashed):
        files.read(fd, 0, 1)


def test_a_failing_write_stops_after_some_bytes() -> None:
    files, fd = disk_with(b"12")
    files.fail_write("/a", errno.EIO, after_bytes=3)
    assert files.write_and_sync(fd, 2, [b"3456", b"78"], sync=True) == errno.EIO
    assert files.read(fd, 0, 99) == b"12345"
    assert files.write_and_sync(fd, 2, [b"3456", b"78"], sync=True) == 0
    assert contents_after_crashes(files) == {b"12345678"}


def test_a_failing_sync_leaves_pages_that_no_later_sync_makes_durable() -> None:
    found: set[bytes | None] = set()
    for seed in range(30):
        files = FaultyFiles(seed)
        fd = files.open(FILE, create=True)
        files.sync_folder(ROOT)
        files.fail_sync("/a")
        assert files.write_and_sync(fd, 0, [b"x" * 10], sync=True) == -errno.EIO
        assert files.read(fd, 0, 99) == b"x" * 10
        files.sync(fd)
        assert files.read(fd, 0, 99) == b"x" * 10
        found |= contents_after_crashes(files, count=10)
    assert {bytes(10), b"x" * 10} <= found
    assert all(content is not None and len(content) == 10 for content in found)


def test_a_page_written_again_after_a_failed_sync_becomes_durable() -> None:
    files, fd = disk_with(b"")
    files.fail_sync("*")
    files.write(fd, 0, b"12345")
    with pytest.raises(OSError, match="Input/output"):
        files.sync(fd)
    files.write(fd, 0, b"12345")
    files.sync(fd)
    assert contents_after_crashes(files) == {b"12345"}


def test_a_process_that_dies_leaves_the_page_cache_and_nothing_more_durable() -> None:
    files, _ = disk_with(b"12345", synced=False)
    restarted = files.after_process_crash()
    assert restarted.read_file(FILE) == b"12345"
    assert len(contents_after_crashes(restarted)) > 2


def test_a_page_given_up_by_a_sync_may_be_dropped_before_the_next_process_reads_it() -> None:
    found = set()
    for seed in range(30):
        files = FaultyFiles(seed)
        fd = files.open(FILE, create=True)
        files.fail_sync("/a")
        files.write_and_sync(fd, 0, [b"x" * 10], sync=True)
        found.add(files.after_process_crash(Random(seed)).read_file(FILE))
    assert {bytes(10), b"x" * 10} <= found


def test_a_full_disk_takes_what_fits() -> None:
    files, fd = disk_with(b"12")
    files.capacity_bytes = 5
    assert files.write_and_sync(fd, 2, [b"345678"], sync=False) == errno.ENOSPC
    assert files.read(fd, 0, 99) == b"12345"
    assert files.write_and_sync(fd, 0, [b"54321"], sync=False) == 0
    other = files.open(Path("/b"), create=True)
    with pytest.raises(OSError, match="No space"):
        files.write(other, 0, b"1")
    files.truncate(fd, 0)
    files.write(other, 0, b"12345")
    assert files.used_bytes() == 5


def test_a_removed_file_takes_room_until_it_is_closed() -> None:
    files, fd = disk_with(b"12345")
    files.remove(FILE)
    assert files.used_bytes() == 5
    files.close(fd)
    assert files.used_bytes() == 0


def test_descriptors_run_out_and_come_back() -> None:
    files, fd = disk_with(b"")
    files.open_files_max = 1
    for call in (
        lambda: files.open(FILE),
        lambda: files.open(Path("/b"), create=True),
        lambda: files.sync_folder(ROOT),
        lambda: files.lock(Path("/lock")),
    ):
        with pytest.raises(OSError, match="Too many open files"):
            call()
    assert files.names(ROOT) == ["a"]
    files.close(fd)
    files.close(files.open(FILE))
    assert files.open_descriptors() == []


def test_open_descriptors_are_listed_with_their_paths() -> None:
    files, fd = disk_with(b"")
    assert files.open_descriptors() == [FILE]
    files.close(fd)
    assert files.open_descriptors() == []
    with pytest.raises(OSError, match="Bad file descriptor"):
        files.close(fd)


def test_a_lock_is_held_until_its_descriptor_is_closed_or_its_process_dies() -> None:
    files = FaultyFiles()
    fd = files.lock(Path("/lock"))
    with pytest.raises(FolderInUse):
        files.lock(Path("/lock"))
    files.close(fd)
    files.lock(Path("/lock"))
    files.after_process_crash().lock(Path("/lock"))
    files.after_crash(Random(0)).lock(Path("/lock"))


def test_a_read_without_waiting_is_refused_now_and_then() -> None:
    files, fd = disk_with(b"123")
    files.cold_read_chance = 0.5
    refused = 0
    for _ in range(100):
        buffer = bytearray(5)
        try:
            assert files.read_into(fd, memoryview(buffer), 1, wait=False) == 2
            assert buffer == b"23\0\0\0"
        except BlockingIOError:
            refused += 1
        assert files.read_into(fd, memoryview(buffer), 0) == 3
    assert 20 < refused < 80


def test_dirty_pages_reach_the_platter_on_their_own_when_asked_for() -> None:
    files, fd = disk_with(b"")
    files.write_back_chance = 1.0
    for _ in range(20):
        files.write(fd, 0, b"x" * 100)
    files.write(fd, 0, b"y" * 100)
    found = contents_after_crashes(files)
    assert any(content and b"x" in content for content in found)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda files: files.open(Path("/no")), FileNotFoundError),
        (lambda files: files.open(FILE, create=True), FileExistsError),
        (lambda files: files.open(Path("/x")), IsADirectoryError),
        (lambda files: files.open(Path("/x/y/z"), create=True), FileNotFoundError),
        (lambda files: files.open(Path("/a/b")), NotADirectoryError),
        (lambda files: files.make_folder(FILE), NotADirectoryError),
        (lambda files: files.remove(Path("/x")), IsADirectoryError),
        (lambda files: files.remove(Path("/no")), FileNotFoundError),
        (lambda files: files.remove_folder(Path("/x")), OSError),
        (lambda files: files.rename(Path("/no"), Path("/b")), FileNotFoundError),
        (lambda files: files.rename(FILE, Path("/x")), OSError),
        (lambda files: files.write(files.open(FILE), 0, b"1"), OSError),
        (lambda files: files.size_of(Path("/no")), FileNotFoundError),
    ],
)
def test_errors_are_those_of_the_system(call: Callable[[FaultyFiles], object], error: type[OSError]) -> None:
    files, _ = disk_with(b"")
    files.make_folder(Path("/x"))
    files.make_folder(Path("/x/full"))
    with pytest.raises(error):
        call(files)


def test_what_is_missing_reads_as_no_names() -> None:
    files = FaultyFiles()
    assert files.names(Path("/no")) == []
    assert not files.exists(Path("/no/a"))


def test_an_operation_can_be_made_to_fail() -> None:
    files, _ = disk_with(b"")
    files.fail("rename", "/a", errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        files.rename(FILE, Path("/b"))
    files.rename(FILE, Path("/b"))
    files.fail("rename", "*", errno.EIO, times=99)
    files.heal()
    files.rename(Path("/b"), FILE)


def test_a_whole_tree_is_removed() -> None:
    files, fd = disk_with(b"1")
    files.close(fd)
    files.make_folder(Path("/x"))
    files.make_folder(Path("/x/y"))
    files.close(files.open(Path("/x/y/z"), create=True))
    files.remove_tree(Path("/x"))
    assert files.names(ROOT) == ["a"]


def test_the_same_seed_gives_the_same_disk() -> None:
    def run() -> list[bytes | None]:
        files = FaultyFiles(5)
        fd = files.open(FILE, create=True)
        files.sync_folder(ROOT)
        files.write_back_chance = 0.5
        for i in range(20):
            files.write(fd, i * 700, bytes([i]) * 900)
        return [files.after_crash(Random(seed)).read_file(FILE) for seed in range(20)]

    assert run() == run()

"""Room, descriptors and rights that a real system refuses: told clearly, reads go on, writing resumes."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.errors import DiskFull, StorageError, TooManyOpenFiles
from headwater.log.partition import Partition
from headwater.log.store import Store
from tests.log_material import Answers, Machine, append, read_records

NOBODY = 65_534


@pytest.fixture
def limited() -> Iterator[Callable[[int, int], None]]:
    """Lowers a limit of this process, and puts it back."""
    before: dict[int, tuple[int, int]] = {}

    def lower(kind: int, value: int) -> None:
        before.setdefault(kind, resource.getrlimit(kind))
        resource.setrlimit(kind, (value, before[kind][1]))

    yield lower
    for kind, values in before.items():
        resource.setrlimit(kind, values)


def flushed(store: Store, partition: Partition, record: bytes) -> StorageError | None:
    answers = append(partition, record)
    store.flush()
    (answer,) = answers
    return answer


def test_a_file_that_may_not_grow_refuses_writes_until_it_may(
    tmp_path: Path, limited: Callable[[int, int], None]
) -> None:
    store = Store.open(tmp_path / "data")
    partition = store.create_log("log").partitions[0]
    assert flushed(store, partition, b"first") is None
    limited(resource.RLIMIT_FSIZE, partition.segments[0].size + 100)
    for _ in range(2):
        answer = flushed(store, partition, b"refused" + bytes(1000))
        assert isinstance(answer, DiskFull)
        assert read_records(partition) == [b"first"]
    limited(resource.RLIMIT_FSIZE, 1 << 30)
    assert flushed(store, partition, b"second") is None
    store.abandon()
    again = Store.open(tmp_path / "data")
    assert read_records(again.log("log").partitions[0]) == [b"first", b"second"]
    assert again.damaged == again.notices == []
    again.close()


ON_A_SMALL_DISK = """
import sys
from pathlib import Path
from headwater.errors import DiskFull
from headwater.log.settings import LogSettings, StoreSettings
from headwater.log.store import Store
from tests.log_material import Answers, append, read_records

def flushed(store, partition, record):
    answers = append(partition, record)
    store.flush()
    return answers[0]

folder = Path(sys.argv[1]) / "data"
store = Store.open(folder, StoreSettings(tail_bytes_max=1))
partition = store.create_log("log", settings=LogSettings(segment_bytes=64 * 1024)).partitions[0]
stored = 0
while (answer := flushed(store, partition, b"%d " % stored + bytes(10_000))) is None:
    stored += 1
    assert stored < 30, "the disk does not run full"
assert isinstance(answer, DiskFull), answer
assert partition.committed_offset == len(read_records(partition)) == stored > 5
answers = Answers()
partition.truncate(partition.segments[1].first_offset, answers)
store.flush()
assert answers == [None], answers
assert flushed(store, partition, b"again") is None
store.close()
again = Store.open(folder)
assert again.damaged == again.notices == [], again.notices
assert read_records(again.log("log").partitions[0])[-1] == b"again"
again.close()
print("done:", answer)
"""


def test_a_full_disk_refuses_writes_and_serves_reads_until_there_is_room(tmp_path: Path) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("no file system can be mounted here")
    # In a mount namespace of its own, so that the file system goes with the process however that ends.
    mount = 'mount -t tmpfs -o size=256k tmpfs "$1" || exit 77; exec "$2" -c "$3" "$1"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mount, "sh", str(tmp_path), sys.executable, ON_A_SMALL_DISK],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=Path(__file__).parents[2],
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no file system can be mounted here")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("free space, writing then resumes by itself\n")
    assert list(tmp_path.iterdir()) == []


def test_too_many_open_files_refuse_what_needs_one_more_and_nothing_is_lost(
    tmp_path: Path, limited: Callable[[int, int], None]
) -> None:
    store = Store.open(tmp_path / "data")
    partition = store.create_log("log").partitions[0]
    assert flushed(store, partition, b"first") is None
    other = store.create_log("other").partitions[0]
    path = partition.segments[0].path
    store.open_files.acquire(path)  # in use, so that it cannot be closed to make room
    limited(resource.RLIMIT_NOFILE, 512)
    eaten = []
    try:
        while True:
            eaten.append(os.dup(0))
    except OSError:
        pass
    try:
        answer = flushed(store, other, b"refused")
    finally:
        for fd in eaten:
            os.close(fd)
    store.open_files.release(path)
    assert isinstance(answer, TooManyOpenFiles)
    assert not partition.read_only
    assert not other.read_only
    assert flushed(store, other, b"second") is None
    assert flushed(store, partition, b"second") is None
    store.close()
    again = Store.open(tmp_path / "data")
    assert read_records(again.log("other").partitions[0])[-1] == b"second"
    again.close()


def appended_to_all(machine: Machine, partitions: list[Partition], size: int) -> list[Answers]:
    answers = [append(partition, bytes(size)) for partition in partitions]
    machine.store.flush()
    return answers


@pytest.mark.parametrize("direct_files_max", [8, 1])
@pytest.mark.parametrize("first_size", [None, 10, 1500], ids=["new", "begun", "full"])
@pytest.mark.parametrize("free", range(7))
def test_with_any_number_of_free_descriptors_what_is_refused_is_taken_later(
    free: int, first_size: int | None, direct_files_max: int
) -> None:
    machine = Machine(direct_files_max=direct_files_max, journal_bytes_max=200)
    partitions = [machine.log(f"log{number}", segment_bytes=1024) for number in range(3)]
    if first_size is not None:
        appended_to_all(machine, partitions, first_size)
    machine.files.open_files_max = len(machine.files.open_descriptors()) + free
    for _ in range(3):
        answers = [error for answer in appended_to_all(machine, partitions, 10) for error in answer]
        assert all(error is None or isinstance(error, TooManyOpenFiles) for error in answers), answers
        assert len(answers) == 3
    machine.files.open_files_max = None
    appended_to_all(machine, partitions, 10)  # for a partition that still waits for a journal to be put away
    assert appended_to_all(machine, partitions, 20) == [[None]] * 3
    assert not any(partition.read_only for partition in partitions)
    counts = [len(read_records(partition)) for partition in partitions]
    machine.reopen()
    assert [len(read_records(machine.log(f"log{number}"))) for number in range(3)] == counts
    assert machine.store.damaged == machine.store.notices == []


FOREIGN_USER = """
import os, sys
from pathlib import Path
from headwater.errors import StorageError
from headwater.log.store import Store
if os.geteuid() == 0:
    os.setegid({nobody}); os.seteuid({nobody})
try:
    Store.open(Path(sys.argv[1]))
except StorageError as error:
    print(type(error).__name__, error)
"""


def opened_by_another_user(folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", FOREIGN_USER.format(nobody=NOBODY), str(folder)],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return done.stdout


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """A data folder with one event, and the way to it open for everybody."""
    with_way = [path for path in (tmp_path, *tmp_path.parents) if path.stat().st_uid == os.getuid()]
    modes = {path: path.stat().st_mode for path in with_way}
    for path in with_way:
        path.chmod(path.stat().st_mode | 0o755)
    store = Store.open(tmp_path / "data")
    append(store.create_log("log").partitions[0], b"x")
    store.close()
    yield tmp_path / "data"
    for path in (tmp_path / "data").rglob("*"):
        path.chmod(0o755)
    for path, mode in modes.items():
        path.chmod(mode)


@pytest.mark.parametrize("place", [".", "store.json", "lock"])
def test_a_folder_without_rights_is_told_and_served_when_they_are_there(locked: Path, place: str) -> None:
    path, mode = locked / place, (locked / place).stat().st_mode
    path.chmod(0o500 if path.is_dir() else 0o400 if os.geteuid() == 0 else 0o000)
    assert opened_by_another_user(locked).startswith("NoAccess no permission for ")
    path.chmod(mode)
    store = Store.open(locked)
    assert read_records(store.log("log").partitions[0]) == [b"x"]
    store.close()


def test_a_folder_that_cannot_be_made_is_told() -> None:
    with pytest.raises(StorageError, match="/proc/headwater"):
        Store.open(Path("/proc/headwater"))

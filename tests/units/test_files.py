"""The real disk: calls that do what they say, and error numbers that become errors of ours."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.errors import (
    DiskFull,
    FolderInUse,
    ForeignFile,
    NoAccess,
    ReadFailed,
    StorageError,
    TooManyOpenFiles,
    WriteFailed,
)
from headwater.log.files import Files, storage_error


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.mark.parametrize(
    ("code", "error", "advice"),
    [
        (errno.ENOSPC, DiskFull, "free space, writing then resumes by itself"),
        (errno.EDQUOT, DiskFull, "free space"),
        (errno.EFBIG, DiskFull, "free space"),
        (errno.EACCES, NoAccess, "give it to the user that runs headwater"),
        (errno.EPERM, NoAccess, "give it to the user"),
        (errno.EROFS, NoAccess, "give it to the user"),
        (errno.EMFILE, TooManyOpenFiles, "raise the limit"),
        (errno.ENFILE, TooManyOpenFiles, "raise the limit"),
        (errno.EISDIR, ForeignFile, "move it away"),
        (errno.ENOTDIR, ForeignFile, "move it away"),
        (errno.EIO, WriteFailed, "nothing of the batch was kept"),
        (0, WriteFailed, "errno 0"),
    ],
)
def test_an_error_number_says_what_to_do(code: int, error: type[StorageError], advice: str) -> None:
    found = storage_error(code, Path("folder/file"))
    assert type(found) is error
    assert "folder/file" in str(found)
    assert advice in str(found)


def test_a_failed_read_does_not_speak_of_writing() -> None:
    found = storage_error(errno.EIO, Path("file"), reading=True)
    assert type(found) is ReadFailed
    assert str(found).startswith("reading file failed: Input/output error (errno 5)")


def test_what_was_written_reads_back_and_shorter_at_the_end(files: Files, tmp_path: Path) -> None:
    fd = files.open(tmp_path / "file", create=True)
    files.write(fd, 3, b"abcdef")
    files.sync(fd)
    assert files.read(fd, 0, 100) == b"\0\0\0abcdef"
    assert files.read(fd, 5, 2) == b"cd"
    assert files.read(fd, 50, 2) == b""
    buffer = bytearray(6)
    assert files.read_into(fd, memoryview(buffer), 6) == 3
    assert bytes(buffer) == b"def\0\0\0"
    files.truncate(fd, 4)
    assert files.size(fd) == files.size_of(tmp_path / "file") == 4
    files.close(fd)
    assert files.read_file(tmp_path / "file") == b"\0\0\0a"


def test_making_refuses_a_file_that_exists_and_opening_one_that_does_not(
    files: Files, tmp_path: Path
) -> None:
    files.close(files.open(tmp_path / "file", create=True))
    with pytest.raises(FileExistsError):
        files.open(tmp_path / "file", create=True)
    with pytest.raises(FileNotFoundError):
        files.open(tmp_path / "missing", write=True)
    assert (tmp_path / "file").stat().st_mode & 0o007 == 0


def test_a_file_system_that_cannot_tell_whether_a_read_would_wait_is_read_all_the_same(files: Files) -> None:
    fd = os.memfd_create("in memory")
    try:
        files.write(fd, 0, b"0123456789")
        buffer = bytearray(4)
        assert files.read_into(fd, memoryview(buffer), 3, wait=False) == 4
        assert buffer == b"3456"
    finally:
        files.close(fd)


def test_a_file_opened_for_reading_cannot_be_written(files: Files, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    fd = files.open(tmp_path / "file")
    assert files.write_and_sync(fd, 0, [b"x"], sync=True) == errno.EBADF
    with pytest.raises(OSError, match="Bad file descriptor"):
        files.write(fd, 0, b"x")
    files.close(fd)


def test_a_folder_is_made_once_and_a_file_of_that_name_is_refused(files: Files, tmp_path: Path) -> None:
    files.make_folder(tmp_path / "folder")
    files.make_folder(tmp_path / "folder")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        files.make_folder(tmp_path / "file")
    assert files.names(tmp_path) == ["file", "folder"]
    assert files.names(tmp_path / "missing") == []
    assert files.exists(tmp_path / "file")
    assert not files.exists(tmp_path / "missing")


def test_replacing_a_file_leaves_one_file_also_after_an_attempt_that_broke_off(
    files: Files, tmp_path: Path
) -> None:
    (tmp_path / "file.json").write_bytes(b"old")
    (tmp_path / "file.json.new").write_bytes(b"left over and longer")
    files.replace_file(tmp_path / "file.json", b"new")
    assert files.names(tmp_path) == ["file.json"]
    assert files.read_file(tmp_path / "file.json") == b"new"


def test_a_tree_of_two_levels_is_removed(files: Files, tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / "log" / str(number)).mkdir(parents=True)
        (tmp_path / "log" / str(number) / "0.segment").write_bytes(b"x")
    (tmp_path / "log" / "log.json").write_bytes(b"x")
    files.remove_tree(tmp_path / "log")
    assert files.names(tmp_path) == []


def test_a_locked_folder_tells_who_holds_it(files: Files, tmp_path: Path) -> None:
    fd = files.lock(tmp_path / "lock")
    with pytest.raises(FolderInUse, match=f"is in use by process {os.getpid()}; stop it") as caught:
        files.lock(tmp_path / "lock")
    assert (caught.value.path, caught.value.pid) == (str(tmp_path), os.getpid())
    os.ftruncate(fd, 0)
    with pytest.raises(FolderInUse, match="is in use by another process"):
        files.lock(tmp_path / "lock")
    files.close(fd)
    files.close(files.lock(tmp_path / "lock"))


def test_the_lock_goes_with_the_process_that_held_it(files: Files, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from headwater.log.files import Files\n"
        "Files().lock(Path(sys.argv[1]))"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "lock")], check=True, timeout=30)
    files.close(files.lock(tmp_path / "lock"))


@pytest.mark.parametrize("code", [errno.ENOSPC, -errno.EIO])
def test_the_answer_of_a_write_becomes_an_error(files: Files, code: int) -> None:
    files.raise_code(0)
    with pytest.raises(OSError, match=os.strerror(abs(code))) as caught:
        files.raise_code(code)
    assert caught.value.errno == abs(code)

"""Every call that touches a data file, so that tests can put a disk under it that loses what was not synced."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

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
from headwater.log.commit_form import write_and_sync

__all__ = ["NO_FILES", "Buffer", "Files", "storage_error"]

Buffer = bytes | bytearray | memoryview

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_ACCESS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
NO_FILES = frozenset({errno.EMFILE, errno.ENFILE})
"""The process, or the system, has too many files open."""


def storage_error(code: int, path: Path, *, reading: bool = False) -> StorageError:
    """The error of ours that says what an operating system error number means for this path."""
    if code in _NO_SPACE:
        return DiskFull(path)
    if code in _NO_ACCESS:
        return NoAccess(path)
    if code in NO_FILES:
        return TooManyOpenFiles(path)
    if code in (errno.EISDIR, errno.ENOTDIR):
        return ForeignFile(path)
    return ReadFailed(path, code) if reading else WriteFailed(path, code)


class Files:
    """The disk. Methods raise `OSError`; a path's folder is synced by `sync_folder` alone."""

    def make_folder(self, path: Path) -> None:
        """Make one folder; its parent is not synced. One that exists is fine."""
        try:
            os.mkdir(path)
        except FileExistsError:
            if not path.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(path)) from None

    def names(self, path: Path) -> list[str]:
        """The names in a folder, sorted; none if the folder is missing."""
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def exists(self, path: Path) -> bool:
        """Whether something has this name."""
        return os.path.lexists(path)

    def size_of(self, path: Path) -> int:
        """The length of a file by its path, without opening it."""
        return os.stat(path).st_size

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> int:
        """A descriptor; `create` makes an empty file and refuses one that exists."""
        flags = os.O_RDWR if write or create else os.O_RDONLY
        if create:
            flags |= os.O_CREAT | os.O_EXCL
        return os.open(path, flags | os.O_CLOEXEC, 0o640)

    def close(self, fd: int) -> None:
        """Give a descriptor back; nothing is synced by it."""
        os.close(fd)

    def size(self, fd: int) -> int:
        """The length of an open file."""
        return os.fstat(fd).st_size

    def read(self, fd: int, position: int, count: int) -> bytes:
        """Up to `count` bytes from `position`; fewer only at the end of the file."""
        first = os.pread(fd, count, position)
        if len(first) == count or not first:
            return first
        parts = [first]
        have = len(first)
        while have < count and (part := os.pread(fd, count - have, position + have)):
            parts.append(part)
            have += len(part)
        return b"".join(parts)

    def read_into(self, fd: int, buffer: memoryview, position: int, *, wait: bool = True) -> int:
        """Fill a buffer from `position`; with `wait=False` a cold page raises `BlockingIOError`."""
        if not wait:
            try:
                return os.preadv(fd, [buffer], position, os.RWF_NOWAIT)
            except OSError as error:
                if error.errno != errno.EOPNOTSUPP:
                    raise  # else the file system cannot tell, as those in memory or of a network
        return os.preadv(fd, [buffer], position)

    def expect_reads(self, fd: int, position: int, count: int) -> None:
        """Have the system fetch what will be read soon; it is nothing to rely on."""
        os.posix_fadvise(fd, position, count, os.POSIX_FADV_WILLNEED)

    def write(self, fd: int, position: int, data: Buffer) -> None:
        """Write all of `data`; nothing is synced."""
        self.raise_code(self.write_and_sync(fd, position, [data], sync=False))

    @property
    def writes_plainly(self) -> bool:
        """Whether a write may go to the kernel without a call here: not when something lies under it."""
        return type(self).write_and_sync is Files.write_and_sync

    def write_and_sync(self, fd: int, position: int, buffers: Sequence[Buffer], *, sync: bool) -> int:
        """Write buffers one behind the other and sync: 0, the errno of the write, or minus that of the sync."""
        return write_and_sync(fd, position, buffers, sync)

    def sync(self, fd: int) -> None:
        """`fdatasync`: what was written to the file, and its length, are durable."""
        os.fdatasync(fd)

    def truncate(self, fd: int, size: int) -> None:
        """Cut a file; durable with its next sync."""
        os.ftruncate(fd, size)

    def sync_folder(self, path: Path) -> None:
        """Make the names in a folder durable: files made, renamed and removed."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, source: Path, target: Path) -> None:
        """Give a file or folder another name; a file there is replaced."""
        os.rename(source, target)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        os.unlink(path)

    def remove_folder(self, path: Path) -> None:
        """Remove an empty folder."""
        os.rmdir(path)

    def lock(self, path: Path) -> int:
        """Hold the lock file until the descriptor is closed, or raise `FolderInUse` with the holder's pid."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _pid_in(fd)
            os.close(fd)
            raise FolderInUse(path.parent, holder) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        return fd

    def check_unlocked(self, path: Path) -> None:
        """Raise `FolderInUse` if a process holds the lock file; nothing is changed."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderInUse(path.parent, _pid_in(fd)) from None
        finally:
            os.close(fd)

    # What can be built from the calls above is written once, for every disk.

    def replace_file(self, path: Path, data: bytes) -> None:
        """Put `data` under a name so that a crash leaves the old content or the new, and sync it."""
        beside = path.with_name(path.name + ".new")
        if self.exists(beside):
            self.remove(beside)
        fd = self.open(beside, create=True)
        try:
            self.raise_code(self.write_and_sync(fd, 0, [data], sync=True))
        finally:
            self.close(fd)
        self.rename(beside, path)
        self.sync_folder(path.parent)

    def read_file(self, path: Path) -> bytes:
        """All of a small file."""
        fd = self.open(path)
        try:
            return self.read(fd, 0, self.size(fd))
        finally:
            self.close(fd)

    def remove_tree(self, path: Path) -> None:
        """Remove a folder of at most two levels of folders with files, as a log's is."""
        for name in self.names(path):
            child = path / name
            try:
                self.remove(child)
            except (IsADirectoryError, PermissionError):
                self.remove_tree(child)
        self.remove_folder(path)

    @staticmethod
    def raise_code(code: int) -> None:
        """Turn the answer of `write_and_sync` into an `OSError`."""
        if code:
            raise OSError(abs(code), os.strerror(abs(code)))


def _pid_in(fd: int) -> int | None:
    holder = os.pread(fd, 20, 0).decode("ascii", "replace").strip()
    return int(holder) if holder.isdigit() else None

"""The disk that is measured on: which it is, what it does without us, and how to make it forget what it cached."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

__all__ = [
    "BareWriter",
    "BareWrites",
    "cached_share",
    "drop_cached",
    "filesystem_of",
    "log_files",
    "read_bare",
    "scratch",
    "touch_memory",
]

_MEMORY_FILESYSTEMS = frozenset({"tmpfs", "ramfs"})


@contextlib.contextmanager
def scratch(data: Path, name: str) -> Iterator[Path]:
    """A folder that is not there yet, for one case; removed afterwards."""
    data.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=data))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def filesystem_of(path: Path) -> tuple[str, bool]:
    """The type of the file system that a path lies on, and whether that is memory."""
    found, longest = "unknown", -1
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        _, place, kind, *_ = line.split()
        if path.resolve().is_relative_to(place) and len(place) >= longest:
            found, longest = kind, len(place)
    return found, found in _MEMORY_FILESYSTEMS


class BareWrites(msgspec.Struct, frozen=True):
    """What the bare loop did."""

    bytes_per_s: float
    syncs_per_s: float


class BareWriter:
    """The yardstick of commits: one write and one fdatasync after the other, by one thread, to one growing file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o640)
        self._position = 0

    def __enter__(self) -> BareWriter:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)
        self._path.unlink()

    def run(self, commit_bytes: int, seconds: float) -> BareWrites:
        """Write and sync so many bytes again and again."""
        data = memoryview(os.urandom(1 << 16) * (commit_bytes // (1 << 16) + 1))[:commit_bytes]
        count = 0
        started = time.perf_counter()
        while (elapsed := time.perf_counter() - started) < seconds or not count:
            written = os.pwritev(self._fd, [data], self._position)
            os.fdatasync(self._fd)
            self._position += written
            count += 1
        return BareWrites(count * commit_bytes / elapsed, count / elapsed)


def touch_memory(byte_count: int) -> None:
    """Use so much memory and give it back, at most half of what is free.

    A virtual machine gets its memory from its host page by page, at the first touch. That can cost more than to write
    the page to the disk, and would be measured as if it did.
    """
    free = os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE
    size = min(byte_count, free // 2)
    if size > 0:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
        mmap.mmap(-1, size, flags).close()


def log_files(folder: Path) -> list[Path]:
    """The segments below a folder, oldest first."""
    return sorted(folder.rglob("*.segment"))


def read_bare(paths: list[Path], buffer: memoryview) -> int:
    """The yardstick of reads: all files from start to end into one buffer; gives the bytes."""
    total = 0
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        position = 0
        while count := os.preadv(fd, [buffer], position):
            position += count
        os.close(fd)
        total += position
    return total


def drop_cached(paths: list[Path]) -> None:
    """Have the system forget the pages of these files."""
    for path in paths:
        fd = os.open(path, os.O_RDWR)
        os.fdatasync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
    if cached_share(paths) > 0:
        with contextlib.suppress(OSError):  # allowed to the superuser alone
            Path("/proc/sys/vm/drop_caches").write_text("1\n", encoding="ascii")


def cached_share(paths: list[Path]) -> float:
    """The share of the pages of these files that is in memory now."""
    resident = pages = 0
    for path in paths:
        with _mapped(path) as view:
            count = (len(view) + mmap.PAGESIZE - 1) // mmap.PAGESIZE
            found = (ctypes.c_ubyte * count)()
            address = ctypes.addressof(ctypes.c_char.from_buffer(view))
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(len(view)), found):
                raise OSError(ctypes.get_errno(), "mincore", str(path))
            resident += sum(page & 1 for page in found)
            pages += count
    return resident / max(1, pages)


@contextlib.contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    fd = os.open(path, os.O_RDWR)
    # A private mapping: ctypes asks for one that could be written to. It touches no page.
    view = mmap.mmap(fd, 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
    os.close(fd)
    try:
        yield view
    finally:
        with contextlib.suppress(BufferError):
            view.close()

"""A disk in memory that crashes at any operation, loses what was not synced, runs full, and fails when told to."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatch
from pathlib import Path
from random import Random
from typing import TypeVar

from headwater.errors import FolderInUse
from headwater.log.files import Buffer, Files
from tests.simulation.inodes import Change, FileNode, FolderNode, Node, Survival

__all__ = ["Crashed", "FaultyFiles", "Phase"]

_FIRST_DESCRIPTOR = 1_000_000  # never a number that the process itself has open
_PID = 4711
_T = TypeVar("_T")


class Crashed(BaseException):
    """The machine, or the process, is gone; nothing may catch this but the harness."""


class Phase(Enum):
    """Where in an operation the crash comes."""

    BEFORE = "before"
    MIDDLE = "middle"
    AFTER = "after"


@dataclass(slots=True)
class _Fault:
    kind: str
    pattern: str
    code: int
    times: int
    after_bytes: int = 0


@dataclass(slots=True)
class _Descriptor:
    path: Path
    node: FileNode
    writable: bool
    locked: bool = False


class FaultyFiles(Files):
    """The disk of a simulated machine; the same seed and the same calls give the same faults."""

    def __init__(self, seed: int = 0, *, root: FolderNode | None = None) -> None:
        self.root = FolderNode() if root is None else root
        self.rng = Random(seed)
        self.operations = 0
        self.crash_at: int | None = None
        self.crash_phase = Phase.BEFORE
        self.crashed = False
        self.trace: list[str] | None = None
        self.count_reads = False
        self.cold_read_chance = 0.0
        self.write_back_chance = 0.0
        self.capacity_bytes: int | None = None
        self.open_files_max: int | None = None
        self._faults: list[_Fault] = []
        self._failed = False
        self._open: dict[int, _Descriptor] = {}
        self._next_descriptor = _FIRST_DESCRIPTOR

    # What the harness does to the disk.

    def crash_in(self, operations: int, phase: Phase) -> None:
        """Crash at the operation that comes after so many more."""
        self.crash_at, self.crash_phase = self.operations + operations + 1, phase

    def crash_now(self) -> None:
        """Whatever is called from here on raises `Crashed`."""
        self.crashed = True

    def after_crash(self, rng: Random) -> FaultyFiles:
        """The disk as a machine finds it that lost its power: what was synced, and any part of the rest."""
        survival = Survival.choose(rng)
        copies: dict[Node, Node] = {}

        def copy(node: Node) -> Node:
            if node not in copies:
                if isinstance(node, FileNode):
                    copies[node] = node.after_crash(rng, survival)
                else:
                    kept = node.after_crash(rng, survival)
                    copies[node] = FolderNode({name: copy(kept[name]) for name in sorted(kept)})
            return copies[node]

        root = copy(self.root)
        assert isinstance(root, FolderNode)
        return self._successor(rng, root)

    def after_process_crash(self, rng: Random | None = None) -> FaultyFiles:
        """The disk as the next process finds it: nothing more is durable; given `rng`, clean pages may be dropped."""
        if rng is not None:
            for node in self._nodes():
                node.evict(rng)
        return self._successor(rng or self.rng, self.root)

    def fail(self, kind: str, pattern: str, code: int, *, times: int = 1, after_bytes: int = 0) -> None:
        """Let the next operations of a kind fail on paths that match a pattern."""
        self._faults.append(_Fault(kind, pattern, code, times, after_bytes))

    def fail_write(
        self, pattern: str, code: int = errno.EIO, *, after_bytes: int = 0, times: int = 1
    ) -> None:
        """Let writes fail after so many bytes went through."""
        self.fail("write", pattern, code, times=times, after_bytes=after_bytes)

    def fail_sync(self, pattern: str, *, times: int = 1) -> None:
        """Let syncs fail: the pages are clean afterwards, but not durable."""
        self.fail("sync", pattern, errno.EIO, times=times)

    @property
    def troubled(self) -> bool:
        """Whether operations may fail, or did since the disk was well."""
        return (
            self._failed
            or bool(self._faults)
            or self.capacity_bytes is not None
            or self.open_files_max is not None
        )

    def heal(self) -> None:
        """No fault is left, and there is room and there are descriptors."""
        self._faults.clear()
        self._failed = False
        self.capacity_bytes = self.open_files_max = None

    def damage(self, path: Path, position: int, mask: int) -> None:
        """Flip bits of a durable byte: what no crash may do."""
        self._file(path).damage(position, mask)

    def cut(self, path: Path, size: int) -> None:
        """Lose the end of a file, durably: what no crash may do."""
        self._file(path).cut(size)

    def is_durable(self, path: Path) -> bool:
        """Whether a crash would leave the file's bytes as they are read now."""
        node = self._file(path)
        return node.image == node.platter

    def durable_names(self, path: Path) -> set[str]:
        """The names that a crash may bring back, those that are seen included."""
        folder = self._folder(path)
        return {*folder.entries, *folder.durable}

    def open_descriptors(self) -> list[Path]:
        """The paths of all descriptors that nobody closed."""
        return sorted(descriptor.path for descriptor in self._open.values())

    def used_bytes(self) -> int:
        """The room that files take, removed ones that are still open included."""
        opened = (descriptor.node for descriptor in self._open.values())
        return sum(len(node.image) for node in {*self._nodes(), *opened})

    # The interface of `Files`.

    def make_folder(self, path: Path) -> None:
        folder = self._folder(path.parent)

        def make() -> None:
            if path.name not in folder.entries:
                folder.change(Change(added=(path.name, FolderNode())))
            elif isinstance(folder.entries[path.name], FileNode):
                raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(path))

        self._operate("make_folder", path, make)

    def names(self, path: Path) -> list[str]:
        self._read_operation("names", path)
        try:
            return sorted(self._folder(path).entries)
        except FileNotFoundError:
            return []

    def exists(self, path: Path) -> bool:
        self._read_operation("exists", path)
        try:
            return path.name in self._folder(path.parent).entries
        except (FileNotFoundError, NotADirectoryError):
            return False

    def size_of(self, path: Path) -> int:
        self._read_operation("size_of", path)
        return len(self._file(path).image)

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> int:
        if create:
            return self._operate("create", path, lambda: self._open_new(path))
        self._read_operation("open", path)
        return self._descriptor(path, self._file(path), writable=write)

    def close(self, fd: int) -> None:
        if self.crashed:
            return  # what a dead process lets go of touches no disk
        if self._open.pop(fd, None) is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def size(self, fd: int) -> int:
        self._alive()
        return len(self._entry(fd).node.image)

    def read(self, fd: int, position: int, count: int) -> bytes:
        self._read_operation("read", self._entry(fd).path)
        return bytes(self._entry(fd).node.image[position : position + count])

    def read_into(self, fd: int, buffer: memoryview, position: int, *, wait: bool = True) -> int:
        self._read_operation("read", self._entry(fd).path)
        if not wait and self.rng.random() < self.cold_read_chance:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        part = self._entry(fd).node.image[position : position + len(buffer)]
        buffer[: len(part)] = part
        return len(part)

    def expect_reads(self, fd: int, position: int, count: int) -> None:
        self._read_operation("expect", self._entry(fd).path)

    def write_and_sync(self, fd: int, position: int, buffers: Sequence[Buffer], *, sync: bool) -> int:
        entry = self._entry(fd)
        if not entry.writable:
            return errno.EBADF
        data = b"".join(buffers)
        cut = self.rng.randrange(len(data)) if data else 0
        code = self._operate(
            "write",
            entry.path,
            lambda: self._write(entry, position, data),
            lambda: self._write(entry, position, data[:cut]),
        )
        return code or (-self._sync(entry) if sync else 0)

    def sync(self, fd: int) -> None:
        self.raise_code(self._sync(self._entry(fd)))

    def truncate(self, fd: int, size: int) -> None:
        entry = self._entry(fd)
        self._operate("truncate", entry.path, lambda: entry.node.truncate(size))

    def sync_folder(self, path: Path) -> None:
        folder = self._folder(path)
        self._room_for_descriptor(path)
        self._operate("sync_folder", path, folder.sync, lambda: folder.write_back(self.rng))

    def rename(self, source: Path, target: Path) -> None:
        self._operate("rename", source, lambda: self._rename(source, target))

    def remove(self, path: Path) -> None:
        folder = self._folder(path.parent)

        def unlink() -> None:
            folder.change(Change(removed=(path.name, self._file(path))))

        self._operate("remove", path, unlink)

    def remove_folder(self, path: Path) -> None:
        def unlink() -> None:
            folder = self._folder(path)
            if folder.entries:
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))
            self._folder(path.parent).change(Change(removed=(path.name, folder)))

        self._operate("remove_folder", path, unlink)

    def lock(self, path: Path) -> int:
        def hold() -> int:
            made = path.name not in self._folder(path.parent).entries
            fd = self._open_new(path) if made else self._descriptor(path, self._file(path), writable=True)
            entry = self._open[fd]
            if any(other.locked and other.node is entry.node for other in self._open.values()):
                del self._open[fd]
                raise FolderInUse(path.parent, _PID)
            entry.locked = True
            entry.node.truncate(0)
            entry.node.write(0, b"%d\n" % _PID)
            return fd

        return self._operate("lock", path, hold)

    # Operations, faults and crashes.

    def _operate(
        self, kind: str, path: Path, effect: Callable[[], _T], partly: Callable[[], object] | None = None
    ) -> _T:
        """Count an operation and carry it out, unless this is where the crash comes."""
        self._alive()
        self.operations += 1
        if self.trace is not None:
            self.trace.append(f"{self.operations:6} {kind:13} {path}")
        if self.operations == self.crash_at:
            self._crash(effect, partly)
        if kind not in ("write", "sync"):
            fault = self._fault(kind, path)
            if fault is not None:
                raise OSError(fault.code, os.strerror(fault.code), str(path))
        return effect()

    def _crash(self, effect: Callable[[], object], partly: Callable[[], object] | None) -> None:
        try:
            if self.crash_phase is Phase.MIDDLE and partly is not None:
                partly()
            elif self.crash_phase is Phase.AFTER or (
                self.crash_phase is Phase.MIDDLE and self.rng.random() < 0.5
            ):
                effect()
        except (OSError, FolderInUse):
            pass  # the operation would have failed; nobody will hear of it
        self.crashed = True
        if self.trace is not None:
            self.trace.append(f"       crash {self.crash_phase.value} it")
        raise Crashed

    def _alive(self) -> None:
        if self.crashed:
            raise Crashed

    def _read_operation(self, kind: str, path: Path) -> None:
        if self.count_reads:
            self._operate(kind, path, lambda: None)
        else:
            self._alive()

    def _fault(self, kind: str, path: Path) -> _Fault | None:
        for fault in self._faults:
            if fault.kind == kind and fnmatch(str(path), fault.pattern):
                fault.times -= 1
                self._failed = True
                if not fault.times:
                    self._faults.remove(fault)
                return fault
        return None

    def _write(self, entry: _Descriptor, position: int, data: bytes) -> int:
        code, room = 0, len(data)
        fault = self._fault("write", entry.path)
        if fault is not None:
            code, room = fault.code, min(room, fault.after_bytes)
        if self.capacity_bytes is not None:
            left = max(self.capacity_bytes - self.used_bytes(), 0) + len(entry.node.image) - position
            if left < room:
                code, room = errno.ENOSPC, max(left, 0)
        entry.node.write(position, data[:room])
        if self.rng.random() < self.write_back_chance:
            entry.node.write_back(self.rng)
        return code

    def _sync(self, entry: _Descriptor) -> int:
        """Zero, or the errno with which the sync failed."""

        def sync() -> int:
            fault = self._fault("sync", entry.path)
            if fault is None:
                entry.node.sync()
                return 0
            entry.node.fail_sync(self.rng)
            return fault.code

        return self._operate("sync", entry.path, sync, lambda: entry.node.write_back(self.rng))

    # Names and descriptors.

    def _successor(self, rng: Random, root: FolderNode) -> FaultyFiles:
        disk = FaultyFiles(rng.getrandbits(32), root=root)
        disk.count_reads = self.count_reads
        disk.cold_read_chance = self.cold_read_chance
        disk.write_back_chance = self.write_back_chance
        disk.trace = self.trace
        return disk

    def _nodes(self) -> list[FileNode]:
        found: list[FileNode] = []
        folders = [self.root]
        while folders:
            for _, node in sorted(folders.pop().entries.items()):
                if isinstance(node, FileNode):
                    found.append(node)
                else:
                    folders.append(node)
        return found

    def _folder(self, path: Path) -> FolderNode:
        self._alive()
        node: Node = self.root
        for name in path.parts[1:]:
            if isinstance(node, FileNode):
                break
            if name not in node.entries:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            node = node.entries[name]
        if isinstance(node, FileNode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        return node

    def _file(self, path: Path) -> FileNode:
        node = self._folder(path.parent).entries.get(path.name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        if isinstance(node, FolderNode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        return node

    def _open_new(self, path: Path) -> int:
        folder = self._folder(path.parent)
        if path.name in folder.entries:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        self._room_for_descriptor(path)
        node = FileNode()
        folder.change(Change(added=(path.name, node)))
        return self._descriptor(path, node, writable=True)

    def _rename(self, source: Path, target: Path) -> None:
        old, new = self._folder(source.parent), self._folder(target.parent)
        if source.name not in old.entries:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
        node, there = old.entries[source.name], new.entries.get(target.name)
        if isinstance(there, FolderNode) and (there.entries or isinstance(node, FileNode)):
            code = errno.ENOTEMPTY if there.entries else errno.EISDIR
            raise OSError(code, os.strerror(code), str(target))
        if old is new:
            old.change(Change(removed=(source.name, node), added=(target.name, node)))
        else:
            new.change(Change(added=(target.name, node)))
            old.change(Change(removed=(source.name, node)))

    def _room_for_descriptor(self, path: Path) -> None:
        if self.open_files_max is not None and len(self._open) >= self.open_files_max:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))

    def _descriptor(self, path: Path, node: FileNode, *, writable: bool) -> int:
        self._room_for_descriptor(path)
        fd = self._next_descriptor
        self._next_descriptor += 1
        self._open[fd] = _Descriptor(path, node, writable)
        return fd

    def _entry(self, fd: int) -> _Descriptor:
        self._alive()
        if fd not in self._open:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._open[fd]

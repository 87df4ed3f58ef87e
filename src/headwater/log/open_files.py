"""Descriptors of data files, shared and bounded: the longest unused are closed when there are too many."""

from __future__ import annotations

import errno
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from headwater.log.files import Files

__all__ = ["OpenFiles"]

_NO_FILES = frozenset({errno.EMFILE, errno.ENFILE})


T = TypeVar("T")


class _Held:
    __slots__ = ("fd", "unwanted", "users")

    def __init__(self, fd: int, users: int) -> None:
        self.fd = fd
        self.users = users
        self.unwanted = False


class OpenFiles:
    """Opens on the first use, closes when nobody uses a file and room is wanted."""

    def __init__(self, files: Files, count_max: int) -> None:
        self._files = files
        self._count_max = count_max
        self._held: OrderedDict[Path, _Held] = OrderedDict()

    def acquire(self, path: Path, *, write: bool = False) -> int:
        """A descriptor for reading, or writing too; give it back with `release`."""
        held = self._held.get(path)
        if held is None:
            held = self._held[path] = _Held(self._open(path, write), 1)
            self._shrink()
        else:
            self._held.move_to_end(path)
            held.users += 1
        return held.fd

    def adopt(self, path: Path, fd: int) -> None:
        """Take over a descriptor that was opened elsewhere; one user holds it."""
        self._held[path] = _Held(fd, 1)
        self._shrink()

    def release(self, path: Path) -> None:
        """One user less."""
        held = self._held[path]
        held.users -= 1
        if held.unwanted and not held.users:
            self._close(path)
        else:
            self._shrink()

    def forget(self, path: Path) -> None:
        """The file goes away: close it as soon as nobody uses it."""
        held = self._held.get(path)
        if held is None:
            return
        held.unwanted = True
        if not held.users:
            self._close(path)

    def close(self) -> None:
        """Close all, used or not."""
        for path in list(self._held):
            self._close(path)

    def make_room(self, use: Callable[[], T]) -> T:
        """Do something that opens files; if the process has too many open, unused ones are closed for it."""
        try:
            return use()
        except OSError as error:
            if error.errno not in _NO_FILES or not self._close_unused():
                raise
        return use()

    def _open(self, path: Path, write: bool) -> int:
        # A reader's descriptor may have to serve the writer later, so it is opened for both where that is allowed.
        try:
            return self.make_room(lambda: self._files.open(path, write=True))
        except PermissionError:
            if write:
                raise
            return self._files.open(path)

    def _close_unused(self) -> int:
        unused = [path for path, held in self._held.items() if not held.users]
        for path in unused:
            self._close(path)
        return len(unused)

    def _shrink(self) -> None:
        if len(self._held) <= self._count_max:
            return
        for path, held in list(self._held.items()):
            if not held.users:
                self._close(path)
                if len(self._held) <= self._count_max:
                    return

    def _close(self, path: Path) -> None:
        self._files.close(self._held.pop(path).fd)

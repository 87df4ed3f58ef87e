"""Descriptors of data files, shared and bounded: the longest unused are closed when there are too many."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from headwater.log.files import NO_FILES, Files

__all__ = ["OpenFiles"]

T = TypeVar("T")


class _Held:
    __slots__ = ("fd", "unwanted", "users")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.users = 1
        self.unwanted = False


class OpenFiles:
    """Opens on the first use, closes when nobody uses a file and room is wanted; a descriptor reads or writes."""

    def __init__(self, files: Files, count_max: int) -> None:
        self._files = files
        self._count_max = count_max
        self._held: OrderedDict[tuple[Path, bool], _Held] = OrderedDict()

    def acquire(self, path: Path, *, write: bool = False) -> int:
        """A descriptor; give it back with `release`."""
        held = self._held.get((path, write))
        if held is None:
            held = _Held(self.make_room(lambda: self._files.open(path, write=write)))
            self._held[path, write] = held
            self._shrink()
        else:
            self._held.move_to_end((path, write))
            held.users += 1
        return held.fd

    def adopt(self, path: Path, fd: int) -> None:
        """Take over a descriptor for writing that was opened elsewhere; one user holds it."""
        self._held[path, True] = _Held(fd)
        self._shrink()

    def release(self, path: Path, *, write: bool = False) -> None:
        """One user less."""
        held = self._held[path, write]
        held.users -= 1
        if held.unwanted and not held.users:
            self._close((path, write))
        else:
            self._shrink()

    def forget(self, path: Path) -> None:
        """The file goes away: close it as soon as nobody uses it."""
        for key in ((path, False), (path, True)):
            held = self._held.get(key)
            if held is not None:
                held.unwanted = True
                if not held.users:
                    self._close(key)

    def close(self) -> None:
        """Close all, used or not."""
        for key in list(self._held):
            self._close(key)

    def make_room(self, use: Callable[[], T]) -> T:
        """Do something that opens files; if the process has too many open, unused ones are closed for it."""
        try:
            return use()
        except OSError as error:
            if error.errno not in NO_FILES or not self._close_unused():
                raise
        return use()

    def _close_unused(self) -> int:
        unused = [key for key, held in self._held.items() if not held.users]
        for key in unused:
            self._close(key)
        return len(unused)

    def _shrink(self) -> None:
        if len(self._held) <= self._count_max:
            return
        for key, held in list(self._held.items()):
            if not held.users:
                self._close(key)
                if len(self._held) <= self._count_max:
                    return

    def _close(self, key: tuple[Path, bool]) -> None:
        self._files.close(self._held.pop(key).fd)

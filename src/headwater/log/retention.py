"""Taking old segments off the disk: which ones, and how, so that a crash leaves no gap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from headwater.errors import StorageError
from headwater.log.files import Files, storage_error
from headwater.log.index import last_time
from headwater.log.intake import OnDone
from headwater.log.partition import Partition
from headwater.log.segment import INDEX_SUFFIX, REMOVED_SUFFIX

__all__ = ["Removal", "RetentionHolds", "TreeRemoval", "enforce_retention"]

RetentionHolds: TypeAlias = Callable[[Partition, int], int | None]
"""Gives the first offset of a partition that somebody still needs; None if there is none.

It is called with where the last `retention_hold_bytes_max` begin of what is to go: nothing below that is held back.
"""


class Removal:
    """Segments of one partition on their way out: renamed, the folder synced, the answer given, then unlinked."""

    def __init__(self, files: Files, folder: Path, paths: Sequence[Path], on_done: OnDone) -> None:
        self._files = files
        self._folder = folder
        self._paths = paths
        self._on_done = on_done
        self._error: StorageError | None = None

    def run(self) -> None:
        """Rename oldest first; on a thread. Opening removes all that is older than a removed one."""
        removed = []
        try:
            for path in self._paths:
                target = path.with_name(path.name + REMOVED_SUFFIX)
                if self._files.exists(path):  # else an attempt that failed came as far as that
                    self._files.rename(path, target)
                removed.append(target)
            self._files.sync_folder(self._folder)
        except FileNotFoundError:
            return  # the log was deleted meanwhile, and all of it goes
        except OSError as error:
            self._error = storage_error(error.errno or 0, self._folder)
            return
        self._unlink(removed)

    def apply(self) -> None:
        """Give the answer."""
        self._on_done(self._error)

    def _unlink(self, removed: list[Path]) -> None:
        # Opening finishes what fails here.
        try:
            for path in [*removed, *(path.with_suffix(INDEX_SUFFIX) for path in self._paths)]:
                if self._files.exists(path):
                    self._files.remove(path)
        except OSError:
            return


class TreeRemoval:
    """The folder of a deleted log, under the name that says so."""

    def __init__(self, files: Files, folder: Path) -> None:
        self._files = files
        self._folder = folder

    def run(self) -> None:
        """Unlink; on a thread. Opening finishes what fails here."""
        try:
            self._files.remove_tree(self._folder)
        except OSError:
            return

    def apply(self) -> None:
        """Nobody waits for it."""


def enforce_retention(
    partition: Partition, now_ms: int, on_done: OnDone, holds: RetentionHolds | None = None
) -> None:
    """Let the segments go that are too old or too many; a newest one that is all too old first gets a successor.

    `on_done` tells of what went; what could not go is tried again the next time.
    """
    if partition.read_only or not partition.segments:
        return
    count = _surplus(partition, now_ms)
    if count and holds is not None:
        count = _not_held(partition, count, holds)
    partition.remove_oldest(count, on_done)


def _surplus(partition: Partition, now_ms: int) -> int:
    """How many of the oldest segments are beyond the bounds."""
    settings = partition.settings
    count = 0
    if settings.max_bytes is not None:
        size = partition.size_bytes
        for segment in partition.segments[:-1]:
            if size <= settings.max_bytes:
                break
            size -= segment.size
            count += 1
    if settings.max_age_ms is not None:
        before_ms = now_ms - settings.max_age_ms
        while count < len(partition.segments) - 1 and _last_time(partition, count) < before_ms:
            count += 1
        newest = partition.segments[-1]
        if partition.committed_offset > newest.first_offset and partition.timestamp_ms_max < before_ms:
            partition.roll()
    return count


def _not_held(partition: Partition, count: int, holds: RetentionHolds) -> int:
    """How many of these oldest segments nobody holds back, or would beyond the limit."""
    segments, left_bytes = partition.segments, partition.settings.retention_hold_bytes_max
    at_limit = count
    while at_limit and segments[at_limit - 1].size <= left_bytes:
        at_limit -= 1
        left_bytes -= segments[at_limit].size
    needed = holds(partition, segments[at_limit].first_offset)
    if needed is None:
        return count
    while count > at_limit and segments[count].first_offset > needed:
        count -= 1
    return count


def _last_time(partition: Partition, number: int) -> int:
    return last_time(partition.owner.indexes.entries(partition.segments[number]))

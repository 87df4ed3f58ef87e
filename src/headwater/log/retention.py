"""Taking old segments off the disk: which ones, and how, so that a crash leaves no gap."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headwater.errors import StorageError
from headwater.log.files import Files, storage_error
from headwater.log.index import last_time
from headwater.log.intake import OnDone
from headwater.log.partition import Partition
from headwater.log.segment import INDEX_SUFFIX, REMOVED_SUFFIX

__all__ = ["Removal", "TreeRemoval", "enforce_retention"]


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


def enforce_retention(partition: Partition, now_ms: int, on_done: OnDone) -> None:
    """Let the segments go that are too old or too many; a newest one that is all too old first gets a successor.

    `on_done` tells of what went; what could not go is tried again the next time.
    """
    settings = partition.settings
    if partition.read_only or not partition.segments:
        return
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
    partition.remove_oldest(count, on_done)


def _last_time(partition: Partition, number: int) -> int:
    return last_time(partition.owner.indexes.entries(partition.segments[number]))

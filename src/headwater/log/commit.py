"""From gathered to durable: one write to one segment, and what it reports back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from headwater.errors import StorageError, SyncFailed
from headwater.log.committer import PlainWrite, WriteJob
from headwater.log.files import NO_FILES, Buffer, Files, storage_error
from headwater.log.intake import OnDone
from headwater.log.open_files import OpenFiles
from headwater.log.segment import Segment
from headwater.log.segment_syncs import SegmentSyncs

__all__ = ["Commit", "PartitionId", "SealedChunk"]


class PartitionId(msgspec.Struct, frozen=True, gc=False):
    """Which partition of which log, by the numbers that name its folder."""

    log_id: int
    number: int

    def __str__(self) -> str:
        return f"{self.log_id}/{self.number}"


class SealedChunk(msgspec.Struct, frozen=True):
    """A chunk in a commit, with what the partition must know once it is on disk."""

    type: int
    first_offset: int
    records: int
    position: int
    timestamp_ms_max: int
    deliver_bytes: int
    """Header and data: what consumers get."""
    whole: memoryview
    """Header, data and trailer, as they are written."""
    publishers: Mapping[bytes, int]
    offsets: Mapping[bytes, int]
    waiting: Sequence[OnDone]


class Commit(WriteJob):
    """Consecutive chunks of one partition on their way into one segment, which may have to be made first."""

    __slots__ = (
        "_files",
        "_finished",
        "_segment_syncs",
        "buffers",
        "chunks",
        "creates",
        "end",
        "error",
        "fd",
        "index_bytes",
        "index_position",
        "partition_id",
        "position",
        "previous",
        "sealed_at_s",
        "segment",
        "sync_failed",
        "syncs",
        "waiting",
    )

    def __init__(
        self,
        files: Files,
        segment_syncs: SegmentSyncs,
        partition_id: PartitionId,
        segment: Segment,
        finished: Callable[[Commit], None],
    ) -> None:
        self._files = files
        self._segment_syncs = segment_syncs
        self.partition_id = partition_id
        self._finished = finished
        self.segment = segment
        self.previous: Path | None = None
        """The segment before, when this commit makes a new one: it is synced first."""
        self.creates = False
        self.fd = -1
        self.position = segment.size
        self.end = segment.size
        self.syncs = True
        """Whether the segment is synced here: not in `memory` mode, and not when the journal is."""
        self.buffers: list[Buffer] = []
        self.chunks: list[SealedChunk] = []
        self.waiting: list[OnDone] = []
        """Appends of duplicates whose originals are in this commit."""
        self.index_bytes = b""
        """Entries of earlier chunks that go to the index file along the way."""
        self.index_position = 0
        self.error: StorageError | None = None
        self.sync_failed = False
        self.sealed_at_s = time.monotonic()

    @property
    def byte_count(self) -> int:
        """Bytes that go to the segment."""
        return self.end - self.position

    def all_waiting(self) -> list[OnDone]:
        """All that asked to be called, in the order in which they came."""
        return [on_done for chunk in self.chunks for on_done in chunk.waiting] + self.waiting

    def run(self) -> None:
        """Write, and sync; on a thread."""
        path = self.segment.path
        try:
            if self.creates and not self._create_segment(path):
                return
            self.wrote(self._files.write_and_sync(self.fd, self.position, self.buffers, sync=self.syncs))
            if self.creates and self.error is None:
                self._sync_folders(path.parent)
        except OSError as error:
            self.fail(storage_error(error.errno or 0, path))
        if self.index_bytes and self.error is None:
            self._write_index()

    def plain_write(self) -> PlainWrite | None:
        """The write, if neither a segment is to be made nor an index to be written."""
        if self.creates or self.index_bytes or not self._files.writes_plainly:
            return None
        return self.fd, self.position, self.buffers, self.syncs

    def wrote(self, code: int) -> None:
        """Take the result of the write."""
        path = self.segment.path
        if self.syncs:
            code = self._segment_syncs.checked(path, code)
        if code < 0:
            self.fail(SyncFailed(path), sync_failed=True)
        elif code:
            self.fail(storage_error(code, path))

    def apply(self) -> None:
        """Hand the outcome to the partition."""
        self._finished(self)

    def cut_back(self, open_files: OpenFiles) -> bool:
        """Remove what a failed write left; whether that could be done.

        It is gone durably: else a crash could bring the old bytes back behind new ones.
        """
        files, segment = self._files, self.segment
        try:
            if self.creates:
                open_files.forget(segment.path)
                if files.exists(segment.path):
                    files.remove(segment.path)
                    open_files.make_room(lambda: files.sync_folder(segment.path.parent))
            else:
                fd = open_files.acquire(segment.path, write=True)
                try:
                    files.truncate(fd, segment.size)
                    self._segment_syncs.sync(segment.path, fd)
                finally:
                    open_files.release(segment.path, write=True)
        except (OSError, StorageError):
            return False
        return True

    def fail(self, error: StorageError, *, sync_failed: bool = False) -> None:
        """Note why this commit is none."""
        self.error = error
        self.sync_failed = sync_failed

    def _create_segment(self, path: Path) -> bool:
        if self.previous is not None and not self._sync_previous(self.previous):
            return False
        self._files.make_folder(path.parent)
        if self._files.exists(path):
            self._files.remove(path)  # left by an attempt that failed; nothing in it was confirmed
        self.fd = self._files.open(path, create=True)
        return True

    def _sync_previous(self, path: Path) -> bool:
        try:
            self._segment_syncs.sync_closed(path)
        except OSError as error:
            self._fail_sync(error, path)
            return False
        return True

    def _sync_folders(self, folder: Path) -> None:
        try:
            self._files.sync_folder(folder)
            if self.previous is None:
                self._files.sync_folder(folder.parent)
        except OSError as error:
            self._fail_sync(error, folder)

    def _fail_sync(self, error: OSError, path: Path) -> None:
        if error.errno in NO_FILES:  # without a descriptor there was no sync, so it may be tried again
            self.fail(storage_error(error.errno, path))
        else:
            self.fail(SyncFailed(path), sync_failed=True)

    def _write_index(self) -> None:
        # The index is a cache: what cannot be written is rebuilt later.
        path = self.segment.index.path
        try:
            fd = self._files.open(path, write=True, create=not self._files.exists(path))
            try:
                self._files.write(fd, self.index_position, self.index_bytes)
            finally:
                self._files.close(fd)
        except OSError:
            self.index_bytes = b""

"""From gathered to durable: one write to one segment, the threads that carry it out, and what it reports back."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Protocol

import msgspec

from headwater.encoding.chunk import CHUNK_HEADER_BYTES
from headwater.errors import StorageError, SyncFailed
from headwater.log.files import Buffer, Files, storage_error
from headwater.log.intake import OnDone
from headwater.log.segment import Segment

__all__ = ["Commit", "Committer", "Job", "PartitionId", "SealedChunk", "ThreadedCommitter"]


class Job(Protocol):
    """I/O that a thread carries out: `run` there, then `apply` where the partitions live."""

    def run(self) -> None:
        """Do the I/O; keeps errors instead of raising them."""

    def apply(self) -> None:
        """Report what came of it."""


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
    deliver: memoryview
    """Header and data: what consumers at the tail get."""
    publishers: Mapping[bytes, int]
    offsets: Mapping[bytes, int]
    waiting: Sequence[OnDone]

    @property
    def data_bytes(self) -> int:
        """Bytes of its entries."""
        return len(self.deliver) - CHUNK_HEADER_BYTES


class Commit:
    """Consecutive chunks of one partition on their way into one segment, which may have to be made first."""

    __slots__ = (
        "_files",
        "_finished",
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
        "segment",
        "sync_failed",
        "syncs",
        "waiting",
    )

    def __init__(
        self, files: Files, partition_id: PartitionId, segment: Segment, finished: Callable[[Commit], None]
    ) -> None:
        self._files = files
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
            code = self._files.write_and_sync(self.fd, self.position, self.buffers, sync=self.syncs)
            if code < 0:
                self.fail(SyncFailed(path), sync_failed=True)
            elif code:
                self.fail(storage_error(code, path))
            elif self.creates:
                self._sync_folders(path.parent)
        except OSError as error:
            self.fail(storage_error(error.errno or 0, path))
        if self.index_bytes and self.error is None:
            self._write_index()

    def apply(self) -> None:
        """Hand the outcome to the partition."""
        self._finished(self)

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
        fd = self._files.open(path, write=True)
        try:
            self._files.sync(fd)
        except OSError:
            self.fail(SyncFailed(path), sync_failed=True)
            return False
        finally:
            self._files.close(fd)
        return True

    def _sync_folders(self, folder: Path) -> None:
        try:
            self._files.sync_folder(folder)
            if self.previous is None:
                self._files.sync_folder(folder.parent)
        except OSError:
            self.fail(SyncFailed(folder), sync_failed=True)

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


class _Broken:
    """What is left of a job that raised what no job should."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def run(self) -> None:
        """Nothing is left to do."""

    def apply(self) -> None:
        """Raise what the job raised."""
        raise self._error


class Committer(Protocol):
    """Carries out jobs, and gives them back when they are done."""

    def submit(self, job: Job) -> None:
        """Take a job; it runs soon."""

    def collect(self) -> list[Job]:
        """Jobs that are done and were not given back yet, in the order in which they ended."""

    def wait(self) -> None:
        """Return when a job is done, or at once if there is one."""

    def close(self) -> None:
        """Wait for what is under way and stop."""


class ThreadedCommitter:
    """A few threads, and an event descriptor that is readable when jobs are done."""

    def __init__(self, thread_count: int) -> None:
        self.event_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._done: deque[Job] = deque()
        self._arrived = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, name=f"commit-{number}", daemon=True)
            for number in range(thread_count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job) -> None:
        """Take a job; a free thread runs it."""
        self._queue.put(job)

    def collect(self) -> list[Job]:
        """Jobs that are done; the event descriptor is cleared first, so that none is missed."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.event_fd)
        self._arrived.clear()
        done = []
        while self._done:
            done.append(self._done.popleft())
        return done

    def wait(self) -> None:
        """Return when a job is done, or at once if there is one."""
        if not self._done:
            self._arrived.wait()

    def close(self) -> None:
        """Wait for what is under way and stop."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        os.close(self.event_fd)

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            try:
                job.run()
            except Exception as error:  # noqa: BLE001 - a fault of ours: it is raised where the owner sees it
                job = _Broken(error)
            self._done.append(job)
            self._arrived.set()
            os.eventfd_write(self.event_fd, 1)

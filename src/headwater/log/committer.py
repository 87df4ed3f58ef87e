"""The threads that carry out I/O: jobs go in, and come back when they are done."""

from __future__ import annotations

import itertools
import select
import threading
from collections import deque
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Protocol, TypeAlias

from headwater.log.commit_form import WriteQueue
from headwater.log.files import Buffer

__all__ = ["QUEUED_JOBS_MAX", "Committer", "Job", "PlainWrite", "ThreadedCommitter", "WriteJob"]

QUEUED_JOBS_MAX = 256
"""More wait until some are back: as many go into the smallest pipe there is, one page, which must never be full."""

PlainWrite: TypeAlias = tuple[int, int, Sequence[Buffer], bool]
"""Descriptor, position, buffers, and whether to sync."""


class Job(Protocol):
    """I/O that a thread carries out: `run` there, then `apply` where the partitions live."""

    def run(self) -> None:
        """Do the I/O; keeps errors instead of raising them."""

    def apply(self) -> None:
        """Report what came of it."""


class WriteJob:
    """A job that may be nothing but a write; then no thread needs the interpreter for it, unless it fails."""

    __slots__ = ()

    def run(self) -> None:
        """Do the I/O; keeps errors instead of raising them."""
        raise NotImplementedError

    def apply(self) -> None:
        """Report what came of it."""
        raise NotImplementedError

    def plain_write(self) -> PlainWrite | None:
        """What to write, to be followed by `wrote`; None if there is more to it: then `run`."""
        raise NotImplementedError

    def wrote(self, code: int) -> None:
        """Take what `Files.write_and_sync` gives; on the thread that wrote if it failed."""
        raise NotImplementedError


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

    def submit_background(self, job: Job) -> None:
        """Take a job that no commit should wait for."""

    def collect(self) -> list[Job]:
        """Jobs that are done and were not given back yet, in the order in which they ended."""

    def wait(self) -> None:
        """Return when a job is done, or at once if there is one."""

    def close(self) -> None:
        """Wait for what is under way and stop."""


class ThreadedCommitter:
    """A few threads, and a descriptor that is readable when jobs are done."""

    def __init__(self, commit_threads: int, background_threads: int) -> None:
        self._queue = WriteQueue()
        self._numbers = itertools.count()
        self._jobs: dict[int, Job] = {}
        """Handed out and not given back, by number."""
        self._queued: set[int] = set()
        """Of these, what the threads that commit have; not what runs in the background, for which no commit waits."""
        self._waiting: deque[int] = deque()
        self._background: SimpleQueue[int | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=work, name=f"{kind}-{number}", daemon=True)
            for kind, work, count in (
                ("commit", self._commit, commit_threads),
                ("background", self._do_background, background_threads),
            )
            for number in range(count)
        ]
        self._counts = commit_threads, background_threads
        for thread in self._threads:
            thread.start()

    @property
    def event_fd(self) -> int:
        """Readable while a job is done and was not collected."""
        return self._queue.done_fd

    def submit(self, job: Job) -> None:
        """Take a job; a free thread runs it."""
        number = self._keep(job)
        if len(self._queued) >= QUEUED_JOBS_MAX:
            self._waiting.append(number)
        else:
            self._hand_out(number)

    def submit_background(self, job: Job) -> None:
        """Take a job; a free thread of those that do not commit runs it."""
        self._background.put(self._keep(job))

    def collect(self) -> list[Job]:
        """Jobs that are done."""
        done = []
        for number, is_write in self._queue.collect():
            job = self._jobs.pop(number)
            self._queued.discard(number)
            if is_write:
                assert isinstance(job, WriteJob), "only these are writes"
                job.wrote(0)
            done.append(job)
        while self._waiting and len(self._queued) < QUEUED_JOBS_MAX:
            self._hand_out(self._waiting.popleft())
        return done

    def wait(self) -> None:
        """Return when a job is done, or at once if there is one."""
        poll = select.poll()
        poll.register(self.event_fd, select.POLLIN)
        poll.poll()

    def close(self) -> None:
        """Wait for what is under way and stop."""
        while self._waiting:
            self.wait()
            self.collect()
        commit_threads, background_threads = self._counts
        for _ in range(commit_threads):
            self._queue.put_stop()
        for _ in range(background_threads):
            self._background.put(None)
        for thread in self._threads:
            thread.join()
        self._queue.close()

    def _keep(self, job: Job) -> int:
        number = next(self._numbers)
        self._jobs[number] = job
        return number

    def _hand_out(self, number: int) -> None:
        job = self._jobs[number]
        self._queued.add(number)
        write = job.plain_write() if isinstance(job, WriteJob) else None
        if write is None:
            self._queue.put_call(number)
        else:
            self._queue.put_write(number, *write)

    def _commit(self) -> None:
        while (taken := self._queue.take()) is not None:
            number, code = taken
            self._do(number, code)

    def _do_background(self) -> None:
        while (number := self._background.get()) is not None:
            self._do(number, 0)

    def _do(self, number: int, code: int) -> None:
        job = self._jobs[number]
        try:
            if code:
                assert isinstance(job, WriteJob), "only these are writes"
                job.wrote(code)
            else:
                job.run()
        except Exception as error:  # noqa: BLE001 - a fault of ours: it is raised where the owner sees it
            self._jobs[number] = _Broken(error)
        self._queue.put_done(number)

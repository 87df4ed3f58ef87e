"""The threads that carry out I/O: jobs go in, and come back when they are done."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from queue import SimpleQueue
from typing import Protocol, TypeAlias

__all__ = ["Committer", "Job", "ThreadedCommitter"]


_Queue: TypeAlias = "SimpleQueue[Job | None]"


class Job(Protocol):
    """I/O that a thread carries out: `run` there, then `apply` where the partitions live."""

    def run(self) -> None:
        """Do the I/O; keeps errors instead of raising them."""

    def apply(self) -> None:
        """Report what came of it."""


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
    """A few threads, and an event descriptor that is readable when jobs are done."""

    def __init__(self, commit_threads: int, background_threads: int) -> None:
        self.event_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._commits: _Queue = SimpleQueue()
        self._background: _Queue = SimpleQueue()
        self._done: deque[Job] = deque()
        self._arrived = threading.Event()
        names = ["commit"] * commit_threads + ["background"] * background_threads
        self._threads = []
        for number, name in enumerate(names):
            queue = self._commits if name == "commit" else self._background
            thread = threading.Thread(target=self._work, args=(queue,), name=f"{name}-{number}", daemon=True)
            self._threads.append((queue, thread))
        for _, thread in self._threads:
            thread.start()

    def submit(self, job: Job) -> None:
        """Take a job; a free thread runs it."""
        self._commits.put(job)

    def submit_background(self, job: Job) -> None:
        """Take a job; a free thread of those that do not commit runs it."""
        self._background.put(job)

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
        for queue, _ in self._threads:
            queue.put(None)
        for _, thread in self._threads:
            thread.join()
        os.close(self.event_fd)

    def _work(self, queue: _Queue) -> None:
        while (job := queue.get()) is not None:
            try:
                job.run()
            except Exception as error:  # noqa: BLE001 - a fault of ours: it is raised where the owner sees it
                job = _Broken(error)
            self._done.append(job)
            self._arrived.set()
            os.eventfd_write(self.event_fd, 1)

"""The threads that carry out I/O: jobs go in, and come back when they are done."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol, TypeAlias

from headwater.log.commit_form import NativeWrite, serve

__all__ = ["Committer", "Job", "NativeJob", "ThreadedCommitter"]


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


class NativeJob(Job, Protocol):
    """A job that the commit kernel may carry out on a thread that needs no interpreter."""

    def begin_native(self) -> NativeWrite | None:
        """What to submit; None if it must be `run`."""

    def end_native(self, write: NativeWrite) -> None:
        """It is done: stands for the return of `run`, but where the partitions live."""


class Committer(Protocol):
    """Carries out jobs, and gives them back when they are done."""

    def submit(self, job: Job) -> None:
        """Take a job; it runs soon."""

    def submit_commit(self, job: NativeJob) -> None:
        """Take a job; it runs at once, if a thread is free."""

    def submit_background(self, job: Job) -> None:
        """Take a job that no commit should wait for."""

    def collect(self) -> list[Job]:
        """Jobs that are done and were not given back yet, in the order in which they ended."""

    def wait(self) -> None:
        """Return when a job is done, or at once if there is one."""

    def close(self) -> None:
        """Wait for what is under way and stop."""


class ThreadedCommitter:
    """A few threads of each kind, and an event descriptor that is readable when jobs are done."""

    def __init__(self, commit_threads: int, background_threads: int) -> None:
        self.event_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._commits: _Queue = SimpleQueue()
        self._background: _Queue = SimpleQueue()
        self._done: deque[Job] = deque()
        self._native: list[tuple[NativeWrite, NativeJob]] = []
        self._native_queue, self._native_queue_end = os.pipe2(os.O_CLOEXEC)
        self._arrived = select.poll()
        self._arrived.register(self.event_fd, select.POLLIN)
        self._threads = [
            *self._start("commit", commit_threads, self._work, self._commits),
            *self._start("background", background_threads, self._work, self._background),
            *self._start("native", commit_threads, serve, self._native_queue, self.event_fd),
        ]
        self._stops = [self._commits] * commit_threads + [self._background] * background_threads

    def submit(self, job: Job) -> None:
        """Take a job; a free thread runs it."""
        self._commits.put(job)

    def submit_commit(self, job: NativeJob) -> None:
        """Take a job; a free thread runs it, one without the interpreter if that can be."""
        write = job.begin_native()
        if write is None:
            self.submit(job)
        else:
            self._native.append((write, job))
            write.submit(self._native_queue_end)

    def submit_background(self, job: Job) -> None:
        """Take a job; a free thread of those that do not commit runs it."""
        self._background.put(job)

    def collect(self) -> list[Job]:
        """Jobs that are done; the event descriptor is cleared first, so that none is missed."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.event_fd)
        done = self._collect_native()
        while self._done:
            done.append(self._done.popleft())
        return done

    def wait(self) -> None:
        """Return when a job is done, or at once if there is one."""
        self._arrived.poll()

    def close(self) -> None:
        """Wait for what is under way and stop."""
        for queue in self._stops:
            queue.put(None)
        os.close(self._native_queue_end)
        for thread in self._threads:
            thread.join()
        os.close(self._native_queue)
        os.close(self.event_fd)

    @staticmethod
    def _start(
        name: str, count: int, target: Callable[..., None], *arguments: object
    ) -> list[threading.Thread]:
        threads = [
            threading.Thread(target=target, args=arguments, name=f"{name}-{number}", daemon=True)
            for number in range(count)
        ]
        for thread in threads:
            thread.start()
        return threads

    def _collect_native(self) -> list[Job]:
        done: list[Job] = []
        if self._native:
            left = []
            for write, job in self._native:
                if write.is_done:
                    job.end_native(write)
                    done.append(job)
                else:
                    left.append((write, job))
            self._native = left
        return done

    def _work(self, queue: _Queue) -> None:
        while (job := queue.get()) is not None:
            try:
                job.run()
            except Exception as error:  # noqa: BLE001 - a fault of ours: it is raised where the owner sees it
                job = _Broken(error)
            self._done.append(job)
            os.eventfd_write(self.event_fd, 1)

"""Jobs run on threads, come back when they are done, and a fault of ours is raised where the owner sees it."""

from __future__ import annotations

import errno
import os
import select
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.log.committer import QUEUED_JOBS_MAX, PlainWrite, ThreadedCommitter, WriteJob


class Job:
    def __init__(self, go_on: threading.Event | None = None, fault: Exception | None = None) -> None:
        self.go_on, self.fault = go_on, fault
        self.thread = ""

    def run(self) -> None:
        if self.go_on is not None:
            assert self.go_on.wait(30)
        self.thread = threading.current_thread().name
        if self.fault is not None:
            raise self.fault

    def apply(self) -> None:
        pass


@pytest.fixture
def committer() -> Iterator[ThreadedCommitter]:
    committer = ThreadedCommitter(2, 1)
    yield committer
    committer.close()


def test_a_job_runs_on_a_thread_and_comes_back_once(committer: ThreadedCommitter) -> None:
    job = Job()
    committer.submit(job)
    committer.wait()
    assert committer.collect() == [job]
    assert job.thread.startswith("commit-")
    assert committer.collect() == []


def test_jobs_run_beside_each_other_and_come_back_as_they_end(committer: ThreadedCommitter) -> None:
    slow, quick = Job(threading.Event()), Job()
    committer.submit(slow)
    committer.submit(quick)
    committer.wait()
    assert committer.collect() == [quick]
    assert slow.go_on is not None
    slow.go_on.set()
    committer.wait()
    assert committer.collect() == [slow]


def test_the_descriptor_is_readable_until_what_is_done_was_collected(committer: ThreadedCommitter) -> None:
    committer.submit(Job())
    assert select.select([committer.event_fd], [], [], 30)[0]
    committer.wait()
    committer.collect()
    assert not select.select([committer.event_fd], [], [], 0)[0]


def test_what_a_job_must_not_raise_is_raised_when_it_is_applied(committer: ThreadedCommitter) -> None:
    committer.submit(Job(fault=LookupError("a fault of ours")))
    committer.wait()
    (job,) = committer.collect()
    with pytest.raises(LookupError, match="a fault of ours"):
        job.apply()
    committer.submit(after := Job())
    committer.wait()
    assert committer.collect() == [after]


def test_closing_waits_for_what_was_handed_out() -> None:
    committer = ThreadedCommitter(1, 1)
    jobs = [Job() for _ in range(20)]
    for job in jobs:
        committer.submit(job)
    committer.close()
    assert all(job.thread for job in jobs)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(committer.event_fd)


class Write(WriteJob):
    def __init__(self, fd: int, data: bytes) -> None:
        self.write = fd, 0, [data], True
        self.code: int | None = None
        self.thread = ""

    def plain_write(self) -> PlainWrite:
        return self.write

    def wrote(self, code: int) -> None:
        self.code = code
        self.thread = threading.current_thread().name


def test_a_plain_write_comes_back_with_its_result(committer: ThreadedCommitter, tmp_path: Path) -> None:
    path = tmp_path / "segment"
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    job = Write(fd, b"written")
    committer.submit(job)
    committer.wait()
    assert committer.collect() == [job]
    assert job.code == 0
    assert path.read_bytes() == b"written"
    os.close(fd)


def test_a_write_that_fails_is_told_on_its_thread_before_anybody_else_goes_on(
    committer: ThreadedCommitter,
) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    committer.submit(job := Write(full, b"no room"))
    committer.wait()
    assert job.code == errno.ENOSPC
    assert job.thread.startswith("commit-")
    assert committer.collect() == [job]
    os.close(full)


def test_more_jobs_than_the_queue_takes_wait_until_some_are_back(committer: ThreadedCommitter) -> None:
    jobs = [Job() for _ in range(3 * QUEUED_JOBS_MAX)]
    for job in jobs:
        committer.submit(job)
    done: list[object] = []
    while len(done) < len(jobs):
        committer.wait()
        done += committer.collect()
    assert set(map(id, done)) == set(map(id, jobs))


def test_what_runs_in_the_background_keeps_no_commit_waiting(committer: ThreadedCommitter) -> None:
    blocked = threading.Event()
    background = [Job(blocked) for _ in range(2 * QUEUED_JOBS_MAX)]
    for job in background:
        committer.submit_background(job)
    commit = Job()
    committer.submit(commit)
    committer.wait()
    assert committer.collect() == [commit]
    blocked.set()


def test_closing_waits_for_all_that_was_submitted() -> None:
    committer = ThreadedCommitter(1, 1)
    jobs = [Job() for _ in range(2 * QUEUED_JOBS_MAX)]
    for job in jobs:
        committer.submit(job)
    committer.close()
    assert all(job.thread for job in jobs)

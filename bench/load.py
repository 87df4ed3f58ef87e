"""A load of appends such as connections with reads in each turn of the loop bring, and what became of it."""

from __future__ import annotations

import asyncio
import gc
import struct
import sys
import time
from array import array
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
import uvloop

from bench.figure import percentile
from headwater.errors import StorageError
from headwater.log.commit import Commit
from headwater.log.committer import Job, ThreadedCommitter
from headwater.log.intake import OnDone
from headwater.log.journal import JournalRound
from headwater.log.partition import Partition
from headwater.log.settings import StoreSettings
from headwater.log.store import Store

__all__ = [
    "Appender",
    "CountingCommitter",
    "Load",
    "PublishBody",
    "generator_ns",
    "make_appenders",
    "open_store",
    "run_in_loop",
    "run_load",
]

SWITCH_INTERVAL_S = 0.0005
BATCH_ENTRIES = 100
APPENDS_PER_TURN = 16
WINDOW_BATCHES_MAX = 300
WINDOW_BYTES_PER_PARTITION = 12 << 20
WINDOW_BYTES = 48 << 20

_Result = TypeVar("_Result")

_COLUMNS = [bytearray([value]) * BATCH_ENTRIES for value in range(256)]


class PublishBody:
    """The messages of a Publish, whose publishing ids rise from one stamp to the next.

    The last byte of an id is its number in the batch and never changes, so a stamp writes one column of bytes.
    """

    def __init__(self, message_bytes: int) -> None:
        message = struct.pack(">I", message_bytes) + bytes(range(256)) * (message_bytes // 256 + 1)
        message = message[: 4 + message_bytes]
        self.data = bytearray(
            b"".join(struct.pack(">Q", number) + message for number in range(BATCH_ENTRIES))
        )
        self._columns = [slice(column, None, 12 + message_bytes) for column in range(7)]

    def stamp(self, batch: int) -> None:
        """Write the ids of a batch; batches are stamped in order."""
        self.data[self._columns[6]] = _COLUMNS[batch & 255]
        if not batch & 255:
            for column in range(6):
                self.data[self._columns[column]] = _COLUMNS[batch >> (48 - 8 * column) & 255]


class Target(Protocol):
    """What takes a Publish; `Partition` does."""

    def append_published(
        self,
        body: bytearray,
        start: int,
        end: int,
        count: int,
        reference: bytes | None,
        ids: bytearray,
        ids_start: int,
        on_done: OnDone,
    ) -> int:
        """Take the messages, and call when they are durable."""


class Appender:
    """A named publisher: appends some batches a turn, keeps a window of unconfirmed ones, and goes on from confirms."""

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        target: Target,
        reference: bytes,
        body: PublishBody,
        window: int,
    ) -> None:
        self._call_soon = call_soon
        self._target = target
        self._reference = reference
        self._body = body
        self._window = window
        self._sent: deque[tuple[int, bytearray]] = deque()
        self._batch = 0
        self._is_parked = True
        self.is_stopping = False
        self.error: StorageError | None = None
        self.latencies_ns = array("q")
        """Of each confirmed batch."""

    @property
    def unconfirmed(self) -> int:
        """Batches on their way."""
        return len(self._sent)

    def start(self) -> None:
        """Begin, from the next turn on."""
        self.is_stopping = False
        self.latencies_ns = array("q")
        self._is_parked = False
        self._call_soon(self.turn)

    def turn(self) -> None:
        """Append what one turn brings; without a window left, confirms go on from here."""
        sent, data = self._sent, self._body.data
        for _ in range(APPENDS_PER_TURN):
            if len(sent) >= self._window or self.is_stopping:
                self._is_parked = True
                return
            self._body.stamp(self._batch)
            self._batch += 1
            ids = bytearray(8 * BATCH_ENTRIES)
            sent.append((time.perf_counter_ns(), ids))
            self._target.append_published(
                data, 0, len(data), BATCH_ENTRIES, self._reference, ids, 0, self._confirmed
            )
        self._call_soon(self.turn)

    def _confirmed(self, error: StorageError | None) -> None:
        if error is not None:
            self.error, self.is_stopping = error, True
        sent_ns, _ = self._sent.popleft()
        self.latencies_ns.append(time.perf_counter_ns() - sent_ns)
        if self._is_parked and not self.is_stopping:
            self._is_parked = False
            self._call_soon(self.turn)


class CountingCommitter(ThreadedCommitter):
    """Counts what is committed."""

    def __init__(self, settings: StoreSettings) -> None:
        super().__init__(settings.commit_threads, settings.background_threads)
        self.syncs = 0
        self.byte_count = 0

    def submit(self, job: Job) -> None:
        """Count, and hand on."""
        if isinstance(job, Commit):
            self.syncs += 1
            self.byte_count += job.byte_count
        elif isinstance(job, JournalRound):
            self.syncs += 1
            self.byte_count += sum(commit.byte_count for commit in job.commits)
        super().submit(job)


class Load(msgspec.Struct, frozen=True):
    """What a load came to while it was on."""

    entries: int
    seconds: float
    cpu_seconds: float
    syncs: int
    byte_count: int
    latencies_ns: list[int]
    """Sorted, of batches."""

    @property
    def entries_per_s(self) -> float:
        """Confirmed entries."""
        return self.entries / self.seconds

    @property
    def bytes_per_sync(self) -> int:
        """The average commit."""
        return self.byte_count // max(1, self.syncs)

    def latency_ms(self, share: float) -> float:
        """Of confirms of batches."""
        return percentile(self.latencies_ns, share) / 1e6


def open_store(folder: Path, settings: StoreSettings | None = None) -> tuple[Store, CountingCommitter]:
    """A store on the running loop, and what counts its commits."""
    settings = settings or StoreSettings()
    committer = CountingCommitter(settings)
    return Store.open(folder, settings, committer=committer, loop=asyncio.get_running_loop()), committer


def make_appenders(partitions: Sequence[Partition], per_partition: int, message_bytes: int) -> list[Appender]:
    """Named publishers on each partition, with windows that stay within the bounds of memory."""
    loop = asyncio.get_running_loop()
    batch_bytes = BATCH_ENTRIES * (message_bytes + 4)
    bytes_each = min(WINDOW_BYTES_PER_PARTITION, WINDOW_BYTES // len(partitions)) // per_partition
    window = max(2, min(WINDOW_BATCHES_MAX, bytes_each // batch_bytes))
    return [
        Appender(loop.call_soon, partition, b"publisher-%d" % number, PublishBody(message_bytes), window)
        for partition in partitions
        for number in range(per_partition)
    ]


async def run_load(committer: CountingCommitter, appenders: Sequence[Appender], seconds: float) -> Load:
    """Let the appenders append for a while, and until something is confirmed; then wait until all is."""
    syncs, byte_count = committer.syncs, committer.byte_count
    started, cpu_started = time.perf_counter(), time.process_time()
    for appender in appenders:
        appender.start()
    await asyncio.sleep(seconds)
    while not any(appender.latencies_ns or appender.error for appender in appenders):  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    elapsed, cpu = time.perf_counter() - started, time.process_time() - cpu_started
    confirmed = sum(len(appender.latencies_ns) for appender in appenders)
    syncs, byte_count = committer.syncs - syncs, committer.byte_count - byte_count
    await drain(appenders)
    latencies = sorted(latency for appender in appenders for latency in appender.latencies_ns)
    return Load(confirmed * BATCH_ENTRIES, elapsed, cpu, syncs, byte_count, latencies)


async def drain(appenders: Sequence[Appender]) -> None:
    """Stop, and wait for the confirms that are due."""
    for appender in appenders:
        appender.is_stopping = True
    # Looking now and then costs the appenders nothing on the way.
    while any(appender.unconfirmed for appender in appenders):  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    for appender in appenders:
        if appender.error is not None:
            raise appender.error


class _Nowhere:
    """Takes what the generator makes and confirms it when asked."""

    def __init__(self) -> None:
        self.waiting: list[OnDone] = []

    def append_published(
        self,
        body: bytearray,
        start: int,
        end: int,
        count: int,
        reference: bytes | None,
        ids: bytearray,
        ids_start: int,
        on_done: OnDone,
    ) -> int:
        self.waiting.append(on_done)
        return end


def generator_ns(message_bytes: int, batches: int = 20_000) -> float:
    """What the load generator alone costs, for one entry."""
    nowhere = _Nowhere()
    ready: list[Callable[[], None]] = []
    appender = Appender(ready.append, nowhere, b"publisher", PublishBody(message_bytes), WINDOW_BATCHES_MAX)
    appender.start()
    started = time.perf_counter_ns()
    while len(appender.latencies_ns) < batches:
        while ready:
            ready.pop()()
        waiting, nowhere.waiting = nowhere.waiting, []
        for on_done in waiting:
            on_done(None)
    return (time.perf_counter_ns() - started) / (len(appender.latencies_ns) * BATCH_ENTRIES)


def run_in_loop(main: Coroutine[Any, Any, _Result]) -> _Result:
    """Run on a loop and with the settings of the server's process."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.freeze()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main)
    finally:
        gc.unfreeze()
        sys.setswitchinterval(interval)

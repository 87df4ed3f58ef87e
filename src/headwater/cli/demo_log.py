"""The first part of the demo: the log by itself, as fast as this disk and this processor let it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from headwater.cli.load import BATCH_MESSAGES, PublishLoad
from headwater.errors import StorageError
from headwater.log.partition import Partition
from headwater.log.reader import Reader
from headwater.log.store import Store

__all__ = ["append", "read_all"]

LOG = "log-alone"
PAYLOAD = b'{"order": 4711, "customer": "ada", "amount": "12.50", "currency": "EUR"}'.ljust(100)
PUBLISHER = b"demo"
WINDOW_BATCHES = 48
BATCHES_PER_TURN = 16


class Appender:
    """Keeps a bounded number of batches unconfirmed."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._load = PublishLoad(PAYLOAD)
        self._ids = bytearray(8 * BATCH_MESSAGES)
        self._room = asyncio.Event()
        self._unconfirmed = 0
        self.appended_batches = 0

    async def append_for(self, seconds: float) -> None:
        """Append until the time is up, and wait for all confirms."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(min(BATCHES_PER_TURN, WINDOW_BATCHES - self._unconfirmed)):
                self._append()
            if self._unconfirmed < WINDOW_BATCHES:
                await asyncio.sleep(0)
            else:
                self._room.clear()
                await self._room.wait()
        while self._unconfirmed:
            self._room.clear()
            await self._room.wait()

    def _append(self) -> None:
        body = self._load.stamp(self.appended_batches)
        self._partition.append_published(
            body, 0, len(body), BATCH_MESSAGES, PUBLISHER, self._ids, 0, self._confirmed
        )
        self.appended_batches += 1
        self._unconfirmed += 1

    def _confirmed(self, error: StorageError | None) -> None:
        if error is not None:
            raise error
        self._unconfirmed -= 1
        self._room.set()


async def append(folder: Path, seconds: float) -> tuple[int, int]:
    """Append for so long to a new log; gives the events that were confirmed, and the number of commits."""
    store = Store.open(folder, loop=asyncio.get_running_loop())
    try:
        partition = store.create_log(LOG).partitions[0]
        appender = Appender(partition)
        commits = 0

        def count() -> None:
            nonlocal commits
            commits += 1

        partition.on_committed.add(count)
        await appender.append_for(seconds)
    finally:
        store.close()
    return appender.appended_batches * BATCH_MESSAGES, commits


def read_all(folder: Path) -> int:
    """The events of that log, read from the first to the last with their CRCs."""
    store = Store.open(folder)
    records = 0
    try:
        with Reader(store.log(LOG).partitions[0], 0, verify=True) as reader:
            while (run := reader.read()) is not None:
                records += sum(chunk.records for chunk in run.chunks)
        store.flush()
    finally:
        store.close()
    return records

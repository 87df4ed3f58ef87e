"""A process that appends as one named publisher and reports what is confirmed, for the demo to kill."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import uvloop

from headwater.cli.load import BATCH_MESSAGES, PublishLoad
from headwater.errors import StorageError
from headwater.log.partition import Partition
from headwater.log.store import Store

__all__ = ["PAYLOAD", "PUBLISHER", "Appender"]

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
        sequence = partition.sequence(PUBLISHER)
        self.next_batch = 0 if sequence is None else (sequence + 1) // BATCH_MESSAGES
        self.confirmed_batches = self.next_batch
        self._unconfirmed = 0

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
        body = self._load.stamp(self.next_batch)
        self._partition.append_published(
            body, 0, len(body), BATCH_MESSAGES, PUBLISHER, self._ids, 0, self._confirmed
        )
        self.next_batch += 1
        self._unconfirmed += 1

    def _confirmed(self, error: StorageError | None) -> None:
        if error is not None:
            raise error
        self._unconfirmed -= 1
        self.confirmed_batches += 1
        self._room.set()


async def _write(folder: Path) -> None:
    store = Store.open(folder, loop=asyncio.get_running_loop())
    appender = Appender(store.log("orders").partitions[0])
    appending = asyncio.create_task(appender.append_for(60))
    said = -1
    while not appending.done():
        if appender.confirmed_batches != said:
            said = appender.confirmed_batches
            print(said * BATCH_MESSAGES, flush=True)
        await asyncio.sleep(0.01)
    store.close()


if __name__ == "__main__":
    uvloop.run(_write(Path(sys.argv[1])))

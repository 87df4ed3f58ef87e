"""A process that appends numbered events and writes each number to a pipe when it was confirmed.

`python confirming_child.py FOLDER COUNT BATCH DIRECT_FILES_MAX`: goes on from the number that the log holds, `BATCH`
events at a time. There are two partitions, so a `DIRECT_FILES_MAX` of 1 takes the journal's way. Each confirm is one
line `confirmed PARTITION OFFSET NUMBER`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from headwater.errors import StorageError, UnknownLog
from headwater.log.log import Log, PartitionDefinition
from headwater.log.settings import LogSettings, StoreSettings
from headwater.log.store import Store

LOG = "numbers"
PARTITIONS = (PartitionDefinition("first"), PartitionDefinition("second"))
REFERENCE = b"child"
SETTINGS = LogSettings(segment_bytes=4096, snapshot_interval_bytes=1024)


def open_log(store: Store) -> Log:
    """The log of the numbers, made on the first run."""
    try:
        return store.log(LOG)
    except UnknownLog:
        return store.create_log(LOG, kind="super_stream", partitions=PARTITIONS, settings=SETTINGS)


def entry_of(number: int) -> bytes:
    """The entry that carries a number."""
    record = b"number %d " % number + b"." * (number % 97)
    return len(record).to_bytes(4, "big") + record


def confirm(partition: int, offset: int, number: int) -> Callable[[StorageError | None], None]:
    """Tells the parent by one write, so that a trace of the process shows when."""

    def done(error: StorageError | None) -> None:
        word = "confirmed" if error is None else "refused"
        os.write(1, b"%s %d %d %d\n" % (word.encode(), partition, offset, number))

    return done


def main() -> None:
    """Append until the count is reached, or until somebody kills the process."""
    store = Store.open(Path(sys.argv[1]), StoreSettings(direct_files_max=int(sys.argv[4])))
    log = open_log(store)
    count, batch = int(sys.argv[2]), int(sys.argv[3])
    numbers = [(partition.sequence(REFERENCE) or 0) + 1 for partition in log.partitions]
    for turn in range(count):
        for index, partition in enumerate(log.partitions):
            for _ in range(batch):
                number = numbers[index]
                numbers[index] += 1
                body = number.to_bytes(8, "big") + entry_of(number)
                done = confirm(index, partition.next_offset, number)
                partition.append_published(body, 0, len(body), 1, REFERENCE, bytearray(8), 0, done)
        store.dispatch()
        store.collect()
        if batch == 1 or turn % 4 == 0:
            store.flush()
    store.close()


if __name__ == "__main__":
    main()

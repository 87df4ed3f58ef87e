"""Data folders made quickly for measurements that read: nothing is synced while they grow."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from headwater.errors import StorageError
from headwater.log.clock import wall_clock_ms
from headwater.log.files import Buffer, Files
from headwater.log.log import PartitionDefinition
from headwater.log.partition import Partition
from headwater.log.settings import LogSettings
from headwater.log.store import Store

__all__ = ["UnsyncedFiles", "append_chunks", "build_log", "entries_of"]

_FLUSH_BYTES = 8 << 20


class UnsyncedFiles(Files):
    """A disk that answers every sync at once; `os.sync` at the end makes up for it."""

    def write_and_sync(self, fd: int, position: int, buffers: Sequence[Buffer], *, sync: bool) -> int:
        """Write alone."""
        return super().write_and_sync(fd, position, buffers, sync=False)

    def sync(self, fd: int) -> None:
        """Nothing."""

    def sync_folder(self, path: Path) -> None:
        """Nothing."""


def entries_of(data_bytes: int, count: int) -> bytes:
    """Entries of equal size that fill so many bytes of chunk data."""
    size = data_bytes // count
    assert size > 4
    return ((size - 4).to_bytes(4, "big") + bytes(range(256)) * (size // 256 + 1))[:size] * count


def append_chunks(store: Store, partition: Partition, chunk: bytes, entries: int, count: int) -> None:
    """So many chunks of the same entries; the log's settings keep them apart."""
    failed: list[StorageError] = []

    def on_done(error: StorageError | None) -> None:
        if error is not None:
            failed.append(error)

    for _ in range(count):
        partition.append(chunk, entries, entries, on_done)
        if partition.uncommitted_bytes >= _FLUSH_BYTES:
            store.flush()
    store.flush()
    if failed:
        raise failed[0]


def build_log(
    folder: Path,
    *,
    chunk_data_bytes: int,
    entries: int,
    chunks: int,
    partitions: int = 1,
    logs: int = 1,
    closes: bool = True,
    settings: LogSettings | None = None,
    clock: Callable[[], int] = wall_clock_ms,
) -> None:
    """A data folder with so many chunks in each partition, all of it on disk when this returns."""
    chunk = entries_of(chunk_data_bytes, entries)
    settings = settings or LogSettings(chunk_data_bytes_max=max(64, len(chunk)))
    store = Store.open(folder, files=UnsyncedFiles(), clock=clock)
    for log_number in range(logs):
        definitions = [PartitionDefinition(f"events-{log_number}-{number}") for number in range(partitions)]
        log = store.create_log(
            f"events-{log_number}", kind="super_stream", partitions=definitions, settings=settings
        )
        for partition in log.partitions:
            append_chunks(store, partition, chunk, entries, chunks)
    if closes:
        store.close()
    else:
        store.abandon()
    os.sync()

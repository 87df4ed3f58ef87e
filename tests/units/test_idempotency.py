"""Appends under keys: found again while they are on their way, on disk, behind a new segment and after a restart."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest

from headwater.errors import EntryTooLarge, StorageError
from headwater.log.idempotency import Appended, appended_under, sequences_of
from headwater.log.partition import Partition
from headwater.log.settings import LogSettings, StoreSettings
from headwater.log.store import Store

KEY = b"0123456789abcdef"
RECORDS = (b"\x00Sw\xa1\x01a", b"\x00Sw\xa1\x01b")


def opened(folder: Path, settings: StoreSettings | None = None) -> tuple[Store, Partition]:
    store = Store.open(folder, settings=settings or StoreSettings())
    log = store.logs.get(("/", "log")) or store.create_log("log")
    return store, log.partitions[0]


def append(partition: Partition, key: bytes, fingerprint: int, records: tuple[bytes, ...] = RECORDS) -> int:
    """Append under a key as the HTTP door does; gives the first offset."""
    buffer, spans = b"".join(records), array("q")
    start = 0
    for record in records:
        spans.extend((start, start, start, start + len(record)))
        start += len(record)
    first = partition.next_offset
    sequences = sequences_of(key, Appended(first, fingerprint))
    taken = partition.append_some_spans(buffer, spans, 0, len(records), sequences=sequences)
    assert taken == len(records)
    return first


def test_a_key_is_found_before_and_after_its_commit_and_a_restart(tmp_path: Path) -> None:
    store, partition = opened(tmp_path)
    assert appended_under(partition.tracking, KEY) is None
    append(partition, b"another key     ", 1)
    assert append(partition, KEY, 2**63 - 1) == 2
    wanted = Appended(2, 2**63 - 1)
    assert appended_under(partition.tracking, KEY) == wanted
    store.flush()
    assert appended_under(partition.tracking, KEY) == wanted
    store.abandon()
    store, partition = opened(tmp_path)
    assert appended_under(partition.tracking, KEY) == wanted
    assert partition.committed_offset == 4
    store.close()


def test_a_key_outlives_the_segment_that_it_was_written_to(tmp_path: Path) -> None:
    store, partition = opened(tmp_path)
    append(partition, KEY, 7)
    store.flush()
    removed: list[StorageError | None] = []
    partition.truncate(2, removed.append)
    store.flush()
    store.close()
    assert removed == [None]
    store, partition = opened(tmp_path)
    assert partition.first_offset == 2
    assert appended_under(partition.tracking, KEY) == Appended(0, 7)
    store.close()


def test_what_goes_under_a_key_goes_into_one_chunk_or_not_at_all(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    settings = LogSettings(chunk_data_bytes_max=100, entry_bytes_max=80)
    (partition,) = store.create_log("log", settings=settings).partitions
    with pytest.raises(EntryTooLarge):
        append(partition, KEY, 1, (b"x" * 60, b"y" * 60))
    with pytest.raises(EntryTooLarge):
        append(partition, KEY, 1, (b"x" * 90,))
    assert appended_under(partition.tracking, KEY) is None
    assert partition.next_offset == 0
    append(partition, b"first           ", 1, (b"x" * 60,))
    assert append(partition, KEY, 2, (b"y" * 30, b"z" * 30)) == 1
    store.flush()
    assert partition.committed_offset == 3
    assert appended_under(partition.tracking, KEY) == Appended(1, 2)
    store.close()


def test_only_so_many_keys_are_kept_the_newest(tmp_path: Path) -> None:
    times = iter(range(1_000_000, 2_000_000))
    store = Store.open(tmp_path, settings=StoreSettings(idempotency_keys_max=4), clock=lambda: next(times))
    (partition,) = store.create_log("log").partitions
    for number in range(60):
        append(partition, b"%016d" % number, number)
        store.flush()
    kept = [n for n in range(60) if appended_under(partition.tracking, b"%016d" % n) is not None]
    assert kept == list(range(kept[0], 60)), "the newest"
    assert 4 <= len(kept) <= 4 * 5 // 4 + 8 + 1
    store.close()

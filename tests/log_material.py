"""What the tests of the log share: a machine whose disk is memory, events, answers, and everything read back."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from headwater.encoding.chunk import ChunkType
from headwater.errors import StorageError
from headwater.log.partition import Partition
from headwater.log.reader import Reader
from headwater.log.scan import ScannedChunk, SegmentScan
from headwater.log.segment import SEGMENT_HEADER_BYTES, decode_segment_header
from headwater.log.settings import LogSettings, StoreSettings
from headwater.log.store import Store
from tests.simulation.payloads import Message, make_entry, publish_body, split_chunks, split_entries
from tests.simulation.rig import DATA, Clock, SimulatedCommitter, new_disk, open_store

__all__ = [
    "DATA",
    "Answers",
    "Machine",
    "append",
    "chunks_on_disk",
    "entry",
    "pinned_bytes",
    "publish",
    "read_all",
    "read_records",
    "spread",
    "sub_batch",
    "tree_hash",
]


class Answers(list[StorageError | None]):
    """What callbacks were told, in order."""

    def __call__(self, error: StorageError | None) -> None:
        self.append(error)


class Machine:
    """A data folder on a disk in memory; its jobs run when `flush` or the committer says so."""

    def __init__(self, **bounds: int) -> None:
        self.files = new_disk(1)
        self.clock = Clock()
        self.settings = StoreSettings(**bounds)
        self.store: Store
        self.committer: SimulatedCommitter
        self.open()

    def open(self) -> None:
        """Start on what the disk holds."""
        self.store, self.committer = open_store(self.files, self.settings, self.clock, Random(1))

    def reopen(self) -> None:
        """Close in order, and start again."""
        self.store.close()
        self.open()

    def crash(self) -> None:
        """End without a word, keep all that was written, and start again."""
        self.committer.queued.clear()
        self.store.abandon()
        self.files = self.files.after_process_crash()
        self.open()

    def lose_power(self, rng: Random) -> None:
        """End without a word, keep what was synced and any part of the rest, and start again."""
        self.committer.queued.clear()
        self.store.abandon()
        self.files = self.files.after_crash(rng)
        self.open()

    def log(self, name: str = "log", **settings: Any) -> Partition:
        """The one partition of a log, which is made if it is missing."""
        if ("/", name) not in self.store.logs:
            self.store.create_log(name, settings=LogSettings(**settings))
        return self.store.log(name).partitions[0]

    def names(self, partition: Partition, suffix: str) -> list[str]:
        """The files of a partition with this suffix."""
        return [name for name in self.files.names(partition.folder) if name.endswith(suffix)]

    @contextmanager
    def held_back(self, partition: Partition, *data: bytes) -> Iterator[Answers]:
        """While these records are on their way to the disk, and not there yet."""
        answers = append(partition, *data)
        self.store.dispatch()
        assert partition.in_flight is not None
        yield answers
        self.store.flush()


def entry(record: bytes) -> bytes:
    """One record as chunk data."""
    return len(record).to_bytes(4, "big") + record


def sub_batch(identity: bytes, records: int) -> bytes:
    """An entry of several records."""
    return make_entry(identity, 0, records)


def spread(records: Sequence[tuple[bytes, bytes, bytes]]) -> tuple[bytes, array[int]]:
    """A buffer of records in two pieces with something between them, and their spans."""
    buffer, spans = b"before", array("q")
    for head, between, rest in records:
        start = len(buffer)
        buffer += head + between + rest
        spans.extend((start, start + len(head), len(buffer) - len(rest), len(buffer)))
    return buffer + b"behind", spans


def append(partition: Partition, *records: bytes) -> Answers:
    """Append records, each by a call of its own."""
    answers = Answers()
    for record in records:
        partition.append(entry(record), 1, 1, answers)
    return answers


def publish(
    partition: Partition,
    ids: Sequence[int],
    reference: bytes | None = b"publisher",
    *,
    values: Sequence[bytes | None] | None = None,
    size: int = 0,
) -> Answers:
    """Publish messages that say their ids, of version 2 if filter values are given."""
    given: Sequence[bytes | None] = values if values is not None else [None] * len(ids)
    messages = [
        Message(number, make_entry(b"id%d" % number, size), value)
        for number, value in zip(ids, given, strict=True)
    ]
    body = publish_body(messages, filtered=values is not None)
    answers, out = Answers(), bytearray(8 * len(ids))
    end = partition.append_published(
        body, 0, len(body), len(ids), reference, out, 0, answers, filtered=values is not None
    )
    assert end == len(body)
    assert out == b"".join(number.to_bytes(8, "big") for number in ids)
    return answers


def read_all(
    partition: Partition, offset: int | None = None, *, buffer_bytes: int = 4096, verify: bool = False
) -> list[tuple[int, bytes]]:
    """Every entry from the chunk that holds an offset on, with its own offset; errors come through."""
    found = []
    start = partition.first_offset if offset is None else offset
    with Reader(partition, start, buffer=bytearray(buffer_bytes), verify=verify) as reader:
        while (run := reader.read()) is not None:
            for chunk in split_chunks(b"".join(run.deliveries)):
                at = chunk.first_offset
                for data, records in split_entries(chunk):
                    found.append((at, data))
                    at += records
    return found


def read_records(partition: Partition) -> list[bytes]:
    """The first word of every entry of one record."""
    return [data[4:].split(b" ")[0] for _, data in read_all(partition)]


def chunks_on_disk(store: Store, partition: Partition, kind: ChunkType | None = None) -> list[ScannedChunk]:
    """The chunks of all segments, checked, of one type or all."""
    found: list[ScannedChunk] = []
    for segment in partition.segments:
        fd = store.files.open(segment.path)
        head = store.files.read(fd, 0, SEGMENT_HEADER_BYTES)
        scan = SegmentScan(
            store.files, fd, store.files.size(fd), decode_segment_header(head, segment.path).salt
        )
        found += scan.chunks(SEGMENT_HEADER_BYTES, segment.path, segment.first_offset)
        store.files.close(fd)
    return [chunk for chunk in found if kind is None or chunk.header.type is kind]


def pinned_bytes(partition: Partition) -> int:
    """What the tail of a partition really holds in memory."""
    return sum(memoryview(chunk.whole.obj).nbytes for chunk in partition.tail)


def tree_hash(folder: Path) -> str:
    """Names, lengths and bytes of everything below a folder of the real disk."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        total.update(f"{path.relative_to(folder)} {path.stat().st_mtime_ns}".encode())
        total.update(path.read_bytes() if path.is_file() else b"folder")
    return total.hexdigest()

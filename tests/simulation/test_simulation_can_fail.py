"""The simulation finds engines that are broken on purpose, so its silence means something."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from headwater.encoding.chunk import ChunkHeader, Trailer, read_chunk, read_header
from headwater.errors import HeadwaterError
from headwater.log import commit, journal, recovery, retention, scan, tracking
from headwater.log.files import Buffer
from headwater.log.intake import OnDone
from headwater.log.partition import Partition
from headwater.log.segment_syncs import SegmentSyncs
from tests.simulation.faulty_files import FaultyFiles
from tests.simulation.schedule import run_schedule

Break = Callable[[pytest.MonkeyPatch], None]

SEEDS_MAX = 1500


def confirm_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    """A commit writes and confirms; its file is never synced."""
    run = commit.Commit.run

    def run_without_sync(self: commit.Commit) -> None:
        self.syncs = False
        run(self)

    patch.setattr(commit.Commit, "run", run_without_sync)


def sync_no_folder(patch: pytest.MonkeyPatch) -> None:
    """New segments are confirmed in though their names may be lost."""
    patch.setattr(commit.Commit, "_sync_folders", lambda self, folder: None)


def replay_no_journal(patch: pytest.MonkeyPatch) -> None:
    """Journals are removed without being read."""
    patch.setattr(journal, "read_records", lambda *arguments: ([], False))


def believe_the_tail(patch: pytest.MonkeyPatch) -> None:
    """Recovery takes whatever looks like a chunk."""

    def read_unchecked(buffer: bytes, position: int, salt: int = 0) -> tuple[ChunkHeader, Trailer]:
        header = read_header(buffer, position)
        mended = bytearray(buffer[position : position + header.total_bytes])
        data_end = 48 + header.data_bytes
        struct.pack_into(">I", mended, 32, zlib.crc32(mended[48:data_end]))
        crc = zlib.crc32(mended[data_end:-4], zlib.crc32(mended[:48], salt))
        struct.pack_into(">I", mended, len(mended) - 4, crc)
        return read_chunk(bytes(mended), 0, salt)

    patch.setattr(scan, "read_chunk", read_unchecked)


def keep_sequences_of_refused_batches(patch: pytest.MonkeyPatch) -> None:
    """The retry of a refused batch counts as a duplicate."""
    patch.setattr(tracking.Tracking, "roll_back", lambda self: None)


def tell_stored_offsets_at_once(patch: pytest.MonkeyPatch) -> None:
    """A stored offset is told before it is on disk."""
    told = tracking.Tracking.stored_offset
    patch.setattr(
        tracking.Tracking,
        "stored_offset",
        lambda self, reference: self.unwritten.get(reference, told(self, reference)),
    )


def leave_the_tail_in_memory(patch: pytest.MonkeyPatch) -> None:
    """What the page cache shows is believed, though the disk may not hold it."""

    def believe(self: recovery._NewestSegment, end: int) -> None:
        self._segment.size = self._found.synced_position = end
        self._found.segments = [self._segment]

    patch.setattr(recovery._NewestSegment, "_believe", believe)


def try_a_failed_sync_again(patch: pytest.MonkeyPatch) -> None:
    """A failed sync is tried once more, and its success is believed."""
    sync, write_and_sync = FaultyFiles.sync, FaultyFiles.write_and_sync

    def sync_twice(self: FaultyFiles, fd: int) -> None:
        try:
            sync(self, fd)
        except OSError:
            sync(self, fd)

    def write_and_sync_twice(
        self: FaultyFiles, fd: int, position: int, buffers: Sequence[Buffer], *, sync: bool
    ) -> int:
        code = write_and_sync(self, fd, position, buffers, sync=sync)
        if code < 0:
            sync_twice(self, fd)
        return max(code, 0)

    patch.setattr(FaultyFiles, "sync", sync_twice)
    patch.setattr(FaultyFiles, "write_and_sync", write_and_sync_twice)


def leave_failed_writes(patch: pytest.MonkeyPatch) -> None:
    """What a failed write left is not cut away."""
    patch.setattr("headwater.log.commit.Commit.cut_back", lambda self, open_files: True)


def forget_failed_syncs(patch: pytest.MonkeyPatch) -> None:
    """A segment of which a sync failed counts as durable when a later sync succeeds."""

    def sync(self: SegmentSyncs, path: Path, fd: int) -> None:
        self._files.sync(fd)

    patch.setattr(SegmentSyncs, "sync", sync)


def store_staged_blocks_again(patch: pytest.MonkeyPatch) -> None:
    """A staged commit that a crash interrupted appends what it had appended already."""
    append = Partition.append

    def append_without_sequence(
        self: Partition, entries: Buffer, count: int, records: int, on_done: OnDone, **_: object
    ) -> None:
        append(self, entries, count, records, on_done)

    patch.setattr(Partition, "append", append_without_sequence)


def answer_removals_early(patch: pytest.MonkeyPatch) -> None:
    """A truncation is answered though a crash may bring the events back."""
    run = retention.Removal.run

    def run_unsynced(self: retention.Removal) -> None:
        sync_folder = self._files.sync_folder
        self._files.sync_folder = lambda path: None  # type: ignore[method-assign]
        try:
            run(self)
        finally:
            self._files.sync_folder = sync_folder  # type: ignore[method-assign]

    patch.setattr(retention.Removal, "run", run_unsynced)


def confirm_duplicates_at_once(patch: pytest.MonkeyPatch) -> None:
    """A duplicate is confirmed though its original is still on its way."""
    patch.setattr(Partition, "when_settled", lambda self, on_done: on_done(None))


BREAKS: list[Break] = [
    confirm_before_the_sync,
    sync_no_folder,
    replay_no_journal,
    believe_the_tail,
    keep_sequences_of_refused_batches,
    leave_the_tail_in_memory,
    try_a_failed_sync_again,
    leave_failed_writes,
    forget_failed_syncs,
    store_staged_blocks_again,
    answer_removals_early,
    confirm_duplicates_at_once,
    tell_stored_offsets_at_once,
]


def first_failing_seed() -> int | None:
    """The first seed whose schedule does not hold."""
    for seed in range(SEEDS_MAX):
        try:
            run_schedule(seed)
        except (AssertionError, HeadwaterError):
            return seed
    return None


@pytest.mark.parametrize("break_it", BREAKS)
def test_the_simulation_finds_an_engine_that_is_broken(
    break_it: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(monkeypatch)
    assert first_failing_seed() is not None, f"{SEEDS_MAX} schedules did not notice: {break_it.__doc__}"

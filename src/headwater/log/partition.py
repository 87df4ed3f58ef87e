"""One partition: what is appended gathers into chunks, is committed in order, and is remembered by offset.

append ──> Intake ──> begin_commit ──> Commit (thread) ──> finish ──> confirms, index, tail
"""

from __future__ import annotations

import enum
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from headwater.encoding.chunk import ChunkType
from headwater.errors import LogBusy, OffsetBeyondEnd, PartitionDeleted, PartitionReadOnly, StorageError
from headwater.log.chunk_writer import ChunkWriter
from headwater.log.commit import Commit, PartitionId, SealedChunk
from headwater.log.committer import Job
from headwater.log.files import Buffer, Files
from headwater.log.idempotency import tracking_of
from headwater.log.index import IndexEntry
from headwater.log.index_cache import IndexCache
from headwater.log.intake import Intake, OnDone
from headwater.log.open_files import OpenFiles
from headwater.log.recovery import Recovered
from headwater.log.segment import Segment, segment_path
from headwater.log.segment_syncs import SegmentSyncs
from headwater.log.settings import LogSettings, StoreSettings
from headwater.log.tail import TailChunk, Tails
from headwater.log.tracking import Publisher

__all__ = ["Partition", "PartitionId", "PartitionOwner", "PartitionState"]

_INDEX_BATCH_BYTES = 4096
_NONE: Mapping[bytes, int] = {}


class PartitionState(enum.Enum):
    """What a partition may do."""

    OPEN = "open"
    READ_ONLY = "read-only"
    DAMAGED = "damaged"
    DELETED = "deleted"


class PartitionOwner(Protocol):
    """What all partitions of a data folder share; `Store` is it."""

    files: Files
    segment_syncs: SegmentSyncs
    open_files: OpenFiles
    indexes: IndexCache
    tails: Tails
    settings: StoreSettings
    epoch: int
    uncommitted_bytes: int
    clock: Callable[[], int]

    def mark_dirty(self, partition: Partition) -> None:
        """Something waits to be committed."""

    def call_when_room(self, call: Callable[[], None]) -> None:
        """Call once, when commits have made room for more."""

    def submit_background(self, job: Job) -> None:
        """Have a job done that no commit should wait for."""

    def events_removed(self, partition: Partition) -> None:
        """Its first offset is another one from now on."""

    def remove_segments(self, partition: Partition, removed: list[Segment], on_done: OnDone) -> None:
        """These are no longer of the partition: take them off the disk."""


class Partition:
    """Appends, commits and the segments of one partition; all calls come from one thread."""

    def __init__(
        self, owner: PartitionOwner, id: PartitionId, name: str, folder: Path, settings: LogSettings
    ) -> None:
        self.owner = owner
        self.id = id
        self.name = name
        self.folder = folder
        self.settings = settings
        self.state = PartitionState.OPEN
        self.error: StorageError | None = None
        """Why it takes no writes."""
        self.segments: list[Segment] = []
        self.intake = Intake(settings, owner.clock)
        self.committed_offset = 0
        """The end of what is durable: the first offset that consumers do not see yet."""
        self.timestamp_ms_max = 0
        self.synced_position = 0
        """Bytes of the newest segment known durable."""
        self.snapshot_position = 0
        """Where the last snapshot of the newest segment lies."""
        self.snapshot_stale = False
        """Whether sequences or stored offsets changed since that snapshot."""
        self.tracking = tracking_of(owner.settings)
        self.tail: deque[TailChunk] = deque()
        """The newest user chunks, in memory."""
        self.in_flight: Commit | None = None
        self._next_waiting: list[OnDone] = []
        """Who waits for the next commit, though nothing is appended: for stored offsets."""
        self.blocked = False
        """Set while a journal that failed is put away: no position may be used again before that."""
        self.on_committed: set[Callable[[], None]] = set()
        """Called after each commit; consumers that wait at the end are here."""
        self.on_deleted: set[Callable[[], None]] = set()
        """Called when it is gone; whoever uses it without asking is here."""
        self._truncations: list[tuple[int, OnDone]] = []
        """Truncations at the end, which wait for a new segment."""
        self._roll_due = False
        self._gave_back = False
        self._leaving: list[Segment] = []
        """Segments that are no longer of the partition, and not known to be off the disk."""
        self._removing = False
        self._removal_waiting: list[OnDone] = []

    # Appending

    def append(
        self,
        entries: Buffer,
        count: int,
        records: int,
        on_done: OnDone,
        *,
        reference: bytes | None = None,
        sequence: int = 0,
    ) -> None:
        """Append ready entries of chunk data as one whole; `on_done` is called when they are durable or refused.

        With a reference they are a duplicate, and not stored, unless the sequence is above its last one.
        """
        self.check_writable(len(entries))
        publisher = None if reference is None else self.tracking.publisher(reference)
        if publisher is None or sequence > publisher.sequence:
            before = self.intake.byte_count
            self.intake.add(entries, count, records, publisher, sequence)
            self._taken_since(before)
        self.when_settled(on_done)

    def append_published(
        self,
        body: Buffer,
        start: int,
        end: int,
        count: int,
        reference: bytes | None,
        ids: bytearray,
        ids_start: int,
        on_done: OnDone,
        *,
        filtered: bool = False,
    ) -> int:
        """Append `count` messages of a Publish body; gives the position behind them.

        Their ids are written to `ids`, 8 bytes each. With a reference, ids up to its last sequence are duplicates:
        confirmed like all others, but not before their originals, and not stored.
        """
        self.check_writable(end - start)
        publisher = None if reference is None else self.tracking.publisher(reference)
        before = self.intake.byte_count
        try:
            position = self.intake.add_published(
                body, start, end, count, publisher, ids, ids_start, filtered=filtered
            )
        finally:
            self._taken(before, publisher)
        self.when_settled(on_done)
        return position

    def append_some_published(
        self,
        body: Buffer,
        start: int,
        end: int,
        count: int,
        reference: bytes | None,
        ids: bytearray,
        *,
        filtered: bool,
    ) -> tuple[int, int]:
        """The same for as many messages as go into one chunk, and so are durable or refused as one.

        Gives the position behind them, and their number; `when_settled` says what becomes of them. A malformed message
        raises if it is the first, as does one that the log does not take (`InvalidCloudEvent`).
        """
        self.check_writable(end - start)
        publisher = None if reference is None else self.tracking.publisher(reference)
        before = self.intake.byte_count
        try:
            return self.intake.add_some_published(
                body, start, end, count, publisher, ids, 0, filtered=filtered
            )
        finally:
            self._taken(before, publisher)

    def append_some_spans(
        self,
        buffer: Buffer,
        spans: array[int],
        first: int,
        count: int,
        *,
        goes_on: bool = False,
        sequences: Mapping[bytes, int] = _NONE,
    ) -> int:
        """Append as many of the records that spans of a buffer tell of as go into one chunk; gives their number.

        `_span_kernel.py` draws the spans. `when_settled` says what becomes of the records. One that is too large raises
        `EntryTooLarge` if it is the first, one that the log does not take `InvalidCloudEvent`. What `goes_on` with
        something that was begun is taken without room, too. With sequences all go into one chunk, and are on disk with
        these or not at all; raises `EntryTooLarge`, too.
        """
        self.check_writable(0 if goes_on else count)
        before = self.intake.byte_count
        publishers: Iterable[tuple[Publisher, int]] = ()
        if sequences:
            self.intake.make_room_for_whole(spans, first, count)
            publishers = ((self.tracking.publisher(each), last) for each, last in sequences.items())
        taken = self.intake.add_some_spans(buffer, spans, first, count, publishers)
        self._taken_since(before)
        return taken

    def store_offset(self, reference: bytes, offset: int) -> None:
        """Remember an offset under a reference; durable with the next commit."""
        self.check_writable(0)
        self.tracking.store_offset(reference, offset)
        self._gave_back = False
        self.owner.mark_dirty(self)

    def when_settled(self, on_done: OnDone) -> None:
        """Call back when all appended or stored so far is durable or refused; at once if nothing is under way."""
        if self.intake.wait(on_done):
            return
        if self.wants_commit:
            self._next_waiting.append(on_done)
        elif self.in_flight is None:
            on_done(None)
        else:
            self.in_flight.waiting.append(on_done)

    def sequence(self, reference: bytes) -> int | None:
        """The last publishing id of a reference that is on disk."""
        return self.tracking.sequence(reference)

    def stored_offset(self, reference: bytes) -> int | None:
        """The offset of a reference that is on disk."""
        return self.tracking.stored_offset(reference)

    def check_writable(self, byte_count: int) -> None:
        """Raise what an append of so many bytes would: nothing is taken without room, or of what is no longer open."""
        if self.error is not None:
            if self.state is PartitionState.DELETED:
                raise PartitionDeleted(self.name)
            raise PartitionReadOnly(self.name, str(self.error))
        if byte_count and not self.has_room:
            raise LogBusy(self.uncommitted_bytes, self.owner.settings.partition_uncommitted_bytes_max)

    # What is here

    @property
    def is_unused(self) -> bool:
        """Whether it has never held anything, and nothing is on its way to it."""
        return not (self.segments or self.in_flight or self.dirty or self._leaving)

    @property
    def read_only(self) -> bool:
        """Whether writes are refused."""
        return self.state is not PartitionState.OPEN

    @property
    def first_offset(self) -> int:
        """The oldest offset that is kept."""
        return self.segments[0].first_offset if self.segments else self.committed_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    @property
    def next_offset(self) -> int:
        """The offset that the next record gets."""
        return self.intake.next_offset

    @property
    def uncommitted_bytes(self) -> int:
        """Bytes of entries that were taken and are not durable yet."""
        return self.intake.byte_count + (self.in_flight.byte_count if self.in_flight else 0)

    @property
    def has_room(self) -> bool:
        """Whether an append would be taken now, as far as bounds of memory go."""
        settings = self.owner.settings
        return (
            self.uncommitted_bytes < settings.partition_uncommitted_bytes_max
            and self.owner.uncommitted_bytes < settings.uncommitted_bytes_max
        )

    def newest_segment(self) -> Segment | None:
        """The one that is written to; None before the first commit."""
        return self.segments[-1] if self.segments else None

    def change_settings(self, settings: LogSettings) -> None:
        """Go on with these; what is on its way keeps to the old ones."""
        assert settings.durability == self.settings.durability, "what is synced is known by it"
        self.settings = settings
        self.intake.change_settings(settings)

    # Removing

    def truncate(self, before_offset: int, on_done: OnDone) -> None:
        """Remove the segments that hold only events before an offset; with the end as offset, all events.

        Whole segments go, so up to a segment of events before the offset may stay, unless it is the end and nothing
        is being appended.
        """
        self.check_writable(0)
        if before_offset > self.committed_offset:
            raise OffsetBeyondEnd(self.name, before_offset, self.committed_offset)
        newest = self.newest_segment()
        if newest is not None and newest.first_offset < before_offset == self.committed_offset:
            self._truncations.append((before_offset, on_done))
            self.roll()
        else:
            self._remove_before(before_offset, on_done)

    def roll(self) -> None:
        """Go on in a new segment, so that the newest one can be removed."""
        self._roll_due = True
        self.owner.mark_dirty(self)

    def remove_oldest(self, count: int, on_done: OnDone) -> None:
        """Let the oldest segments go; the newest one never does. The answer covers what goes already."""
        count = min(count, len(self.segments) - 1)
        if count > 0:
            self._leaving += self.segments[:count]
            self.segments = self.segments[count:]
            self.owner.events_removed(self)
        if not self._leaving:
            on_done(None)
            return
        self._removal_waiting.append(on_done)
        if not self._removing:
            self._remove_leaving()

    def stop(self, error: StorageError, state: PartitionState) -> None:
        """Take no more writes, and refuse what waits; what is in flight ends first."""
        if self.state is not PartitionState.DELETED:
            self.state = state
            self.error = error
        if self.in_flight is None:
            self.refuse_gathered(error)

    # Committing

    @property
    def dirty(self) -> bool:
        """Whether something waits to be committed."""
        return bool(self.intake) or bool(self.tracking.unwritten) or self._roll_due

    @property
    def wants_commit(self) -> bool:
        """Whether a commit is due now. Stored offsets that a failed one gave back wait for the next call to append or
        store: the disk may be full for long."""
        return self.dirty and not (self._gave_back and not self.intake and not self._roll_due)

    def begin_commit(self, now_ms: int, *, snapshot: bool = False) -> Commit | None:
        """Seal what was gathered into a commit; None if there is nothing, or the partition cannot write now."""
        if self.in_flight is not None or self.blocked or self.read_only or not (self.dirty or snapshot):
            return None
        writer = ChunkWriter(
            self.owner.epoch, now_ms, max(self.timestamp_ms_max, now_ms), self.settings.filter_bytes
        )
        newest = self.newest_segment()
        if newest is None or self._roll_due or newest.size >= self.settings.segment_bytes:
            commit = self._begin_segment(writer)
            snapshot = True
        else:
            commit = self._continue_segment(writer, newest)
            snapshot = snapshot or self._snapshot_due(newest)
        if snapshot:
            writer.add_snapshot(self.committed_offset, *self.tracking.snapshot(now_ms))
        self._seal(writer, commit)
        commit.buffers, commit.chunks, commit.end = writer.buffers, writer.chunks, writer.position
        # A new segment is durable before older ones may go, in `memory` mode too.
        commit.syncs = self.settings.durability == "disk" or commit.creates
        self.in_flight = commit
        self.owner.uncommitted_bytes += commit.byte_count
        return commit

    def finish(self, commit: Commit) -> None:
        """Apply what became of the commit in flight."""
        self.in_flight = None
        self.owner.uncommitted_bytes -= commit.byte_count
        self._give_back_descriptor(commit)
        if commit.error is None:
            self._committed(commit)
        else:
            self._take_back(commit, commit.error)
        if self.error is not None:
            self.refuse_gathered(self.error)
        elif self.wants_commit:
            self.owner.mark_dirty(self)

    def refuse_gathered(self, error: StorageError) -> None:
        """Refuse what was gathered; offsets and sequences are those on disk again."""
        self.owner.uncommitted_bytes -= self.intake.byte_count
        waiting = [on_done for gathering in self.intake.take() for on_done in gathering.waiting]
        waiting += [on_done for _, on_done in self._truncations]
        waiting += self._next_waiting
        self._truncations, self._next_waiting = [], []
        self._roll_due = False
        self.intake.go_back(self.committed_offset)
        self.tracking.roll_back()
        for on_done in waiting:
            on_done(error)

    def take_over(self, recovered: Recovered) -> None:
        """Go on where recovery says the disk ends."""
        self.segments = recovered.segments
        self.committed_offset = self.intake.next_offset = recovered.end_offset
        self.timestamp_ms_max = recovered.timestamp_ms_max
        self.synced_position = recovered.synced_position
        self.snapshot_position = recovered.snapshot_position
        self.snapshot_stale = recovered.snapshot_stale
        if recovered.damage is not None:
            self.state, self.error = PartitionState.DAMAGED, recovered.damage

    def seal(self) -> None:
        """Nothing is appended any more: let the index say so, if all is durable."""
        newest = self.newest_segment()
        if newest is None or self.read_only or newest.index.sealed:
            return
        if self.synced_position < newest.size:
            try:
                self._sync(newest)
            except OSError:
                return
        newest.seal_index(self.owner.files, 0 if self.snapshot_stale else self.snapshot_position)

    def _sync(self, segment: Segment) -> None:
        fd = self.owner.open_files.acquire(segment.path, write=True)
        try:
            self.owner.segment_syncs.sync(segment.path, fd)
        finally:
            self.owner.open_files.release(segment.path, write=True)

    def _new_commit(self, segment: Segment) -> Commit:
        return Commit(self.owner.files, self.owner.segment_syncs, self.id, segment, self.finish)

    def _begin_segment(self, writer: ChunkWriter) -> Commit:
        first = self.committed_offset
        salt = writer.start_segment(self.id.log_id, self.id.number, first)
        commit = self._new_commit(Segment(segment_path(self.folder, first), first, 0, salt))
        commit.creates = True
        newest = self.newest_segment()
        commit.previous = None if newest is None else newest.path
        return commit

    def _continue_segment(self, writer: ChunkWriter, newest: Segment) -> Commit:
        commit = self._new_commit(newest)
        commit.fd = self.owner.open_files.acquire(newest.path, write=True)
        writer.continue_segment(newest.size, newest.salt, self.synced_position)
        if len(newest.index.pending) >= _INDEX_BATCH_BYTES:
            commit.index_bytes = bytes(newest.index.pending)
            commit.index_position = newest.index.written_bytes
        return commit

    def _snapshot_due(self, newest: Segment) -> bool:
        return (
            newest.size - self.snapshot_position >= self.settings.snapshot_interval_bytes
            or self.tracking.crowded
        )

    def _seal(self, writer: ChunkWriter, commit: Commit) -> None:
        before = self.intake.byte_count
        gathered = self.intake.take(self.settings.commit_bytes_max)
        self.owner.uncommitted_bytes -= before - self.intake.byte_count
        commit.waiting, self._next_waiting = self._next_waiting, []
        offsets, self.tracking.unwritten = self.tracking.unwritten, {}
        for gathering in gathered:
            writer.add_gathered(gathering, offsets)
            offsets = {}
        if offsets:
            writer.add_delta(self.committed_offset, offsets)

    def _give_back_descriptor(self, commit: Commit) -> None:
        if commit.fd >= 0:
            path = commit.segment.path
            if commit.creates:
                self.owner.open_files.adopt(path, commit.fd)
            self.owner.open_files.release(path, write=True)

    def _committed(self, commit: Commit) -> None:
        segment = commit.segment
        if commit.creates:
            self._add_segment(segment)
        segment.size = commit.end
        segment.index.mark_written(len(commit.index_bytes))
        if self.settings.durability == "disk" or commit.creates:
            self.synced_position = commit.end
        for chunk in commit.chunks:
            self._note_chunk(segment, chunk)
        if commit.creates:
            self._finish_truncations()
        for on_done in commit.all_waiting():
            on_done(None)
        for call in list(self.on_committed):
            call()

    def _add_segment(self, segment: Segment) -> None:
        newest = self.newest_segment()
        if newest is not None:
            newest.seal_index(self.owner.files, 0 if self.snapshot_stale else self.snapshot_position)
        self.segments.append(segment)
        self.synced_position = 0
        self._roll_due = False

    def _note_chunk(self, segment: Segment, chunk: SealedChunk) -> None:
        entry = IndexEntry(
            chunk.first_offset, chunk.timestamp_ms_max, self.owner.epoch, chunk.position, chunk.type
        )
        self.owner.indexes.append(segment, entry)
        self.timestamp_ms_max = chunk.timestamp_ms_max
        self.committed_offset = chunk.first_offset + chunk.records
        if chunk.publishers or chunk.offsets:
            self.tracking.committed(chunk.publishers, chunk.offsets, chunk.timestamp_ms_max)
            self.snapshot_stale = True
        if chunk.records:
            kept = TailChunk(chunk.first_offset, chunk.records, chunk.deliver_bytes, chunk.whole)
            self.owner.tails.keep(self.tail, kept)
        elif chunk.type == ChunkType.SNAPSHOT:
            self.snapshot_position = chunk.position
            self.snapshot_stale = False

    def _take_back(self, commit: Commit, error: StorageError) -> None:
        """Nothing of the commit, and nothing behind it, was stored."""
        if self.error is None and (commit.sync_failed or not commit.cut_back(self.owner.open_files)):
            self.state, self.error = PartitionState.READ_ONLY, error
        if self.state is PartitionState.DELETED:
            error = PartitionDeleted(self.name)
        self._gave_back = True
        self.tracking.give_back(chunk.offsets for chunk in commit.chunks)
        waiting = commit.all_waiting()
        self.refuse_gathered(error)
        for on_done in waiting:
            on_done(error)

    def _remove_leaving(self) -> None:
        """Take segments off the disk; those that come meanwhile are next, and what fails is tried with them."""
        removed, waiting = list(self._leaving), self._removal_waiting
        self._removal_waiting = []
        self._removing = True

        def done(error: StorageError | None) -> None:
            self._removing = False
            if error is None:
                del self._leaving[: len(removed)]
            if self._removal_waiting:
                self._remove_leaving()
            for on_done in waiting:
                on_done(error)

        self.owner.remove_segments(self, removed, done)

    def _finish_truncations(self) -> None:
        truncations, self._truncations = self._truncations, []
        for before_offset, on_done in truncations:
            self._remove_before(before_offset, on_done)

    def _remove_before(self, before_offset: int, on_done: OnDone) -> None:
        count = sum(1 for newer in self.segments[1:] if newer.first_offset <= before_offset)
        self.remove_oldest(count, on_done)

    def _taken(self, before: int, publisher: Publisher | None) -> None:
        """Messages were published since the intake had so many bytes."""
        self._taken_since(before)
        if publisher is not None and publisher.sequence < 0:
            self.tracking.forget(publisher)

    def _taken_since(self, before: int) -> None:
        self.owner.uncommitted_bytes += self.intake.byte_count - before
        if self.intake:
            self.owner.mark_dirty(self)

"""Which partitions are committed when: each file synced by itself, or through the journal where there are many."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headwater.errors import StorageError
from headwater.log.commit import Commit
from headwater.log.committer import Committer, Job
from headwater.log.figures import CommitFigures
from headwater.log.files import Files, storage_error
from headwater.log.journal import Checkpoint, Journal, JournalRound
from headwater.log.partition import Partition, PartitionState
from headwater.log.segment_syncs import SegmentSyncs
from headwater.log.settings import StoreSettings

__all__ = ["CommitScheduler"]


class CommitScheduler:
    """Takes what partitions gathered to the committer, and what became of it back to them."""

    def __init__(
        self,
        files: Files,
        segment_syncs: SegmentSyncs,
        journals: Path,
        committer: Committer,
        settings: StoreSettings,
        clock: Callable[[], int],
    ) -> None:
        self._files = files
        self._segment_syncs = segment_syncs
        self._journals = journals
        self._committer = committer
        self._settings = settings
        self._clock = clock
        self._dirty: dict[Partition, None] = {}
        self._jobs = 0
        self._direct = 0
        self._round: JournalRound | None = None
        self._journal: Journal | None = None
        self._blocked: dict[Journal, list[Partition]] = {}
        self._partitions: dict[Journal, dict[Path, Partition]] = {}
        """By the segments that a journal has bytes of."""
        self._lacked_files: list[Journal] = []
        """Journals that could not be put away for want of descriptors; the next `dispatch` tries again."""
        self.next_journal_number = 1
        self.figures = CommitFigures()

    @property
    def under_way(self) -> bool:
        """Whether a job is out."""
        return self._jobs > 0

    @property
    def is_dirty(self) -> bool:
        """Whether a partition waits for the next `dispatch`."""
        return bool(self._dirty)

    def mark_dirty(self, partition: Partition) -> None:
        """The partition has something to commit at the next `dispatch`."""
        self._dirty[partition] = None

    def submit(self, job: Job) -> None:
        """Hand out a job."""
        self._jobs += 1
        self._committer.submit(job)

    def submit_background(self, job: Job) -> None:
        """Hand out a job that no commit should wait for."""
        self._jobs += 1
        self._committer.submit_background(job)

    def dispatch(self) -> None:
        """Begin commits for the partitions that are dirty and not committing already."""
        if self._dirty:
            lacked, self._lacked_files = self._lacked_files, []
            for journal in lacked:
                self._put_away(journal)
        ready = [
            partition for partition in self._dirty if partition.in_flight is None and not partition.blocked
        ]
        synced = sum(partition.settings.durability == "disk" for partition in ready)
        crowded = synced + self._direct > self._settings.direct_files_max
        alone: list[Partition] = []
        journalled: list[Partition] = []
        for partition in ready:
            (journalled if crowded and self._suits_journal(partition) else alone).append(partition)
        # A partition whose commit is in flight marks itself again when it is back.
        self._dirty = {} if self._round is None else dict.fromkeys(journalled)
        for partition in alone:
            commit = self._begin(partition)
            if commit is not None:
                self._direct += 1
                self.submit(commit)
        if journalled and self._round is None:
            self._begin_round(journalled)

    def collect(self) -> bool:
        """Apply jobs that are done; whether there were any."""
        jobs = self._committer.collect()
        faults: list[Exception] = []
        for job in jobs:
            self._jobs -= 1
            if isinstance(job, Commit):
                self._direct -= 1
                self.figures.note(job)
            try:
                job.apply()
            except Exception as fault:  # noqa: BLE001 - a fault of ours in one must not keep the others waiting
                faults.append(fault)
        if faults:
            raise faults[0]
        return bool(jobs)

    def close_journal(self) -> None:
        """Put the journal away."""
        if self._journal is not None and self._round is None:
            journal, self._journal = self._journal, None
            self._put_away(journal)

    def close(self) -> None:
        """Give the journal's descriptor back."""
        if self._journal is not None:
            self._journal.close()

    def snapshot(self, partition: Partition) -> None:
        """Commit a snapshot of a partition that has nothing else to commit."""
        commit = self._begin(partition, snapshot=True)
        if commit is not None:
            self._direct += 1
            self.submit(commit)

    def _suits_journal(self, partition: Partition) -> bool:
        return (
            partition.settings.durability == "disk"
            and partition.intake.byte_count < self._settings.direct_bytes_min
        )

    def _begin(self, partition: Partition, *, snapshot: bool = False) -> Commit | None:
        try:
            return partition.begin_commit(self._clock(), snapshot=snapshot)
        except StorageError as error:
            partition.refuse_gathered(error)
        except OSError as error:
            partition.refuse_gathered(storage_error(error.errno or 0, partition.folder))
        return None

    def _begin_round(self, partitions: list[Partition]) -> None:
        commits = []
        segments: dict[Path, Partition] = {}
        for partition in partitions:
            commit = self._begin(partition)
            if commit is not None:
                commits.append(commit)
                segments[commit.segment.path] = partition
        if not commits:
            return
        if self._journal is None:
            self._journal = Journal(self._files, self._journals, self.next_journal_number)
            self.next_journal_number += 1
        self._partitions.setdefault(self._journal, {}).update(segments)
        self._round = JournalRound(self._journal, commits, self._round_done)
        self.submit(self._round)

    def _round_done(self, round_: JournalRound) -> None:
        self._round = None
        for commit in round_.commits:
            self.figures.note(commit)
        journal = round_.journal
        if journal.failed:
            # Its records must not come back over what is written next at the same positions.
            blocked = [self._partitions[journal][commit.segment.path] for commit in round_.commits]
            for partition in blocked:
                partition.blocked = True
            self._blocked[journal] = blocked
        if journal.failed or journal.position >= self._settings.journal_bytes_max:
            self.close_journal()

    def _put_away(self, journal: Journal) -> None:
        self.submit(Checkpoint(self._files, journal, self._segment_syncs, self._checkpointed))

    def _checkpointed(self, checkpoint: Checkpoint) -> None:
        journal = checkpoint.journal
        if checkpoint.error is not None and checkpoint.lacked_files:
            self._lacked_files.append(journal)
            for partition in self._blocked.get(journal, []):
                partition.refuse_gathered(checkpoint.error)
            return
        blocked = self._blocked.pop(journal, [])
        partitions = self._partitions.pop(journal, {})
        for path, failure in checkpoint.failed.items():
            partitions[path].stop(failure, PartitionState.READ_ONLY)
        for partition in blocked:
            partition.blocked = False
            if checkpoint.error is not None or checkpoint.failed:
                error = checkpoint.error or next(iter(checkpoint.failed.values()))
                partition.stop(error, PartitionState.READ_ONLY)
            elif partition.wants_commit:
                self.mark_dirty(partition)

"""A data folder: its logs, the state that all of them share, and the commits that are under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from headwater.errors import (
    InvalidSettings,
    LogExists,
    PartitionDeleted,
    PartitionReadOnly,
    PartitionUsed,
    StorageError,
    UnknownLog,
)
from headwater.log.clock import wall_clock_ms
from headwater.log.commit import PartitionId
from headwater.log.committer import Committer, Job, ThreadedCommitter
from headwater.log.figures import CommitFigures
from headwater.log.files import Files, storage_error
from headwater.log.folder import STATE_LOG_ID, DataFolder
from headwater.log.index_cache import IndexCache
from headwater.log.intake import OnDone
from headwater.log.journal import JournalRecord, replay_journals
from headwater.log.log import LOG_FORMAT, Log, LogDefinition, LogKind, PartitionDefinition
from headwater.log.open_files import OpenFiles
from headwater.log.partition import Partition, PartitionState
from headwater.log.recovery import Recovered, load_index, recover_partition
from headwater.log.retention import Removal, RetentionHolds, TreeRemoval, enforce_retention
from headwater.log.scheduler import CommitScheduler
from headwater.log.segment import Segment, segment_path
from headwater.log.segment_syncs import SegmentSyncs
from headwater.log.settings import LogSettings, StoreSettings
from headwater.log.staged_commit import StagedCommits
from headwater.log.staging import Staging
from headwater.log.state import StateStore
from headwater.log.tail import Tails
from headwater.log.window_recovery import restore_window

__all__ = ["Store"]

_REFUSED_TRIES_MAX = 3
_STATE_SETTINGS = LogSettings(segment_bytes=16 << 20)


class Store:
    """Opens a data folder and serves its partitions; all calls come from one thread.

    With a loop, what was appended during one of its turns is committed together, and confirms come by themselves.
    Without one, `flush` does both.
    """

    def __init__(
        self,
        folder: Path,
        settings: StoreSettings,
        files: Files,
        committer: Committer,
        clock: Callable[[], int],
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        self.settings = settings
        self.files = files
        self.segment_syncs = SegmentSyncs(files)
        self.open_files = OpenFiles(files, settings.open_files_max)
        self.indexes = IndexCache(settings.index_bytes_max, self._load_index)
        self.tails = Tails(settings.tail_bytes_max)
        self.uncommitted_bytes = 0
        self.epoch = 0
        self.logs: dict[tuple[str, str], Log] = {}
        """By vhost and name."""
        self.damaged: list[str] = []
        """What people should look at: corrupt partitions and journals."""
        self.notices: list[str] = []
        """What opening found and put right: tails that were cut, foreign files that were left alone."""
        self.retention_holds: RetentionHolds | None = None
        """What retention asks before it removes something; truncation does not ask."""
        self.on_events_removed: set[Callable[[Partition, int], None]] = set()
        """Called with a partition that lost its oldest events, by retention or truncation, and its first offset."""
        self.on_log_changed: set[Callable[[Log, LogDefinition], None]] = set()
        """Called with a log that has other partitions or settings now, and with what it was before."""
        self.on_log_deleted: set[Callable[[Log], None]] = set()
        """Called with a log that is gone; its own partitions are stopped."""
        self._folder = DataFolder(files, folder)
        self.clock = clock
        """What time it is, in milliseconds."""
        self._loop = loop
        self._committer = committer
        self._scheduler = CommitScheduler(
            files, self.segment_syncs, self._folder.journal, committer, settings, clock
        )
        self._streams: dict[tuple[str, str], Partition] = {}
        self._dispatch_due = False
        self._waiting_for_room: list[Callable[[], None]] = []
        self._removal_errors: list[StorageError] = []
        self._partitions: dict[PartitionId, Partition] = {}
        self.staging = Staging(
            files, self._folder.staging, self._scheduler.submit_background, self._partitions.get, settings
        )

    @classmethod
    def open(
        cls,
        folder: Path,
        settings: StoreSettings | None = None,
        *,
        files: Files | None = None,
        committer: Committer | None = None,
        clock: Callable[[], int] = wall_clock_ms,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> Self:
        """Open a data folder, made if it is missing, and recover what is in it; raises `StorageError` if it cannot."""
        settings = settings or StoreSettings()
        committer = committer or ThreadedCommitter(settings.commit_threads, settings.background_threads)
        store = cls(folder, settings, files or Files(), committer, clock, loop)
        try:
            store._open()
        except BaseException:
            store.abandon()
            raise
        return store

    def close(self) -> None:
        """Commit what was appended, and leave the folder so that opening it again takes no recovery."""
        for partition in self._partitions.values():
            if partition.dirty:
                self._scheduler.mark_dirty(partition)
        self.flush()
        for partition in self._partitions.values():
            if partition.snapshot_stale and not partition.read_only:
                self._scheduler.snapshot(partition)
        self.flush()
        self._scheduler.close_journal()
        self.flush()
        for partition in self._partitions.values():
            partition.seal()
            partition.stop(
                PartitionReadOnly(partition.name, "the data folder is closed"), PartitionState.READ_ONLY
            )
        self.abandon()

    def abandon(self) -> None:
        """Give everything back without writing anything."""
        if self._loop is not None and isinstance(self._committer, ThreadedCommitter):
            self._loop.remove_reader(self._committer.event_fd)
        self._committer.close()
        self.open_files.close()
        self._scheduler.close()
        self._folder.close()

    # Logs

    def log(self, name: str, vhost: str = "/") -> Log:
        """The log of this name."""
        try:
            return self.logs[vhost, name]
        except KeyError:
            raise UnknownLog(name) from None

    def stream(self, name: str, vhost: str = "/") -> Partition | None:
        """The partition of this name: that of a stream, or one of a super stream."""
        return self._streams.get((vhost, name))

    @property
    def commit_figures(self) -> CommitFigures:
        """What became of commits since the folder was opened."""
        return self._scheduler.figures

    @property
    def partition_count(self) -> int:
        """Partitions of all logs."""
        return sum(len(log.own_partitions) for log in self.logs.values())

    def count_in(self, state: PartitionState) -> int:
        """How many partitions are in a state now."""
        return sum(partition.state is state for partition in self._partitions.values())

    @property
    def is_degraded(self) -> bool:
        """Whether people should look at it: something was damaged at opening, or refuses writes now."""
        return bool(self.damaged) or any(partition.read_only for partition in self._partitions.values())

    def create_log(
        self,
        name: str,
        *,
        vhost: str = "/",
        kind: LogKind = "stream",
        partitions: Sequence[PartitionDefinition] = (),
        settings: LogSettings | None = None,
        arguments: Mapping[str, str] | None = None,
    ) -> Log:
        """Make a log; durable when this returns. A stream has one partition of its own name."""
        definition = LogDefinition(
            LOG_FORMAT,
            self._folder.definition.next_log_id,
            vhost,
            name,
            kind,
            tuple(partitions) or ((PartitionDefinition(name),) if kind == "stream" else ()),
            settings or LogSettings(),
            dict(arguments or {}),
        )
        for wanted in (name, *(partition.name for partition in definition.partitions)):
            if (vhost, wanted) in self.logs or (vhost, wanted) in self._streams:
                raise LogExists(wanted)
        try:
            self._folder.take_log_id()
            self._folder.create_log(definition)
        except OSError as error:
            raise storage_error(error.errno or 0, self._folder.log(definition.id)) from error
        return self._add_log(definition)

    def bind_stream(
        self, super_stream: str, stream: str, *, vhost: str = "/", key: str = "", order: int | None = None
    ) -> None:
        """Make a stream a partition of a super stream too; durable when this returns."""
        target, bound = self.log(super_stream, vhost), self.log(stream, vhost)
        if target.definition.kind != "super_stream" or bound.definition.kind != "stream":
            raise InvalidSettings("partitions", "a stream is bound to a super stream, and nothing else is")
        partition = PartitionDefinition(stream, key, bound.definition.id, order)
        if partition not in target.definition.partitions:
            self._redefine(target, target.definition.bound(partition))

    def change_settings(self, name: str, settings: LogSettings, *, vhost: str = "/") -> None:
        """Give a log other settings; durable when this returns, and in force from then on."""
        log = self.log(name, vhost)
        before = log.definition.settings
        if settings.durability != before.durability:
            raise InvalidSettings("durability", f"it stays {before.durability!r}, as the log was made")
        if settings == before:
            return
        self._redefine(log, log.definition.with_settings(settings))

    def delete_log(self, name: str, vhost: str = "/") -> None:
        """Delete a log with its own partitions; durable when this returns, the bytes go later.

        A stream that is bound to super streams leaves them first. Streams that are bound to the log stay.
        """
        log = self.log(name, vhost)
        for other in self._logs_of(vhost):
            unbound = other.definition.unbound(log.definition.id)
            if unbound != other.definition:
                self._redefine(other, unbound)
        try:
            removed = self._folder.delete_log(log.definition.id)
        except OSError as error:
            raise storage_error(error.errno or 0, log.folder) from error
        del self.logs[vhost, name]
        self._scheduler.figures.forget(log.definition.id)
        for partition in log.own_partitions:
            self._stop_deleted(partition, vhost)
        self._scheduler.submit_background(TreeRemoval(self.files, removed))
        for partition in log.own_partitions:
            for call in list(partition.on_deleted):
                call()
        for call in list(log.on_deleted):
            call()
        for tell in list(self.on_log_deleted):
            tell(log)

    def delete_unused_partition(self, name: str, vhost: str = "/") -> None:
        """Take one of its own partitions from a super stream none of whose own has ever been used; durable when this
        returns. Raises `PartitionUsed` if one has: keys would lead to other partitions than their events lie in."""
        partition = self._streams.get((vhost, name))
        log = next((log for log in self._logs_of(vhost) if partition in log.own_partitions), None)
        if partition is None or log is None:
            raise UnknownLog(name)
        if log.definition.kind != "super_stream" or not all(own.is_unused for own in log.own_partitions):
            raise PartitionUsed(name, log.name)
        self._redefine(log, log.definition.without(name))
        self._stop_deleted(partition, vhost)
        for call in list(partition.on_deleted):
            call()

    def enforce_retention(self) -> list[StorageError]:
        """Let go what is too old or too much, also while nobody writes; what goes wrong is tried again.

        Gives what went wrong, and what of the last time did when its files were removed, on a thread.
        """
        now_ms = self.clock()
        errors, self._removal_errors = self._removal_errors, []
        for partition in list(self._partitions.values()):
            try:
                enforce_retention(partition, now_ms, self._note_removal, self.retention_holds)
            except StorageError as error:
                errors.append(error)
        try:
            self.staged.expire(now_ms, self.settings.tracking_expiry_ms)
        except StorageError as error:
            errors.append(error)
        return errors

    # Commits

    def dispatch(self) -> None:
        """Begin to commit what was appended."""
        self._dispatch_due = False
        self._scheduler.dispatch()

    def collect(self) -> bool:
        """Apply commits that are done, and call those that wait for them; whether there were any.

        What gathered meanwhile is on its way before those who were called go on appending: the disk waits for nobody.
        """
        try:
            return self._scheduler.collect()
        finally:
            if self._scheduler.is_dirty:
                self.dispatch()
            if self._waiting_for_room and self.uncommitted_bytes < self.settings.uncommitted_bytes_max:
                waiting, self._waiting_for_room = self._waiting_for_room, []
                for call in waiting:
                    call()

    def flush(self) -> None:
        """Commit all that was appended, and wait for it."""
        refused_tries = 0
        self.dispatch()
        while self._scheduler.under_way or (self._scheduler.is_dirty and refused_tries < _REFUSED_TRIES_MAX):
            if self._scheduler.under_way:
                self._committer.wait()
                self.collect()
                refused_tries = 0
            else:
                refused_tries += 1  # nothing could be begun, and those who were told so appended again
            self.dispatch()

    def mark_dirty(self, partition: Partition) -> None:
        """Commit a partition at the end of this turn of the loop."""
        self._scheduler.mark_dirty(partition)
        self._dispatch_soon()

    def call_when_room(self, call: Callable[[], None]) -> None:
        """Call once, when commits have made room for more."""
        self._waiting_for_room.append(call)

    def submit_background(self, job: Job) -> None:
        """Have a job done that no commit should wait for."""
        self._scheduler.submit_background(job)

    def events_removed(self, partition: Partition) -> None:
        """Tell who wants to know that the oldest events of a partition went."""
        partition.intake.forget_before(partition.first_offset)
        for call in list(self.on_events_removed):
            call(partition, partition.first_offset)

    def remove_segments(self, partition: Partition, removed: list[Segment], on_done: OnDone) -> None:
        """Take segments off the disk that are no longer a partition's."""
        self._forget(removed)
        paths = [segment.path for segment in removed]
        self._scheduler.submit_background(Removal(self.files, partition.folder, paths, on_done))

    def _dispatch_soon(self) -> None:
        if self._loop is not None and not self._dispatch_due:
            self._dispatch_due = True
            self._loop.call_soon(self.dispatch)

    # Opening

    def _open(self) -> None:
        self._folder.open()
        self.epoch = self._folder.definition.epoch
        try:
            self._recover()
        except OSError as error:
            path = Path(error.filename or self._folder.path)
            raise storage_error(error.errno or 0, path, reading=True) from error
        if self._loop is not None and isinstance(self._committer, ThreadedCommitter):
            self._loop.add_reader(self._committer.event_fd, self.collect)
        self.staged.resume(self._note_unfinished)

    def _recover(self) -> None:
        replay = replay_journals(self.files, self._folder.journal, self._segment_of)
        self._scheduler.next_journal_number = replay.next_number
        self.damaged += [f"{path}: records that were confirmed are missing in it" for path in replay.damaged]
        (state,) = self._open_partitions(STATE_LOG_ID, [(0, "$state")], _STATE_SETTINGS)
        self.state = StateStore(state)
        self.state.load()
        if state.error is not None and not self.damaged:
            self.damaged.append(f"$state: {state.error}")
        for definition in self._folder.definitions():
            self._add_log(definition)
        for log in self.logs.values():
            self._resolve(log)
        self._restore_windows()
        self.staging.open()
        self._note_foreign(self.staging.foreign)
        self.staged = StagedCommits(self.state, self.staging, self._partitions.get, self.clock)

    def _restore_windows(self) -> None:
        for partition in self._partitions.values():
            admission = partition.intake.admission
            if admission is not None and admission.window is not None:
                try:
                    restore_window(partition, admission.window)
                except StorageError as error:
                    self.notices.append(f"{partition.name}: some duplicates will not be known: {error}")

    def _segment_of(self, record: JournalRecord) -> Path:
        folder = self._folder.log(record.log_id) / str(record.partition)
        return segment_path(folder, record.segment_offset)

    def _add_log(self, definition: LogDefinition) -> Log:
        log = Log(definition, self._folder.log(definition.id))
        names = (partition.name for partition in definition.own_partitions)
        numbered = zip(definition.own_numbers, names, strict=True)
        log.partitions = self._open_partitions(definition.id, numbered, definition.settings)
        self.logs[definition.vhost, definition.name] = log
        for partition in log.partitions:
            self._streams[definition.vhost, partition.name] = partition
        return log

    def _redefine(self, log: Log, definition: LogDefinition) -> None:
        try:
            self._folder.replace_definition(definition)
        except OSError as error:
            raise storage_error(error.errno or 0, log.folder) from error
        before, log.definition = log.definition, definition
        self._resolve(log)
        for partition in log.own_partitions:
            partition.change_settings(definition.settings)
        if definition.partitions != before.partitions:
            for call in list(log.on_partitions_changed):
                call()
        for tell in list(self.on_log_changed):
            tell(log, before)

    def _resolve(self, log: Log) -> None:
        """Find the partitions that a log's definition names, those of bound streams among them."""
        missing = [
            partition
            for partition in log.definition.partitions
            if partition.stream_id and PartitionId(partition.stream_id, 0) not in self._partitions
        ]
        for partition in missing:
            self.notices.append(f"{log.name}: its partition {partition.name} is a stream that is gone")
            log.definition = log.definition.unbound(partition.stream_id)
        own = (PartitionId(log.definition.id, number) for number in log.definition.own_numbers)
        log.partitions = [
            self._partitions[PartitionId(partition.stream_id, 0) if partition.stream_id else next(own)]
            for partition in log.definition.partitions
        ]

    def _open_partitions(
        self, log_id: int, numbered: Iterable[tuple[int, str]], settings: LogSettings
    ) -> list[Partition]:
        folder = self._folder.log(log_id)
        unsynced = False
        partitions = []
        for number, name in numbered:
            id_ = PartitionId(log_id, number)
            partition = Partition(self, id_, name, folder / str(number), settings)
            recovered = recover_partition(self.files, partition.folder, partition.tracking)
            unsynced = unsynced or recovered.log_folder_unsynced
            self._take_over(partition, recovered)
            partitions.append(partition)
        if unsynced:
            self.files.sync_folder(folder)
        return partitions

    def _take_over(self, partition: Partition, recovered: Recovered) -> None:
        partition.take_over(recovered)
        name = partition.name
        if recovered.damage is not None:
            self.damaged.append(f"{name}: {recovered.damage}")
        if recovered.cut_bytes:
            self.notices.append(
                f"{name}: {recovered.cut_bytes} bytes that were never confirmed were cut off its end"
            )
        self._note_foreign(recovered.foreign)
        self._partitions[partition.id] = partition

    def _note_foreign(self, paths: list[Path]) -> None:
        self.notices += [f"{path}: not a file of headwater, left alone" for path in paths]

    def _note_removal(self, error: StorageError | None) -> None:
        if error is not None:
            self._removal_errors.append(error)

    def _note_unfinished(self, query: str, error: StorageError) -> None:
        self.notices.append(f"the staged commit of {query!r} waits to be finished: {error}")

    def _logs_of(self, vhost: str) -> list[Log]:
        return [log for (its_vhost, _), log in self.logs.items() if its_vhost == vhost]

    def _load_index(self, segment: Segment) -> bytes:
        try:
            return self.open_files.make_room(lambda: load_index(self.files, segment))
        except OSError as error:
            raise storage_error(error.errno or 0, segment.path, reading=True) from error

    def _forget(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            self.indexes.drop(segment)
            self.open_files.forget(segment.path)

    def _stop_deleted(self, partition: Partition, vhost: str) -> None:
        del self._partitions[partition.id]
        del self._streams[vhost, partition.name]
        partition.stop(PartitionDeleted(partition.name), PartitionState.DELETED)
        self._forget(partition.segments)
        self.tails.drop(partition.tail)

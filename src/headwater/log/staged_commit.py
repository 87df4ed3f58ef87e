"""The commits of staged uploads: one record in `$state` each, then appends that a crash cannot repeat or lose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from headwater.errors import (
    CallerError,
    InvalidStagedCommit,
    LogBusy,
    PartitionDeleted,
    StorageError,
    UnknownAttempt,
)
from headwater.log.commit import PartitionId
from headwater.log.files import storage_error
from headwater.log.intake import OnDone
from headwater.log.partition import Partition
from headwater.log.staging import BATCH_MAX, StagedBlock, StagedCommit, Staging
from headwater.log.state import StateStore

__all__ = ["StagedCommits"]

_KEY = b"staged/"
_REFERENCE = b"staged/"
_QUERY_BYTES_MAX = 200
_BLOCKS_UNDER_WAY_MAX = 8


class StagedCommits:
    """Every query's last commit; a later batch waits for it."""

    def __init__(
        self,
        state: StateStore,
        staging: Staging,
        partition_of: Callable[[PartitionId], Partition | None],
        clock: Callable[[], int],
    ) -> None:
        self._state = state
        self._staging = staging
        self._partition_of = partition_of
        self._clock = clock
        self._under_way: dict[bytes, _UnderWay] = {}

    def commit(self, query: str, batch: int, attempts: list[str], on_done: OnDone) -> None:
        """Append what these attempts uploaded, exactly once for this query and batch, however often it is asked."""
        key = _key(query)
        if not 0 <= batch <= BATCH_MAX:
            raise InvalidStagedCommit(f"batch {batch} is not between 0 and {BATCH_MAX}")
        under_way = self._under_way.get(key)
        record = self._last(key) if under_way is None else under_way.record
        if record is not None and batch > record.batch and record.state == "pending":
            raise InvalidStagedCommit(
                f"batch {record.batch} of {query!r} is not finished; commit it again first"
            )
        if record is None or batch > record.batch:
            for attempt in attempts:
                if not self._staging.is_sealed(attempt):
                    raise UnknownAttempt(attempt)
            self._begin(key, StagedCommit(batch, tuple(attempts), "pending", self._clock()), on_done)
        elif batch < record.batch or record.state == "done":
            on_done(None)
        elif under_way is not None:
            under_way.waiting.append(on_done)
        else:
            self._append(key, _UnderWay(record, [on_done]))

    def last_batch(self, query: str) -> StagedCommit | None:
        """The last commit of a query, pending or done."""
        return self._last(_key(query))

    def resume(self, on_failure: Callable[[str, StorageError], None]) -> None:
        """Finish what a crash interrupted."""
        for key, value in list(self._state.items(_KEY)):
            record = msgspec.json.decode(value, type=StagedCommit)
            if record.state == "pending":
                on_done = _reporter(key[len(_KEY) :].decode(), on_failure)
                self._append(key, _UnderWay(record, [on_done]))

    def expire(self, now_ms: int, expiry_ms: int) -> None:
        """Forget uploads that nobody committed, and queries that ended long ago."""
        needed = {attempt for under_way in self._under_way.values() for attempt in under_way.record.attempts}
        for key, value in list(self._state.items(_KEY)):
            record = msgspec.json.decode(value, type=StagedCommit)
            if record.state == "pending":
                needed.update(record.attempts)
            elif record.time_ms < now_ms - expiry_ms and key not in self._under_way:
                self._state.delete(key, _ignore)
        self._staging.expire(now_ms, needed)

    def _last(self, key: bytes) -> StagedCommit | None:
        value = self._state.get(key)
        return None if value is None else msgspec.json.decode(value, type=StagedCommit)

    def _begin(self, key: bytes, record: StagedCommit, on_done: OnDone) -> None:
        """Make the record durable before anything is appended."""
        under_way = _UnderWay(record, [on_done])

        def recorded(error: StorageError | None) -> None:
            if error is None:
                self._append(key, under_way)
            else:
                self._end(key, under_way, error)

        self._state.put(key, msgspec.json.encode(record), recorded)
        self._under_way[key] = under_way

    def _append(self, key: bytes, under_way: _UnderWay) -> None:
        record = under_way.record

        def appended(error: StorageError | None) -> None:
            if error is None:
                self._finish(key, under_way)
            else:
                self._end(key, under_way, error)

        self._under_way[key] = under_way
        blocks = (block for attempt in record.attempts for block in self._staging.blocks(attempt))
        reference = _REFERENCE + key[len(_KEY) :]
        _Appending(blocks, reference, record.batch << 32, self._partition_of, appended).go_on()

    def _finish(self, key: bytes, under_way: _UnderWay) -> None:
        """All is durable: say so in the record, then let the uploads go."""
        record = under_way.record

        def recorded(error: StorageError | None) -> None:
            if error is None:
                for attempt in record.attempts:
                    self._staging.remove(attempt)
            self._end(key, under_way, error)

        done = StagedCommit(record.batch, (), "done", self._clock())
        try:
            self._state.put(key, msgspec.json.encode(done), recorded)
        except StorageError as error:
            recorded(error)

    def _end(self, key: bytes, under_way: _UnderWay, error: StorageError | None) -> None:
        del self._under_way[key]
        for on_done in under_way.waiting:
            on_done(error)


class _UnderWay:
    """A commit that is being carried out, and all that wait for it."""

    def __init__(self, record: StagedCommit, waiting: list[OnDone]) -> None:
        self.record = record
        self.waiting = waiting


class _Appending:
    """Appends blocks in order, a few under way at once, and goes on as they become durable."""

    def __init__(
        self,
        blocks: Iterator[StagedBlock],
        reference: bytes,
        first_sequence: int,
        partition_of: Callable[[PartitionId], Partition | None],
        finished: OnDone,
    ) -> None:
        self._blocks = blocks
        self._next: StagedBlock | None = None
        self._reference = reference
        self._sequence = first_sequence
        self._partition_of = partition_of
        self._finished = finished
        self._under_way = 0
        self._ended = False
        self._error: StorageError | None = None
        self._going = False

    def go_on(self) -> None:
        """Append as much as there is room for."""
        if self._going:
            return  # called back from within, for a block that was stored already
        self._going = True
        try:
            while self._error is None and not self._ended and self._under_way < _BLOCKS_UNDER_WAY_MAX:
                if not self._append_next():
                    return
        except OSError as error:
            self._error = storage_error(error.errno or 0, Path(error.filename or "staging"))
        except (StorageError, CallerError) as error:
            self._error = error if isinstance(error, StorageError) else StorageError(str(error))
        finally:
            self._going = False
        if not self._under_way and (self._ended or self._error is not None):
            finished, self._finished = self._finished, _ignore
            finished(self._error)

    def _append_next(self) -> bool:
        """Append one block; False if there is no room now, and the next commit of its partition goes on."""
        block = self._next or next(self._blocks, None)
        self._next = None
        if block is None:
            self._ended = True
            return True
        partition = self._partition_of(block.partition)
        self._under_way += 1
        try:
            if partition is not None:  # else its log was deleted meanwhile
                partition.append(
                    block.data,
                    block.entries,
                    block.records,
                    self._done,
                    reference=self._reference,
                    sequence=self._sequence,
                )
            else:
                self._under_way -= 1
        except PartitionDeleted:
            self._under_way -= 1
        except LogBusy:
            self._under_way -= 1
            self._next = block
            if not self._under_way and partition is not None:
                partition.owner.call_when_room(self.go_on)
            return False
        except BaseException:
            self._under_way -= 1
            raise
        self._sequence += 1
        return True

    def _done(self, error: StorageError | None) -> None:
        self._under_way -= 1
        if error is not None and not isinstance(error, PartitionDeleted):
            self._error = self._error or error
        self.go_on()


def _key(query: str) -> bytes:
    encoded = query.encode()
    if not 0 < len(encoded) <= _QUERY_BYTES_MAX:
        raise InvalidStagedCommit(f"the id of a query has 1 to {_QUERY_BYTES_MAX} bytes, not {len(encoded)}")
    return _KEY + encoded


def _reporter(query: str, on_failure: Callable[[str, StorageError], None]) -> OnDone:
    def done(error: StorageError | None) -> None:
        if error is not None:
            on_failure(query, error)

    return done


def _ignore(error: StorageError | None) -> None:
    """It was told already."""

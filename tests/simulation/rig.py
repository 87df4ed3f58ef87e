"""The engine on a simulated disk: when jobs run, what the clock says, and how everything visible is read."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from random import Random

from headwater.errors import LogCorrupt, StorageError
from headwater.log.committer import Job
from headwater.log.partition import Partition, PartitionState
from headwater.log.reader import Reader
from headwater.log.settings import LogSettings, StoreSettings
from headwater.log.store import Store
from tests.simulation.faulty_files import FaultyFiles
from tests.simulation.model import Seen, require
from tests.simulation.payloads import SeenChunk, split_chunks, split_entries

__all__ = [
    "DATA",
    "Clock",
    "SimulatedCommitter",
    "damage_of",
    "new_disk",
    "open_store",
    "random_log_settings",
    "random_store_settings",
    "read_chunks",
    "read_entries",
]

DATA = Path("/data")
_ENDLESS = 10_000


class Clock:
    """A wall clock that goes when the schedule says so, backwards too."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


class SimulatedCommitter:
    """Runs jobs when the schedule says so, in any order; the crash of one goes through to the caller."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._submitted = 0
        self.queued: list[Job] = []
        self.done: deque[Job] = deque()

    def submit(self, job: Job) -> None:
        """Take a job; `run_one` carries it out."""
        self._submitted += 1
        require(self._submitted < _ENDLESS, "jobs come without an end")
        self.queued.append(job)

    def submit_background(self, job: Job) -> None:
        """The same: any order is tried anyway."""
        self.submit(job)

    def run_one(self) -> bool:
        """Carry out any one of the jobs; whether there was one."""
        if not self.queued:
            return False
        job = self.queued.pop(self._rng.randrange(len(self.queued)))
        job.run()
        self.done.append(job)
        return True

    def collect(self) -> list[Job]:
        """The jobs that were carried out since the last call."""
        done = list(self.done)
        self.done.clear()
        return done

    def wait(self) -> None:
        """Carry out jobs until one is done."""
        require(self.done or self.queued, "the engine waits, and no job is under way")
        while not self.done and self.run_one():
            pass

    def close(self) -> None:
        """Carry out what is left."""
        while self.run_one():
            pass


def new_disk(seed: int) -> FaultyFiles:
    """An empty disk with the folder that the data go into."""
    files = FaultyFiles(seed)
    files.make_folder(DATA)
    files.sync_folder(DATA.parent)
    return files


def open_store(
    files: FaultyFiles, settings: StoreSettings, clock: Clock, rng: Random
) -> tuple[Store, SimulatedCommitter]:
    """Open the data folder; its jobs run when the committer is told to."""
    committer = SimulatedCommitter(rng)
    return Store.open(DATA, settings, files=files, committer=committer, clock=clock), committer


def random_store_settings(rng: Random) -> StoreSettings:
    """Bounds so small that a short schedule reaches them."""
    return StoreSettings(
        direct_files_max=rng.choice((1, 3, 8)),
        journal_bytes_max=rng.choice((1024, 4096, 65536)),
        tail_bytes_max=rng.choice((1, 2048, 65536)),
        open_files_max=rng.choice((1, 4, 64)),
        state_compact_bytes=rng.choice((256, 2048, 65536)),
    )


def random_log_settings(rng: Random) -> LogSettings:
    """Segments, snapshots and chunks so small that they end within a few appends."""
    return LogSettings(
        durability="memory" if rng.random() < 0.1 else "disk",
        segment_bytes=rng.choice((1024, 2048, 4096, 16384)),
        snapshot_interval_bytes=rng.choice((1024, 2048, 8192)),
        chunk_data_bytes_max=rng.choice((256, 1024, 65536)),
        filter_bytes=rng.choice((16, 40)),
        max_bytes=rng.choice((None, None, 4096)),
        max_age_ms=rng.choice((None, None, 60_000)),
    )


def damage_of(partition: Partition) -> StorageError | None:
    """The damage that a partition reports, if it does."""
    return partition.error if partition.state is PartitionState.DAMAGED else None


def read_chunks(partition: Partition, offset: int, *, buffer_bytes: int = 4096) -> list[SeenChunk]:
    """All user chunks that a reader gives from the one that holds an offset; ends at damage, if there is any."""
    found: list[SeenChunk] = []
    with Reader(partition, offset, buffer=bytearray(buffer_bytes)) as reader:
        for _ in range(_ENDLESS):
            try:
                run = reader.read(wait=False)
            except BlockingIOError:
                run = reader.read(wait=True)
            except LogCorrupt:
                if damage_of(partition) is None:
                    raise  # nobody said so
                return found
            if run is None:
                return found
            found += split_chunks(b"".join(run.deliveries))
    raise AssertionError(f"a reader of {partition.name} does not come to an end")


def read_entries(partition: Partition) -> Seen:
    """Every entry that is visible, with the offset it has."""
    seen: Seen = []
    for chunk in read_chunks(partition, partition.first_offset):
        offset = chunk.first_offset
        for data, records in split_entries(chunk):
            seen.append((offset, data, records))
            offset += records
    return seen

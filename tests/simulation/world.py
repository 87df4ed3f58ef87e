"""One simulated machine: its disk, the engine on it, and what clients know of it; opened again after every crash."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from headwater.errors import HeadwaterError, StorageError, UnknownLog
from headwater.log.log import LogKind, PartitionDefinition
from headwater.log.partition import Partition
from headwater.log.settings import LogSettings, StoreSettings
from headwater.log.store import Store
from tests.simulation.clients import Producer
from tests.simulation.corruption import damage_one_byte, spoil_index
from tests.simulation.faulty_files import Crashed, FaultyFiles, Phase
from tests.simulation.follower import Follower
from tests.simulation.model import Damage, Opening, PartitionModel, Values, Violation, require
from tests.simulation.rig import (
    Clock,
    SimulatedCommitter,
    damage_of,
    new_disk,
    open_store,
    random_store_settings,
    read_entries,
)
from tests.simulation.staged import StagedCommit

__all__ = ["LogModel", "World"]

CRASHES_WHILE_OPENING_MAX = 3
REFERENCES = (b"p", b"publisher-2")


@dataclass(slots=True, eq=False)
class LogModel:
    """A log as its clients know it."""

    name: str
    settings: LogSettings
    partitions: list[PartitionModel]
    producers: list[Producer]
    fate: str = "present"
    """`creating` and `deleting` while nobody answered: a crash may leave either."""

    may_vanish: bool = False
    """Set when a deletion failed: the log is there, a crash may yet complete it."""

    @classmethod
    def make(cls, name: str, settings: LogSettings, count: int) -> LogModel:
        """A log nobody wrote to yet, with two producers on each partition."""
        durable = settings.durability == "disk"
        partitions = [PartitionModel(f"{name}/{number}", durable=durable) for number in range(count)]
        producers = [Producer(model, reference) for model in partitions for reference in REFERENCES]
        return cls(name, settings, partitions, producers, "creating")


@dataclass(slots=True)
class World:
    """Everything a schedule acts on."""

    rng: Random
    disk: FaultyFiles
    clock: Clock
    settings: StoreSettings
    logs: dict[str, LogModel] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    state: dict[bytes, Values] = field(default_factory=dict)
    staged: list[StagedCommit] = field(default_factory=list)
    last_batches: dict[str, int] = field(default_factory=dict)
    """The last batch that each query was asked to commit."""
    finished: list[StagedCommit] = field(default_factory=list)
    followers: list[Follower] = field(default_factory=list)
    folders: dict[str, Path] = field(default_factory=dict)
    """Where the engine keeps a partition."""
    tell: Callable[[str], None] | None = None
    serial: int = 0
    machine_crashed: bool = False
    """Whether a machine crash came since the last opening that was checked to its end."""
    opening_crashes: list[tuple[int, Phase]] = field(default_factory=list)
    """Crashes that the next openings meet, each after so many operations; then come random ones."""
    crashes_while_opening_max: int = CRASHES_WHILE_OPENING_MAX
    _store: Store | None = None
    _committer: SimulatedCommitter | None = None

    @classmethod
    def make(cls, seed: int) -> World:
        """An empty machine; all that follows hangs on the seed."""
        rng = Random(seed)
        disk = new_disk(seed)
        disk.cold_read_chance = 0.1
        disk.write_back_chance = rng.choice((0.0, 0.2))
        return cls(rng, disk, Clock(), random_store_settings(rng))

    @property
    def store(self) -> Store:
        """The engine, which must be open."""
        assert self._store is not None
        return self._store

    @property
    def committer(self) -> SimulatedCommitter:
        """What runs the engine's jobs."""
        assert self._committer is not None
        return self._committer

    def note(self, text: str) -> None:
        """Tell what happens, for whoever reads the trace."""
        if self.tell is not None:
            self.tell(text)

    def next_serial(self) -> int:
        """A number that no entry has yet."""
        self.serial += 1
        return self.serial

    def partition(self, model: PartitionModel) -> Partition:
        """The engine's side of a partition."""
        name, _, number = model.name.rpartition("/")
        return self.store.log(name).partitions[int(number)]

    def create(self, log: LogModel) -> None:
        """Have the engine make a log."""
        count = len(log.partitions)
        self.logs[log.name] = log
        kind: LogKind = "stream" if count == 1 else "super_stream"
        names = [PartitionDefinition(f"{log.name}-{number}", str(number)) for number in range(count)]
        self.store.create_log(log.name, kind=kind, partitions=names, settings=log.settings)
        log.fate = "present"

    def models(self) -> list[PartitionModel]:
        """All partitions of logs that are there for sure."""
        return [model for log in self.logs.values() if log.fate == "present" for model in log.partitions]

    # Opening, closing and crashing.

    def open(self, *, clean: bool) -> None:
        """Open the data folder, through crashes and faults on the way, and check what is there."""
        armed = self.disk.crash_at is not None
        crashes = 0
        while self._store is None:
            if not armed and self.opening_crashes:
                self.disk.crash_in(*self.opening_crashes.pop())
            elif not armed and not clean and crashes < self.crashes_while_opening_max:
                self._disturb_opening()
            try:
                self._open()
            except Crashed:
                crashes += 1
                armed = clean = False
                self._lose_machine_or_process()
            except StorageError as error:
                crashes += 1
                self.note(f"-- opening fails: {error}")
                require(self.disk.troubled, f"opening fails with no fault left: {error}")
                require(not self.disk.open_descriptors(), f"descriptors leak: {self.disk.open_descriptors()}")
            self.disk.heal()
        if not armed:
            self.disk.crash_at = None
        self._check_opening(Opening(machine_crash=self.machine_crashed, clean=clean))
        self.machine_crashed = False

    def _disturb_opening(self) -> None:
        chance = self.rng.random()
        if chance < 0.35:
            self.disk.crash_in(self.rng.choice((3, 10, 40)), self.rng.choice(list(Phase)))
        elif chance < 0.45:
            kind = self.rng.choice(("write", "sync", "create", "rename", "remove", "sync_folder", "truncate"))
            self.note(f"-- a {kind} while opening will fail")
            self.disk.fail(kind, "*", self.rng.choice((errno.EIO, errno.ENOSPC)))
        elif chance < 0.5:
            self.disk.open_files_max = self.rng.choice((0, 1, 2))

    def crash(self, *, machine: bool | None = None, damage: bool = False) -> None:
        """The process is gone, or the machine, and perhaps a byte is damaged; open again and check."""
        self.disk.crash_now()
        self.followers.clear()
        self._store = self._committer = None
        self._lose_machine_or_process(machine)
        if damage:
            self._damage_something()
        if self.folders and self.rng.random() < 0.15:
            folder = self.folders[self.rng.choice(sorted(self.folders))]
            self.note(f"-- an index is spoilt: {spoil_index(self.disk, folder, self.rng)}")
        self.open(clean=False)

    def close(self) -> None:
        """Close in order: everything is answered then, and no descriptor is left."""
        while self.followers:
            self.followers.pop().close()
        self.store.close()
        self._observe_close()
        require(not self.disk.open_descriptors(), f"descriptors leak: {self.disk.open_descriptors()}")
        self._store = self._committer = None
        self.disk = self.disk.after_process_crash()

    def flush(self) -> None:
        """Have everything committed that can be; whatever is answered with success is then durable."""
        self.store.flush()
        self.observe()
        for model in self.models():
            partition = self.partition(model)
            if partition.read_only:
                continue
            require(
                not model.pending, f"{model.name}: {len(model.pending)} appends are unanswered after a flush"
            )
            if partition.committed_offset == partition.next_offset and not partition.dirty:
                for values in model.offsets.values():
                    values.is_durable(len(values.given) - 1)

    def _damage_something(self) -> None:
        models = [model for model in self.models() if model.durable and model.damage is None]
        if models:
            model = self.rng.choice(models)
            model.damage = damage_one_byte(self.disk, self.folders[model.name], self.rng)
            if model.damage is not None:
                self.note(f"-- byte {model.damage.position} of {model.damage.path} is damaged")

    def _open(self) -> None:
        try:
            self._store, self._committer = open_store(self.disk, self.settings, self.clock, self.rng)
        except Crashed:
            self._store = self._committer = None
            raise

    def _lose_machine_or_process(self, machine: bool | None = None) -> None:
        if machine is None:
            machine = self.rng.random() < 0.7
        self.note(f"-- the {'machine' if machine else 'process'} crashed, opening again")
        if machine:
            self.disk = self.disk.after_crash(Random(self.rng.getrandbits(32)))
        else:
            self.disk = self.disk.after_process_crash(Random(self.rng.getrandbits(32)))
        self.machine_crashed |= machine

    # Watching the running engine.

    def observe(self) -> None:
        """Take note of what became visible, and hold the engine's own figures to it."""
        if self._store is None:
            return
        for commit in self.staged:
            if commit.answered:
                for model in commit.entries:
                    partition = self.partition(model)
                    model.check_seen(
                        read_entries(partition), partition.first_offset, partition.committed_offset
                    )
        if any(commit.answered for commit in self.staged):
            self._check_staged([commit for commit in self.staged if commit.answered])
        for log in self.logs.values():
            if log.fate == "present":
                for model in log.partitions:
                    self._observe(log, model, self.partition(model))

    def check_descriptors(self) -> None:
        """Descriptors of data files are bounded while nothing is under way."""
        if self._store is None or self.committer.queued or self.committer.done:
            return
        paths = [path for path in self.disk.open_descriptors() if path.suffix in (".segment", ".index")]
        bound = self.settings.open_files_max + len(self.followers)
        require(len(paths) <= bound, f"{len(paths)} data files are open, {bound} are allowed")

    def _observe_close(self) -> None:
        """After a close nothing may be left unanswered."""
        for model in self.models():
            model.sync_failed |= self.partition(model).read_only
            require(not model.pending, f"{model.name}: appends are unanswered after a close")

    def _observe(self, log: LogModel, model: PartitionModel, partition: Partition) -> None:
        if model.damage is not None:
            return
        self.folders[model.name] = partition.folder
        require(damage_of(partition) is None, f"{model.name}: reported as damaged: {damage_of(partition)}")
        model.sync_failed |= partition.read_only
        model.committed(partition.committed_offset)
        require(
            model.confirmed_end <= partition.committed_offset <= partition.next_offset,
            f"{model.name}: confirmed to {model.confirmed_end}, committed to {partition.committed_offset}, "
            f"next is {partition.next_offset}",
        )
        if log.settings.max_bytes or log.settings.max_age_ms:
            model.drop_limit = max(model.drop_limit, partition.committed_offset)
        model.check_first(partition.first_offset)
        for reference, sequence in model.sequences.items():
            require(
                partition.sequence(reference) == sequence,
                f"{model.name}: sequence of {reference!r} is {partition.sequence(reference)}, not {sequence}",
            )
        for reference, values in model.offsets.items():
            values.told(f"{model.name} offset of {reference!r}", partition.stored_offset(reference))

    # Checking what an opening found.

    def _check_opening(self, opening: Opening) -> None:
        for name in self.deleted:
            if name not in self.logs:
                require(not self.has_log(name), f"log {name} came back after it was deleted")
        for log in list(self.logs.values()):
            there = self.has_log(log.name)
            require(there or log.fate != "present" or log.may_vanish, f"log {log.name} is lost")
            if not there:
                del self.logs[log.name]
                self.deleted.add(log.name)
                continue
            log.fate, log.may_vanish = "present", False
            count = len(self.store.log(log.name).partitions)
            require(count == len(log.partitions), f"log {log.name} has {count} partitions")
        self.drop_staged()
        self.store.flush()  # the engine finishes staged commits by itself
        self._check_staged(list(self.staged))
        for model in self.models():
            self._check_partition(model, opening)
        for log in self.logs.values():
            for producer in log.producers:
                producer.after_opening()
        for key, values in self.state.items():
            values.adopt(key, self.store.state.get(key))

    def _check_partition(self, model: PartitionModel, opening: Opening) -> None:
        partition = self.partition(model)
        if model.damage is not None:
            self._check_damaged(model, partition, model.damage)
            return
        self.folders[model.name] = partition.folder
        require(damage_of(partition) is None, f"{model.name}: reported as damaged: {damage_of(partition)}")
        require(not partition.read_only, f"{model.name}: read-only after opening: {partition.error}")
        seen = read_entries(partition)
        require(damage_of(partition) is None, f"{model.name}: reading meets damage: {damage_of(partition)}")
        require(
            partition.next_offset == partition.committed_offset,
            f"{model.name}: next offset {partition.next_offset}, committed {partition.committed_offset}",
        )
        sequences, forgetful = dict(model.sequences), not model.keeps_confirmed(opening)
        model.adopt(seen, partition.first_offset, partition.committed_offset, opening)
        self._check_tracking(model, partition, sequences, forgetful)

    def _check_damaged(self, model: PartitionModel, partition: Partition, damage: Damage) -> None:
        """It is told, all before it is served, nothing is taken, and no byte is cut away or mended."""
        model.pending.clear()
        require(
            damage_of(partition) is not None, f"{model.name}: damage at {damage.position} is not reported"
        )
        require(
            self.disk.read_file(damage.path) == damage.content, f"{model.name}: damaged bytes were touched"
        )
        seen = read_entries(partition)
        shown = {offset: data for offset, data, _ in seen}
        require(
            all(offset < damage.offset for offset in shown), f"{model.name}: shows what lies behind damage"
        )
        for offset, entry in model.confirmed.items():
            if partition.first_offset <= offset < damage.offset:
                require(
                    shown.get(offset) == entry.data, f"{model.name}: does not serve {offset}, before damage"
                )
        try:
            partition.append(b"\0\0\0\1x", 1, 1, lambda error: None)
        except StorageError:
            return
        raise Violation(f"{model.name}: takes writes though it is damaged")

    def _check_tracking(
        self, model: PartitionModel, partition: Partition, before: dict[bytes, int], forgetful: bool
    ) -> None:
        for reference in REFERENCES:
            found, expected = partition.sequence(reference), model.sequences.get(reference)
            if forgetful and found is not None and (expected or -1) <= found <= before.get(reference, -1):
                model.sequences[reference] = expected = found
            require(
                found == expected,
                f"{model.name}: sequence of {reference!r} is {found} after opening, not {expected}",
            )
        for reference, values in model.offsets.items():
            if forgetful:
                values.durable = 0
            values.adopt(f"{model.name} offset of {reference!r}", partition.stored_offset(reference))

    def _check_staged(self, commits: list[StagedCommit]) -> None:
        """Each is there once, in one piece, or not at all."""
        for commit in commits:
            if not commit.asked:
                continue
            partitions = {model: self.partition(model) for model in commit.entries}
            seen = {model: read_entries(partition) for model, partition in partitions.items()}
            if commit.check(seen, {model: p.first_offset for model, p in partitions.items()}):
                self.staged.remove(commit)
                self.finished.append(commit)

    def drop_staged(self) -> None:
        """Nothing is promised for commits to logs that went away or are damaged."""
        there = {model for model in self.models() if model.damage is None}
        self.staged = [commit for commit in self.staged if there.issuperset(commit.entries)]

    def has_log(self, name: str) -> bool:
        try:
            self.store.log(name)
        except UnknownLog:
            return False
        return True


def tell_error(world: World, error: HeadwaterError | None) -> None:
    """Note what was refused."""
    if error is not None:
        world.note(f"   refused: {type(error).__name__}: {error}")


__all__ += ["REFERENCES", "Violation", "tell_error"]

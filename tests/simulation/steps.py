"""What can happen in a schedule: one function a step, each with the weight with which it is chosen."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random

from headwater.errors import HeadwaterError, StorageError
from headwater.log.partition import Partition
from tests.simulation.clients import ENTRY_BYTES, send_plain
from tests.simulation.faulty_files import Phase
from tests.simulation.follower import Follower
from tests.simulation.model import Entry, PartitionModel, Values, require
from tests.simulation.payloads import make_entry
from tests.simulation.rig import random_log_settings, read_chunks, read_entries
from tests.simulation.world import REFERENCES, LogModel, World, tell_error

__all__ = ["STEPS", "Step", "create_log", "settle"]

Step = Callable[[World], None]

_LOGS_MAX = 3
_FOLLOWERS_MAX = 3
_PATTERNS = ("*.segment", "*.segment", "*.journal", "*.index", "*.staged", "*/0/*", "*.json*", "*")


def create_log(world: World) -> None:
    """Make a log of one to twelve partitions."""
    if len(world.logs) >= _LOGS_MAX:
        return
    name = f"log{world.next_serial()}"
    if world.deleted and world.rng.random() < 0.5:
        name = world.rng.choice(sorted(world.deleted))
    if name in world.logs:
        return
    settings = random_log_settings(world.rng)
    count = world.rng.choice((1, 1, 2, 3, 9, 12))
    world.note(f"create {name} with {count} partitions, {settings}")
    log = LogModel.make(name, settings, count)
    try:
        world.create(log)
    except StorageError as error:
        tell_error(world, error)
        _forget_log(world, log, "creating")


def delete_log(world: World) -> None:
    """Delete a log for good."""
    log = _log(world)
    if log is None or world.rng.random() < 0.5:
        return
    world.note(f"delete {log.name}")
    log.fate = "deleting"
    try:
        world.store.delete_log(log.name)
    except StorageError as error:
        tell_error(world, error)
        if world.has_log(log.name):
            log.fate, log.may_vanish = "present", True
            return
    _forget_log(world, log, "deleting")


def _forget_log(world: World, log: LogModel, fate: str) -> None:
    """The log is not there as far as its clients know."""
    log.fate = fate
    del world.logs[log.name]
    world.deleted.add(log.name)
    world.drop_staged()


def append(world: World) -> None:
    """Append entries without a name, sub-batches among them."""
    model = _model(world)
    if model is None:
        return
    entries = [_entry(world) for _ in range(world.rng.choice((1, 1, 2, 5)))]
    world.note(f"append {len(entries)} to {model.name}: {', '.join(map(str, entries))}")
    partition = world.partition(model)

    def append_one_more() -> None:
        world.note(f"   one more to {model.name} from within the answer")
        tell_error(world, send_plain(partition, model, [_entry(world)]))

    then = append_one_more if world.rng.random() < 0.15 else None
    tell_error(world, send_plain(partition, model, entries, then))


def append_everywhere(world: World) -> None:
    """Append to many partitions at once, so that the journal is used."""
    models = [model for model in world.models() if model.damage is None]
    world.note(f"append to all {len(models)} partitions")
    for model in models:
        tell_error(world, send_plain(world.partition(model), model, [_entry(world)]))


def publish(world: World) -> None:
    """Publish under a name: new ids, some of them twice, and again what was refused."""
    log = _log(world)
    if log is None:
        return
    producer = world.rng.choice(log.producers)
    if producer.model.damage is not None:
        return
    ids = producer.choose_ids(world.rng)
    world.note(f"publish to {producer.model.name} as {producer.reference!r}: {ids}")
    tell_error(world, producer.publish(world.partition(producer.model), ids, world.rng))


def store_offset(world: World) -> None:
    """Store an offset for a consumer."""
    model = _model(world)
    if model is None:
        return
    reference, offset = world.rng.choice(REFERENCES), world.rng.randrange(10**6)
    world.note(f"store offset {offset} of {reference!r} in {model.name}")
    try:
        world.partition(model).store_offset(reference, offset)
    except StorageError as error:
        tell_error(world, error)
    else:
        model.store_offset(reference, offset)


def dispatch(world: World) -> None:
    """The turn of the loop ends: what was gathered starts on its way."""
    world.note("dispatch")
    world.store.dispatch()


def run_job(world: World) -> None:
    """A thread carries out one of the jobs that wait."""
    count = len(world.committer.queued)
    if count:
        world.note(f"run one of {count} jobs")
        world.committer.run_one()


def collect(world: World) -> None:
    """Jobs that are done are applied, and callers hear of it."""
    world.note(f"collect {len(world.committer.done)} jobs")
    world.store.collect()


def turn(world: World) -> None:
    """A whole turn: dispatch, all jobs, collect."""
    dispatch(world)
    while world.committer.queued:
        run_job(world)
    collect(world)


def flush(world: World) -> None:
    """Everything gathered is committed or refused."""
    world.note("flush")
    world.flush()


def read(world: World) -> None:
    """Read a partition from its start, and from somewhere in it."""
    model = _model(world)
    if model is None:
        return
    partition = world.partition(model)
    world.note(f"read {model.name}, {partition.first_offset} to {partition.committed_offset}")
    try:
        _read(world, model, partition)
    except StorageError as error:
        tell_error(world, error)
        require(world.disk.troubled, f"{model.name}: cannot be read: {error}")


def _read(world: World, model: PartitionModel, partition: Partition) -> None:
    model.check_seen(read_entries(partition), partition.first_offset, partition.committed_offset)
    if partition.committed_offset > partition.first_offset:
        offset = world.rng.randrange(partition.first_offset, partition.committed_offset)
        chunk = read_chunks(partition, offset)[0]
        require(
            chunk.first_offset <= offset < chunk.first_offset + chunk.records,
            f"{model.name}: a reader at {offset} starts with the chunk at {chunk.first_offset}",
        )


def follow(world: World) -> None:
    """A reader that stays open goes on from where it was."""
    if len(world.followers) < _FOLLOWERS_MAX:
        model = _model(world)
        if model is not None:
            world.followers.append(Follower(model, world.partition(model), world.rng))
    if world.followers:
        follower = world.rng.choice(world.followers)
        world.note(f"follow {follower.model.name} from {follower.offset}")
        try:
            follower.go_on()
        except StorageError as error:
            tell_error(world, error)
            require(world.disk.troubled or follower.is_deleted, f"{follower.model.name}: {error}")
            follower.close()
            world.followers.remove(follower)


def truncate(world: World) -> None:
    """Remove what lies before an offset."""
    model = _model(world)
    if model is None:
        return
    partition = world.partition(model)
    before = partition.committed_offset
    if world.rng.random() < 0.7:
        before = world.rng.randint(partition.first_offset, before)
    world.note(f"truncate {model.name} before {before}")
    model.drop_limit = max(model.drop_limit, before)
    everything = before == partition.committed_offset and partition.in_flight is None

    def done(error: StorageError | None) -> None:
        world.note(f"   truncated {model.name}: {error}")
        if error is None and partition.first_offset <= before:
            model.removed_before(partition.first_offset)
        if error is None and everything:
            require(
                partition.first_offset >= before,
                f"{model.name}: all was truncated, it starts at {partition.first_offset}",
            )

    try:
        partition.truncate(before, done)
    except StorageError as error:
        tell_error(world, error)


def retention(world: World) -> None:
    """Remove segments by age and bytes."""
    world.note("enforce retention")
    world.store.enforce_retention()


def put_state(world: World) -> None:
    """Put, or delete, a key of the internal state."""
    key = b"key%d" % world.rng.randrange(4)
    value = None if world.rng.random() < 0.2 else b"%d" % world.next_serial() * world.rng.choice((1, 50))
    world.note(f"state {key!r} = {value!r}")
    values = world.state.setdefault(key, Values())
    number = values.put(value)

    def done(error: StorageError | None) -> None:
        if error is None:
            values.is_durable(number)

    try:
        if value is None:
            world.store.state.delete(key, done)
        else:
            world.store.state.put(key, value, done)
    except StorageError as error:
        tell_error(world, error)


def advance_clock(world: World) -> None:
    """Time goes on, or back."""
    step = world.rng.choice((1, 1000, 70_000, -5000))
    world.note(f"the clock goes {step} ms")
    world.clock.now_ms += step


def fail_write(world: World) -> None:
    """The next writes to some files fail half way."""
    pattern, code = world.rng.choice(_PATTERNS), world.rng.choice((errno.EIO, errno.ENOSPC))
    after = world.rng.choice((0, 1, 100, 500, 2000, 5000))
    world.note(f"writes to {pattern} will fail after {after} bytes")
    world.disk.fail_write(pattern, code, after_bytes=after, times=world.rng.choice((1, 1, 3)))


def fail_sync(world: World) -> None:
    """The next sync of some file fails."""
    pattern = world.rng.choice(_PATTERNS)
    world.note(f"a sync of {pattern} will fail")
    world.disk.fail_sync(pattern)


def fail_other(world: World) -> None:
    """Another operation fails."""
    kind = world.rng.choice(("create", "rename", "remove", "truncate", "sync_folder", "make_folder"))
    world.note(f"a {kind} will fail")
    world.disk.fail(kind, "*", world.rng.choice((errno.EIO, errno.ENOSPC, errno.EMFILE)))


def fill_disk(world: World) -> None:
    """There is hardly any room left."""
    room = world.rng.choice((0, 300, 3000))
    world.note(f"room for {room} bytes is left")
    world.disk.capacity_bytes = world.disk.used_bytes() + room


def few_descriptors(world: World) -> None:
    """There are hardly any descriptors left."""
    count = world.rng.choice((0, 1, 3))
    world.note(f"{count} descriptors are left")
    world.disk.open_files_max = len(world.disk.open_descriptors()) + count


def heal(world: World) -> None:
    """Nothing fails any more, and there is room."""
    world.note("the disk is well again")
    world.disk.heal()


def arm_crash(world: World) -> None:
    """A crash will come at one of the next operations."""
    after, phase = world.rng.choice((2, 10, 40)), world.rng.choice(list(Phase))
    after = world.rng.randrange(after)
    world.note(f"a crash will come {phase.value} operation {world.disk.operations + after + 1}")
    world.disk.crash_in(after, phase)


def crash(world: World) -> None:
    """A crash comes now, between two operations."""
    world.crash()


def crash_with_damage(world: World) -> None:
    """A crash, and a byte is damaged that was durable before it."""
    world.crash(damage=True)


def close_and_open(world: World) -> None:
    """Close in order and open again."""
    world.note("close and open")
    world.disk.heal()
    world.close()
    world.open(clean=True)


def settle(world: World) -> None:
    """Send again all that was not confirmed, and find one copy of each."""
    world.note("send everything again and settle")
    world.disk.heal()
    for log in world.logs.values():
        for producer in log.producers:
            partition = world.partition(producer.model) if producer.model.damage is None else None
            while producer.again and partition is not None and not partition.read_only:
                ids = producer.again[:20]
                error = producer.publish(partition, ids, world.rng)
                require(error is None, f"{partition.name}: refuses with no fault left: {error}")
                world.flush()
                require(not set(ids) & set(producer.again), f"{partition.name}: ids {ids} were refused")
    for model in world.models():
        if model.damage is None:
            partition = world.partition(model)
            model.check_seen(read_entries(partition), partition.first_offset, partition.committed_offset)


def _log(world: World) -> LogModel | None:
    present = [log for log in world.logs.values() if log.fate == "present"]
    return world.rng.choice(present) if present else None


def _model(world: World) -> PartitionModel | None:
    models = [model for model in world.models() if model.damage is None]
    return world.rng.choice(models) if models else None


def _entry(world: World) -> Entry:
    rng: Random = world.rng
    records = rng.choice((2, 5)) if rng.random() < 0.1 else 1
    return Entry(make_entry(b"e%05d" % world.next_serial(), rng.choice(ENTRY_BYTES), records), records)


STEPS: dict[Step, int] = {
    append: 20,
    append_everywhere: 8,
    publish: 25,
    store_offset: 6,
    dispatch: 8,
    run_job: 12,
    collect: 8,
    turn: 20,
    flush: 5,
    read: 5,
    follow: 8,
    truncate: 3,
    retention: 3,
    create_log: 3,
    delete_log: 1,
    put_state: 5,
    advance_clock: 2,
    fail_write: 3,
    fail_sync: 1,
    fail_other: 2,
    fill_disk: 1,
    few_descriptors: 1,
    heal: 3,
    arm_crash: 6,
    crash: 2,
    crash_with_damage: 1,
    close_and_open: 2,
}

__all__ += ["HeadwaterError"]

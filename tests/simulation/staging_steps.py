"""Steps of staged commits: uploads, some of them never committed, the commit, and the same key once more."""

from __future__ import annotations

from headwater.errors import HeadwaterError, StorageError
from headwater.log.staging import StagedBlock
from tests.simulation.model import Entry, PartitionModel
from tests.simulation.payloads import make_entry
from tests.simulation.staged import StagedCommit
from tests.simulation.steps import Step, turn
from tests.simulation.world import World, tell_error

__all__ = ["STAGING_STEPS"]

_QUERIES = ("nightly", "hourly")


def upload(world: World) -> None:
    """Attempts of one batch upload and are sealed; one of them loses."""
    models = [model for model in world.models() if model.durable and model.damage is None]
    if not models:
        return
    number = world.next_serial()
    query = world.rng.choice(_QUERIES)
    commit = StagedCommit(query, number, [f"{query}-{number}-{i}" for i in range(world.rng.choice((1, 2)))])
    try:
        for attempt in commit.attempts:
            for _ in range(world.rng.choice((1, 3, 12))):
                model = world.rng.choice(models)
                commit.entries.setdefault(model, []).extend(_upload_block(world, attempt, model))
            _seal(world, attempt)
        if world.rng.random() < 0.3:
            _upload_block(world, f"{query}-{number}-loser", world.rng.choice(models))
    except HeadwaterError as error:
        tell_error(world, error)
    else:
        world.note(f"uploaded {query}/{number}: {sum(map(len, commit.entries.values()))} entries")
        world.staged.append(commit)


def commit_upload(world: World) -> None:
    """Commit an upload; or ask for one again that is under way, or done. Batches of a query rise."""
    query = world.rng.choice(_QUERIES)
    known = [commit for commit in world.finished + world.staged if commit.query == query]
    # The last batch counts though its logs were deleted since, and with them what is known of it here.
    last = world.last_batches.get(query, 0)
    known = [commit for commit in known if commit.batch >= last]
    if not known:
        return
    commit = world.rng.choice(known)
    world.note(f"commit {commit.query}/{commit.batch}{', again' if commit.asked else ''}")
    asked, commit.asked = commit.asked, True
    for model, entries in commit.entries.items():
        if not asked:
            model.stage(entries)
            commit.starts[model] = world.partition(model).committed_offset
    try:
        world.store.staged.commit(commit.query, commit.batch, commit.attempts, commit.answer)
    except HeadwaterError as error:
        world.note(f"   refused: {error}")
        commit.asked = asked
    else:
        world.last_batches[query] = commit.batch


def _upload_block(world: World, attempt: str, model: PartitionModel) -> list[Entry]:
    entries = [
        Entry(make_entry(b"s%05d" % world.next_serial(), world.rng.choice((20, 200))), 1)
        for _ in range(world.rng.choice((1, 2, 4)))
    ]
    for entry in entries:
        entry.staged = attempt
    data = b"".join(entry.data for entry in entries)
    block = StagedBlock(world.partition(model).id, len(entries), len(entries), data)
    world.store.staging.upload(attempt, block, world.clock())
    return entries


def _seal(world: World, attempt: str) -> None:
    answers: list[StorageError | None] = []
    world.store.staging.seal(attempt, answers.append)
    turn(world)
    if answers and answers[0] is not None:
        raise answers[0]


STAGING_STEPS: dict[Step, int] = {upload: 3, commit_upload: 4}

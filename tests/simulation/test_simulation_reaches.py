"""The schedules get to what is rare: each of these happens within a few hundred of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from headwater.log import commit, journal, partition, recovery, retention, scheduler, staged_commit, state
from tests.simulation import world
from tests.simulation.schedule import run_schedule

SEEDS = 300
TIMES_MIN = 10

PLACES: list[tuple[object, str]] = [
    (commit.Commit, "_sync_folders"),
    (commit.Commit, "_sync_previous"),
    (journal.JournalRound, "run"),
    (journal.Checkpoint, "run"),
    (journal, "_write_record"),
    (commit.Commit, "cut_back"),
    (partition.Partition, "_take_back"),
    (partition.Partition, "_begin_segment"),
    (recovery._NewestSegment, "_is_corrupt"),
    (recovery._NewestSegment, "_restore_scanned"),
    (recovery._NewestSegment, "_believe"),
    (recovery, "_rebuild_index"),
    (recovery, "_remove_segment"),
    (retention.Removal, "run"),
    (retention.TreeRemoval, "run"),
    (scheduler.CommitScheduler, "_checkpointed"),
    (staged_commit.StagedCommits, "_finish"),
    (state.StateStore, "_compact"),
    (world.World, "_check_damaged"),
]


def name_of(place: tuple[object, str]) -> str:
    owner, name = place
    return f"{getattr(owner, '__name__', owner)}.{name}"


def count_calls(patch: pytest.MonkeyPatch, place: tuple[object, str], counts: Counter[str]) -> None:
    owner, name = place
    original: Callable[..., Any] = getattr(owner, name)

    def counted(*arguments: Any, **keywords: Any) -> Any:
        counts[name_of(place)] += 1
        return original(*arguments, **keywords)

    patch.setattr(owner, name, counted)


def test_the_schedules_reach_what_is_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: Counter[str] = Counter()
    story: Counter[str] = Counter()
    for place in PLACES:
        count_calls(monkeypatch, place, counts)
    for seed in range(SEEDS):
        run_schedule(seed, lambda text: story.update([text.strip().split(":")[0][:24]]))
    rare = {name_of(place): counts[name_of(place)] for place in PLACES if counts[name_of(place)] < TIMES_MIN}
    assert not rare
    for words in (
        "-- the machine crashed, o",
        "-- the process crashed, o",
        "-- opening fails",
        "refused",
    ):
        assert story[words[:24]] >= TIMES_MIN, words

"""A minute of the fault-injecting checker; and servers broken on purpose, so that its silence means something."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

from tests.checker.plan import IN_FLIGHT_WANTED
from tests.checker.run import SECONDS, run_seed
from tests.checker.violation import Kind

SEED_IN_CI = 3
"""Its first kill is followed by two during recovery."""
BROKEN_SECONDS = 6.0
BROKEN_RUNS_MAX = 3
"""Each twice as long as the one before: on a busy machine less happens in a second."""


def test_what_was_confirmed_survives_kills_in_flight_and_during_recovery(tmp_path: Path) -> None:
    seed = SEED_IN_CI if os.environ.get("CI") else random.randrange(10**9)
    report = run_seed(tmp_path, seed, SECONDS)
    assert not report.violations, str(report)
    figures = report.figures
    assert figures.in_flight_max >= IN_FLIGHT_WANTED, str(report)
    assert figures.faults["kill under load"] >= 1
    assert figures.confirmed >= IN_FLIGHT_WANTED
    assert figures.delivered_amqp > 0
    assert figures.kept > 0
    assert figures.offsets_told > 0
    assert figures.turns > 0
    print(report)


@pytest.mark.parametrize(
    ("broken", "seen"),
    [
        ("confirm_at_once", {Kind.LOST}),
        ("forget_sequences", {Kind.DUPLICATED, Kind.SEQUENCE_BEHIND}),
        ("all_active", {Kind.TWO_ACTIVE}),
        ("skip_chunks", {Kind.SKIPPED}),
        ("skip_messages", {Kind.SKIPPED}),
        ("lose_stored_offsets", {Kind.OFFSET_BEHIND}),
        ("settle_before_disk", {Kind.SETTLED_CAME_BACK}),
        ("settle_too_much", {Kind.UNDELIVERED}),
    ],
)
def test_a_broken_server_is_seen(tmp_path: Path, broken: str, seen: set[Kind]) -> None:
    command = (sys.executable, "-m", "tests.checker.broken_server", broken)
    for run in range(BROKEN_RUNS_MAX):
        report = run_seed(tmp_path / str(run), SEED_IN_CI, BROKEN_SECONDS * 2**run, command)
        if seen <= {violation.kind for violation in report.violations}:
            return
    pytest.fail(f"not seen: {report}")

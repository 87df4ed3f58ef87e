"""Eight containers that come, go and are killed share twelve partitions; and servers that are broken on purpose."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from tests.rebalance.run import Binding, run
from tests.rebalance.verify import Kind

SECONDS = 4.0
BROKEN_SECONDS = 2.0
BROKEN_RUNS_MAX = 3
"""Each twice as long as the one before: on a busy machine less happens in a second."""
BROKEN_DRAIN_S = 1.0


@pytest.mark.clause("ES-13", "ES-15", "ES-16", "ES-17")
@pytest.mark.parametrize("binding", ["assign", "dynamic"])
def test_no_event_is_lost_order_is_kept_and_every_repeat_was_not_settled(
    tmp_path: Path, binding: Binding
) -> None:
    report = run(tmp_path, random.randrange(10**9), SECONDS, binding)
    assert not report.violations, str(report)
    assert report.confirmed > 0
    assert report.repeats > 0
    assert sum(report.ends.values()) > 8, "members came and went"
    if binding == "assign":
        assert report.ends.get("closed gracefully"), "partitions were taken back"


@pytest.mark.clause("ES-15", "ES-16", "ES-20")
def test_what_the_server_settled_stays_settled_though_it_is_killed_and_partitions_are_torn_away(
    tmp_path: Path,
) -> None:
    report = run(tmp_path, random.randrange(10**9), SECONDS, "dynamic", kills=True, hastens=True)
    assert not report.violations, str(report)
    assert report.kills > 0


@pytest.mark.parametrize(
    ("broken", "binding", "seen"),
    [
        ("settle_too_little", "dynamic", Kind.UNEXPLAINED),
        ("settle_too_much", "assign", Kind.LOST),
        ("two_owners", "dynamic", Kind.ORDER),
        ("forget_failures", "dynamic", Kind.TWICE),
    ],
)
def test_a_broken_server_is_seen(tmp_path: Path, broken: str, binding: Binding, seen: Kind) -> None:
    command = (sys.executable, "-m", "tests.checker.broken_server", broken)
    for number in range(BROKEN_RUNS_MAX):
        folder, seconds = tmp_path / str(number), BROKEN_SECONDS * 2**number
        report = run(folder, number, seconds, binding, command=command, drain_s=BROKEN_DRAIN_S)
        if seen in {violation.kind for violation in report.violations}:
            return
    pytest.fail(f"not seen: {report}")

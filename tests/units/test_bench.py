"""Each measurement runs, gives its figures and stores what it should; sizes are tiny, so the figures mean nothing."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench import __main__ as bench_main
from bench.disk import BareWriter, cached_share, drop_cached, filesystem_of
from bench.figure import Figure, Options, at_least, at_most, figure_of, percentile, ratio_of, table
from bench.load import BATCH_ENTRIES, PublishBody
from bench.opening import open_afresh

ROOT = Path(__file__).resolve().parents[2]
FIGURES = {
    "kernel": 22,
    "expression": 9,
    "cloudevents": 12,
    "filters": 21,
    "append": 13,
    "append_1k": 6,
    "partitions": 9,
    "read": 6,
    "lookup": 3,
    "memory": 1,
    "opening": 4,
    "sustained": 2,
}


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(seconds=0.1, rounds=2, data=tmp_path / "data", scale=0.001)


@pytest.mark.parametrize("name", bench_main.CASES)
def test_a_measurement_gives_its_figures_and_leaves_nothing(name: str, options: Options) -> None:
    figures: list[Figure] = importlib.import_module(f"bench.{name}").run(options)
    assert len(figures) == FIGURES[name]
    assert all(figure.case and figure.unit for figure in figures)
    assert all(figure.best > 0 for figure in figures if not figure.case.startswith("  "))
    assert not options.data.exists() or list(options.data.iterdir()) == []


def test_every_case_has_a_count_of_figures_here() -> None:
    assert set(FIGURES) == set(bench_main.CASES)


def test_publishing_ids_rise_from_stamp_to_stamp() -> None:
    body = PublishBody(5)
    seen = [-1]
    for batch in range(600):
        body.stamp(batch)
        for at in range(0, len(body.data), 17):
            seen.append(int.from_bytes(body.data[at : at + 8], "big"))
            assert seen[-1] > seen[-2]
            assert body.data[at + 8 : at + 12] == b"\0\0\0\x05"
    assert len(seen) == 1 + 600 * BATCH_ENTRIES


def test_best_is_the_smallest_where_less_is_better() -> None:
    assert figure_of("x", [3.0, 1.0, 2.0], "ms", smaller_is_better=True).best == 1.0
    assert figure_of("x", [3.0, 1.0, 2.0], "per s").best == 3.0


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        (Figure("x", 5.0, 4.0, "u", aim=at_least(4.0)), "yes"),
        (Figure("x", 5.0, 4.0, "u", aim=at_least(5.0)), "best round"),
        (Figure("x", 5.0, 4.0, "u", aim=at_least(6.0)), "no"),
        (Figure("x", 1.0, 2.0, "u", aim=at_most(2.0)), "yes"),
        (Figure("x", 1.0, 2.0, "u", aim=at_most(1.0)), "best round"),
        (Figure("x", 5.0, 4.0, "u", ratio=0.7, aim=ratio_of(0.8)), "no"),
        (Figure("x", 5.0, 4.0, "u", ratio=0.9, aim=ratio_of(0.8)), "yes"),
        (Figure("x", 5.0, 4.0, "u"), ""),
    ],
)
def test_the_verdict_says_which_round_reached_the_aim(figure: Figure, verdict: str) -> None:
    assert figure.verdict == verdict


def test_a_percentile_is_a_value_that_was_seen() -> None:
    values = list(range(1, 101))
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1.0)) == (51, 100, 100)
    assert percentile([], 0.5) == 0


def test_the_table_has_a_line_for_each_figure() -> None:
    lines = table([Figure("one", 1234.5, 2.0, "ms"), Figure("two", 0.5, 0.25, "s")]).splitlines()
    assert len(lines) == 4
    assert lines[2].split() == ["one", "1,234", "2", "ms"]


def test_the_bare_loop_writes_what_it_counts(tmp_path: Path) -> None:
    with BareWriter(tmp_path / "bare") as bare:
        done = bare.run(1000, 0.0)
        assert (tmp_path / "bare").stat().st_size == 1000
        assert done.syncs_per_s > 0
    assert not (tmp_path / "bare").exists()


def test_pages_are_seen_and_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(1 << 20))
    if filesystem_of(tmp_path)[1]:
        pytest.skip("the folder for temporary files lies in memory")
    assert cached_share([path]) == 1.0
    drop_cached([path])
    assert cached_share([path]) < 1.0


def test_opening_counts_partitions_in_a_process_of_its_own(tmp_path: Path) -> None:
    opened = open_afresh(tmp_path / "data", closes=True)
    assert (opened.partitions, opened.records, opened.damaged) == (0, 0, 0)
    assert opened.resident_kib >= opened.resident_before_kib > 0


def test_the_command_prints_figures_as_json(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench", "lookup", "--scale", "0.001", "--rounds", "1", "--json"]
    finished = subprocess.run(
        [*command, "--data", str(tmp_path)], cwd=ROOT, capture_output=True, check=True, timeout=60
    )
    assert len(json.loads(finished.stdout)["figures"]) == FIGURES["lookup"]
    assert b"lookup" in finished.stderr


@pytest.mark.skipif(not os.path.ismount("/dev/shm"), reason="no file system in memory at its usual place")
def test_a_folder_in_memory_is_refused() -> None:
    assert filesystem_of(Path("/dev/shm"))[1]
    command = [sys.executable, "-m", "bench", "lookup", "--data", "/dev/shm"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=60)
    assert finished.returncode == 2
    assert b"memory" in finished.stderr

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bench.amqp.__main__ import CASES as AMQP_CASES
from bench.doors.case import Case, Metric, no_slower
from bench.doors.loading import LoadFailed, read_load
from bench.doors.report import Row, rows_of, table
from bench.figure import Aim, at_most
from bench.streams.__main__ import CASES as STREAM_CASES

ROOT = Path(__file__).resolve().parents[2]
TOOLS = Path(os.environ.get("LOAD_TOOLS", ROOT.parent / "shared" / "bench"))
GOOD = b'{"mode":"publish","published":10,"confirmed":10,"pub_s":0.5,"pub_msgs_s":20,"other":1}\n'

SPEED = no_slower(6, goal=10)
LATENCY = Metric("p99", "ms", smaller_is_better=True, aim=at_most(5))


def bench(door: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"bench.{door}", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_report_with_exact_counts_is_taken() -> None:
    assert read_load(GOOD, 0).pub_msgs_s == 20
    assert read_load(GOOD.replace(b"confirmed", b"accepted"), 0).pub_msgs_s == 20
    assert read_load(GOOD.replace(b'"confirmed":10', b'"pub_settled":1'), 0).pub_msgs_s == 20


@pytest.mark.parametrize(
    ("line", "exit_code"),
    [
        (GOOD, 3),
        (b"", 2),
        (GOOD.replace(b'"confirmed":10', b'"confirmed":9'), 0),
        (b'{"error":"publish error","confirmed":0,"consumed":0}', 0),
    ],
)
def test_a_report_of_a_run_that_failed_is_refused(line: bytes, exit_code: int) -> None:
    with pytest.raises(LoadFailed):
        read_load(line, exit_code)


def test_an_aim_of_a_ratio_is_met_by_the_median_by_the_best_round_or_missed() -> None:
    assert Row("c", SPEED, [700, 600, 500], {"R": [100, 100, 90]}).verdict == "met"
    assert Row("c", SPEED, [700, 500, 400], {"R": [100, 100, 100]}).verdict == "best round"
    assert Row("c", SPEED, [500, 500, 500], {"R": [100, 100, 100]}).verdict == "MISSED"
    assert Row("c", SPEED, [500]).verdict == "no peer"


def test_an_aim_of_a_value_needs_no_peer_and_takes_the_smallest_as_the_best() -> None:
    assert Row("c", LATENCY, [4, 5, 9]).verdict == "met"
    assert Row("c", LATENCY, [4, 6, 9]).verdict == "best round"
    assert Row("c", LATENCY, [6, 6, 9]).verdict == "MISSED"


def test_a_ratio_of_a_small_value_is_held_to_at_most_the_aim() -> None:
    cpu = Metric("CPU", "s", smaller_is_better=True, aim=Aim(1.5, is_floor=False, of_ratio=True))
    assert Row("c", cpu, [1.5], {"R": [1.0]}).verdict == "met"
    assert Row("c", cpu, [1.6], {"R": [1.0]}).verdict == "MISSED"


def test_the_table_shows_all_servers_and_ratios_of_those_that_got_through() -> None:
    case = Case("publish", "publish 100 B", (SPEED,), lambda _bench, _server: {})
    values = {"Headwater": [{"rate": 700.0}, {"rate": 500.0}], "R": [{"rate": 100.0}] * 2, "Other": []}
    shown = table(rows_of(case, values))
    assert shown.splitlines()[0].split() == [
        *("case", "unit", "ours", "median", "R", "median", "ratio", "median"),
        *("Other", "median", "ratio", "median", "aim", "goal", "met"),
    ]
    assert shown.splitlines()[-1].split() == [
        *("rate", "k/s", "700", "600", "100", "100", "7.00", "6.00", "ratio", ">=", "6", "10", "met")
    ]


@pytest.mark.parametrize("door", ["streams", "amqp"])
def test_missing_tools_are_told_with_the_way_to_name_them(tmp_path: Path, door: str) -> None:
    run = bench(door, "--tools", str(tmp_path))
    assert run.returncode == 2
    assert f"make bench-{door} LOAD_TOOLS=" in run.stderr


@pytest.mark.parametrize("cases", [STREAM_CASES, AMQP_CASES])
def test_case_names_are_words_of_the_command_line(cases: Mapping[str, Case]) -> None:
    assert all(name == case.name and name.replace("-", "").isalnum() for name, case in cases.items())


@pytest.mark.skipif(
    not (TOOLS / "streamload.c").exists(), reason="no load generator; name its folder in LOAD_TOOLS"
)
@pytest.mark.parametrize(
    ("door", "all_cases", "names"),
    [
        ("streams", STREAM_CASES, ("idle", "publish", "both", "replay-small", "10k", "stopped")),
        ("amqp", AMQP_CASES, tuple(AMQP_CASES)),
    ],
    ids=["streams", "amqp"],
)
def test_our_server_takes_each_kind_of_load(
    tmp_path: Path, door: str, all_cases: Mapping[str, Case], names: Sequence[str]
) -> None:
    # The system's temporary folder may lie in memory, which the benchmark refuses.
    data = ROOT / "bench-data" / tmp_path.name
    sizes = ("--rounds", "1", "--seconds", "0.2", "--scale", "0.005")
    try:
        run = bench(
            door, "--ours-only", "--tools", str(TOOLS), "--data", str(data), *sizes, "--cases", *names
        )
        assert run.returncode == 0, run.stderr
        assert all(all_cases[name].title in run.stdout for name in names)
    finally:
        shutil.rmtree(data, ignore_errors=True)

"""Each fuzz target holds for a fixed number of inputs; `make fuzz` looks further."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fuzz.__main__ import main
from fuzz.loop import fuzz, save
from fuzz.targets import TARGETS, Target

EXECUTIONS = 3_000


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_any_bytes_parse_or_raise_the_one_error(target: Target) -> None:
    outcome = fuzz(target, seed=1, executions_max=EXECUTIONS, seconds_max=60)
    if outcome.failure is not None:
        data, error = outcome.failure
        pytest.fail(f"{target.name} raised {error!r} on {data.hex()}")
    assert outcome.executions == EXECUTIONS
    assert outcome.accepted > 0


def broken(data: bytes) -> None:
    if b"!" in data:
        raise LookupError("an exclamation mark")
    raise ValueError("refused")


def test_the_loop_finds_what_breaks_and_repeats_itself(tmp_path: Path) -> None:
    target = Target("broken", broken, ValueError, (b"valid", b"input"))
    first, second = (fuzz(target, seed=5, executions_max=100_000, seconds_max=60) for _ in range(2))
    assert first.failure is not None
    assert second.failure is not None
    assert first.failure[0] == second.failure[0]
    assert b"!" in first.failure[0]
    assert save(tmp_path / "crashes", target, first.failure[0]).read_bytes() == first.failure[0]


def test_a_finding_is_kept_and_its_repetition_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(TARGETS, "broken", Target("broken", broken, ValueError, (b"input!",)))
    monkeypatch.setattr("fuzz.__main__.CRASHES", tmp_path)
    assert main(["broken", "--seconds", "1"]) == 1
    (kept,) = tmp_path.iterdir()
    assert kept.read_bytes() == b"input!"
    assert f"python -m fuzz broken --input {os.path.relpath(kept)}" in capsys.readouterr().out
    with pytest.raises(LookupError):
        main(["broken", "--input", str(kept)])


def test_an_unknown_target_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["no-such-target"])
    assert "there is no target no-such-target" in capsys.readouterr().err


def test_a_target_runs_again_on_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "input.bin"
    path.write_bytes(bytes(8))
    assert main(["decode_snapshot", "--input", str(path)]) == 0
    path.write_bytes(bytes(7))
    assert main(["decode_snapshot", "--input", str(path)]) == 0
    assert "parsed\n" in (printed := capsys.readouterr().out)
    assert "refused with MalformedChunk" in printed
    assert main(["--input", str(path)]) == 2


def test_seeds_parse() -> None:
    for target in TARGETS.values():
        assert any(target.run(seed) is None for seed in target.seeds[:1])

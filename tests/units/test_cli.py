"""The command line: what it says, and with which exit code."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwater import __version__
from headwater.cli import main
from headwater.cli.main import app
from headwater.log.store import Store

runner = CliRunner()


def test_version_says_which_form_of_the_kernels_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    for kernels, form in (
        (("headwater.errors",), "kernels not compiled"),
        (("headwater.no_such_kernel",), "kernels not compiled"),
        (("msgspec._core",), "kernels compiled"),
        (("msgspec._core", "headwater.errors"), "kernels partly compiled: msgspec._core"),
    ):
        monkeypatch.setattr(main, "KERNELS", kernels)
        result = runner.invoke(app, ["--version"])
        assert (result.exit_code, result.stdout) == (0, f"headwater {__version__} ({form})\n")


def test_version_knows_all_kernels() -> None:
    with Path("pyproject.toml").open("rb") as file:
        built = tomllib.load(file)["tool"]["setuptools"]["ext-modules"]
    sources = Path("src").glob("headwater/**/_*kernel.py")
    assert sorted(main.KERNELS) == sorted(kernel["name"] for kernel in built)
    assert sorted(main.KERNELS) == sorted(".".join(path.with_suffix("").parts[1:]) for path in sources)


def test_version_loads_neither_the_server_nor_its_libraries() -> None:
    code = (
        "import sys\n"
        "from headwater.cli.main import main\n"
        "sys.argv = ['headwater', '--version']\n"
        "try:\n    main()\n"
        "except SystemExit:\n    print(sorted({'aiohttp', 'uvloop', 'rich', 'msgspec', 'cython'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.splitlines() == [done.stdout.splitlines()[0], "[]"]


def test_no_command_shows_the_help() -> None:
    result = runner.invoke(app, [])
    assert "serve" in result.output
    assert "check" in result.output


def test_serve_refuses_a_wrong_setting_in_one_line(tmp_path: Path) -> None:
    result = runner.invoke(app, ["serve", "--data", str(tmp_path), "--log-format", "xml"])
    assert result.exit_code == 2
    assert result.stderr == (
        "headwater: setting log_format is invalid: --log-format is 'xml', expected one of json, plain; "
        "correct it and try again\n"
    )


def test_check_finds_a_fresh_folder_sound(tmp_path: Path) -> None:
    Store.open(tmp_path / "data").close()
    result = runner.invoke(app, ["check", str(tmp_path / "data")])
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (
        0,
        f"{tmp_path / 'data'}: nothing that was durable is damaged",
    )
    result = runner.invoke(app, ["check", "--json", str(tmp_path / "data")])
    assert json.loads(result.stdout)["findings"] == []


def test_check_refuses_a_folder_that_is_none_of_ours(tmp_path: Path) -> None:
    result = runner.invoke(app, ["check", str(tmp_path)])
    assert result.exit_code == 1
    assert result.stderr.startswith("headwater: ")
    assert len(result.stderr.splitlines()) == 1


def test_serve_refuses_a_flag_it_does_not_have() -> None:
    assert runner.invoke(app, ["serve", "--no-such-flag"]).exit_code == 2

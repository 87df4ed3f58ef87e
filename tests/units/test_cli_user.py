"""`headwater user`: what it does, what it refuses and how it says so; and that every command of the manual works."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.encoding.sasl import Failure
from headwater.log.store import Store
from headwater.server.config import load
from headwater.server.security.permissions import ALL
from headwater.server.security.users import NewUser, Role, first_user
from tests.security_material import catalogue, log_in

MANUAL = Path(__file__).parents[2] / "docs" / "security.md"
runner = CliRunner()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


class Ran(NamedTuple):
    """How a command ended."""

    exit_code: int
    stdout: str
    stderr: str


def run(data: Path, *arguments: str, password: str | bytes | None = None) -> Ran:
    result = runner.invoke(app, ["user", *arguments, "--data", str(data)], input=password)
    return Ran(result.exit_code, result.stdout, result.stderr)


def succeed(data: Path, *arguments: str, password: str | None = None) -> str:
    result = run(data, *arguments, password=password)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def listed(data: Path) -> list[dict[str, Any]]:
    users: list[dict[str, Any]] = json.loads(succeed(data, "list", "--json"))["users"]
    return users


def test_the_first_user_of_a_new_folder_has_no_guest_beside_it(data: Path) -> None:
    assert (
        succeed(data, "add", "ada", "--role", "admin", "--read", ".*", password="pencil\n")
        == "added user ada\n"
    )
    assert listed(data) == [
        {
            "name": "ada",
            "roles": ["admin"],
            "permissions": [{"vhost": "/", "configure": "", "write": "", "read": ".*"}],
        }
    ]
    with catalogue(data) as opened:
        assert not isinstance(log_in(opened, "ada", "pencil"), Failure)
        assert list(opened.state.users) == ["ada"]


def test_a_folder_with_users_made_beforehand_opens_as_any_other(data: Path) -> None:
    succeed(data, "add", "ada", password="pencil")
    Store.open(data).close()
    succeed(data, "add", "bob", password="pencil")
    assert [user["name"] for user in listed(data)] == ["ada", "bob"]


def test_a_user_can_be_added_to_a_folder_that_has_logs(data: Path) -> None:
    Store.open(data).close()
    succeed(data, "add", "ada", password="pencil")
    assert [user["name"] for user in listed(data)] == ["ada"]


def test_users_are_changed_and_deleted(data: Path, tmp_path: Path) -> None:
    succeed(data, "add", "ada", "--role", "admin", "--role", "monitor", password="pencil")
    (tmp_path / "password").write_text("crayon\n", encoding="utf-8")
    succeed(data, "password", "ada", "--password-file", str(tmp_path / "password"))
    assert succeed(data, "roles", "ada") == "admin monitor\n"
    assert succeed(data, "roles", "ada", "monitor") == "monitor\n"
    assert succeed(data, "roles", "ada", "--clear") == "ada has no role\n"
    succeed(data, "permissions", "ada", "--write", "orders", "--read", ".*")
    shown = succeed(data, "permissions", "ada", "--write", "audit")
    assert shown == "/: configure '', write 'audit', read '.*'\n"
    assert succeed(data, "permissions", "ada", "--clear") == "ada may do nothing\n"
    with catalogue(data) as opened:
        assert not isinstance(log_in(opened, "ada", "crayon"), Failure)
    assert succeed(data, "delete", "ada") == "deleted user ada\n"
    assert listed(data) == []


def test_every_answer_can_be_had_as_json(data: Path) -> None:
    described = {"name": "ada", "roles": [], "permissions": []}
    for arguments, answer in (
        (("add", "ada"), {"added": "ada"}),
        (("password", "ada"), {"changed": "ada"}),
        (("roles", "ada"), described),
        (("permissions", "ada"), described),
        (("list",), {"users": [described]}),
        (("delete", "ada"), {"deleted": "ada"}),
    ):
        assert json.loads(succeed(data, *arguments, "--json", password="pencil")) == answer


def test_the_list_is_a_table_that_takes_names_as_they_are(data: Path) -> None:
    succeed(data, "add", "[red]ada", "--role", "admin", "--read", "[a-z]+", password="pencil")
    succeed(data, "add", "bob", password="pencil")
    table = succeed(data, "list")
    assert [word for word in ("[red]ada", "admin", "[a-z]+", "bob", "configure") if word not in table] == []


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("add", "ada"), 1, ["'ada' exists already"]),
        (("add", "a:b"), 1, ["colon"]),
        (("add", "bob", "--role", "emperor"), 2, ["emperor", "admin, monitor"]),
        (("add", "bob", "--read", "(a"), 1, ["'(a'", "position 0"]),
        (("add", "bob", "--read", ".*", "--vhost", "no"), 1, ["no vhost 'no'"]),
        (("add", "bob", "--password-file", "no/such/file"), 2, ["cannot read no/such/file"]),
        (("add", "bob", "--password", "pencil"), 2, ["--password"]),
        (("delete", "bob"), 1, ["no user 'bob'"]),
        (("password", "bob"), 1, ["no user 'bob'"]),
        (("roles", "bob"), 1, ["no user 'bob'"]),
        (("roles", "ada", "admin", "--clear"), 2, ["not both"]),
        (("permissions", "bob"), 1, ["no user 'bob'"]),
        (("permissions", "ada", "--read", r"(a)\1"), 1, ["not supported"]),
        (("permissions", "ada", "--read", "a", "--clear"), 2, ["not both"]),
        (("permissions", "ada", "--read", "a", "--vhost", "no"), 1, ["no vhost 'no'"]),
    ],
)
def test_what_is_refused_is_said_in_words(
    data: Path, arguments: tuple[str, ...], code: int, words: list[str]
) -> None:
    succeed(data, "add", "ada", password="pencil")
    before = listed(data)
    result = run(data, *arguments, password="crayon")
    assert result.exit_code == code
    assert [word for word in words if word not in result.stderr] == []
    assert listed(data) == before


def test_an_empty_password_is_refused(data: Path) -> None:
    for password in ("", "\n"):
        result = run(data, "add", "ada", password=password)
        assert result.exit_code == 1
        assert "the password is refused" in result.stderr


def test_bytes_that_are_no_text_are_no_password(data: Path) -> None:
    result = run(data, "add", "ada", password=b"\xff\xfe")
    assert (result.exit_code, "the password is refused" in result.stderr) == (1, True)


def test_a_folder_that_a_server_holds_is_left_alone_with_its_pid(data: Path) -> None:
    succeed(data, "add", "ada", password="pencil")
    store = Store.open(data)
    for arguments in (("add", "bob"), ("list",), ("delete", "ada"), ("roles", "ada", "admin")):
        result = run(data, *arguments, password="pencil")
        assert result.exit_code == 1
        assert f"in use by process {os.getpid()}" in result.stderr
        assert "HTTP API" in result.stderr
    store.close()
    assert [user["name"] for user in listed(data)] == ["ada"]


def test_folders_without_users_are_not_made_into_data_folders(data: Path, tmp_path: Path) -> None:
    result = run(data, "list")
    assert (result.exit_code, "has no users yet" in result.stderr) == (1, True)
    assert not data.exists()
    (tmp_path / "note").write_text("mine", encoding="utf-8")
    result = run(tmp_path, "add", "ada", password="pencil")
    assert (result.exit_code, "not written by headwater" in result.stderr) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["note"]


def test_the_folder_may_come_from_the_settings(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_DATA", str(data))
    assert runner.invoke(app, ["user", "add", "ada"], input="pencil").exit_code == 0
    assert [user["name"] for user in listed(data)] == ["ada"]
    monkeypatch.setenv("HEADWATER_DATA", "")
    assert runner.invoke(app, ["user", "list"]).exit_code == 2


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", MANUAL.read_text(encoding="utf-8"), re.DOTALL)


def test_every_command_of_the_manual_works(tmp_path: Path) -> None:
    (script,) = blocks("sh")
    assert script.count("headwater user") == len(re.findall("^.*headwater user", script, re.MULTILINE)) > 10
    shell = f'set -e\nheadwater() {{ "{sys.executable}" -m headwater.cli.main "$@"; }}\n{script}'
    done = subprocess.run(
        ["sh", "-c", shell], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [user["name"] for user in listed(tmp_path / "headwater-data")] == ["ada"]


def test_the_variables_of_the_manual_make_the_first_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lines,) = blocks("ini")
    monkeypatch.chdir(tmp_path)
    Path("ada.password").write_text("pencil\n", encoding="utf-8")
    settings = load(None, dict(line.split("=") for line in lines.split()), {})
    user = first_user(settings.admin_user, settings.admin_password_file)
    assert user == NewUser("ada", "pencil", frozenset({Role.ADMIN}), {"/": ALL})


def test_the_manual_names_settings_that_there_are() -> None:
    text = MANUAL.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:admin|scram|sasl|password)_\w+)", text))
    assert named == {name for name in load(None, {}, {}).__struct_fields__ if name in named} != set()

"""`headwater log` and `headwater user` against a server that runs: what they do there, and how they fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from headwater.cli.main import app
from tests.http_api import Api
from tests.management.conftest import PASSWORD
from tests.peers.servers import HOST, Server
from tests.stream_client import StreamClient

runner = CliRunner()


class Ran(NamedTuple):
    """How a command ended."""

    exit_code: int
    stdout: str
    stderr: str


class Commands:
    """Runs commands as one user of a server."""

    def __init__(self, server: Server, *login: str) -> None:
        self._options = ["--url", f"http://{HOST}:{server.http_port}", *login]

    def run(self, *arguments: str, input: str | None = None) -> Ran:
        result = runner.invoke(app, [*arguments, *self._options], input=input)
        return Ran(result.exit_code, result.stdout, result.stderr)

    def succeed(self, *arguments: str, input: str | None = None) -> str:
        ran = self.run(*arguments, input=input)
        assert (ran.exit_code, ran.stderr) == (0, ""), ran
        return ran.stdout

    def json(self, *arguments: str, input: str | None = None) -> Any:
        return json.loads(self.succeed(*arguments, "--json", input=input))


@pytest.fixture
def commands(server: Server) -> Commands:
    return Commands(server)


def test_a_log_is_made_shown_changed_truncated_and_deleted(
    commands: Commands, client: StreamClient, name: str
) -> None:
    made = commands.succeed("log", "create", name, "--set", "max_bytes=5000000", "--set", "durability=disk")
    assert made == f"created stream {name} of 1 partitions\n"
    client.declare_publisher(1, name)
    client.publish(1, 4)
    shown = commands.succeed("log", "info", name)
    assert shown.startswith(f"{name}: stream, 4 events, ")
    assert "  max_bytes = 5000000\n" in shown
    assert "partition 0" in shown
    assert (
        commands.succeed("log", "change", name, "--set", "max_bytes=null") == f"changed max_bytes of {name}\n"
    )
    assert commands.json("log", "info", name)["settings"]["max_bytes"] is None
    truncated = commands.succeed("log", "truncate", name)
    assert truncated == f"truncated {name}, which holds 0 events now\n"
    assert commands.succeed("log", "delete", name) == f"deleted {name}\n"
    assert commands.run("log", "info", name).exit_code == 1


def test_every_answer_of_log_can_be_had_as_json(commands: Commands, root: Api, name: str) -> None:
    made = commands.json("log", "create", name, "--partitions", "2")
    assert (made["kind"], made["partition_count"]) == ("super_stream", 2)
    assert (
        commands.json("log", "change", name, "--set", "max_age_ms=60000")["settings"]["max_age_ms"] == 60_000
    )
    assert commands.json("log", "truncate", name, "--partition", "0", "--before", "0")["event_count"] == 0
    assert commands.json("log", "info", name) == root.get(f"/logs/{name}")
    assert name in [log["name"] for log in commands.json("log", "list")["logs"]]
    assert commands.json("log", "delete", name) == {"deleted": name}


def test_the_list_is_a_table_that_takes_names_as_they_are(commands: Commands, name: str) -> None:
    commands.succeed("log", "create", f"[red]{name}", "--super-stream")
    table = commands.succeed("log", "list")
    assert [word for word in (f"[red]{name}", "super", "events") if word not in table] == []
    commands.succeed("log", "delete", f"[red]{name}")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("log", "info", "missing"), 1, ["refused that (404)", "no log 'missing'"]),
        (("log", "create", "x", "--set", "colour=red"), 1, ["(400)", "colour"]),
        (("log", "create", "x", "--set", "max_bytes"), 2, ["NAME=VALUE"]),
        (("log", "change", "x"), 2, ["--set"]),
        (("log", "create", "x", "--partitions", "0"), 2, ["--partitions"]),
        (("user", "password", "missing"), 1, ["no user 'missing'"]),
        (("user", "roles", "guest", "king"), 2, ["king", "admin, monitor"]),
        (("user", "permissions", "missing", "--read", "a"), 1, ["no user 'missing'"]),
        (("user", "delete", "missing"), 1, ["no user 'missing'"]),
    ],
)
def test_what_is_refused_is_one_line_of_words(
    commands: Commands, arguments: tuple[str, ...], code: int, words: list[str]
) -> None:
    ran = commands.run(*arguments, input="pencil")
    assert ran.exit_code == code, ran
    assert [word for word in words if word not in ran.stderr] == []


def test_a_server_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    ran = runner.invoke(app, ["log", "list", "--url", f"http://{HOST}:1"])
    assert ran.exit_code == 1
    assert ran.stderr.startswith(f"headwater: cannot connect to {HOST}:1: ")
    assert len(ran.stderr.splitlines()) == 1


def test_users_are_changed_on_a_server_that_runs(
    commands: Commands, server: Server, root: Api, name: str
) -> None:
    user = f"user-{name}"
    assert (
        commands.succeed("user", "add", user, "--role", "monitor", input="first\n") == f"added user {user}\n"
    )
    assert Api(server.http_port, user, "first").ask("GET", "/whoami").status == 200
    commands.succeed("user", "password", user, input="second\n")
    assert Api(server.http_port, user, "first").ask("GET", "/whoami").status == 401
    assert Api(server.http_port, user, "second").ask("GET", "/whoami").status == 200
    assert commands.succeed("user", "roles", user) == "monitor\n"
    assert commands.succeed("user", "roles", user, "admin") == "admin\n"
    assert commands.succeed("user", "roles", user, "--clear") == f"{user} has no role\n"
    commands.succeed("user", "permissions", user, "--write", "orders", "--read", ".*")
    changed = commands.succeed("user", "permissions", user, "--write", "audit")
    assert changed == "/: configure '', write 'audit', read '.*'\n"
    listed = {each["name"]: each for each in commands.json("user", "list")["users"]}
    assert listed[user] == commands.json("user", "permissions", user)
    assert commands.succeed("user", "permissions", user, "--clear") == f"{user} may do nothing\n"
    assert commands.json("user", "delete", user) == {"deleted": user}
    assert root.ask("GET", f"/users/{user}").status == 404


def test_a_folder_leads_to_the_server_that_has_it_open(server: Server, root: Api, name: str) -> None:
    ran = runner.invoke(app, ["user", "add", name, "--data", str(server.data)], input=PASSWORD)
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert root.get(f"/users/{name}")["name"] == name
    ran = runner.invoke(app, ["user", "list", "--json", "--data", str(server.data)])
    assert name in [each["name"] for each in json.loads(ran.stdout)["users"]]


def test_what_a_server_said_of_itself_is_not_believed_when_another_has_the_folder(tmp_path: Path) -> None:
    own = Server(tmp_path / "data")
    own.start()
    try:
        (own.data / "doors.json").write_text('{"pid": 1, "http": "http://127.0.0.1:1"}', "ascii")
        ran = runner.invoke(app, ["user", "list", "--data", str(own.data)])
        assert ran.exit_code == 1
        assert f"in use by process {own.pid}; name its HTTP API with --url" in ran.stderr
        assert own.stop() == 0
        assert not (own.data / "doors.json").exists()
        assert runner.invoke(app, ["user", "list", "--data", str(own.data)]).exit_code == 0
    finally:
        own.end()


def test_who_asks_is_said_by_options_and_by_the_url(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n", "ascii")
    login = ("--login", "watcher", "--login-password-file", str(file))
    refused = Commands(server, *login).run("user", "list")
    assert (refused.exit_code, "role admin" in refused.stderr) == (1, True)
    assert Commands(server, *login).run("log", "list").exit_code == 0
    url = f"http://watcher:{PASSWORD}@{HOST}:{server.http_port}"
    by_url = runner.invoke(app, ["user", "list", "--url", url])
    assert (by_url.exit_code, "role admin" in by_url.stderr) == (1, True)
    assert "a password on the command line is seen" in by_url.stderr
    wrong = Commands(server, "--login", "ada", "--login-password-file", str(tmp_path / "missing"))
    assert wrong.run("log", "list").exit_code == 2
    by_variable = runner.invoke(app, ["user", "list"], env={"HEADWATER_HTTP_URL": url})
    assert (by_variable.exit_code, "seen by everybody" in by_variable.stderr) == (1, False)

"""`headwater group` and `headwater subscription` against a server on which Qpid Proton consumes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from proton.utils import BlockingConnection

from tests.http_api import Api
from tests.management.conftest import PASSWORD
from tests.management.test_amqp_connections import connected
from tests.management.test_cli import Commands
from tests.management.test_logs import made
from tests.peers.consuming import Durable, InGroup, detach, last_words, publish, receive, receiver, synced
from tests.peers.servers import HOST, Server


@pytest.fixture
def commands(server: Server) -> Commands:
    return Commands(server)


@pytest.fixture
def amqp(server: Server) -> Iterator[BlockingConnection]:
    with connected(server) as connection:
        yield connection


@pytest.fixture
def log(root: Api, amqp: BlockingConnection, name: str) -> str:
    """A log with six events."""
    made(root, name)
    publish(amqp, name, 0, 6)
    return name


def words(table: str) -> list[list[str]]:
    """The cells of each row of a table."""
    rows = [line.split("│")[1:-1] for line in table.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in row] for row in rows]


def test_a_group_is_made_shown_reset_and_ended(
    commands: Commands, amqp: BlockingConnection, log: str
) -> None:
    created = commands.succeed("group", "create", log, "billing", "--start", "2")
    assert created == f"made group billing of {log}, which has a lag of 4\n"
    taking = receiver(amqp, log, "r", InGroup("billing"))
    receive(taking, 4, accepted=3)
    listed = words(commands.succeed("group", "list", "--log", log))
    assert listed == [[log, "billing", "1", "0", "1", "1", "0", "0"]]
    shown = commands.succeed("group", "info", log, "billing")
    assert shown.startswith(f"billing of {log}: made by an operator, 1 members, lag 1, 1 unsettled, 0 lost")
    assert "  group_binding = assign\n" in shown
    assert ["0", "r", "5", "6", "6", "1", "1", "0", "0", "0"] in words(shown)
    assert any(row[0] == "r" and row[2] == "guest" for row in words(shown))
    reset = commands.succeed("group", "reset", log, "billing", "--to", "earliest", "--partition", "0")
    assert reset == f"reset group billing of {log}, which has a lag of 6 now\n"
    assert "amqp:link:detach-forced" in last_words(taking)
    assert commands.succeed("group", "end", log, "billing") == f"ended group billing of {log}\n"
    assert commands.json("group", "list", "--log", log) == {"groups": []}


def test_a_subscription_is_found_by_its_id_or_by_a_name_that_no_other_has(
    commands: Commands, root: Api, amqp: BlockingConnection, log: str, name: str
) -> None:
    subscription = f"audit-{name}"
    detach(receiver(amqp, log, subscription, Durable()))
    (listed,) = commands.json("subscription", "list", "--log", log)["subscriptions"]
    assert [listed["name"], listed["log"]] == [subscription, log]
    table = words(commands.succeed("subscription", "list", "--log", log))
    assert "".join(row[0] for row in table) == listed["id"]
    for which in (listed["id"], subscription):
        shown = commands.succeed("subscription", "info", which)
        assert shown.replace("\n", " ").startswith(
            f"{listed['id']}: durable subscription {subscription} of {log},"
        )
        assert ["0", "6", "6", "6", "0", "0", "0", "0", "0"] in words(shown)
    reset = commands.succeed("subscription", "reset", subscription, "--to", "4")
    assert reset == f"reset {subscription} of {log}, which has a lag of 2 now\n"
    made(root, f"{log}-2")
    detach(receiver(amqp, f"{log}-2", subscription, Durable()))
    several = commands.run("subscription", "info", subscription)
    assert several.exit_code == 2
    assert f"2 subscriptions have the name '{subscription}'" in several.stderr
    assert f"{listed['id']} of {log}" in several.stderr
    ended = commands.succeed("subscription", "end", subscription, "--log", log)
    assert ended == f"ended subscription {subscription}\n"
    assert commands.json("subscription", "end", subscription)["ended"] != listed["id"]
    gone = commands.run("subscription", "info", subscription)
    assert gone.exit_code == 2
    assert "`headwater subscription list`" in gone.stderr


def test_every_answer_can_be_had_as_json(
    commands: Commands, root: Api, amqp: BlockingConnection, log: str
) -> None:
    group = commands.json("group", "create", log, "billing", "--start", "earliest")
    assert group == commands.json("group", "info", log, "billing") == root.get(f"/groups/{log}/billing")
    assert commands.json("group", "reset", log, "billing", "--to", "latest")["lag"] == 0
    detach(receiver(amqp, log, f"s-{log}", Durable()))
    id_ = commands.json("subscription", "list", "--log", log)["subscriptions"][0]["id"]
    assert commands.json("subscription", "info", id_) == root.get(f"/subscriptions/{id_}")
    assert commands.json("subscription", "reset", id_, "--to", "earliest")["lag"] == 6
    assert commands.json("subscription", "end", id_) == {"ended": id_}
    assert commands.json("group", "end", log, "billing") == {"ended": "billing", "log": log}


def test_names_that_peers_chose_do_nothing_to_the_terminal(
    commands: Commands, amqp: BlockingConnection, log: str
) -> None:
    name = f"\x1b[31m{log}\u202e\n"
    detach(receiver(amqp, log, name, Durable()))
    receiver(amqp, log, name, InGroup(name))
    synced(amqp)
    id_ = commands.json("subscription", "list", "--log", log)["subscriptions"][0]["id"]
    shown = [
        commands.succeed("group", "list", "--log", log),
        commands.succeed("group", "info", log, name),
        commands.succeed("subscription", "list", "--log", log),
        commands.succeed("subscription", "info", id_),
        commands.succeed("subscription", "reset", id_, "--to", "latest"),
        commands.succeed("group", "end", log, name),
    ]
    for text in shown:
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "\\x1b[31m" in text.replace("\n", "")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["group", "info", "LOG", "no-such"], "make it, or check the name"),
        (["group", "info", "no-such", "billing"], "create it, or check the name"),
        (["group", "reset", "LOG", "billing", "--to", "7"], "there is no 7 yet"),
        (["group", "reset", "LOG", "billing", "--to", "soon"], "say earliest, latest, an offset"),
        (
            ["group", "reset", "LOG", "billing", "--to", "0", "--partition", "5"],
            "ask for one of those it lists",
        ),
        (["group", "create", "LOG", "billing"], "reset it, or end it first"),
        (["subscription", "info", "0" * 32], "ask for the id of one that is listed"),
    ],
)
def test_what_is_refused_is_one_line_that_says_what_to_do(
    commands: Commands, log: str, arguments: list[str], told: str
) -> None:
    commands.succeed("group", "create", log, "billing")
    ran = commands.run(*[log if each == "LOG" else each for each in arguments])
    assert (ran.exit_code, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert told in ran.stderr


def test_what_is_missing_is_a_mistake_in_the_command(commands: Commands, log: str) -> None:
    for arguments in (["group", "reset", log, "billing"], ["group", "info", log], ["subscription", "info"]):
        assert commands.run(*arguments).exit_code == 2
    assert commands.run("group", "list", "--watch", "0").exit_code == 2


def test_a_user_sees_and_changes_what_the_permissions_say(
    server: Server, root: Api, log: str, name: str, tmp_path: Path
) -> None:
    password = tmp_path / "password"
    password.write_text(PASSWORD, "ascii")
    root.do("POST", "/groups", {"log": log, "name": "billing"})
    ada, watcher = (
        Commands(server, "--login", user, "--login-password-file", str(password))
        for user in ("ada", "watcher")
    )
    assert ada.json("group", "list", "--log", log) == {"groups": []}
    assert len(watcher.json("group", "list", "--log", log)["groups"]) == 1
    for commands, arguments in ((ada, ["info"]), (watcher, ["end"]), (ada, ["end"])):
        ran = commands.run("group", *arguments, log, "billing")
        assert (ran.exit_code, "may not" in ran.stderr) == (1, True)


def test_watching_shows_how_the_lag_goes_down(
    server: Server, root: Api, amqp: BlockingConnection, log: str
) -> None:
    root.do("POST", "/groups", {"log": log, "name": "billing", "start": "earliest"})
    command = [sys.executable, "-m", "headwater.cli.main", "group", "info", log, "billing", "--json"]
    where = ["--watch", "0.1", "--url", f"http://{HOST}:{server.http_port}"]
    watching = subprocess.Popen([*command, *where], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline())["lag"] == 6
        receive(receiver(amqp, log, "r", InGroup("billing")), 6)
        shown: Any = None
        while shown is None or shown["lag"]:
            shown = json.loads(watching.stdout.readline())
        assert [each["link"] for each in shown["members"]] == ["r"]
    finally:
        watching.send_signal(signal.SIGINT)
        _, errors = watching.communicate(timeout=30)
    assert (watching.returncode, errors) == (130, "")

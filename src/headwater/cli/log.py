"""`headwater log`: the logs of a server that runs, by way of its HTTP door."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli.connecting import USAGE_EXIT_CODE, Misused, fail, takes
from headwater.cli.http_connecting import CaFile, CertificateFile, Login, LoginPasswordFile, Url, http_api

if TYPE_CHECKING:  # at run time this is imported when a command connects
    from headwater.client.http_api import HttpApi

__all__ = ["logs"]

logs = typer.Typer(help="Logs of a running server.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="LOG", help="Name of the log.")]
Json = Annotated[bool, typer.Option("--json", help="Answer with one JSON document.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A setting, such as max_bytes=1000000000, or max_age_ms=null for none; may be given several times.",
    ),
]


class Logs:
    """The logs of one vhost, as a server tells of them; what is refused raises a `HeadwaterError`."""

    def __init__(self, api: HttpApi, vhost: str) -> None:
        self._api = api
        self._where = {"vhost": vhost}

    def all(self) -> list[dict[str, Any]]:
        """Those that the user sees, by name."""
        return list(self._api.pages("/logs", "logs", self._where))

    def create(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """Make one."""
        return self._ask("POST", "/logs", wanted)

    def of(self, method: str, name: str, body: object = None, *, action: str = "") -> dict[str, Any]:
        """Ask for something of one log."""
        from headwater.client.http_api import path_of

        return self._ask(method, path_of("logs", name) + action, body)

    def _ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        answer: dict[str, Any] = self._api.ask(method, path, body, self._where)
        return answer


def _logs(
    *,
    vhost: Annotated[
        str, typer.Option(help="Virtual host.", envvar="HEADWATER_VHOST", rich_help_panel="Connection")
    ] = "/",
    url: Url = None,
    login: Login = None,
    login_password_file: LoginPasswordFile = None,
    ca_file: CaFile = None,
    certificate_file: CertificateFile = None,
) -> Logs:
    return Logs(http_api(url, login, login_password_file, ca_file, certificate_file), vhost)


@logs.command("create")
@takes(_logs)
def create(
    of: Logs,
    name: Name,
    partitions: Annotated[int, typer.Option(min=1, help="How many; several make a super stream.")] = 1,
    super_stream: Annotated[
        bool, typer.Option("--super-stream", help="Make a super stream, also of one partition.")
    ] = False,
    settings: Set = None,
    as_json: Json = False,
) -> None:
    """Make a log; it is there, durably, when the command ends."""
    wanted: dict[str, Any] = {"name": name, "partitions": partitions, "settings": _settings(settings)}
    if super_stream:
        wanted["kind"] = "super_stream"
    log = of.create(wanted)
    _say(
        as_json, f"created {log['kind'].replace('_', ' ')} {name} of {log['partition_count']} partitions", log
    )


@logs.command("list")
@takes(_logs)
def list_(of: Logs, as_json: Json = False) -> None:
    """List the logs that you may see."""
    found = of.all()
    if as_json:
        _say(as_json, "", {"logs": found})
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("log", "kind")
    for column in ("partitions", "events", "bytes"):
        table.add_column(column, justify="right")
    for log in found:
        numbers = (log["partition_count"], log["event_count"], log["size_bytes"])
        table.add_row(Text(log["name"]), log["kind"].replace("_", " "), *map(str, numbers))
    Console().print(table)


@logs.command("info")
@takes(_logs)
def info(of: Logs, name: Name, as_json: Json = False) -> None:
    """Show a log, its settings and its partitions."""
    log = of.of("GET", name)
    _say(as_json, _described(log), log)


@logs.command("change")
@takes(_logs)
def change(of: Logs, name: Name, settings: Set = None, as_json: Json = False) -> None:
    """Change settings of a log; what is not named stays as it is."""
    changes = _settings(settings)
    if not changes:
        fail("name what is to change, as in --set max_bytes=1000000000", USAGE_EXIT_CODE)
    log = of.of("PATCH", name, {"settings": changes})
    _say(as_json, f"changed {', '.join(changes)} of {name}", log)


@logs.command("truncate")
@takes(_logs)
def truncate(
    of: Logs,
    name: Name,
    before: Annotated[
        int | None, typer.Option(min=0, help="Offset before which events go.", show_default="all of them")
    ] = None,
    partition: Annotated[
        str | None, typer.Option(help="Id or name of one partition.", show_default="all of them")
    ] = None,
    as_json: Json = False,
) -> None:
    """Remove old events, whole segments at a time."""
    log = of.of("POST", name, {"before_offset": before, "partition": partition}, action="/truncate")
    _say(as_json, f"truncated {name}, which holds {log['event_count']} events now", log)


@logs.command("delete")
@takes(_logs)
def delete(of: Logs, name: Name, as_json: Json = False) -> None:
    """Delete a log with its events."""
    of.of("DELETE", name)
    _say(as_json, f"deleted {name}", {"deleted": name})


def _settings(given: list[str] | None) -> dict[str, Any]:
    """Settings as JSON has them: a value that is no JSON is a word."""
    settings = {}
    for each in given or []:
        name, sign, text = each.partition("=")
        if not (name and sign):
            raise Misused(f"--set {each!r} is no NAME=VALUE")
        try:
            settings[name] = json.loads(text)
        except ValueError:
            settings[name] = text
    return settings


def _described(log: dict[str, Any]) -> str:
    head = f"{log['name']}: {log['kind'].replace('_', ' ')}, {log['event_count']} events, {log['size_bytes']} bytes"
    settings = (f"  {name} = {json.dumps(value)}" for name, value in log["settings"].items())
    partitions = (
        f"  partition {each['id']} ({each['name']}): {each['state']}, offsets {each['first_offset']} to "
        f"{each['next_offset']}, {each['size_bytes']} bytes in {each['segment_count']} segments"
        for each in log["partitions"]
    )
    return "\n".join([head, *settings, *partitions])


def _say(as_json: bool, line: str, answer: dict[str, Any]) -> None:
    typer.echo(json.dumps(answer) if as_json else line)

"""`headwater log`: the logs of a server that runs, by way of its HTTP door."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from headwater.cli.connecting import USAGE_EXIT_CODE, Misused, fail, takes
from headwater.cli.http_connecting import Asking, asking

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


@logs.command("create")
@takes(asking)
def create(
    of: Asking,
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
    log = of.ask("POST", "logs", body=wanted)
    _say(
        as_json, f"created {log['kind'].replace('_', ' ')} {name} of {log['partition_count']} partitions", log
    )


@logs.command("list")
@takes(asking)
def list_(of: Asking, as_json: Json = False) -> None:
    """List the logs that you may see."""
    found = of.all("logs")
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
@takes(asking)
def info(of: Asking, name: Name, as_json: Json = False) -> None:
    """Show a log, its settings and its partitions."""
    log = of.ask("GET", "logs", name)
    _say(as_json, _described(log), log)


@logs.command("change")
@takes(asking)
def change(of: Asking, name: Name, settings: Set = None, as_json: Json = False) -> None:
    """Change settings of a log; what is not named stays as it is."""
    changes = _settings(settings)
    if not changes:
        fail("name what is to change, as in --set max_bytes=1000000000", USAGE_EXIT_CODE)
    log = of.ask("PATCH", "logs", name, body={"settings": changes})
    _say(as_json, f"changed {', '.join(changes)} of {name}", log)


@logs.command("truncate")
@takes(asking)
def truncate(
    of: Asking,
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
    log = of.ask("POST", "logs", name, "truncate", body={"before_offset": before, "partition": partition})
    _say(as_json, f"truncated {name}, which holds {log['event_count']} events now", log)


@logs.command("delete")
@takes(asking)
def delete(of: Asking, name: Name, as_json: Json = False) -> None:
    """Delete a log with its events."""
    of.ask("DELETE", "logs", name)
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

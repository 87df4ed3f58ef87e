"""`headwater group`: the consumer groups of a server that runs, by way of its HTTP door."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli.connecting import takes
from headwater.cli.consumers import (
    Json,
    OnLog,
    Partition,
    To,
    Watch,
    consumers_of,
    link_table,
    partition_table,
    printable,
    say,
    show,
    table_of,
)
from headwater.cli.http_connecting import Asking, asking

if TYPE_CHECKING:  # at run time this is imported when a command shows
    from rich.console import RenderableType

__all__ = ["groups"]

groups = typer.Typer(help="Consumer groups of a running server.", no_args_is_help=True)

Log = Annotated[str, typer.Argument(metavar="LOG", help="Name of the log.")]
Name = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.")]


@groups.command("list")
@takes(asking)
def list_(of: Asking, log: OnLog = None, watch: Watch = None, as_json: Json = False) -> None:
    """List consumer groups with their lag."""
    show(lambda: {"groups": consumers_of(of, "groups", log)}, _listed, as_json, watch)


@groups.command("info")
@takes(asking)
def info(of: Asking, log: Log, group: Name, watch: Watch = None, as_json: Json = False) -> None:
    """Show a consumer group: its members, and where it stands in each partition."""
    show(partial(of.ask, "GET", "groups", log, group), _described, as_json, watch)


@groups.command("create")
@takes(asking)
def create(
    of: Asking,
    log: Log,
    group: Name,
    start: Annotated[
        str | None,
        typer.Option(
            help="Where it begins: earliest, latest, an offset, or a time such as 2030-01-31T12:00:00Z.",
            show_default="where its first links ask to",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a consumer group; one that links made is kept as it is."""
    made = of.ask("POST", "groups", body={"log": log, "name": group, "start": start})
    say(as_json, f"made group {group} of {log}, which has a lag of {made['lag']}", made)


@groups.command("reset")
@takes(asking)
def reset(
    of: Asking, log: Log, group: Name, to: To, partition: Partition = None, as_json: Json = False
) -> None:
    """Have a consumer group go on from elsewhere; its links that read there are ended, to attach anew."""
    answer = of.ask("POST", "groups", log, group, "reset", body={"to": to, "partition": partition})
    say(as_json, f"reset group {group} of {log}, which has a lag of {answer['lag']} now", answer)


@groups.command("end")
@takes(asking)
def end(of: Asking, log: Log, group: Name, as_json: Json = False) -> None:
    """End a consumer group with its positions; its links are told that it is no more."""
    of.ask("DELETE", "groups", log, group)
    say(as_json, f"ended group {group} of {log}", {"ended": group, "log": log})


def _listed(answer: dict[str, Any]) -> Iterator[RenderableType]:
    keys = (
        "log",
        "name",
        "member_count",
        "waiting_count",
        "lag",
        "unsettled_count",
        "due_count",
        "lost_count",
    )
    yield table_of(
        None,
        ("log", "group"),
        ("members", "waiting", "lag", "unsettled", "due", "lost"),
        [[each[key] for key in keys] for each in answer["groups"]],
    )


def _described(group: dict[str, Any]) -> Iterator[RenderableType]:
    from rich.text import Text

    made_by = "an operator" if group["is_configured"] else "its links"
    yield Text(
        f"{printable(group['name'])} of {printable(group['log'])}: made by {made_by}, "
        f"{group['member_count']} members, lag {group['lag']}, {group['unsettled_count']} unsettled, "
        f"{group['lost_count']} lost"
    )
    yield Text("\n".join(f"  {name} = {value}" for name, value in group["policy"].items()))
    yield partition_table(group["partitions"])
    if group["members"]:
        yield link_table(group["members"])

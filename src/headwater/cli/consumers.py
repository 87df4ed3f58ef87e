"""What `headwater group` and `headwater subscription` share: what they show, and again."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli.http_connecting import Asking

if TYPE_CHECKING:  # at run time these are imported when a command shows
    from rich.console import RenderableType
    from rich.table import Table

__all__ = [
    "Json",
    "OnLog",
    "Partition",
    "To",
    "Watch",
    "consumers_of",
    "link_table",
    "partition_table",
    "printable",
    "say",
    "show",
    "table_of",
]

WATCH_S_MIN = 0.1

Json = Annotated[bool, typer.Option("--json", help="Answer with one JSON document, with --watch one a line.")]
OnLog = Annotated[
    str | None, typer.Option("--log", help="Those of this log alone.", show_default="all that you may read")
]
Partition = Annotated[
    str | None, typer.Option(help="Id or name of one partition.", show_default="all of them")
]
To = Annotated[
    str,
    typer.Option(
        help="earliest, latest, an offset, or a time such as 2030-01-31T12:00:00Z.", show_default=False
    ),
]
Watch = Annotated[
    float | None,
    typer.Option(min=WATCH_S_MIN, metavar="SECONDS", help="Show it again every so often, until Ctrl-C."),
]


def consumers_of(of: Asking, what: str, log: str | None) -> list[dict[str, Any]]:
    """All groups, or all subscriptions, that the user sees, by log and name."""
    found = of.all(what) if log is None else of.all(what, log=log)
    return sorted(found, key=lambda each: (each["log"], each["name"], each["id"]))


def say(as_json: bool, line: str, answer: dict[str, Any]) -> None:
    """Tell what was done."""
    typer.echo(json.dumps(answer) if as_json else printable(line))


def printable(value: object) -> str:
    """Text that peers chose, without what a terminal would obey."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def show(
    ask: Callable[[], dict[str, Any]],
    shape: Callable[[dict[str, Any]], Iterable[RenderableType]],
    as_json: bool,
    every_s: float | None,
) -> None:
    """Show what is answered: once, or again and again until Ctrl-C."""
    from rich.console import Console, Group
    from rich.live import Live

    console = Console()
    if every_s is not None and console.is_terminal and not as_json:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                live.update(Group(*shape(ask())), refresh=True)
                time.sleep(every_s)
    while True:
        answer = ask()
        if as_json:
            typer.echo(json.dumps(answer))
        else:
            console.print(Group(*shape(answer)))
        if every_s is None:
            return
        sys.stdout.flush()
        time.sleep(every_s)


def table_of(
    title: str | None, words: Sequence[str], numbers: Sequence[str], rows: Iterable[Sequence[object]]
) -> Table:
    """Columns of words, then of numbers, which are right-aligned; what is not there is a dash."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left")
    for word in words:
        table.add_column(word, overflow="fold")
    for number in numbers:
        table.add_column(number, justify="right")
    for row in rows:
        table.add_row(*(Text("-" if cell is None else printable(cell)) for cell in row))
    return table


def partition_table(partitions: Sequence[dict[str, Any]]) -> Table:
    """Where consumers stand."""
    has_owners = any("owner" in each for each in partitions)
    numbers = ("position", "next", "end", "lag", "unsettled", "due", "dead", "lost")
    fields = ("position", "next_offset", "end_offset", "lag")
    counts = ("unsettled_count", "due_count", "dead_letter_count", "lost_count")
    names = ("partition", "owner") if has_owners else ("partition",)
    keys = (*names, *fields, *counts)
    return table_of(None, names, numbers, [[each.get(key) for key in keys] for each in partitions])


def link_table(links: Sequence[dict[str, Any]]) -> Table:
    """Who consumes."""
    has_partitions = any("partitions" in each for each in links)
    keys = ("link", "container", "user", "connection")
    words = (*keys, "partitions") if has_partitions else keys
    rows = [
        [*(each[key] for key in keys), *([_held(each)] if has_partitions else []), each["unsettled_count"]]
        for each in links
    ]
    return table_of(None, words, ("unsettled",), rows)


def _held(member: dict[str, Any]) -> str:
    return "waits" if member["is_waiting"] else " ".join(member["partitions"]) or "none"

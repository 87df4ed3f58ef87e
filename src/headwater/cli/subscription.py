"""`headwater subscription`: what clients of the AMQP door subscribed to on a running server, by its HTTP door."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli.connecting import Misused, takes
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

__all__ = ["subscriptions"]

IDS_TOLD_MAX = 5
"""Of subscriptions with one name, to who has to choose."""

subscriptions = typer.Typer(
    help="What clients of the AMQP door subscribed to on a running server.", no_args_is_help=True
)

Which = Annotated[
    str, typer.Argument(metavar="ID", help="Id of the subscription, or its name if no other has the same.")
]

_ID = re.compile("[0-9a-f]{32}")


@subscriptions.command("list")
@takes(asking)
def list_(of: Asking, log: OnLog = None, watch: Watch = None, as_json: Json = False) -> None:
    """List subscriptions with their lag."""
    show(lambda: {"subscriptions": consumers_of(of, "subscriptions", log)}, _listed, as_json, watch)


@subscriptions.command("info")
@takes(asking)
def info(of: Asking, which: Which, log: OnLog = None, watch: Watch = None, as_json: Json = False) -> None:
    """Show a subscription: its links, and where it stands in each partition."""
    show(partial(of.ask, "GET", "subscriptions", _id(of, which, log)), _described, as_json, watch)


@subscriptions.command("reset")
@takes(asking)
def reset(
    of: Asking, which: Which, to: To, partition: Partition = None, log: OnLog = None, as_json: Json = False
) -> None:
    """Have a durable subscription go on from elsewhere; its links are ended, to attach anew."""
    body = {"to": to, "partition": partition}
    answer = of.ask("POST", "subscriptions", _id(of, which, log), "reset", body=body)
    say(as_json, f"reset {answer['name']} of {answer['log']}, which has a lag of {answer['lag']} now", answer)


@subscriptions.command("end")
@takes(asking)
def end(of: Asking, which: Which, log: OnLog = None, as_json: Json = False) -> None:
    """End a subscription; its links are told that it is no more."""
    id_ = _id(of, which, log)
    of.ask("DELETE", "subscriptions", id_)
    say(as_json, f"ended subscription {which}", {"ended": id_})


def _id(of: Asking, which: str, log: str | None) -> str:
    """The id that is meant, which may be given by a name."""
    if _ID.fullmatch(which):
        return which
    found = [each for each in consumers_of(of, "subscriptions", log) if which in (each["id"], each["name"])]
    if len(found) == 1:
        return str(found[0]["id"])
    if not found:
        raise Misused(
            f"no subscription has the name {which!r}; `headwater subscription list` shows those there are"
        )
    told = ", ".join(f"{each['id']} of {each['log']}" for each in found[:IDS_TOLD_MAX])
    more = ", …" if len(found) > IDS_TOLD_MAX else ""
    raise Misused(f"{len(found)} subscriptions have the name {which!r}; name one by its id: {told}{more}")


def _listed(answer: dict[str, Any]) -> Iterator[RenderableType]:
    keys = ("consumer_count", "lag", "unsettled_count", "due_count", "lost_count")
    yield table_of(
        None,
        ("id", "log", "name", "kind"),
        ("links", "lag", "unsettled", "due", "lost"),
        [
            [each["id"], each["log"], each["name"], _kind(each), *(each[key] for key in keys)]
            for each in answer["subscriptions"]
        ],
    )


def _described(subscription: dict[str, Any]) -> Iterator[RenderableType]:
    from rich.text import Text

    of = "any container" if subscription["container"] is None else f"container {subscription['container']}"
    user = "any user" if subscription["user"] is None else f"user {subscription['user']}"
    filters = [f"  filter {name}: {text}" for name, text in subscription["link_filters"].items()]
    head = (
        f"{subscription['id']}: {_kind(subscription)} {subscription['name']} of {subscription['log']}, "
        f"for {user} from {of}, lag {subscription['lag']}, {subscription['lost_count']} lost"
    )
    expiry = f"  expires: {subscription['expiry']}, {subscription['timeout_ms']} ms"
    yield Text("\n".join(printable(line) for line in (head, expiry, *filters)))
    yield partition_table(subscription["partitions"])
    if subscription["consumers"]:
        yield link_table(subscription["consumers"])


def _kind(subscription: dict[str, Any]) -> str:
    words = [word for word in ("durable", "shared", "global") if subscription[f"is_{word}"]]
    return " ".join([*words, subscription["kind"]])

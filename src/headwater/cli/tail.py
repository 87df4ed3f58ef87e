"""`headwater tail`: show the messages of a stream as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.connecting import USAGE_EXIT_CODE, Json, Server, Stop, connects, fail, run

if TYPE_CHECKING:  # at run time these are imported when something is shown
    from headwater.cli.tailing import Wanted

__all__ = ["tail"]


@connects
def tail(
    server: Server,
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The stream or super stream.")],
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="first, last (chunk), next, an offset, a time such as 2026-01-31T12:00:00Z, or 10m: so long ago.",
            show_default="last, or behind what --name has stored",
        ),
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many messages.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Wait for more, or end with what is there now.")
    ] = True,
    filter_value: Annotated[
        list[str] | None,
        typer.Option(help="Only chunks that may hold this filter value; may be given several times."),
    ] = None,
    match_unfiltered: Annotated[
        bool, typer.Option("--match-unfiltered", help="With filter values: those without any as well.")
    ] = False,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the consumer: store how far it came, and go on there next time."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show messages, one a line; of a super stream those of all partitions, each in its own order."""
    if match_unfiltered and not filter_value:
        fail("--match-unfiltered needs --filter-value", USAGE_EXIT_CODE)
    if name == "":
        fail("--name is not empty", USAGE_EXIT_CODE)
    from headwater.cli.connecting import refusals
    from headwater.cli.tailing import Wanted, place

    with refusals():
        offset = place(start or "last")
    wanted = Wanted(
        stream,
        offset,
        count,
        follow=follow,
        filter_values=tuple(filter_value or ()),
        match_unfiltered=match_unfiltered,
        name=name,
        as_json=as_json,
    )
    run(lambda stop: _tail(server, wanted, stop))


async def _tail(server: Server, wanted: Wanted, stop: Stop) -> None:
    from headwater.cli.tailing import show

    if server.is_amqp:
        from headwater.cli.amqp_tailing import show_over_amqp

        await show_over_amqp(server, wanted, stop)
        return
    async with await server.connect("headwater tail") as connection:
        await show(connection, wanted, stop)

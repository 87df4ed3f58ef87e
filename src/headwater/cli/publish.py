"""`headwater publish`: send messages to a stream, and say which of them are confirmed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.connecting import EXIT_CODE, USAGE_EXIT_CODE, Json, Server, Stop, connects, fail, run

if TYPE_CHECKING:  # at run time these are imported when something is published
    from headwater.cli.message_source import Lines
    from headwater.cli.publishing import Outcome, Plan

__all__ = ["publish"]

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
PROGRESS_INTERVAL_S = 0.1


@connects
def publish(
    server: Server,
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The stream or super stream.")],
    message: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MESSAGE]...", help="What to send; without one, the lines of stdin."),
    ] = None,
    file: Annotated[Path | None, typer.Option(help="Send the lines of this file.", metavar="FILE")] = None,
    count: Annotated[
        int | None,
        typer.Option(min=1, help="Repeat the messages until there are so many; of lines, the first."),
    ] = None,
    rate: Annotated[float | None, typer.Option(min=0.001, help="Messages a second at most.")] = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="Name of the publisher. With --file line N has id N: the same file again stores nothing twice."
        ),
    ] = None,
    key: Annotated[str | None, typer.Option(help="Of all messages; says which partition they go to.")] = None,
    key_separator: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Lines are key, this, message; such as $'\\t'.")
    ] = None,
    filter_value: Annotated[
        str | None, typer.Option(help="Of all messages; consumers may ask for it alone.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, max=65_535, help="Messages in a frame.")] = 1000,
    compression: Annotated[
        str | None,
        typer.Option(metavar="|".join(COMPRESSIONS), help="Pack each batch into one entry."),
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Make the stream if it is missing.")] = False,
    partitions: Annotated[
        int | None, typer.Option(min=1, max=1000, help="With --create: make a super stream of so many.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Publish messages, each as an AMQP 1.0 message of one data section, and wait until all are confirmed."""
    _check(message, file, name, key, key_separator, filter_value, compression, create, partitions)
    from headwater.cli.publishing import Plan
    from headwater.encoding.compression import Compression

    plan = Plan(
        stream,
        batch_size,
        name=name,
        numbered=name is not None and file is not None,
        key=None if key is None else key.encode(),
        key_separator=None if key_separator is None else key_separator.encode(),
        filter_value=filter_value,
        compression=None if compression is None else Compression[compression.upper()],
        rate=rate,
        create=create,
        partitions=partitions,
    )
    messages = [each.encode("utf-8", "surrogateescape") for each in message or []]
    run(lambda stop: _publish(server, plan, messages, file, count, stop, as_json=as_json))


def _check(
    message: list[str] | None,
    file: Path | None,
    name: str | None,
    key: str | None,
    key_separator: str | None,
    filter_value: str | None,
    compression: str | None,
    create: bool,
    partitions: int | None,
) -> None:
    """Refuse what contradicts itself before anything is sent."""
    wrong = {
        "give messages or --file, not both": message and file is not None,
        "give --key or --key-separator, not both": key is not None and key_separator is not None,
        "--partitions needs --create": partitions is not None and not create,
        "a filter value cannot be given to packed messages: leave out --compression": filter_value is not None
        and compression is not None,
        f"--compression is one of {', '.join(COMPRESSIONS)}": compression not in (None, *COMPRESSIONS),
        "--key-separator is not empty": key_separator == "",
        "--name is not empty": name == "",
    }
    for reason, is_so in wrong.items():
        if is_so:
            fail(reason, USAGE_EXIT_CODE)


async def _publish(
    server: Server,
    plan: Plan,
    messages: list[bytes],
    file: Path | None,
    count: int | None,
    stop: Stop,
    *,
    as_json: bool,
) -> None:
    from headwater.cli.amqp_publishing import publish_over_amqp
    from headwater.cli.message_source import Lines, repeated
    from headwater.cli.publishing import Outcome, publish_all
    from headwater.client.amqp_errors import MessageRefused
    from headwater.client.errors import MessagesRefused

    outcome = Outcome(plan.stream)
    lines = None if messages else Lines(file)
    source = (
        repeated(messages, count, plan.batch_messages)
        if lines is None
        else _first(lines.batches(plan.batch_messages, stop), count)
    )
    refusal: MessagesRefused | MessageRefused | None = None
    try:
        with _progress(outcome, lines, count or len(messages) or None):
            if server.is_amqp:
                await publish_over_amqp(server, plan, source, outcome, stop)
            else:
                async with await server.connect("headwater publish") as connection:
                    await publish_all(connection, plan, source, outcome, stop)
    except (MessagesRefused, MessageRefused) as error:
        refusal = error
        outcome.refused = error.count
    finally:
        if outcome.read:
            _report(outcome, as_json=as_json)
    if refusal is not None:
        fail(str(refusal), EXIT_CODE)


async def _first(batches: AsyncIterator[list[bytes]], count: int | None) -> AsyncIterator[list[bytes]]:
    """The first `count` messages."""
    left = count
    async for batch in batches:
        yield batch if left is None else batch[:left]
        if left is not None:
            left -= len(batch)
            if left <= 0:
                return


def _report(outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        import msgspec

        typer.echo(msgspec.json.encode(outcome).decode())
        return
    rate = outcome.sent / outcome.seconds if outcome.seconds else 0.0
    skipped = f", {outcome.skipped:,} were there already" if outcome.skipped else ""
    refused = f", {outcome.refused:,} refused" if outcome.refused else ""
    typer.echo(
        f"{outcome.stream}: {outcome.confirmed:,} of {outcome.sent:,} messages confirmed{skipped}{refused}; "
        f"{outcome.byte_count / 1e6:,.1f} MB in {outcome.seconds:.2f} s, {rate:,.0f} messages/s"
    )


@contextlib.contextmanager
def _progress(outcome: Outcome, lines: Lines | None, total: int | None) -> Iterator[None]:
    """A bar on standard error, where a person looks at it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    # Where the lines are typed at this terminal, a bar would be drawn over them.
    is_typed = lines is not None and lines.size_bytes is None
    if not console.is_terminal or is_typed:
        yield
        return
    columns = (TextColumn("{task.fields[said]}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        size = total if lines is None else lines.size_bytes
        task = bar.add_task("publish", total=size, said="")

        async def follow() -> None:
            while True:
                done = outcome.confirmed if lines is None else lines.read_bytes
                bar.update(task, completed=done, said=f"{outcome.confirmed:,} confirmed")
                await asyncio.sleep(PROGRESS_INTERVAL_S)

        following = asyncio.ensure_future(follow())
        try:
            yield
        finally:
            following.cancel()

"""`headwater bench`: load a server with messages, and say how fast it took and gave them."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.connecting import EXIT_CODE, USAGE_EXIT_CODE, Json, Server, Stop, connects, fail, run

if TYPE_CHECKING:  # at run time these are imported when a bench runs
    from rich.table import Table

    from headwater.cli.bench_run import Figures, Plan, Run
    from headwater.cli.histogram import Latency

__all__ = ["bench"]

PROGRESS_INTERVAL_S = 0.2
LATENCY_RATE = 10_000.0
LATENCY_BATCH = 10
BATCH = 1000


class What(enum.StrEnum):
    """What is measured."""

    PUBLISH = "publish"
    CONSUME = "consume"
    BOTH = "both"
    LATENCY = "latency"


@connects
def bench(
    server: Server,
    what: Annotated[
        What,
        typer.Argument(
            help="publish and consume: as fast as it goes; both: at the same time; latency: both, at a rate."
        ),
    ],
    size: Annotated[int, typer.Option(min=16, max=1_000_000, help="Bytes of a message's body.")] = 100,
    batch: Annotated[
        int | None,
        typer.Option(min=1, max=65_535, help="Messages in a frame.", show_default="1000, for latency 10"),
    ] = None,
    publishers: Annotated[int, typer.Option(min=1, max=1000, help="Each on a connection of its own.")] = 1,
    consumers: Annotated[int, typer.Option(min=1, max=1000, help="Each on a connection of its own.")] = 1,
    streams: Annotated[int, typer.Option(min=1, max=1000, help="New streams, taken in turn.")] = 1,
    stream: Annotated[
        str | None, typer.Option(help="Use this stream and keep it; else new ones are made and deleted.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.1, max=86_400, help="How long.")] = 10.0,
    rate: Annotated[
        float | None,
        typer.Option(
            min=0.1, help="Messages a second of all publishers.", show_default="any, for latency 10000"
        ),
    ] = None,
    named: Annotated[
        bool, typer.Option("--named", help="Publishers have names, so that the server looks for duplicates.")
    ] = False,
    window: Annotated[
        int, typer.Option(min=1, max=100_000_000, help="Messages that a publisher may have unconfirmed.")
    ] = 100_000,
    fill: Annotated[
        int, typer.Option(min=1, help="For consume without --stream: messages to write first.")
    ] = 5_000_000,
    keep: Annotated[bool, typer.Option("--keep", help="Do not delete the streams that were made.")] = False,
    as_json: Json = False,
) -> None:
    """Measure the server that runs there; client and server share the machine if they are on the same one."""
    if stream is not None and streams > 1:
        fail("give --stream or --streams, not both", USAGE_EXIT_CODE)
    from headwater.cli.bench_run import Plan, Run

    is_latency = what is What.LATENCY
    plan = Plan(
        what=what.value,
        size_bytes=size,
        batch_messages=batch or (LATENCY_BATCH if is_latency else BATCH),
        publishers=publishers,
        consumers=consumers,
        streams=streams,
        seconds=seconds,
        rate=rate if rate is not None else LATENCY_RATE if is_latency else None,
        named=named,
        window_messages=window,
        fill_messages=fill,
        stream=stream,
        keep=keep,
    )

    async def measure(stop: Stop) -> Figures:
        measured = Run(server, plan, stop)
        with _progress(measured):
            figures = await measured.figures()
        _report(figures, as_json=as_json)
        return figures

    figures = run(measure)
    if figures.missing:
        fail(f"{figures.missing} confirmed messages did not come back in time", EXIT_CODE)


def _report(figures: Figures, *, as_json: bool) -> None:
    if as_json:
        import msgspec

        typer.echo(msgspec.json.encode(figures).decode())
        return
    from rich.console import Console

    Console(highlight=False).print(_table(figures))


def _table(figures: Figures) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    title = f"{_title(figures.plan)}; latency in ms"
    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", padding=(0, 1))
    for head in ("", "messages", "a second", "MB/s", "p50", "p99", "p99.9", "max"):
        table.add_column(head, justify="right" if head else "left", no_wrap=True)
    if figures.published:
        cells = _rates(figures.published, figures.publish_rate, figures.publish_mb_s)
        table.add_row("confirmed", *cells, *_latencies(figures.confirm))
    if figures.consumed:
        cells = _rates(figures.consumed, figures.consume_rate, figures.consume_mb_s)
        table.add_row("received", *cells, *_latencies(figures.end_to_end))
    return table


def _title(plan: Plan) -> str:
    said = [f"{plan.what}: {plan.size_bytes} B", f"{plan.batch_messages} a frame"]
    counted = {"publisher": plan.publishers, "consumer": plan.consumers, "stream": plan.streams}
    said += [f"{count} {noun}{'s' if count > 1 else ''}" for noun, count in counted.items()]
    if plan.rate is not None:
        said.append(f"{plan.rate:,.0f} a second")
    if plan.named:
        said.append("named")
    return ", ".join(said)


def _rates(messages: int, rate: float, mb_s: float) -> tuple[str, str, str]:
    return f"{messages:,}", f"{rate / 1e6:.2f} M" if rate >= 1e6 else f"{rate:,.0f}", f"{mb_s:,.1f}"


def _latencies(latency: Latency | None) -> tuple[str, ...]:
    if latency is None:
        return ("", "", "", "")
    return tuple(
        f"{value:.2f}" for value in (latency.p50_ms, latency.p99_ms, latency.p99_9_ms, latency.max_ms)
    )


@contextlib.contextmanager
def _progress(measured: Run) -> Iterator[None]:
    """A bar on standard error with the rate of each moment, where a person looks at it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    columns = (TextColumn("{task.fields[phase]:>8}"), BarColumn(), TextColumn("{task.fields[said]}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("bench", total=measured.plan.seconds, phase="connect", said="")

        async def follow() -> None:
            before, at = 0, time.monotonic()
            while True:
                await asyncio.sleep(PROGRESS_INTERVAL_S)
                now, done = time.monotonic(), measured.confirmed + measured.consumed
                said = f"{(done - before) / (now - at) / 1e6:6.2f} M messages/s"
                elapsed = now - measured.started if measured.started else 0
                bar.update(task, completed=elapsed, phase=measured.phase, said=said)
                before, at = done, now

        following = asyncio.ensure_future(follow())
        try:
            yield
        finally:
            following.cancel()

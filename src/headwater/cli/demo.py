"""`headwater demo`: a log is written, read, killed in the middle of its work, and recovered; with figures."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:  # imported when the demo runs, so that other commands start fast
    from rich.console import Console

    from headwater.log.partition import Partition

__all__ = ["demo"]

_KILL_AFTER_S = 1.5
_FIRST_CONFIRM_TIMEOUT_S = 30


def demo(
    seconds: Annotated[float, typer.Option(min=0.1, max=60, help="How long to append.")] = 3.0,
    data: Annotated[
        Path | None, typer.Option(help="A new folder to work in; kept. Default: a temporary one.")
    ] = None,
) -> None:
    """Append, read back, pull the plug, recover: what is promised, seen on this machine."""
    from rich.console import Console

    console = Console(highlight=False)
    folder = data or Path(tempfile.mkdtemp(prefix="headwater-demo-", dir=Path.cwd()))
    if data is not None and data.exists():
        console.print(f"{data} exists already; name a folder that does not")
        raise typer.Exit(2)
    try:
        _run(console, folder, seconds)
    finally:
        if data is None:
            shutil.rmtree(folder, ignore_errors=True)


def _run(console: Console, folder: Path, seconds: float) -> None:
    console.print("[bold]Headwater[/bold]: one durable event log. This demo writes to a real disk.\n")
    _append(console, folder, seconds)
    _read(console, folder)
    confirmed = _kill(console, folder)
    _recover(console, folder, confirmed)
    _send_again(console, folder)
    _check(console, folder)


def _append(console: Console, folder: Path, seconds: float) -> None:
    import uvloop

    from headwater.cli.demo_writer import Appender
    from headwater.cli.load import BATCH_MESSAGES
    from headwater.log.store import Store

    async def append() -> tuple[int, int, int]:
        store = Store.open(folder, loop=asyncio.get_running_loop())
        partition = store.create_log("orders").partitions[0]
        appender = Appender(partition)
        commits = 0

        def count() -> None:
            nonlocal commits
            commits += 1

        partition.on_committed.add(count)
        await _with_progress(console, "append", seconds, appender.append_for(seconds))
        store.close()
        return appender.confirmed_batches * BATCH_MESSAGES, partition.size_bytes, commits

    started = time.perf_counter()
    events, size, commits = uvloop.run(append())
    rate = events / (time.perf_counter() - started)
    _say(
        console,
        "append",
        f"{events:,} events of 100 B, each confirmed after fdatasync: "
        f"{rate / 1e6:.1f} M/s, {size / 1e6:,.0f} MB in {commits:,} commits",
    )


async def _with_progress(console: Console, what: str, seconds: float, work: object) -> None:
    from rich.progress import BarColumn, Progress, TextColumn

    task = asyncio.ensure_future(work)  # type: ignore[call-overload]
    with Progress(TextColumn(f"{what:>9}"), BarColumn(), console=console, transient=True) as progress:
        bar = progress.add_task(what, total=seconds)
        while not task.done():
            await asyncio.wait([task], timeout=0.2)
            progress.advance(bar, 0.2)
    await task


def _with_partition(folder: Path, use: Callable[[Partition, list[str]], None]) -> float:
    """Open the folder, use its partition, close it in order; gives the seconds that opening took."""
    from headwater.log.store import Store

    started = time.perf_counter()
    store = Store.open(folder)
    opened = time.perf_counter() - started
    try:
        use(store.log("orders").partitions[0], store.notices)
        store.flush()
    finally:
        store.close()
    return opened


def _count(partition: Partition) -> int:
    """Read a whole partition, data CRCs included."""
    from headwater.log.reader import Reader

    records = 0
    with Reader(partition, 0, verify=True) as reader:
        while (run := reader.read()) is not None:
            records += sum(chunk.records for chunk in run.chunks)
    return records


def _read(console: Console, folder: Path) -> None:
    def read(partition: Partition, _: list[str]) -> None:
        started = time.perf_counter()
        records = _count(partition)
        rate = records / (time.perf_counter() - started)
        _say(
            console,
            "read",
            f"{records:,} events from the first to the last, CRCs checked: {rate / 1e6:,.0f} M/s",
        )

    _with_partition(folder, read)


def _kill(console: Console, folder: Path) -> int:
    """Let another process append, kill it without warning; gives what it had confirmed until then."""
    command = [sys.executable, "-m", "headwater.cli.demo_writer", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        first = writer.stdout.readline()
        try:
            if not first:
                raise typer.Exit(1)
            time.sleep(_KILL_AFTER_S)
        finally:
            writer.kill()
        confirmed = int(([first, *writer.stdout.read().split()])[-1])
    _say(
        console,
        "kill -9",
        f"a process in the middle of appending; it had seen {confirmed:,} events confirmed",
    )
    return confirmed


def _recover(console: Console, folder: Path, confirmed: int) -> None:
    def recover(partition: Partition, notices: list[str]) -> None:
        records = _count(partition)
        _say(
            console,
            "recover",
            f"{records:,} events are there, {max(confirmed - records, 0)} of the confirmed ones lost, "
            f"{max(records - confirmed, 0):,} more had reached the disk",
        )
        for notice in notices:
            _say(console, "", notice)
        if records < confirmed or records != partition.committed_offset:
            console.print("[red]Confirmed events are missing. Please report this.[/red]")
            raise typer.Exit(1)

    opened = _with_partition(folder, recover)
    _say(console, "", f"opening took {opened * 1e3:.0f} ms")


def _send_again(console: Console, folder: Path) -> None:
    """A publisher that does not know what arrived sends its last batches again."""
    from headwater.cli.demo_writer import PAYLOAD, PUBLISHER
    from headwater.cli.load import BATCH_MESSAGES, PublishLoad

    def send(partition: Partition, _: list[str]) -> None:
        sequence = partition.sequence(PUBLISHER)
        assert sequence is not None
        before = partition.committed_offset
        load, ids = PublishLoad(PAYLOAD), bytearray(8 * BATCH_MESSAGES)
        batches = range(max(0, sequence // BATCH_MESSAGES - 9), sequence // BATCH_MESSAGES + 1)
        answers: list[object] = []
        for batch in batches:
            body = load.stamp(batch)
            partition.append_published(body, 0, len(body), BATCH_MESSAGES, PUBLISHER, ids, 0, answers.append)
        stored = partition.next_offset - before
        _say(
            console,
            "again",
            f"{len(batches) * BATCH_MESSAGES:,} events sent twice by their publisher: "
            f"{len(batches) * BATCH_MESSAGES - stored:,} recognised, {stored:,} stored",
        )

    _with_partition(folder, send)


def _check(console: Console, folder: Path) -> None:
    from headwater.log.check import check_folder

    report = check_folder(folder)
    chunks = sum(partition.chunks for partition in report.partitions)
    verdict = "something is damaged" if report.is_corrupt else "nothing is damaged"
    _say(console, "check", f"{chunks:,} chunks read offline: {verdict}")


def _say(console: Console, what: str, text: str) -> None:
    console.print(f"[bold]{what:>9}[/bold]  {text}")

"""`headwater check`: look at a data folder that no server has open, and say what is damaged."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:  # at run time the log is imported only when a folder is checked
    from headwater.log.check import CheckReport

__all__ = ["check"]

CORRUPT_EXIT_CODE = 1


def check(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The data folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Answer with one JSON document.")] = False,
) -> None:
    """Check every file of a data folder without changing any."""
    import msgspec

    from headwater.errors import StorageError
    from headwater.log.check import check_folder, total_bytes

    try:
        with _progress(total_bytes(folder)) as advance:
            report = check_folder(folder, progress=advance)
    except StorageError as error:
        typer.echo(f"headwater: {error}", err=True)
        raise typer.Exit(1) from error
    typer.echo(msgspec.json.encode(report).decode() if as_json else "\n".join(_lines(report)))
    if report.is_corrupt:
        raise typer.Exit(CORRUPT_EXIT_CODE)


@contextlib.contextmanager
def _progress(byte_count: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, where a person looks at it."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (TextColumn("reading"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("check", total=byte_count)
        yield lambda count: bar.advance(task, count)


def _lines(report: CheckReport) -> Iterator[str]:
    for each in report.partitions:
        yield (
            f"{each.log} partition {each.partition}: offsets {each.first_offset} to {each.end_offset}, "
            f"{each.segments} segments, {each.chunks} chunks, {each.byte_count} bytes"
        )
    for finding in report.findings:
        yield f"{finding.severity}: {finding.path} at byte {finding.position}: {finding.message}"
    verdict = (
        "corrupt: restore what is named above" if report.is_corrupt else "nothing that was durable is damaged"
    )
    yield f"{report.folder}: {verdict}"

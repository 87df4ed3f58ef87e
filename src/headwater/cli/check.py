"""`headwater check`: look at a data folder that no server has open, and say what is damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["check"]


def check(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The data folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Answer with one JSON document.")] = False,
) -> None:
    """Check every file of a data folder without changing any."""
    import msgspec

    from headwater.errors import StorageError
    from headwater.log.check import check_folder

    try:
        report = check_folder(folder)
    except StorageError as error:
        typer.echo(f"headwater: {error}", err=True)
        raise typer.Exit(1) from error
    typer.echo(msgspec.json.encode(report).decode() if as_json else str(report))

"""The command `headwater` and its options; each command imports what it needs only when it runs."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from typing import Annotated

import typer

from headwater import __version__
from headwater.cli.bench import bench
from headwater.cli.check import check
from headwater.cli.demo import demo
from headwater.cli.group import groups
from headwater.cli.log import logs
from headwater.cli.publish import publish
from headwater.cli.serve import serve
from headwater.cli.subscription import subscriptions
from headwater.cli.tail import tail
from headwater.cli.user import users

__all__ = ["app", "main"]

KERNELS = (
    "headwater.encoding._kernel",
    "headwater.encoding._amqp_kernel",
    "headwater.encoding._amqp_walk_kernel",
    "headwater.encoding._cloudevents_json_kernel",
    "headwater.encoding._cloudevents_kernel",
    "headwater.encoding._cloudevents_text_kernel",
    "headwater.encoding._hash_kernel",
    "headwater.encoding._key_kernel",
    "headwater.encoding._like_kernel",
    "headwater.encoding._message_kernel",
    "headwater.encoding._span_kernel",
    "headwater.client._kernel",
    "headwater.log._commit_kernel",
    "headwater.cli._kernel",
)

app = typer.Typer(
    name="headwater",
    help="A partitioned, durable event log.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Entry point of the console script."""
    app()


def _say_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"headwater {__version__} ({_kernel_forms()})")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_say_version, is_eager=True, help="Say version and form of the kernels."
        ),
    ] = False,
) -> None:
    """A partitioned, durable event log."""


def _kernel_forms() -> str:
    compiled = [name for name in KERNELS if _is_compiled(name)]
    if len(compiled) == len(KERNELS):
        return "kernels compiled"
    if not compiled:
        return "kernels not compiled"
    return f"kernels partly compiled: {', '.join(compiled)}"


def _is_compiled(name: str) -> bool:
    # The kernel itself is not imported: uncompiled it would need Cython, which is no part of an installation.
    found = importlib.util.find_spec(name)
    return found is not None and isinstance(found.loader, importlib.machinery.ExtensionFileLoader)


app.command("serve")(serve)
app.command("publish")(publish)
app.command("tail")(tail)
app.command("bench")(bench)
app.command("check")(check)
app.command("demo")(demo)
app.add_typer(logs, name="log")
app.add_typer(groups, name="group")
app.add_typer(subscriptions, name="subscription")
app.add_typer(users, name="user")

if __name__ == "__main__":
    main()

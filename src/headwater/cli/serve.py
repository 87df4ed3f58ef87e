"""`headwater serve`: run the server until a signal stops it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["serve"]

SETTINGS_EXIT_CODE = 2


def serve(
    data: Annotated[
        Path | None, typer.Option(help="Folder of the logs.", show_default="./headwater-data")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")] = None,
    http_port: Annotated[
        int | None, typer.Option(help="Port for HTTP; 0 takes a free one.", show_default="8080")
    ] = None,
    http_tls_port: Annotated[
        int | None,
        typer.Option(help="The same with TLS; needs a certificate in the settings.", show_default="8443"),
    ] = None,
    stream_port: Annotated[
        int | None,
        typer.Option(help="Port for RabbitMQ Stream clients; 0 takes a free one.", show_default="5552"),
    ] = None,
    stream_tls_port: Annotated[
        int | None,
        typer.Option(help="The same with TLS; needs a certificate in the settings.", show_default="5551"),
    ] = None,
    amqp_port: Annotated[
        int | None,
        typer.Option(help="Port for AMQP 1.0 clients; 0 takes a free one.", show_default="5672"),
    ] = None,
    amqp_tls_port: Annotated[
        int | None,
        typer.Option(help="The same with TLS; needs a certificate in the settings.", show_default="5671"),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Settings file in TOML, such as headwater.toml.")
    ] = None,
    log_format: Annotated[str | None, typer.Option(help="plain or json.", show_default="plain")] = None,
    log_level: Annotated[
        str | None, typer.Option(help="debug, info, warning or error.", show_default="info")
    ] = None,
) -> None:
    """Run the server until SIGTERM or Ctrl-C stops it.

    Settings come from the file, from HEADWATER_… variables and from these flags; later ones win.
    """
    from headwater.errors import InvalidSettings
    from headwater.server.config import load

    flags = {
        "data": data,
        "host": host,
        "http_port": http_port,
        "http_tls_port": http_tls_port,
        "stream_port": stream_port,
        "stream_tls_port": stream_tls_port,
        "amqp_port": amqp_port,
        "amqp_tls_port": amqp_tls_port,
        "log_format": log_format,
        "log_level": log_level,
    }
    try:
        settings = load(config, os.environ, flags)
    except InvalidSettings as error:
        typer.echo(f"headwater: {error}", err=True)
        raise typer.Exit(SETTINGS_EXIT_CODE) from error

    from headwater.server.runtime import run

    raise typer.Exit(run(settings))

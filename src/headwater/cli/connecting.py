"""What commands share that connect to a server: their options, how they end, and what Ctrl-C does."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

from headwater.errors import CallerError, HeadwaterError, InvalidSettings

if TYPE_CHECKING:  # at run time these are imported when a command connects
    import ssl

    from headwater.client.address import Address, Credentials
    from headwater.client.amqp_connection import AmqpConnection
    from headwater.client.stream_connection import StreamConnection

__all__ = [
    "EXIT_CODE",
    "INTERRUPTED_EXIT_CODE",
    "USAGE_EXIT_CODE",
    "Json",
    "Misused",
    "Server",
    "Stop",
    "connects",
    "fail",
    "login_password",
    "refusals",
    "run",
    "takes",
    "tls_context",
    "warn_of_password",
]

EXIT_CODE = 1
USAGE_EXIT_CODE = 2
INTERRUPTED_EXIT_CODE = 130

_Result = TypeVar("_Result")
_Command = TypeVar("_Command", bound=Callable[..., None])

Json = Annotated[bool, typer.Option("--json", help="Answer with JSON documents, one a line.")]


def _option(help_: str, *names: str, variable: str | None = None, shown: str | bool = False) -> Any:  # noqa: ANN401
    return typer.Option(*names, help=help_, envvar=variable, show_default=shown, rich_help_panel="Connection")


@dataclass(frozen=True, slots=True)
class Server:
    """Where a command connects, and as whom."""

    address: Address
    credentials: Credentials = field(repr=False)
    vhost: str = "/"
    is_amqp: bool = False
    """Whether it is to be spoken to in AMQP, not in the protocol of streams."""

    async def connect(self, name: str) -> StreamConnection:
        """A connection that shows as `name` on the server."""
        from headwater.client.stream_connection import StreamConnection

        if self.is_amqp:
            raise Misused("this command needs streams: give a URL with rabbitmq-stream://, not one of AMQP")

        return await StreamConnection.connect(
            self.address, self.credentials, vhost=self.vhost, connection_name=name
        )

    async def connect_amqp(self, name: str) -> AmqpConnection:
        """The same, in AMQP."""
        from headwater.client.amqp_connection import AmqpConnection

        return await AmqpConnection.connect(
            self.address, self.credentials, vhost=self.vhost, properties={"connection_name": name}
        )


def takes(make: Callable[..., Any]) -> Callable[[_Command], _Command]:
    """Give a command the options of `make`; its first parameter is what that makes of them."""

    def decorated(command: _Command) -> _Command:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
        shared = inspect.signature(make, eval_str=True).parameters

        @functools.wraps(command)
        def with_options(**values: Any) -> None:  # noqa: ANN401
            with refusals():
                made = make(**{name: values.pop(name) for name in shared})
                command(made, **values)

        parameters = [*own, *shared.values()]
        with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        with_options.__annotations__ = {each.name: each.annotation for each in parameters}
        del with_options.__wrapped__
        return with_options  # type: ignore[return-value]

    return decorated


def connects(command: _Command) -> _Command:
    """Give a command the options of a connection; its first parameter is the server they name."""
    return takes(_server)(command)


def _server(
    *,
    url: Annotated[
        str | None,
        _option(
            "rabbitmq-stream://user@host:port/vhost, rabbitmq-stream+tls:// with TLS. "
            "To publish and tail also amqp:// and amqps://, of any AMQP 1.0 node.",
            variable="HEADWATER_URL",
        ),
    ] = None,
    host: Annotated[
        str | None, _option("Host of the server.", variable="HEADWATER_HOST", shown="127.0.0.1")
    ] = None,
    stream_port: Annotated[
        int | None,
        _option("Its stream port.", variable="HEADWATER_STREAM_PORT", shown="5552, with TLS 5551"),
    ] = None,
    unix_socket: Annotated[Path | None, _option("Path of a socket instead of host and port.")] = None,
    vhost: Annotated[str | None, _option("Virtual host.", variable="HEADWATER_VHOST", shown="/")] = None,
    user: Annotated[
        str | None, _option("User; it is asked for its password.", variable="HEADWATER_USER", shown="guest")
    ] = None,
    password_file: Annotated[
        Path | None, _option("File with the password.", variable="HEADWATER_PASSWORD_FILE")
    ] = None,
    mechanism: Annotated[
        str | None, _option("SASL mechanism.", shown="the safest of SCRAM-SHA-256 and PLAIN that is offered")
    ] = None,
    tls: Annotated[bool, _option("Encrypt the connection.", "--tls")] = False,
    ca_file: Annotated[
        Path | None, _option("Who signs the server's certificate, PEM.", shown="those the system trusts")
    ] = None,
    certificate_file: Annotated[
        Path | None, _option("Certificate of the user with its key, PEM; for EXTERNAL.")
    ] = None,
) -> Server:
    from headwater.client import address as a
    from headwater.client.address import Address, Credentials

    parts = None if url is None else a.parse_url(url, a.STREAM_SCHEMES | a.AMQP_SCHEMES)
    if parts is not None:
        warn_of_password(url, parts.password, "HEADWATER_URL", "--password-file")
        host = host or parts.host
        stream_port = parts.port if parts.is_amqp else stream_port or parts.port
        user, vhost = user or parts.user, vhost or parts.vhost
        tls = tls or parts.is_encrypted
    context = tls_context(ca_file, certificate_file) if tls or ca_file or certificate_file else None
    port = stream_port or (a.STREAM_PORT if context is None else a.STREAM_TLS_PORT)
    path = None if unix_socket is None else str(unix_socket)
    has_own = certificate_file is not None and mechanism in (None, "EXTERNAL") and user is None
    given = parts.password if parts is not None and user == parts.user else None
    return Server(
        Address(host or "127.0.0.1", port, path, context),
        Credentials("", "", "EXTERNAL")
        if has_own
        else Credentials(
            user or "guest", login_password(user, given, password_file, "--password-file"), mechanism
        ),
        vhost or "/",
        is_amqp=parts is not None and parts.is_amqp,
    )


def login_password(user: str | None, given: str | None, file: Path | None, option: str) -> str:
    """The password of who connects: from a file, as it was given, guest's own, or asked for."""
    if file is not None:
        from headwater.server.security.users import password_from

        return password_from(file, option.removeprefix("--").replace("-", "_"))
    if given is not None:
        return given
    if user is None or user == "guest":
        return "guest"
    if not sys.stdin.isatty():
        fail(f"no password for {user}: name a file with {option}", USAGE_EXIT_CODE)
    return str(typer.prompt(f"Password of {user}", hide_input=True, err=True))


def warn_of_password(url: str | None, password: str | None, variable: str, option: str) -> None:
    """Say so if a password stands where others see it."""
    # What stands in the environment other users do not see; what stands in a command line all do.
    if password is not None and os.environ.get(variable) != url:
        typer.echo(
            "headwater: a password on the command line is seen by everybody on this machine; "
            f"use {option}, or {variable}",
            err=True,
        )


def tls_context(ca_file: Path | None, certificate_file: Path | None) -> ssl.SSLContext:
    """Whom to trust, and what to show; raises `InvalidSettings`."""
    import ssl

    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise InvalidSettings("ca_file", f"cannot use {ca_file}: {error}") from error
    if certificate_file is not None:
        try:
            context.load_cert_chain(certificate_file)
        except OSError as error:
            raise InvalidSettings("certificate_file", f"cannot use {certificate_file}: {error}") from error
    return context


class Misused(CallerError):
    """A command was given what contradicts itself, or what is there."""


class Stop:
    """Set by the first Ctrl-C: a command then ends what it does in good order. The second one ends it at once."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    @property
    def is_set(self) -> bool:
        """Whether to end."""
        return self._event.is_set()

    def set(self) -> None:
        """Ask for the end."""
        self._event.set()

    async def wait(self) -> None:
        """Return when the end is asked for."""
        await self._event.wait()

    async def or_done(self, work: Coroutine[Any, Any, _Result]) -> _Result | None:
        """What the work gives, or None if the end is asked for before; it is cancelled then."""
        task, stop = asyncio.ensure_future(work), asyncio.ensure_future(self.wait())
        try:
            await asyncio.wait([task, stop], return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            for each in (task, stop):
                each.cancel()
            await asyncio.gather(task, stop, return_exceptions=True)


def run(work: Callable[[Stop], Coroutine[Any, Any, _Result]]) -> _Result:
    """Carry this out in a loop; what is refused becomes one line and an exit code."""
    import uvloop

    async def until_stopped() -> tuple[_Result, bool]:
        stop, loop = Stop(), asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None

        def interrupted() -> None:
            if stop.is_set:
                task.cancel()
            stop.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, interrupted)
        result = await work(stop)
        return result, stop.is_set

    with refusals(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            result, is_stopped = runner.run(until_stopped())
        except asyncio.CancelledError:
            raise typer.Exit(INTERRUPTED_EXIT_CODE) from None
    if is_stopped:
        raise typer.Exit(INTERRUPTED_EXIT_CODE)
    return result


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """Turn what is refused into one line on standard error and an exit code."""
    try:
        yield
    except (InvalidSettings, Misused) as error:
        fail(str(error), USAGE_EXIT_CODE)
    except HeadwaterError as error:
        fail(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED_EXIT_CODE) from None


def fail(message: str, code: int = EXIT_CODE) -> NoReturn:
    """End with one line on standard error."""
    typer.echo(f"headwater: {message}", err=True)
    raise typer.Exit(code)

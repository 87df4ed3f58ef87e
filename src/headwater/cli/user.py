"""`headwater user`: users and their permissions in a data folder that no server has open."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:  # at run time these are imported by the command that needs them
    from headwater.server.catalogue import Catalogue
    from headwater.server.config import Settings
    from headwater.server.security.permissions import Permission
    from headwater.server.security.users import NewUser, Role

__all__ = ["users"]

EXIT_CODE = 1
USAGE_EXIT_CODE = 2

users = typer.Typer(help="Users, their roles and permissions; while no server runs.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.")]
Data = Annotated[Path | None, typer.Option(help="The data folder.", show_default="./headwater-data")]
Config = Annotated[Path | None, typer.Option(help="Settings file in TOML, such as headwater.toml.")]
PasswordFile = Annotated[
    Path | None, typer.Option(help="File with the password; without one it is asked for, or read from stdin.")
]
Json = Annotated[bool, typer.Option("--json", help="Answer with one JSON document.")]
Vhost = Annotated[str, typer.Option(help="The vhost that the permissions are for.")]
Pattern = Annotated[str | None, typer.Option(metavar="REGEX", help="Logs, by their whole name.")]


@users.command("add")
def add(
    name: Name,
    role: Annotated[list[str] | None, typer.Option(help="admin or monitor; may be given twice.")] = None,
    vhost: Vhost = "/",
    configure: Pattern = None,
    write: Pattern = None,
    read: Pattern = None,
    password_file: PasswordFile = None,
    data: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Make a user; in a new folder it is the first, and no guest is made there."""
    from headwater.server.security.permissions import Permission
    from headwater.server.security.users import NewUser

    with _refusals():
        settings = _settings(data, config)
        permission = None
        if (configure, write, read) != (None, None, None):
            permission = Permission(configure or "", write or "", read or "")
        permissions = {} if permission is None else {vhost: permission}
        user = NewUser(name, _password(password_file), _roles(role or []), permissions)
        _add(settings, user)
    _say(as_json, f"added user {name}", {"added": name})


@users.command("list")
def list_(data: Data = None, config: Config = None, as_json: Json = False) -> None:
    """List users with their roles and permissions."""
    with _refusals(), _catalogue(_settings(data, config)) as catalogue:
        described = [_described(catalogue, name) for name in catalogue.state.users]
    if as_json:
        _say(as_json, "", {"users": described})
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("user", "roles", "vhost", "configure", "write", "read")
    for user in described:
        rows = user["permissions"] or [{}]
        for index, row in enumerate(rows):
            head = ("", "") if index else (user["name"], " ".join(user["roles"]))
            cells = (*head, *(row.get(key, "") for key in ("vhost", "configure", "write", "read")))
            table.add_row(*map(Text, cells))
    Console().print(table)


@users.command("delete")
def delete(name: Name, data: Data = None, config: Config = None, as_json: Json = False) -> None:
    """Delete a user with its permissions."""
    with _refusals(), _catalogue(_settings(data, config)) as catalogue:
        asyncio.run(catalogue.delete_user(name))
    _say(as_json, f"deleted user {name}", {"deleted": name})


@users.command("password")
def password(
    name: Name,
    password_file: PasswordFile = None,
    data: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Give a user another password."""
    with _refusals(), _catalogue(_settings(data, config)) as catalogue:
        _check_known(catalogue, name)
        asyncio.run(catalogue.set_password(name, _password(password_file)))
    _say(as_json, f"changed the password of {name}", {"changed": name})


@users.command("roles")
def roles(
    name: Name,
    role: Annotated[list[str] | None, typer.Argument(metavar="[ROLE]...", help="admin, monitor.")] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Take all roles.")] = False,
    data: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show the roles of a user, or give it these and no others."""
    if clear and role:
        _fail("name roles, or --clear, not both", USAGE_EXIT_CODE)
    with _refusals(), _catalogue(_settings(data, config)) as catalogue:
        _check_known(catalogue, name)
        if clear or role:
            asyncio.run(catalogue.set_roles(name, _roles(role or [])))
        described = _described(catalogue, name)
    _say(as_json, " ".join(described["roles"]) or f"{name} has no role", described)


@users.command("permissions")
def permissions(
    name: Name,
    vhost: Vhost = "/",
    configure: Pattern = None,
    write: Pattern = None,
    read: Pattern = None,
    clear: Annotated[bool, typer.Option("--clear", help="Take all permissions on the vhost.")] = False,
    data: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show what a user may do, or change it on a vhost; what is not named stays as it is."""
    changes = {"configure": configure, "write": write, "read": read}
    given = {key: value for key, value in changes.items() if value is not None}
    if clear and given:
        _fail("name expressions, or --clear, not both", USAGE_EXIT_CODE)
    with _refusals(), _catalogue(_settings(data, config)) as catalogue:
        _check_known(catalogue, name)
        if clear:
            asyncio.run(catalogue.clear_permission(name, vhost))
        elif given:
            asyncio.run(catalogue.set_permission(name, vhost, _changed(catalogue, name, vhost, given)))
        described = _described(catalogue, name)
    lines = (
        f"{each['vhost']}: configure {each['configure']!r}, write {each['write']!r}, read {each['read']!r}"
        for each in described["permissions"]
    )
    _say(as_json, "\n".join(lines) or f"{name} may do nothing", described)


def _add(settings: Settings, user: NewUser) -> None:
    from headwater.server.security.users import check_user_name

    check_user_name(user.name)
    is_first = False

    def first() -> NewUser:
        nonlocal is_first
        is_first = True
        return user

    with _held(settings.data, make=True):
        catalogue = _opened(settings, first)
        try:
            if not is_first:
                asyncio.run(
                    catalogue.add_user(
                        user.name, user.password, roles=user.roles, permissions=user.permissions
                    )
                )
        finally:
            catalogue.close()


def _changed(catalogue: Catalogue, name: str, vhost: str, given: dict[str, str]) -> Permission:
    from dataclasses import replace

    from headwater.server.security.permissions import NONE

    return replace(catalogue.state.permissions.get((name, vhost), NONE), **given)


def _described(catalogue: Catalogue, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "roles": sorted(catalogue.state.users[name].roles),
        "permissions": [
            {"vhost": vhost, "configure": each.configure, "write": each.write, "read": each.read}
            for vhost, each in catalogue.permissions_of(name).items()
        ],
    }


def _check_known(catalogue: Catalogue, name: str) -> None:
    from headwater.server.security.errors import UnknownUser

    if name not in catalogue.state.users:
        raise UnknownUser(name)


def _roles(words: list[str]) -> frozenset[Role]:
    from headwater.server.security.users import Role

    try:
        return frozenset(map(Role, words))
    except ValueError as error:
        _fail(f"{error}; known are {', '.join(Role)}", USAGE_EXIT_CODE)


def _password(file: Path | None) -> str:
    from headwater.server.security.users import PASSWORD_BYTES_MAX, password_from, without_line_end

    if file is not None:
        return password_from(file, "password_file")
    if sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
    given = sys.stdin.buffer.read(PASSWORD_BYTES_MAX + 3)
    return without_line_end(given.decode("utf-8", "surrogateescape"))


def _settings(data: Path | None, config: Path | None) -> Settings:
    from headwater.server.config import load

    return load(config, os.environ, {"data": data})


@contextlib.contextmanager
def _catalogue(settings: Settings) -> Iterator[Catalogue]:
    """The catalogue of a folder that has one, for as long as its lock is held."""
    with _held(settings.data, make=False):
        catalogue = _opened(settings, lambda: None)
        try:
            yield catalogue
        finally:
            catalogue.close()


def _opened(settings: Settings, first: Callable[[], NewUser | None]) -> Catalogue:
    from headwater.server.catalogue import Catalogue

    return Catalogue.open(settings.data, iterations=settings.scram_iterations, first_user=first)


@contextlib.contextmanager
def _held(folder: Path, *, make: bool) -> Iterator[None]:
    """Hold the lock of a data folder; one that is not there is made, or is an error."""
    from headwater.errors import ForeignFile
    from headwater.log.files import Files, storage_error
    from headwater.server.catalogue_file import FILE_NAME

    files = Files()
    is_ours = files.exists(folder / FILE_NAME) or (make and files.exists(folder / "store.json"))
    try:
        if not is_ours:
            if not make:
                _fail(f"{folder} has no users yet; add one, or start the server on it once")
            if set(files.names(folder)) - {"lock"}:
                raise ForeignFile(folder)
            files.make_folder(folder)
            files.sync_folder(folder.parent)
        lock = files.lock(folder / "lock")
    except OSError as error:
        raise storage_error(error.errno or 0, folder) from error
    try:
        yield
    finally:
        files.close(lock)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Turn what is refused into one line on standard error and an exit code."""
    from headwater.errors import FolderInUse, HeadwaterError, InvalidSettings

    try:
        yield
    except InvalidSettings as error:
        _fail(str(error), USAGE_EXIT_CODE)
    except FolderInUse as error:
        holder = "another process" if error.pid is None else f"process {error.pid}"
        _fail(
            f"{error.path} is in use by {holder}; stop it first: "
            "changing users of a running server takes its HTTP API, which cannot do so yet"
        )
    except HeadwaterError as error:
        _fail(str(error))


def _fail(message: str, code: int = EXIT_CODE) -> NoReturn:
    typer.echo(f"headwater: {message}", err=True)
    raise typer.Exit(code)


def _say(as_json: bool, line: str, answer: dict[str, Any]) -> None:
    typer.echo(json.dumps(answer) if as_json else line)

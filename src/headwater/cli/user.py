"""`headwater user`: users and their permissions, of a server that runs, or in a data folder that none has open."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from headwater.cli.connecting import USAGE_EXIT_CODE, fail, takes
from headwater.cli.http_connecting import CaFile, CertificateFile, Login, LoginPasswordFile, Url, http_api

if TYPE_CHECKING:  # at run time these are imported by the command that needs them
    from headwater.server.security.users import NewUser, Role

__all__ = ["users"]

users = typer.Typer(help="Users, their roles and permissions.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.")]
PasswordFile = Annotated[
    Path | None, typer.Option(help="File with the password; without one it is asked for, or read from stdin.")
]
Json = Annotated[bool, typer.Option("--json", help="Answer with one JSON document.")]
Vhost = Annotated[str, typer.Option(help="The vhost that the permissions are for.")]
Pattern = Annotated[str | None, typer.Option(metavar="REGEX", help="Logs, by their whole name.")]


class Users(Protocol):
    """Where users are: in a folder, or behind the HTTP door of a server. What is refused raises a `HeadwaterError`."""

    def list(self) -> list[dict[str, Any]]: ...
    def show(self, name: str) -> dict[str, Any]: ...
    def check_new(self, user_name: str) -> None: ...
    def add(self, user: NewUser) -> None: ...
    def delete(self, name: str) -> None: ...
    def set_password(self, name: str, password: str) -> None: ...
    def set_roles(self, name: str, roles: frozenset[Role]) -> None: ...
    def change_permission(self, name: str, vhost: str, given: dict[str, str]) -> None: ...
    def clear_permission(self, name: str, vhost: str) -> None: ...


def _found(
    *,
    data: Annotated[
        Path | None,
        typer.Option(
            help="The data folder; a server that has it open is asked.", show_default="./headwater-data"
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Settings file in TOML, such as headwater.toml.")
    ] = None,
    url: Url = None,
    login: Login = None,
    login_password_file: LoginPasswordFile = None,
    ca_file: CaFile = None,
    certificate_file: CertificateFile = None,
) -> Users:
    """Those of the server that is named, or that has the folder open; else those in the folder."""
    from headwater.cli.user_folder import FolderUsers
    from headwater.cli.user_server import ServerUsers
    from headwater.errors import FolderInUse
    from headwater.server.config import load
    from headwater.server.doors_file import read_doors

    if url is None:
        settings = load(config, os.environ, {"data": data})
        in_folder = FolderUsers(settings)
        try:
            in_folder.check_free()
        except FolderInUse as in_use:
            doors = read_doors(settings.data, in_use.pid)
            if doors is None:
                holder = "another process" if in_use.pid is None else f"process {in_use.pid}"
                fail(f"{in_use.path} is in use by {holder}; name its HTTP API with --url, or stop it first")
            url = doors.http
        else:
            return in_folder
    return ServerUsers(http_api(url, login, login_password_file, ca_file, certificate_file))


@users.command("add")
@takes(_found)
def add(
    found: Users,
    name: Name,
    role: Annotated[list[str] | None, typer.Option(help="admin or monitor; may be given twice.")] = None,
    vhost: Vhost = "/",
    configure: Pattern = None,
    write: Pattern = None,
    read: Pattern = None,
    password_file: PasswordFile = None,
    as_json: Json = False,
) -> None:
    """Make a user; in a new folder it is the first, and no guest is made there."""
    from headwater.server.security.permissions import Permission
    from headwater.server.security.users import NewUser

    permission = None
    if (configure, write, read) != (None, None, None):
        permission = Permission(configure or "", write or "", read or "")
    permissions = {} if permission is None else {vhost: permission}
    roles = _roles(role or [])
    found.check_new(name)
    found.add(NewUser(name, _password(password_file), roles, permissions))
    _say(as_json, f"added user {name}", {"added": name})


@users.command("list")
@takes(_found)
def list_(found: Users, as_json: Json = False) -> None:
    """List users with their roles and permissions."""
    described = found.list()
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
@takes(_found)
def delete(found: Users, name: Name, as_json: Json = False) -> None:
    """Delete a user with its permissions."""
    found.delete(name)
    _say(as_json, f"deleted user {name}", {"deleted": name})


@users.command("password")
@takes(_found)
def password(found: Users, name: Name, password_file: PasswordFile = None, as_json: Json = False) -> None:
    """Give a user another password."""
    found.show(name)
    found.set_password(name, _password(password_file))
    _say(as_json, f"changed the password of {name}", {"changed": name})


@users.command("roles")
@takes(_found)
def roles(
    found: Users,
    name: Name,
    role: Annotated[list[str] | None, typer.Argument(metavar="[ROLE]...", help="admin, monitor.")] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Take all roles.")] = False,
    as_json: Json = False,
) -> None:
    """Show the roles of a user, or give it these and no others."""
    if clear and role:
        fail("name roles, or --clear, not both", USAGE_EXIT_CODE)
    wanted = _roles(role or [])
    if clear or role:
        found.set_roles(name, wanted)
    described = found.show(name)
    _say(as_json, " ".join(described["roles"]) or f"{name} has no role", described)


@users.command("permissions")
@takes(_found)
def permissions(
    found: Users,
    name: Name,
    vhost: Vhost = "/",
    configure: Pattern = None,
    write: Pattern = None,
    read: Pattern = None,
    clear: Annotated[bool, typer.Option("--clear", help="Take all permissions on the vhost.")] = False,
    as_json: Json = False,
) -> None:
    """Show what a user may do, or change it on a vhost; what is not named stays as it is."""
    changes = {"configure": configure, "write": write, "read": read}
    given = {key: value for key, value in changes.items() if value is not None}
    if clear and given:
        fail("name expressions, or --clear, not both", USAGE_EXIT_CODE)
    if clear:
        found.clear_permission(name, vhost)
    elif given:
        found.change_permission(name, vhost, given)
    described = found.show(name)
    lines = (
        f"{each['vhost']}: configure {each['configure']!r}, write {each['write']!r}, read {each['read']!r}"
        for each in described["permissions"]
    )
    _say(as_json, "\n".join(lines) or f"{name} may do nothing", described)


def _roles(words: list[str]) -> frozenset[Role]:
    from headwater.server.security.users import Role

    try:
        return frozenset(map(Role, words))
    except ValueError as error:
        fail(f"{error}; known are {', '.join(Role)}", USAGE_EXIT_CODE)


def _password(file: Path | None) -> str:
    from headwater.server.security.users import PASSWORD_BYTES_MAX, password_from, without_line_end

    if file is not None:
        return password_from(file, "password_file")
    if sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
    given = sys.stdin.buffer.read(PASSWORD_BYTES_MAX + 3)
    return without_line_end(given.decode("utf-8", "surrogateescape"))


def _say(as_json: bool, line: str, answer: dict[str, Any]) -> None:
    typer.echo(json.dumps(answer) if as_json else line)

"""Users: their names, passwords and roles, and the one that a first start makes."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headwater.encoding.saslprep import UnpreparableText, prepare
from headwater.encoding.scram import Verifier, derive, new_salt
from headwater.errors import InvalidSettings
from headwater.server.security.errors import InvalidName, InvalidPassword
from headwater.server.security.permissions import ALL, Permission

__all__ = [
    "DEFAULT_VHOST",
    "GUEST",
    "NAME_BYTES_MAX",
    "PASSWORD_BYTES_MAX",
    "NewUser",
    "Role",
    "User",
    "check_user_name",
    "check_vhost_name",
    "first_user",
    "make_verifier",
    "password_from",
    "without_line_end",
]

GUEST = "guest"
DEFAULT_VHOST = "/"
NAME_BYTES_MAX = 255
PASSWORD_BYTES_MAX = 1024


class Role(enum.StrEnum):
    """What a user may do beside reading and writing logs."""

    ADMIN = "admin"
    MONITOR = "monitor"


@dataclass(frozen=True, slots=True)
class User:
    """A user as the catalogue holds it; a number is never used again, a name may be."""

    id: int
    name: str
    verifier: Verifier
    roles: frozenset[Role]


@dataclass(frozen=True, slots=True)
class NewUser:
    """A user that is to be made."""

    name: str
    password: str = field(repr=False)
    roles: frozenset[Role] = frozenset()
    permissions: Mapping[str, Permission] = field(default_factory=dict)


def check_user_name(name: str) -> str:
    """The name, if a user may have it: 1 to 255 bytes, spelled as SASLprep leaves it, without a colon."""
    _check_name("user", name)
    if ":" in name:
        raise InvalidName("user", "holds a colon, which HTTP basic authentication cannot carry")
    return name


def check_vhost_name(name: str) -> str:
    """The name, if a vhost may have it: 1 to 255 bytes, spelled as SASLprep leaves it."""
    _check_name("vhost", name)
    return name


def make_verifier(password: str, iterations: int) -> Verifier:
    """The verifier of a new password; slow on purpose. Raises `InvalidPassword`."""
    try:
        prepared = prepare(password, stored=True)
    except UnpreparableText as error:
        raise InvalidPassword(error.reason) from error
    if not 1 <= len(prepared.encode()) <= PASSWORD_BYTES_MAX:
        raise InvalidPassword(f"is not 1 to {PASSWORD_BYTES_MAX} bytes long")
    return derive(prepared, new_salt(), iterations)


def first_user(admin_name: str | None, password_file: Path | None) -> NewUser:
    """The user of a first start: the administrator that the settings name, else `guest`."""
    if admin_name is None and password_file is None:
        return NewUser(GUEST, GUEST, frozenset({Role.ADMIN}), {DEFAULT_VHOST: ALL})
    if admin_name is None:
        raise InvalidSettings("admin_user", "admin_password_file is given, so it must be given too")
    if password_file is None:
        raise InvalidSettings("admin_password_file", "admin_user is given, so it must be given too")
    return NewUser(
        check_user_name(admin_name),
        password_from(password_file),
        frozenset({Role.ADMIN}),
        {DEFAULT_VHOST: ALL},
    )


def password_from(file: Path, setting: str = "admin_password_file") -> str:
    """The password in a file, less one end of line; raises `InvalidSettings` if there is none to be had."""
    try:
        with file.open("rb") as opened:
            data = opened.read(PASSWORD_BYTES_MAX + 3)
        text = data.decode()
    except OSError as error:
        raise InvalidSettings(setting, f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidSettings(setting, f"{file} is not UTF-8") from error
    return without_line_end(text)


def without_line_end(text: str) -> str:
    """The text less one end of line, as editors and `echo` put it behind a password."""
    return re.sub(r"\r?\n\Z", "", text)


def _check_name(kind: str, name: str) -> None:
    try:
        is_prepared = prepare(name, stored=True) == name
    except (UnpreparableText, UnicodeEncodeError) as error:
        raise InvalidName(kind, str(getattr(error, "reason", "is no text"))) from error
    if not is_prepared:
        raise InvalidName(kind, "has characters with more than one spelling")
    if name != name.strip():
        raise InvalidName(kind, "begins or ends with a space")
    if not 1 <= len(name.encode()) <= NAME_BYTES_MAX:
        raise InvalidName(kind, f"is not 1 to {NAME_BYTES_MAX} bytes long")

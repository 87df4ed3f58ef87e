"""Catalogues and users for the tests: quick verifiers, and one loop for a test's coroutine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

from headwater.encoding.sasl import Failure
from headwater.encoding.scram import ITERATIONS_MIN
from headwater.server.catalogue import Catalogue
from headwater.server.security.authenticator import Authenticator
from headwater.server.security.identity import Identity
from headwater.server.security.passwords import PasswordChecker
from headwater.server.security.permissions import Permission
from headwater.server.security.users import NewUser, Role, first_user

__all__ = ["add", "authenticator", "catalogue", "guest", "log_in"]


def guest() -> NewUser:
    """What a first start makes when no administrator is named."""
    return first_user(None, None)


@contextlib.contextmanager
def catalogue(folder: Path) -> Iterator[Catalogue]:
    """The catalogue of a folder, with guest if it is new."""
    opened = Catalogue.open(folder, iterations=ITERATIONS_MIN, first_user=guest)
    try:
        yield opened
    finally:
        opened.close()


@contextlib.contextmanager
def authenticator(opened: Catalogue) -> Iterator[Authenticator]:
    """An authenticator with a thread of its own."""
    passwords = PasswordChecker()
    try:
        yield Authenticator(opened, passwords)
    finally:
        passwords.close()


def add(opened: Catalogue, name: str, password: str = "pencil", *roles: Role, **patterns: str) -> Identity:
    """Make a user with permissions on `/`; gives its identity, come from far away."""
    permissions = {"/": Permission(**patterns)} if patterns else {}
    user = asyncio.run(opened.add_user(name, password, roles=roles, permissions=permissions))
    return Identity(user.name, user.id, user.roles, is_loopback=False)


def log_in(opened: Catalogue, name: str, password: str, *, is_loopback: bool = False) -> Identity | Failure:
    """What a door would say to a name and a password."""
    with authenticator(opened) as doorman:
        return asyncio.run(doorman.check_password(name, password, is_loopback=is_loopback))

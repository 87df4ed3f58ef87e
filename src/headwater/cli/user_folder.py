"""Users in a data folder that no server has open."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from headwater.errors import CallerError, ForeignFile
from headwater.log.files import Files, storage_error
from headwater.server.catalogue import Catalogue
from headwater.server.catalogue_file import FILE_NAME
from headwater.server.config import Settings
from headwater.server.security.errors import UnknownUser
from headwater.server.security.permissions import NONE
from headwater.server.security.users import NewUser, Role, check_user_name

__all__ = ["FolderUsers", "NoUsersYet"]


class NoUsersYet(CallerError):
    """There is no catalogue in the folder."""


class FolderUsers:
    """What `headwater user` does where no server runs; each call holds the lock of the folder for as long as it takes.

    Whatever is refused raises a `HeadwaterError`; `FolderInUse` if a server has the folder.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def check_free(self) -> None:
        """Raise `FolderInUse` if a server has the folder."""
        folder = self._settings.data
        if Files().exists(folder / "lock"):
            with _locked(Files(), folder):
                pass

    def list(self) -> list[dict[str, Any]]:
        """All users, by name."""
        with self._catalogue() as catalogue:
            return [_described(catalogue, name) for name in catalogue.state.users]

    def show(self, name: str) -> dict[str, Any]:
        """One user."""
        with self._catalogue() as catalogue:
            return _described(catalogue, name)

    def check_new(self, user_name: str) -> None:
        """Refuse a name that no user may have, before its password is asked for."""
        check_user_name(user_name)

    def add(self, user: NewUser) -> None:
        """Make a user; in a new folder it is the first."""
        is_first = False

        def first() -> NewUser:
            nonlocal is_first
            is_first = True
            return user

        with _held(self._settings.data, make=True):
            catalogue = self._opened(first)
            try:
                if not is_first:
                    asyncio.run(
                        catalogue.add_user(
                            user.name, user.password, roles=user.roles, permissions=user.permissions
                        )
                    )
            finally:
                catalogue.close()

    def delete(self, name: str) -> None:
        """Delete a user."""
        with self._catalogue() as catalogue:
            asyncio.run(catalogue.delete_user(name))

    def set_password(self, name: str, password: str) -> None:
        """Give it another password."""
        with self._catalogue() as catalogue:
            asyncio.run(catalogue.set_password(name, password))

    def set_roles(self, name: str, roles: frozenset[Role]) -> None:
        """Give it these roles and no others."""
        with self._catalogue() as catalogue:
            asyncio.run(catalogue.set_roles(name, roles))

    def change_permission(self, name: str, vhost: str, given: dict[str, str]) -> None:
        """Change what it may do on a vhost; what is not given stays."""
        with self._catalogue() as catalogue:
            changed = replace(catalogue.state.permissions.get((name, vhost), NONE), **given)
            asyncio.run(catalogue.set_permission(name, vhost, changed))

    def clear_permission(self, name: str, vhost: str) -> None:
        """Take all that it may do on a vhost."""
        with self._catalogue() as catalogue:
            asyncio.run(catalogue.clear_permission(name, vhost))

    @contextlib.contextmanager
    def _catalogue(self) -> Iterator[Catalogue]:
        """The catalogue of a folder that has one, for as long as its lock is held."""
        with _held(self._settings.data, make=False):
            catalogue = self._opened(lambda: None)
            try:
                yield catalogue
            finally:
                catalogue.close()

    def _opened(self, first: Callable[[], NewUser | None]) -> Catalogue:
        settings = self._settings
        return Catalogue.open(settings.data, iterations=settings.scram_iterations, first_user=first)


def _described(catalogue: Catalogue, name: str) -> dict[str, Any]:
    if name not in catalogue.state.users:
        raise UnknownUser(name)
    return {
        "name": name,
        "roles": sorted(catalogue.state.users[name].roles),
        "permissions": [
            {"vhost": vhost, "configure": each.configure, "write": each.write, "read": each.read}
            for vhost, each in catalogue.permissions_of(name).items()
        ],
    }


@contextlib.contextmanager
def _held(folder: Path, *, make: bool) -> Iterator[None]:
    """Hold the lock of a data folder; one that is not there is made, or is an error."""
    files = Files()
    is_ours = files.exists(folder / FILE_NAME) or (make and files.exists(folder / "store.json"))
    try:
        if not is_ours:
            if not make:
                raise NoUsersYet(f"{folder} has no users yet; add one, or start the server on it once")
            if set(files.names(folder)) - {"lock"}:
                raise ForeignFile(folder)
            files.make_folder(folder)
            files.sync_folder(folder.parent)
    except OSError as error:
        raise storage_error(error.errno or 0, folder) from error
    with _locked(files, folder):
        yield


@contextlib.contextmanager
def _locked(files: Files, folder: Path) -> Iterator[None]:
    try:
        lock = files.lock(folder / "lock")
    except OSError as error:
        raise storage_error(error.errno or 0, folder) from error
    try:
        yield
    finally:
        files.close(lock)

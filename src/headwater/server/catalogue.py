"""The catalogue: users, vhosts and permissions, read from memory and changed on a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from headwater.encoding.scram import Verifier
from headwater.server.catalogue_file import FILE_NAME, CatalogueFile, CatalogueState
from headwater.server.security.errors import CatalogueBusy
from headwater.server.security.permissions import Permission
from headwater.server.security.users import NewUser, Role, User, check_user_name, make_verifier

__all__ = ["Catalogue", "CatalogueState"]

CHANGES_WAITING_MAX = 256


class Catalogue:
    """What is true is in `state`; a change is in it once it is on disk, and is answered after that."""

    def __init__(self, file: CatalogueFile, iterations: int) -> None:
        self._file = file
        self._iterations = iterations
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="catalogue")
        self._waiting = 0
        self.state: CatalogueState = file.load(iterations)

    @classmethod
    def open(cls, folder: Path, *, iterations: int, first_user: Callable[[], NewUser | None]) -> Self:
        """Open the catalogue of a data folder whose lock is held; a new one is made with its first user."""

        def first() -> tuple[NewUser, Verifier] | None:
            user = first_user()
            return None if user is None else (user, make_verifier(user.password, iterations))

        file = CatalogueFile.open(folder / FILE_NAME, first)
        try:
            return cls(file, iterations)
        except BaseException:
            file.close()
            raise

    async def add_user(
        self,
        name: str,
        password: str,
        *,
        roles: Iterable[Role] = (),
        permissions: Mapping[str, Permission] | None = None,
    ) -> User:
        """Make a user; raises `UserExists`, `InvalidName`, `InvalidPassword`, `UnknownVhost` or `CatalogueFull`."""
        user = NewUser(name, password, frozenset(roles), dict(permissions or {}))
        check_user_name(name)
        state = await self._change(
            lambda: self._file.add_user(user, make_verifier(password, self._iterations))
        )
        return state.users[name]

    async def delete_user(self, name: str) -> None:
        """Remove a user with its permissions; raises `UnknownUser`."""
        await self._change(lambda: self._file.delete_user(name))

    async def set_password(self, name: str, password: str) -> None:
        """Give a user another password; raises `UnknownUser` or `InvalidPassword`."""
        await self._change(lambda: self._file.set_verifier(name, make_verifier(password, self._iterations)))

    async def set_roles(self, name: str, roles: Iterable[Role]) -> None:
        """Give a user these roles and no others; raises `UnknownUser`."""
        chosen = frozenset(roles)
        await self._change(lambda: self._file.set_roles(name, chosen))

    async def change_user(
        self,
        name: str,
        *,
        password: str | None = None,
        roles: Iterable[Role] | None = None,
        permissions: Mapping[str, Permission | None] | None = None,
    ) -> None:
        """Change several things of a user at once, or none of them; a permission of None is taken.

        Raises `UnknownUser`, `InvalidPassword` or `UnknownVhost`.
        """
        chosen = None if roles is None else frozenset(roles)

        def write() -> None:
            self._file.check_user(name)
            if password is not None:
                self._file.set_verifier(name, make_verifier(password, self._iterations))
            if chosen is not None:
                self._file.set_roles(name, chosen)
            for vhost, permission in (permissions or {}).items():
                if permission is None:
                    self._file.clear_permission(name, vhost)
                else:
                    self._file.set_permission(name, vhost, permission)

        await self._change(write)

    async def add_vhost(self, name: str) -> None:
        """Make a vhost; raises `VhostExists`, `InvalidName` or `CatalogueFull`."""
        await self._change(lambda: self._file.add_vhost(name))

    async def delete_vhost(self, name: str) -> None:
        """Remove a vhost and the permissions on it, not its logs; raises `UnknownVhost`."""
        await self._change(lambda: self._file.delete_vhost(name))

    async def set_permission(self, name: str, vhost: str, permission: Permission) -> None:
        """Give a user this permission on a vhost in place of the old; raises `UnknownUser` or `UnknownVhost`."""
        await self._change(lambda: self._file.set_permission(name, vhost, permission))

    async def clear_permission(self, name: str, vhost: str) -> None:
        """Take from a user all it may do on a vhost; raises `UnknownUser` or `UnknownVhost`."""
        await self._change(lambda: self._file.clear_permission(name, vhost))

    def permissions_of(self, name: str) -> dict[str, Permission]:
        """What a user may do, by vhost."""
        found = self.state.permissions.items()
        return {vhost: permission for (user, vhost), permission in sorted(found, key=_key) if user == name}

    def close(self) -> None:
        """Let the changes under way reach the disk, then release the file."""
        self._thread.shutdown()
        self._file.close()

    async def _change(self, write: Callable[[], None]) -> CatalogueState:
        if self._waiting >= CHANGES_WAITING_MAX:
            raise CatalogueBusy(CHANGES_WAITING_MAX)
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, self._write_and_load, write)
        finally:
            self._waiting -= 1

    def _write_and_load(self, write: Callable[[], None]) -> CatalogueState:
        # Here and not on the loop, so that memory follows the disk even when the caller was cancelled meanwhile.
        with self._file.transaction():
            write()
            state = self._file.load(self._iterations, self.state)
        self.state = state
        return state


def _key(item: tuple[tuple[str, str], Permission]) -> tuple[str, str]:
    return item[0]

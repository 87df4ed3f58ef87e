"""/users: made, listed, looked at, changed and deleted, for administrators; passwords go in and never come out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headwater.server.catalogue import Catalogue
from headwater.server.http.endpoint import ADMIN, Answer, Call, Empty, Endpoint, location
from headwater.server.http.paging import Page
from headwater.server.http.problems import FULL, INVALID, UNKNOWN_USER, UNKNOWN_VHOST, USER_EXISTS
from headwater.server.security.errors import UnknownUser
from headwater.server.security.permissions import Permission
from headwater.server.security.users import NAME_BYTES_MAX, PASSWORD_BYTES_MAX, Role

__all__ = ["UserEndpoints"]

VHOSTS_MAX = 1000

Password = Annotated[
    str, Meta(min_length=1, max_length=PASSWORD_BYTES_MAX, extra_json_schema={"writeOnly": True})
]
Pattern = Annotated[str, Meta(max_length=255, description="Regular expression on the whole name of a log.")]


class PermissionBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a user may do in a vhost; an empty expression covers nothing."""

    configure: Pattern = ""
    write: Pattern = ""
    read: Pattern = ""

    @property
    def permission(self) -> Permission:
        """As the catalogue keeps it; raises `InvalidPattern`."""
        return Permission(self.configure, self.write, self.read)


class NewUser(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user that is to be made."""

    name: Annotated[str, Meta(min_length=1, max_length=NAME_BYTES_MAX)]
    password: Password
    roles: Annotated[list[Role], Meta(max_length=len(Role))] = []
    permissions: Annotated[
        dict[str, PermissionBody], Meta(description="By vhost.", max_length=VHOSTS_MAX)
    ] = {}


class UserChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be otherwise; what is left out stays."""

    password: Password | msgspec.UnsetType = msgspec.UNSET
    roles: Annotated[list[Role], Meta(max_length=len(Role))] | msgspec.UnsetType = msgspec.UNSET
    permissions: (
        Annotated[
            dict[str, PermissionBody | None],
            Meta(description="By vhost; null takes all there; others stay.", max_length=VHOSTS_MAX),
        ]
        | msgspec.UnsetType
    ) = msgspec.UNSET


class UserShown(msgspec.Struct, frozen=True):
    """A user, without its password."""

    name: str
    roles: list[Role]
    permissions: dict[str, PermissionBody]


class UserList(msgspec.Struct, frozen=True):
    """Users by their names."""

    users: list[UserShown]
    next: Annotated[
        str | None, Meta(description="What to give as `after` for the next page; null on the last one.")
    ]


class UserEndpoints:
    """What /users does with the catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def endpoints(self) -> Sequence[Endpoint[Any, Any]]:
        """All of them."""
        path, shown = "/users/{user}", Answer(200, UserShown)
        problems = (INVALID, UNKNOWN_VHOST, FULL)
        return [
            Endpoint("GET", "/users", self.list_users, ADMIN, [Answer(200, UserList)], Page),
            Endpoint(
                "POST",
                "/users",
                self.create_user,
                ADMIN,
                [Answer(201, UserShown, "It is there, durably.", {"Location": "Path of the user."})],
                Empty,
                NewUser,
                problems=(USER_EXISTS, *problems),
            ),
            Endpoint("GET", path, self.get_user, ADMIN, [shown], Empty, problems=(UNKNOWN_USER,)),
            Endpoint(
                "PATCH",
                path,
                self.change_user,
                ADMIN,
                [shown],
                Empty,
                UserChange,
                problems=(UNKNOWN_USER, *problems),
            ),
            Endpoint("DELETE", path, self.delete_user, ADMIN, [Answer(204)], Empty, problems=(UNKNOWN_USER,)),
        ]

    async def list_users(self, call: Call[Page, None]) -> UserList:
        """List users with their roles and permissions."""
        names, following = call.query.cut(sorted(self._catalogue.state.users))
        return UserList([self._shown(name) for name in names], following)

    async def create_user(self, call: Call[Empty, NewUser]) -> UserShown:
        """Make a user."""
        wanted = call.body
        call.changed = f"user {wanted.name!r}, roles {' '.join(wanted.roles) or 'none'}"
        permissions = {vhost: each.permission for vhost, each in wanted.permissions.items()}
        await self._catalogue.add_user(
            wanted.name, wanted.password, roles=wanted.roles, permissions=permissions
        )
        call.location = location("users", wanted.name)
        return self._shown(wanted.name)

    async def get_user(self, call: Call[Empty, None]) -> UserShown:
        """Show a user."""
        return self._shown(call.part("user"))

    async def change_user(self, call: Call[Empty, UserChange]) -> UserShown:
        """Change password, roles or permissions of a user; all of it, or nothing if something is refused."""
        name, wanted = call.part("user"), call.body
        call.changed = _told(wanted)
        given = {} if wanted.permissions is msgspec.UNSET else wanted.permissions
        await self._catalogue.change_user(
            name,
            password=None if wanted.password is msgspec.UNSET else wanted.password,
            roles=None if wanted.roles is msgspec.UNSET else wanted.roles,
            permissions={vhost: None if each is None else each.permission for vhost, each in given.items()},
        )
        return self._shown(name)

    async def delete_user(self, call: Call[Empty, None]) -> None:
        """Delete a user with its permissions; what it may do is gone with its next request."""
        await self._catalogue.delete_user(call.part("user"))

    def _shown(self, name: str) -> UserShown:
        user = self._catalogue.state.users.get(name)
        if user is None:
            raise UnknownUser(name)
        permissions = {
            vhost: PermissionBody(each.configure, each.write, each.read)
            for vhost, each in self._catalogue.permissions_of(name).items()
        }
        return UserShown(name, sorted(user.roles), permissions)


def _told(wanted: UserChange) -> str:
    """What the audit log says of a change: all but the password."""
    told = [] if wanted.password is msgspec.UNSET else ["password"]
    if wanted.roles is not msgspec.UNSET:
        told.append(f"roles {' '.join(wanted.roles) or 'none'}")
    if wanted.permissions is not msgspec.UNSET:
        told.append(f"permissions {msgspec.json.encode(wanted.permissions).decode()}")
    return ", ".join(told)

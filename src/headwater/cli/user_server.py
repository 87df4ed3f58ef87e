"""Users of a server that runs, by way of its HTTP door."""

from __future__ import annotations

from typing import Any

from headwater.client.http_api import HttpApi, path_of
from headwater.server.security.users import NewUser, Role

__all__ = ["ServerUsers"]

NOTHING = {"configure": "", "write": "", "read": ""}


class ServerUsers:
    """What `headwater user` does where a server runs; whatever is refused raises a `HeadwaterError`."""

    def __init__(self, api: HttpApi) -> None:
        self._api = api

    def list(self) -> list[dict[str, Any]]:
        """All users, by name."""
        return [_described(user) for user in self._api.pages("/users", "users")]

    def show(self, name: str) -> dict[str, Any]:
        """One user."""
        return _described(self._api.ask("GET", path_of("users", name)))

    def check_new(self, user_name: str) -> None:
        """The server says what is wrong with a name when it is asked to make a user."""

    def add(self, user: NewUser) -> None:
        """Make a user."""
        permissions = {
            vhost: {"configure": each.configure, "write": each.write, "read": each.read}
            for vhost, each in user.permissions.items()
        }
        wanted = {"name": user.name, "password": user.password, "roles": sorted(user.roles)}
        self._api.ask("POST", "/users", {**wanted, "permissions": permissions})

    def delete(self, name: str) -> None:
        """Delete a user."""
        self._api.ask("DELETE", path_of("users", name))

    def set_password(self, name: str, password: str) -> None:
        """Give it another password."""
        self._change(name, {"password": password})

    def set_roles(self, name: str, roles: frozenset[Role]) -> None:
        """Give it these roles and no others."""
        self._change(name, {"roles": sorted(roles)})

    def change_permission(self, name: str, vhost: str, given: dict[str, str]) -> None:
        """Change what it may do on a vhost; what is not given stays."""
        before = self._api.ask("GET", path_of("users", name))["permissions"].get(vhost, NOTHING)
        self._change(name, {"permissions": {vhost: {**before, **given}}})

    def clear_permission(self, name: str, vhost: str) -> None:
        """Take all that it may do on a vhost."""
        self._change(name, {"permissions": {vhost: None}})

    def _change(self, name: str, change: dict[str, Any]) -> None:
        self._api.ask("PATCH", path_of("users", name), change)


def _described(user: dict[str, Any]) -> dict[str, Any]:
    permissions = [{"vhost": vhost, **each} for vhost, each in sorted(user["permissions"].items())]
    return {**user, "permissions": permissions}

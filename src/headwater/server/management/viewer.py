"""Whoever looks at the server: what of it this user learns of, and may change."""

from __future__ import annotations

from headwater.server.security.access import Access
from headwater.server.security.identity import Identity

__all__ = ["Viewer"]


class Viewer:
    """One user, with the rights of each moment in which it asks."""

    def __init__(self, access: Access, identity: Identity) -> None:
        self.access = access
        self.identity = identity

    @property
    def may_monitor(self) -> bool:
        """Whether the user sees everything."""
        return self.access.may_monitor(self.identity)

    def sees_vhost(self, vhost: str) -> bool:
        """Whether the user learns of this vhost."""
        return self.may_monitor or self.access.may_enter(self.identity, vhost)

    def sees_log(self, vhost: str, name: str) -> bool:
        """Whether the user learns of a log or stream of this name."""
        access, identity = self.access, self.identity
        return self.may_monitor or any(
            may(identity, vhost, name) for may in (access.may_read, access.may_write, access.may_configure)
        )

    def sees_consumers(self, vhost: str, log: str) -> bool:
        """Whether the user learns who consumes from a log, and where they stand."""
        return self.may_monitor or self.access.may_read(self.identity, vhost, log)

    def may_change_consumers(self, vhost: str, log: str) -> bool:
        """Whether the user may make, reset and end what others consume from."""
        access, identity = self.access, self.identity
        return access.is_admin(identity) or (
            access.may_read(identity, vhost, log) and access.may_configure(identity, vhost, log)
        )

    def may_configure(self, vhost: str, name: str) -> bool:
        """Whether the user may make, change and delete a log of this name."""
        return self.access.may_configure(self.identity, vhost, name)

    def owns(self, of: Identity) -> bool:
        """Whether a connection of this identity is the user's own."""
        return of.user_id == self.identity.user_id

    def sees_connection(self, of: Identity) -> bool:
        """Whether the user learns of a connection of this identity: everybody of the own ones."""
        return self.owns(of) or self.may_monitor

    def sees_connections_of(self, user: str) -> bool:
        """Whether the user learns of the connections of a user of this name."""
        return user == self.identity.user or self.may_monitor

    def may_close(self, of: Identity) -> bool:
        """Whether the user may end a connection of this identity: everybody the own ones, an admin all."""
        return self.owns(of) or self.access.is_admin(self.identity)

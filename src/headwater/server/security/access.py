"""What an authenticated user may do, asked at every door and at every call."""

from __future__ import annotations

from headwater.server.catalogue import Catalogue, CatalogueState
from headwater.server.security.identity import Identity
from headwater.server.security.permissions import Right
from headwater.server.security.users import Role, User

__all__ = ["Access"]

ANSWERS_REMEMBERED_MAX = 10_000


class Access:
    """Answers from the catalogue as it is now: what is taken from a user is gone with the next question."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._state: CatalogueState | None = None
        self._answers: dict[tuple[int, str, str, Right], bool] = {}

    def may_configure(self, identity: Identity, vhost: str, name: str) -> bool:
        """Whether the user may make, change and delete a log of this name."""
        return self._may(identity, vhost, name, Right.CONFIGURE)

    def may_write(self, identity: Identity, vhost: str, name: str) -> bool:
        """Whether the user may append to a log of this name."""
        return self._may(identity, vhost, name, Right.WRITE)

    def may_read(self, identity: Identity, vhost: str, name: str) -> bool:
        """Whether the user may read a log of this name."""
        return self._may(identity, vhost, name, Right.READ)

    def may_enter(self, identity: Identity, vhost: str) -> bool:
        """Whether the user has any permission in the vhost, so that a connection to it makes sense."""
        user = self._user(identity)
        return user is not None and (user.name, vhost) in self._catalogue.state.permissions

    def is_admin(self, identity: Identity) -> bool:
        """Whether the user may change users, vhosts and permissions."""
        user = self._user(identity)
        return user is not None and Role.ADMIN in user.roles

    def may_monitor(self, identity: Identity) -> bool:
        """Whether the user may see figures of the whole server."""
        user = self._user(identity)
        return user is not None and not user.roles.isdisjoint((Role.ADMIN, Role.MONITOR))

    def _may(self, identity: Identity, vhost: str, name: str, right: Right) -> bool:
        user = self._user(identity)
        if user is None:
            return False
        state = self._catalogue.state
        if state is not self._state or len(self._answers) >= ANSWERS_REMEMBERED_MAX:
            self._answers, self._state = {}, state
        key = user.id, vhost, name, right
        answer = self._answers.get(key)
        if answer is None:
            permission = state.permissions.get((user.name, vhost))
            answer = permission is not None and permission.allows(right, name)
            self._answers[key] = answer
        return answer

    def _user(self, identity: Identity) -> User | None:
        # A user that was deleted and made anew is another one: connections of the first have no rights.
        user = self._catalogue.state.users.get(identity.user)
        return user if user is not None and user.id == identity.user_id else None

"""From a name and a proof of it to an `Identity`; what is refused looks the same whether or not the user exists."""

from __future__ import annotations

import hmac

from headwater.encoding.sasl import Failure, FailureKind
from headwater.encoding.saslprep import UnpreparableText, prepare
from headwater.encoding.scram import SALT_BYTES, Verifier
from headwater.server.catalogue import Catalogue
from headwater.server.security.identity import Identity
from headwater.server.security.passwords import PasswordChecker, TooManyChecks
from headwater.server.security.users import GUEST

__all__ = ["Authenticator"]

NAME_CHARS_LOGGED_MAX = 64


class Authenticator:
    """Knows the users, and what is to be said about one that does not exist."""

    def __init__(self, catalogue: Catalogue, passwords: PasswordChecker) -> None:
        self._catalogue = catalogue
        self._passwords = passwords
        self.failure_count = 0
        """Peers that were not let in, whatever the mechanism."""

    async def check_password(self, name: str, password: str, *, is_loopback: bool) -> Identity | Failure:
        """The identity of a user who gives a password, as PLAIN and HTTP basic do."""
        try:
            name, password = prepare(name, stored=False), prepare(password, stored=False)
            verifier = self.verifier_of(name)
            if not await self._passwords.check(name, verifier, password):
                return Failure(f"wrong user or password for {name[:NAME_CHARS_LOGGED_MAX]!r}")
        except UnpreparableText as error:
            return Failure(str(error))
        except TooManyChecks:
            return Failure("too many passwords wait to be checked", FailureKind.BUSY)
        if self.verifier_of(name) != verifier:
            return Failure(f"the password of {name!r} changed while it was checked")
        return self.identity(name, is_loopback=is_loopback)

    def identity(self, name: str, *, is_loopback: bool) -> Identity | Failure:
        """The identity of a user who has proven to be one, by whatever means."""
        user = self._catalogue.state.users.get(name)
        if user is None:
            return Failure(f"there is no user {name[:NAME_CHARS_LOGGED_MAX]!r}")
        if name == GUEST and not is_loopback:
            return Failure("guest is let in from this machine alone", FailureKind.LOOPBACK_ONLY)
        return Identity(user.name, user.id, user.roles, is_loopback)

    @property
    def remembered_s(self) -> float:
        """For so long a right password may count without being looked at again; 0 if it never may."""
        return self._passwords.remembered_s

    def has_still(self, identity: Identity, verifier: Verifier) -> bool:
        """Whether the user is the same as then, and so is its password."""
        user = self._catalogue.state.users.get(identity.user)
        return user is not None and user.id == identity.user_id and user.verifier == verifier

    def verifier_of(self, name: str) -> Verifier:
        """What to hold a proof to: for an unknown name a verifier that looks real, stays the same, and fits nothing."""
        state = self._catalogue.state
        user = state.users.get(name)
        if user is not None:
            return user.verifier
        salt, choice, stored_key, server_key = (
            hmac.digest(state.secret, f"{what}\0{name}".encode(), "sha256")
            for what in ("salt", "iterations", "stored key", "server key")
        )
        iterations = state.iterations[int.from_bytes(choice, "big") % len(state.iterations)]
        return Verifier(salt[:SALT_BYTES], iterations, stored_key, server_key)

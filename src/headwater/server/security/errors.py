"""What the catalogue and the doors refuse about users, vhosts and permissions."""

from __future__ import annotations

import os

from headwater.errors import CallerError, PeerError, StorageError

__all__ = [
    "CatalogueBusy",
    "CatalogueCorrupt",
    "CatalogueFull",
    "InvalidName",
    "InvalidPassword",
    "InvalidPattern",
    "UnknownUser",
    "UnknownVhost",
    "UnsupportedMechanism",
    "UserExists",
    "VhostExists",
]


MECHANISM_CHARS_SHOWN_MAX = 64


class UnsupportedMechanism(PeerError):
    """The peer chose a SASL mechanism that it was not offered."""

    def __init__(self, mechanism: str, offered: str, hint: str = "") -> None:
        self.mechanism, self.offered = mechanism, offered
        shown = mechanism[:MECHANISM_CHARS_SHOWN_MAX]
        super().__init__(f"SASL mechanism {shown!r} is not offered here; choose one of: {offered}{hint}")


class UnknownUser(CallerError):
    """There is no user of this name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is no user {name!r}; add it, or check the name")


class UserExists(CallerError):
    """A user of this name is there already."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"user {name!r} exists already; change its password, or delete it first")


class UnknownVhost(CallerError):
    """There is no vhost of this name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is no vhost {name!r}; add it, or check the name")


class VhostExists(CallerError):
    """A vhost of this name is there already."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"vhost {name!r} exists already; choose another name")


class InvalidName(CallerError):
    """A user or a vhost cannot have this name."""

    def __init__(self, kind: str, reason: str) -> None:
        self.kind, self.reason = kind, reason
        super().__init__(f"this name of a {kind} is refused: it {reason}; choose another one")


class InvalidPassword(CallerError):
    """A password that cannot be one; the message never holds it."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the password is refused: it {reason}; choose another one")


class InvalidPattern(CallerError):
    """A regular expression for log names that cannot be used."""

    def __init__(self, pattern: str, reason: str) -> None:
        self.pattern, self.reason = pattern, reason
        super().__init__(f"the regular expression {pattern!r} is refused: {reason}; correct it and try again")


class CatalogueFull(CallerError):
    """There are as many users or vhosts as there may be."""

    def __init__(self, kind: str, count_max: int) -> None:
        self.kind, self.count_max = kind, count_max
        super().__init__(
            f"there are {count_max} entries of kind {kind} already; delete some that nobody needs"
        )


class CatalogueBusy(StorageError):
    """More changes wait for the catalogue than may wait."""

    def __init__(self, waiting_max: int) -> None:
        self.waiting_max = waiting_max
        super().__init__(f"{waiting_max} changes wait for the catalogue already; try again in a moment")


class CatalogueCorrupt(StorageError):
    """The catalogue's file is damaged, or holds what it must not hold."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        self.path, self.reason = os.fspath(path), reason
        super().__init__(f"{self.path} is damaged: {reason}; restore it from a backup")

"""Who is at the other end of a connection, and from where."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from headwater.server.security.users import Role

ADDRESSES_REMEMBERED_MAX = 1024

__all__ = ["Identity", "Peer", "certificate_user", "is_loopback"]


class Peer(msgspec.Struct, frozen=True):
    """What a door knows of a connection before anybody has authenticated on it."""

    is_loopback: bool
    is_encrypted: bool = False
    certificate_user: str | None = None


class Identity(msgspec.Struct, frozen=True):
    """A user who has authenticated; `roles` are those of that moment, `Access` asks for the present ones."""

    user: str
    user_id: int
    roles: frozenset[Role]
    is_loopback: bool


@lru_cache(ADDRESSES_REMEMBERED_MAX)
def is_loopback(address: str) -> bool:
    """Whether a peer's address is of this machine; the empty one of a unix socket is."""
    if not address:
        return True
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback


def certificate_user(subject: Iterable[Iterable[tuple[str, str]]]) -> str | None:
    """The one common name in the subject of `ssl.SSLSocket.getpeercert()`; none if there are several."""
    names = [value for part in subject for key, value in part if key == "commonName"]
    return names[0] if len(names) == 1 else None

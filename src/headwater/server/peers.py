"""Who is at the other end of a socket, as far as the socket tells."""

from __future__ import annotations

import asyncio
import ssl

from headwater.server.security.identity import Peer, certificate_user, is_loopback

__all__ = ["connection_name", "peer_of"]


def connection_name(transport: asyncio.BaseTransport) -> str:
    """As RabbitMQ names connections: from where, and to where."""
    ends = (transport.get_extra_info("peername"), transport.get_extra_info("sockname"))
    return " -> ".join(f"{end[0]}:{end[1]}" if isinstance(end, tuple) else "unix" for end in ends)


def peer_of(transport: asyncio.BaseTransport) -> Peer:
    """Where it is, whether by TLS, and what its certificate says."""
    address = transport.get_extra_info("peername")
    host = str(address[0]) if isinstance(address, tuple) else ""
    encrypted: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    if encrypted is None:
        return Peer(is_loopback(host))
    certificate = encrypted.getpeercert()
    user = certificate_user(certificate["subject"]) if certificate else None  # type: ignore[arg-type]
    return Peer(is_loopback(host), is_encrypted=True, certificate_user=user)

"""Where a stream server is and who comes: `rabbitmq-stream://user:password@host:port/vhost`, with `+tls` encrypted."""

from __future__ import annotations

import ssl
import urllib.parse
from dataclasses import dataclass, field

from headwater.errors import InvalidSettings

__all__ = ["CLIENT_VARIABLES", "STREAM_PORT", "STREAM_TLS_PORT", "Address", "Credentials", "parse_url"]

STREAM_PORT = 5552
STREAM_TLS_PORT = 5551
CLIENT_VARIABLES = frozenset(
    {"HEADWATER_URL", "HEADWATER_VHOST", "HEADWATER_USER", "HEADWATER_PASSWORD_FILE"}
)
"""What commands that connect take from the environment, besides the host and port that the server takes too."""

_SCHEMES = {"rabbitmq-stream": False, "rabbitmq-stream+tls": True}


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user and how it proves to be one; without a mechanism the safest that both sides know is taken."""

    user: str = "guest"
    password: str = field(default="guest", repr=False)
    mechanism: str | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """A host and port, or the path of a unix socket; with a context the connection is encrypted."""

    host: str = "127.0.0.1"
    port: int = STREAM_PORT
    unix_path: str | None = None
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    server_hostname: str | None = None
    """The name that the server's certificate must have, if not that of the host."""

    def __str__(self) -> str:
        if self.unix_path is not None:
            return self.unix_path
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UrlParts:
    """What a URL says; what it leaves out is None."""

    host: str
    port: int
    is_encrypted: bool
    user: str | None
    password: str | None = field(repr=False)
    vhost: str | None


def parse_url(url: str) -> UrlParts:
    """The parts of a stream URL; raises InvalidSettings, without the password, for anything else."""
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidSettings("url", "it is no URL, or its port is no number") from error
    if parts.scheme not in _SCHEMES:
        raise InvalidSettings("url", f"it must begin with one of {', '.join(_SCHEMES)}, followed by ://")
    if not parts.hostname or parts.query or parts.fragment:
        raise InvalidSettings("url", "it needs a host, and takes nothing behind the vhost")
    if parts.path.count("/") > 1:
        raise InvalidSettings("url", "a / within the vhost is written %2F")
    is_encrypted = _SCHEMES[parts.scheme]
    return UrlParts(
        parts.hostname,
        port if port is not None else STREAM_TLS_PORT if is_encrypted else STREAM_PORT,
        is_encrypted,
        _unquoted(parts.username),
        _unquoted(parts.password),
        _unquoted(parts.path[1:] or None),
    )


def _unquoted(text: str | None) -> str | None:
    return None if text is None else urllib.parse.unquote(text)

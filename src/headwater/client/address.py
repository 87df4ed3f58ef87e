"""Where a server is and who comes: `rabbitmq-stream://user:password@host:port/vhost`, or `amqp://`.

With `rabbitmq-stream+tls` and `amqps` the connection is encrypted.
"""

from __future__ import annotations

import ssl
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.errors import InvalidSettings

__all__ = [
    "AMQP_PORT",
    "AMQP_SCHEMES",
    "AMQP_TLS_PORT",
    "CLIENT_VARIABLES",
    "HTTP_PORT",
    "HTTP_SCHEMES",
    "HTTP_TLS_PORT",
    "STREAM_PORT",
    "STREAM_SCHEMES",
    "STREAM_TLS_PORT",
    "Address",
    "Credentials",
    "Scheme",
    "UrlParts",
    "parse_url",
]

AMQP_PORT = 5672
AMQP_TLS_PORT = 5671
HTTP_PORT = 8080
HTTP_TLS_PORT = 8443
STREAM_PORT = 5552
STREAM_TLS_PORT = 5551
CLIENT_VARIABLES = frozenset(
    {
        "HEADWATER_HTTP_URL",
        "HEADWATER_URL",
        "HEADWATER_VHOST",
        "HEADWATER_USER",
        "HEADWATER_PASSWORD_FILE",
    }
)
"""What commands that connect take from the environment, besides the host and port that the server takes too."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """What the beginning of a URL says."""

    is_encrypted: bool
    port: int


STREAM_SCHEMES = {
    "rabbitmq-stream": Scheme(is_encrypted=False, port=STREAM_PORT),
    "rabbitmq-stream+tls": Scheme(is_encrypted=True, port=STREAM_TLS_PORT),
}
AMQP_SCHEMES = {
    "amqp": Scheme(is_encrypted=False, port=AMQP_PORT),
    "amqps": Scheme(is_encrypted=True, port=AMQP_TLS_PORT),
}
HTTP_SCHEMES = {
    "http": Scheme(is_encrypted=False, port=HTTP_PORT),
    "https": Scheme(is_encrypted=True, port=HTTP_TLS_PORT),
}


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
    is_amqp: bool = False


def parse_url(url: str, schemes: Mapping[str, Scheme] = STREAM_SCHEMES) -> UrlParts:
    """The parts of a URL of one of these schemes; raises InvalidSettings, without the password, for anything else."""
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidSettings("url", "it is no URL, or its port is no number") from error
    if parts.scheme not in schemes:
        raise InvalidSettings("url", f"it must begin with one of {', '.join(schemes)}, followed by ://")
    if not parts.hostname or parts.query or parts.fragment:
        raise InvalidSettings("url", "it needs a host, and takes nothing behind the vhost")
    if parts.path.count("/") > 1:
        raise InvalidSettings("url", "a / within the vhost is written %2F")
    scheme = schemes[parts.scheme]
    return UrlParts(
        parts.hostname,
        scheme.port if port is None else port,
        scheme.is_encrypted,
        _unquoted(parts.username),
        _unquoted(parts.password),
        _unquoted(parts.path[1:] or None),
        is_amqp=parts.scheme in AMQP_SCHEMES,
    )


def _unquoted(text: str | None) -> str | None:
    return None if text is None else urllib.parse.unquote(text)

"""SASL, RFC 4422: what a step can answer; PLAIN (RFC 4616), EXTERNAL (RFC 4422 appendix A), ANONYMOUS (RFC 4505)."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from headwater.encoding.saslprep import UnpreparableText, prepare

__all__ = [
    "ANONYMOUS",
    "EXTERNAL",
    "MESSAGE_BYTES_MAX",
    "PLAIN",
    "SCRAM_SHA_256",
    "Authenticated",
    "Challenge",
    "ExternalClient",
    "Failure",
    "FailureKind",
    "Password",
    "PlainClient",
    "Response",
    "check_trace",
    "parse_external",
    "parse_plain",
]

PLAIN = "PLAIN"
SCRAM_SHA_256 = "SCRAM-SHA-256"
EXTERNAL = "EXTERNAL"
ANONYMOUS = "ANONYMOUS"

MESSAGE_BYTES_MAX = 4096
_TRACE_CHARS_MAX = 255


class FailureKind(enum.StrEnum):
    """What a door tells the peer about a failed exchange."""

    MALFORMED = "malformed"
    DENIED = "denied"
    LOOPBACK_ONLY = "loopback only"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class Challenge:
    """The server's next message; the peer answers it."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Response:
    """The client's next message."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The peer has proven to be this user; `data` goes with the outcome, where a mechanism has some."""

    user: str
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Failure:
    """The exchange is over; `reason` is for our log, `data` for the peer, where a mechanism has some."""

    reason: str
    kind: FailureKind = FailureKind.DENIED
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Password:
    """A name and a password that are still to be checked, both prepared."""

    user: str
    password: str = field(repr=False)


class PlainClient:
    """The client's side of PLAIN: one message, and nothing by which the server could prove itself."""

    is_complete = True

    def __init__(self, user: str, password: str) -> None:
        user, password = prepare(user, stored=False), prepare(password, stored=False)
        self._message = f"\0{user}\0{password}".encode()

    def step(self, challenge: bytes | None = None) -> Response | Failure:
        """The message; the server may ask for it by an empty challenge, and for nothing else."""
        return (
            Failure("the server challenges PLAIN", FailureKind.MALFORMED)
            if challenge
            else Response(self._message)
        )

    def __repr__(self) -> str:
        return "PlainClient()"


class ExternalClient:
    """The client's side of EXTERNAL: who it is, its certificate has said."""

    is_complete = True

    def step(self, challenge: bytes | None = None) -> Response | Failure:
        """An empty message: the client asks to act as the user of its certificate."""
        return (
            Failure("the server challenges EXTERNAL", FailureKind.MALFORMED) if challenge else Response(b"")
        )


def parse_plain(data: bytes) -> Password | Failure:
    """RFC 4616 section 2: `[authzid] NUL authcid NUL passwd`; acting as another user is not offered."""
    text = _decoded(data)
    if isinstance(text, Failure):
        return text
    parts = text.split("\0")
    if len(parts) != 3 or not parts[1] or not parts[2]:
        return _malformed("PLAIN needs [authzid] NUL user NUL password")
    try:
        acting_as, user, password = (prepare(part, stored=False) for part in parts)
    except UnpreparableText as error:
        return _malformed(str(error))
    if acting_as not in ("", user):
        return Failure("acting as another user is not offered")
    return Password(user, password)


def parse_external(data: bytes, certificate_user: str) -> Authenticated | Failure:
    """The user of the certificate, if the peer asks for no other."""
    text = _decoded(data)
    if isinstance(text, Failure):
        return text
    # The Go client of streams sends its message of PLAIN, of which nothing counts: who it is says the certificate.
    asks_for_none = text == "" or text.startswith("\0")
    if not asks_for_none and text != certificate_user:
        return Failure("acting as another user than the certificate's is not offered")
    return Authenticated(certificate_user)


def check_trace(data: bytes) -> Failure | None:
    """RFC 4505 section 2: whatever an anonymous peer says of itself is short text, and means nothing."""
    text = _decoded(data)
    if isinstance(text, Failure):
        return text
    return _malformed("the trace is too long") if len(text) > _TRACE_CHARS_MAX else None


def _decoded(data: bytes) -> str | Failure:
    if len(data) > MESSAGE_BYTES_MAX:
        return _malformed(f"a message of {len(data)} bytes is above the maximum of {MESSAGE_BYTES_MAX}")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _malformed("a message is not UTF-8")


def _malformed(reason: str) -> Failure:
    return Failure(reason, FailureKind.MALFORMED)

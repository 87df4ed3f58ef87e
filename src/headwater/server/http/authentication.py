"""Who asks over HTTP: basic authentication (RFC 7617), or a client certificate where TLS has shown one."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import logging
import time
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from aiohttp import web

from headwater.encoding.sasl import PLAIN, Failure, FailureKind
from headwater.encoding.scram import Verifier
from headwater.server.http.answers import Refused
from headwater.server.http.origins import is_of_own_origin
from headwater.server.peers import peer_of
from headwater.server.security.authenticator import Authenticator
from headwater.server.security.identity import Identity, Peer, is_loopback
from headwater.server.security.sasl import Sasl

__all__ = ["BasicAuthentication", "Login"]

CHALLENGE = {"WWW-Authenticate": 'Basic realm="headwater", charset="UTF-8"'}
BUSY_RETRY_S = 1

logger = logging.getLogger("headwater.http")


@runtime_checkable
class Remembers(Protocol):
    """A connection that knows who came in last."""

    login: Login | None


@dataclass(frozen=True, slots=True)
class Login:
    """A header that has let somebody in, and the verifier that its password was right for."""

    header: bytes = field(repr=False)
    verifier: Verifier = field(repr=False)
    identity: Identity
    until_s: float
    """As `time.monotonic` counts."""


class BasicAuthentication:
    """Lets in whom SASL PLAIN would let in, from where it would, and without a header whom EXTERNAL would."""

    def __init__(self, authenticator: Authenticator, sasl: Sasl, failure_delay_s: float) -> None:
        self._authenticator = authenticator
        self._sasl = sasl
        self._failure_delay_s = failure_delay_s

    async def identify(self, request: web.Request) -> Identity:
        """Who asks; raises `Refused`, after a wrong password late."""
        origin = request.headers.get("Origin")
        if origin is not None and not is_of_own_origin(origin, request):
            reason = f"pages of {origin:.200} may not ask: browsers know passwords and certificates of others"
            raise Refused(403, "forbidden", reason)
        header = request.headers.get("Authorization")
        if header is None:
            return self._identify_by_certificate(request)
        login: Login | None = getattr(request.protocol, "login", None)
        if login is not None and self._counts_still(login, header):
            return login.identity
        peer = Peer(is_loopback(request.remote or ""), is_encrypted=request.secure)
        if PLAIN not in self._sasl.mechanisms(peer):
            reason = "passwords are taken over TLS or from the same machine; see sasl_plain_without_tls"
            raise Refused(403, "forbidden", reason)
        name, password = _credentials(header)
        found = await self._authenticator.check_password(name, password, is_loopback=peer.is_loopback)
        if not isinstance(found, Failure):
            self._remember(request, header, found)
            return found
        if found.kind is FailureKind.BUSY:
            raise Refused(503, "service_unavailable", found.reason, {"Retry-After": str(BUSY_RETRY_S)})
        self._note_failure(request, found.reason)
        await asyncio.sleep(self._failure_delay_s)
        reason = found.reason if found.kind is FailureKind.LOOPBACK_ONLY else "Login failed"
        raise Refused(401, "not_authorized", reason, CHALLENGE)

    def _counts_still(self, login: Login, header: str) -> bool:
        """Whether this is the header of before, and the user has still the password that it was right for."""
        return (
            time.monotonic() < login.until_s
            and hmac.compare_digest(login.header, header.encode("utf-8", "surrogateescape"))
            and self._authenticator.has_still(login.identity, login.verifier)
        )

    def _remember(self, request: web.Request, header: str, identity: Identity) -> None:
        if isinstance(request.protocol, Remembers):
            verifier = self._authenticator.verifier_of(identity.user)
            until_s = time.monotonic() + self._authenticator.remembered_s
            request.protocol.login = Login(
                header.encode("utf-8", "surrogateescape"), verifier, identity, until_s
            )

    def _identify_by_certificate(self, request: web.Request) -> Identity:
        """Who its certificate says the client is, as SASL EXTERNAL does."""
        peer = None if request.transport is None else peer_of(request.transport)
        if peer is None or peer.certificate_user is None:
            raise Refused(401, "not_authorized", "name and password are asked for", CHALLENGE)
        found = self._authenticator.identity(peer.certificate_user, is_loopback=peer.is_loopback)
        if isinstance(found, Failure):
            self._note_failure(request, found.reason)
            raise Refused(401, "not_authorized", "the certificate is of no user here", CHALLENGE)
        return found

    def _note_failure(self, request: web.Request, reason: str) -> None:
        self._authenticator.failure_count += 1
        logger.warning("%s: authentication failed: %s", request.remote, reason)


def _credentials(header: str) -> tuple[str, str]:
    scheme, _, encoded = header.partition(" ")
    try:
        if scheme.lower() != "basic":
            raise ValueError(scheme)
        text = base64.b64decode(encoded.strip().encode("ascii"), validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise Refused(401, "not_authorized", "Login failed", CHALLENGE) from error
    name, _, password = text.partition(":")
    return name, password

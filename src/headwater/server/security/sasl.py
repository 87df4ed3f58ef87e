"""RFC 4422 on the server: which mechanisms a peer is offered, and the exchange that ends in an `Identity`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from headwater.encoding.sasl import (
    ANONYMOUS,
    EXTERNAL,
    PLAIN,
    SCRAM_SHA_256,
    Authenticated,
    Challenge,
    Failure,
    FailureKind,
    check_trace,
    parse_external,
    parse_plain,
)
from headwater.encoding.scram import ScramServer, new_nonce
from headwater.server.security.authenticator import Authenticator
from headwater.server.security.errors import UnsupportedMechanism
from headwater.server.security.identity import Identity, Peer
from headwater.server.security.users import GUEST

__all__ = ["Answer", "Exchange", "Sasl", "Success"]

PLAIN_HINT = "; it is offered with TLS, or from the same machine; elsewhere with sasl_plain_without_tls"


@dataclass(frozen=True, slots=True)
class Success:
    """The peer is this one; `data` must reach it, with the outcome or as one more challenge."""

    identity: Identity
    data: bytes = b""


Answer = Challenge | Success | Failure


class Exchange(Protocol):
    """One authentication; `None` stands for an initial response that the peer left out."""

    async def step(self, data: bytes | None) -> Answer:
        """Answer one message of the peer; never raises, whatever the bytes. After the end all is failure."""
        ...


class Sasl:
    """The mechanisms of this server."""

    def __init__(
        self,
        authenticator: Authenticator,
        *,
        allows_anonymous: bool = True,
        allows_plain_without_tls: bool = False,
    ) -> None:
        self._authenticator = authenticator
        self._allows_anonymous = allows_anonymous
        self._allows_plain_without_tls = allows_plain_without_tls

    def mechanisms(self, peer: Peer) -> tuple[str, ...]:
        """What this peer is offered, the strongest first."""
        offered = {
            EXTERNAL: peer.certificate_user is not None,
            SCRAM_SHA_256: True,
            PLAIN: peer.is_encrypted or peer.is_loopback or self._allows_plain_without_tls,
            ANONYMOUS: self._allows_anonymous and peer.is_loopback,
        }
        return tuple(name for name, is_offered in offered.items() if is_offered)

    def start(self, mechanism: str, peer: Peer) -> Exchange:
        """Begin an exchange; raises `UnsupportedMechanism` for one that this peer is not offered."""
        offered = self.mechanisms(peer)
        if mechanism not in offered:
            hint = PLAIN_HINT if mechanism == PLAIN else ""
            raise UnsupportedMechanism(mechanism, ", ".join(offered), hint)
        exchanges: dict[str, Callable[[Authenticator, Peer], _Exchange]] = {
            EXTERNAL: _External,
            SCRAM_SHA_256: _Scram,
            PLAIN: _Plain,
            ANONYMOUS: _Anonymous,
        }
        return exchanges[mechanism](self._authenticator, peer)


class _Exchange:
    """What the mechanisms share: the end, and the way from a proven name to an identity."""

    waits_for_peer = False

    def __init__(self, authenticator: Authenticator, peer: Peer) -> None:
        self._authenticator = authenticator
        self._peer = peer
        self._is_begun = False
        self._is_over = False

    async def step(self, data: bytes | None) -> Answer:
        if self._is_over:
            return Failure("the exchange is over", FailureKind.MALFORMED)
        if data is None and self.waits_for_peer and not self._is_begun:
            self._is_begun = True
            return Challenge(b"")
        self._is_begun = True
        self._is_over = True  # until there is an answer: a peer that does not wait for it gets no second try
        answer = await self._answer(data or b"")
        self._is_over = not isinstance(answer, Challenge)
        self._authenticator.failure_count += isinstance(answer, Failure)
        return answer

    async def _answer(self, data: bytes) -> Answer:
        raise NotImplementedError

    def _success(self, user: str, data: bytes = b"") -> Success | Failure:
        identity = self._authenticator.identity(user, is_loopback=self._peer.is_loopback)
        return identity if isinstance(identity, Failure) else Success(identity, data)


class _Plain(_Exchange):
    waits_for_peer = True

    async def _answer(self, data: bytes) -> Answer:
        given = parse_plain(data)
        if isinstance(given, Failure):
            return given
        identity = await self._authenticator.check_password(
            given.user, given.password, is_loopback=self._peer.is_loopback
        )
        return identity if isinstance(identity, Failure) else Success(identity)


class _Scram(_Exchange):
    waits_for_peer = True

    def __init__(self, authenticator: Authenticator, peer: Peer) -> None:
        super().__init__(authenticator, peer)
        self._machine = ScramServer(authenticator.verifier_of, new_nonce())

    async def _answer(self, data: bytes) -> Answer:
        answer = self._machine.step(data)
        if not isinstance(answer, Authenticated):
            return answer
        outcome = self._success(answer.user, answer.data)
        return replace(outcome, data=b"e=other-error") if isinstance(outcome, Failure) else outcome


class _External(_Exchange):
    async def _answer(self, data: bytes) -> Answer:
        assert self._peer.certificate_user is not None, "EXTERNAL is offered to peers with a certificate"
        answer = parse_external(data, self._peer.certificate_user)
        return answer if isinstance(answer, Failure) else self._success(answer.user)


class _Anonymous(_Exchange):
    async def _answer(self, data: bytes) -> Answer:
        return check_trace(data) or self._success(GUEST)

"""SASL, RFC 4422: which mechanism a client takes, and its part in the exchange."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from headwater.client.address import Credentials
from headwater.client.errors import AuthenticationFailed
from headwater.encoding.sasl import (
    ANONYMOUS,
    EXTERNAL,
    PLAIN,
    SCRAM_SHA_256,
    ExternalClient,
    Failure,
    PlainClient,
    Response,
)
from headwater.encoding.scram import ScramClient, new_nonce

__all__ = ["ClientExchange", "start_exchange"]

PREFERRED = (SCRAM_SHA_256, PLAIN)
"""What is taken unless told otherwise: that which tells the server least comes first."""


class ClientExchange(Protocol):
    """The client's side of a mechanism."""

    @property
    def is_complete(self) -> bool:
        """Whether the server has shown all it must show before its OK counts."""

    def step(self, challenge: bytes | None = None) -> Response | Failure:
        """The next message."""


class AnonymousClient:
    """RFC 4505: one message that says nothing."""

    is_complete = True

    def step(self, challenge: bytes | None = None) -> Response | Failure:
        """An empty trace."""
        return Response(b"")


_CLIENTS: dict[str, Callable[[Credentials], ClientExchange]] = {
    PLAIN: lambda who: PlainClient(who.user, who.password),
    SCRAM_SHA_256: lambda who: ScramClient(who.user, who.password, new_nonce()),
    EXTERNAL: lambda _: ExternalClient(),
    ANONYMOUS: lambda _: AnonymousClient(),
}


def start_exchange(credentials: Credentials, offered: Sequence[str]) -> tuple[str, ClientExchange]:
    """The mechanism to use with a server that offers these, and our side of it."""
    wanted = PREFERRED if credentials.mechanism is None else (credentials.mechanism,)
    for mechanism in wanted:
        if mechanism in offered and mechanism in _CLIENTS:
            return mechanism, _CLIENTS[mechanism](credentials)
    raise AuthenticationFailed(
        credentials.user,
        f"the server offers {', '.join(offered) or 'nothing'}, wanted is {' or '.join(wanted)}; "
        "choose a mechanism that both have (some are offered over TLS alone)",
    )

"""RabbitMQ Streams protocol, Authentication: who a connection is, from the first SaslAuthenticate to Open."""

from __future__ import annotations

import asyncio
import logging

from headwater.encoding.sasl import Challenge, Failure, FailureKind
from headwater.server.security.errors import UnsupportedMechanism
from headwater.server.security.identity import Identity, Peer
from headwater.server.security.sasl import Answer, Exchange, Success
from headwater.server.streams.door import Door, Endpoint
from headwater.streams import commands as c
from headwater.streams.commands import ResponseCode
from headwater.streams.server_connection import ServerConnection

__all__ = ["Handshake"]

_CODES = {
    FailureKind.MALFORMED: ResponseCode.SASL_ERROR,
    FailureKind.LOOPBACK_ONLY: ResponseCode.SASL_AUTHENTICATION_FAILURE_LOOPBACK,
}

logger = logging.getLogger("headwater.streams")


class Handshake:
    """Answers SaslAuthenticate and Open on behalf of one connection."""

    def __init__(
        self, door: Door, machine: ServerConnection, peer: Peer, name: str, advertised: Endpoint
    ) -> None:
        self._door = door
        self._machine = machine
        self._peer = peer
        self._name = name
        self._advertised = advertised
        self._exchange: Exchange | None = None
        self._last_message_sent = False
        self._identity: Identity | None = None

    async def authenticate(self, command: c.SaslAuthenticateRequest) -> None:
        """Answer one message of the mechanism, a wrong password late."""
        if self._last_message_sent:
            self._machine.authenticated()
            return
        try:
            if self._exchange is None:
                self._exchange = self._door.sasl.start(command.mechanism, self._peer)
        except UnsupportedMechanism as error:
            logger.warning("%s: authentication failed: %s", self._name, error)
            self._machine.refuse_authentication(ResponseCode.SASL_MECHANISM_NOT_SUPPORTED)
            return
        await self._answer(await self._exchange.step(command.sasl_opaque_data))

    def open(self, command: c.OpenRequest) -> Identity | None:
        """Let the client into a vhost; None if it may not be there."""
        identity = self._identity
        assert identity is not None, "Open comes after authentication"
        if not self._door.access.may_enter(identity, command.virtual_host):
            self._machine.refuse_open(ResponseCode.VIRTUAL_HOST_ACCESS_FAILURE)
            return None
        # One key more and the Go client fails.
        self._machine.opened(
            {
                "advertised_host": self._advertised.host,
                "advertised_port": str(self._advertised.port),
            }
        )
        return identity

    async def _answer(self, answer: Answer) -> None:
        if isinstance(answer, Challenge):
            self._machine.challenge(answer.data)
        elif isinstance(answer, Success):
            self._identity = answer.identity
            if answer.data:
                self._last_message_sent = True
                self._machine.challenge(answer.data)
            else:
                self._machine.authenticated()
        else:
            assert isinstance(answer, Failure)
            logger.warning("%s: authentication failed: %s", self._name, answer.reason)
            await asyncio.sleep(self._door.limits.failure_delay_s)
            self._machine.refuse_authentication(_CODES.get(answer.kind, ResponseCode.AUTHENTICATION_FAILURE))

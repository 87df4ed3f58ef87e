"""AMQP 1.0 part 5, section 5.3, and part 2, section 2.4.1: the client's way from a socket to an open connection."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, TypeVar

from headwater.amqp.connection import Connection
from headwater.amqp.events import Opened
from headwater.amqp.performatives import Open
from headwater.amqp.sasl import SaslClient, SaslEvent
from headwater.amqp.sasl_frames import SaslChallenge, SaslCode, SaslMechanisms, SaslOutcome
from headwater.client.address import Credentials
from headwater.client.amqp_protocol import AmqpProtocol
from headwater.client.authentication import ClientExchange, start_exchange
from headwater.client.errors import AuthenticationFailed
from headwater.encoding.amqp_types import Symbol
from headwater.encoding.sasl import Failure
from headwater.errors import HeadwaterError

__all__ = ["Handshake"]

_REASONS = {
    SaslCode.AUTH: "wrong user or password; check both",
    SaslCode.SYS: "the server failed; look at its log",
    SaslCode.SYS_PERM: "the server cannot authenticate anybody; look at its log",
    SaslCode.SYS_TEMP: "the server cannot authenticate anybody now; try again",
}

_Step = TypeVar("_Step")


class Handshake:
    """Takes what the machines say until the connection is open."""

    def __init__(self, machine: Connection) -> None:
        self.step = "connecting"
        """What is under way."""
        self._machine = machine
        self._steps: asyncio.Queue[SaslEvent | Opened | HeadwaterError] = asyncio.Queue()

    def took(self, step: SaslEvent | Opened | HeadwaterError) -> None:
        """What a machine says, or why there is no more of it."""
        self._steps.put_nowait(step)

    async def run(
        self,
        protocol: AmqpProtocol,
        credentials: Credentials,
        hostname: str,
        desired_capabilities: tuple[Symbol, ...],
        properties: Mapping[Symbol, Any],
    ) -> Open:
        """Authenticate and open; gives what the server opened with."""
        assert protocol.sasl is not None, "SASL comes first"
        self.step = "authentication"
        await self._authenticate(protocol, protocol.sasl, credentials, hostname)
        self.step = "opening the connection"
        protocol.begin_amqp()
        self._machine.open(
            hostname=hostname, desired_capabilities=desired_capabilities, properties=dict(properties)
        )
        protocol.go_on()
        return (await self._next(Opened)).open

    async def _authenticate(
        self, protocol: AmqpProtocol, sasl: SaslClient, credentials: Credentials, hostname: str
    ) -> None:
        offered = await self._next(SaslMechanisms)
        mechanism, exchange = start_exchange(credentials, tuple(map(str, offered.sasl_server_mechanisms)))
        sasl.start(mechanism, await _said(exchange, None, credentials.user), hostname)
        protocol.go_on()
        while isinstance(answer := await self._next(SaslChallenge, SaslOutcome), SaslChallenge):
            sasl.respond(await _said(exchange, answer.challenge, credentials.user))
            protocol.go_on()
        assert isinstance(answer, SaslOutcome)
        if answer.code is not SaslCode.OK:
            raise AuthenticationFailed(credentials.user, _REASONS[answer.code], answer.code)
        if answer.additional_data:
            await _said(exchange, answer.additional_data, credentials.user)
        if not exchange.is_complete:
            raise AuthenticationFailed(credentials.user, "the server did not show that it knows the password")

    async def _next(self, *kinds: type[_Step]) -> _Step:
        step = await self._steps.get()
        if isinstance(step, HeadwaterError):
            raise step
        assert isinstance(step, kinds), "the machines see to the order"
        return step


async def _said(exchange: ClientExchange, challenge: bytes | None, user: str) -> bytes:
    # SCRAM derives a key, which takes the time that the server's iteration count demands.
    said = await asyncio.to_thread(exchange.step, challenge)
    if isinstance(said, Failure):
        raise AuthenticationFailed(user, said.reason)
    return said.data

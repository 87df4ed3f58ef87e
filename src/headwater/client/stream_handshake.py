"""RabbitMQ Streams protocol, Authentication: the client's way from a socket to an open vhost."""

from __future__ import annotations

import asyncio

from headwater.client.address import Credentials
from headwater.client.authentication import start_exchange
from headwater.client.errors import AuthenticationFailed, RequestRefused, says
from headwater.client.stream_protocol import StreamProtocol
from headwater.encoding.sasl import Failure
from headwater.errors import HeadwaterError
from headwater.streams import commands as c
from headwater.streams.client_connection import ClientConnection
from headwater.streams.commands import ResponseCode
from headwater.streams.connection import Event

__all__ = ["Handshake"]


class Handshake:
    """Takes the events of the machine until the vhost is open."""

    def __init__(self, machine: ClientConnection) -> None:
        self._machine = machine
        self._steps: asyncio.Queue[Event | HeadwaterError] = asyncio.Queue()

    def took(self, step: Event | HeadwaterError) -> None:
        """What the machine says, or why there is no more of it."""
        self._steps.put_nowait(step)

    async def run(self, protocol: StreamProtocol, credentials: Credentials, vhost: str) -> dict[str, str]:
        """Authenticate and open; gives what the server says of itself at that."""
        await self._authenticate(protocol, credentials)
        while not isinstance(step := await self._next(), c.OpenResponse):
            assert isinstance(step, c.TuneRequest)
        if step.response_code != ResponseCode.OK:
            raise RequestRefused("open vhost", vhost, step.response_code)
        return step.connection_properties

    async def _authenticate(self, protocol: StreamProtocol, credentials: Credentials) -> None:
        step = await self._next()
        if not isinstance(step, c.SaslHandshakeResponse):
            raise _refused(credentials, step)
        if step.response_code != ResponseCode.OK:
            raise _refused(credentials, step)
        mechanism, exchange = start_exchange(credentials, step.mechanisms)
        challenge = None
        while True:
            # SCRAM derives a key, which takes the time that the server's iteration count demands.
            said = await asyncio.to_thread(exchange.step, challenge)
            if isinstance(said, Failure):
                raise AuthenticationFailed(credentials.user, said.reason)
            self._machine.authenticate(mechanism, said.data)
            protocol.go_on()
            answer = await self._next()
            if not isinstance(answer, c.SaslAuthenticateResponse):
                raise _refused(credentials, answer)
            if answer.response_code == ResponseCode.OK:
                break
            if answer.response_code != ResponseCode.SASL_CHALLENGE:
                raise _refused(credentials, answer)
            challenge = answer.sasl_opaque_data
        if not exchange.is_complete:
            raise AuthenticationFailed(credentials.user, "the server did not show that it knows the password")

    async def _next(self) -> Event:
        step = await self._steps.get()
        if isinstance(step, HeadwaterError):
            raise step
        return step


def _refused(credentials: Credentials, step: Event) -> AuthenticationFailed:
    if isinstance(step, c.Response):
        return AuthenticationFailed(credentials.user, says(step.response_code), step.response_code)
    return AuthenticationFailed(
        credentials.user, f"the server sent {type(step).__name__} instead of an answer"
    )

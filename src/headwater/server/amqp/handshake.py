"""AMQP 1.0 part 5, section 5.3, and open: who a connection is, and where it may go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine

from headwater.amqp.definitions import Condition, ErrorValue
from headwater.amqp.performatives import Open
from headwater.amqp.sasl import SaslFailed, SaslServer, SaslSkipped
from headwater.amqp.sasl_frames import SaslCode, SaslInit, SaslResponse
from headwater.encoding.sasl import ANONYMOUS, Challenge, Failure
from headwater.server.amqp.door import Door
from headwater.server.security.errors import UnsupportedMechanism
from headwater.server.security.identity import Identity, Peer
from headwater.server.security.sasl import Answer, Exchange, Success

__all__ = ["Handshake"]

VHOST_PREFIX = "vhost:"
DEFAULT_VHOST = "/"

logger = logging.getLogger("headwater.amqp")


class Handshake:
    """The steps of one connection until it has opened."""

    def __init__(self, door: Door, peer: Peer, name: str, on_step: Callable[[], None]) -> None:
        self.is_over = False
        """Whether what follows is AMQP."""
        self.mechanism = ""
        """The one that the client chose."""
        self.has_failed = False
        self._door = door
        self._peer = peer
        self._name = name
        self._on_step = on_step
        self._machine = SaslServer(door.sasl.mechanisms(peer))
        self._exchange: Exchange | None = None
        self._identity: Identity | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether the next step is ours: until then nothing is read."""
        return self._task is not None

    def cancel(self) -> None:
        """The connection is gone."""
        if self._task is not None:
            self._task.cancel()

    def data_to_send(self) -> bytearray:
        """What goes out, once."""
        return self._machine.data_to_send()

    def receive(self, buffer: bytearray, position: int, end: int) -> int:
        """Take what the client says; gives where what was not looked at yet begins."""
        if self.has_failed or self.is_busy:
            return position
        event, position = self._machine.next_event(buffer, position, end)
        if isinstance(event, SaslInit):
            self._run(self._start(str(event.mechanism), event.initial_response))
        elif isinstance(event, SaslResponse):
            assert self._exchange is not None, "a response follows a challenge"
            self._run(self._step(self._exchange, event.response))
        elif isinstance(event, SaslSkipped):
            self._run(self._come_without_name())
        elif isinstance(event, SaslFailed):
            logger.info("%s: authentication: %s", self._name, event.reason)
            self.has_failed = True
        return position

    def open(self, opened: Open) -> tuple[Identity, str] | ErrorValue:
        """Who the client is and which vhost it is let into, or why not."""
        assert self._identity is not None, "open comes after authentication"
        hostname = opened.hostname or ""
        vhost = hostname.removeprefix(VHOST_PREFIX) if hostname.startswith(VHOST_PREFIX) else DEFAULT_VHOST
        if not self._door.access.may_enter(self._identity, vhost):
            return ErrorValue(
                Condition.UNAUTHORIZED_ACCESS, f"user {self._identity.user!r} may not enter vhost {vhost!r}"
            )
        return self._identity, vhost

    def _run(self, step: Coroutine[None, None, None]) -> None:
        self._task = self._door.loop.create_task(self._guarded(step))

    async def _guarded(self, step: Coroutine[None, None, None]) -> None:
        try:
            await step
        except Exception:
            logger.exception("%s: a fault of the server", self._name)
            self.has_failed = True
        self._task = None
        self._on_step()

    async def _start(self, mechanism: str, data: bytes | None) -> None:
        try:
            self._exchange = self._door.sasl.start(mechanism, self._peer)
        except UnsupportedMechanism as error:
            await self._refuse(str(error))
            return
        self.mechanism = mechanism
        await self._step(self._exchange, data)

    async def _step(self, exchange: Exchange, data: bytes | None) -> None:
        await self._answer(await exchange.step(data))

    async def _answer(self, answer: Answer) -> None:
        if isinstance(answer, Challenge):
            self._machine.challenge(answer.data)
        elif isinstance(answer, Success):
            self._identity = answer.identity
            self._machine.finish(SaslCode.OK, answer.data or None)
            self.is_over = True
        else:
            assert isinstance(answer, Failure), "an answer is one of three"
            await self._refuse(answer.reason)

    async def _refuse(self, reason: str) -> None:
        logger.warning("%s: authentication failed: %s", self._name, reason)
        await asyncio.sleep(self._door.limits.failure_delay_s)
        self._machine.finish(SaslCode.AUTH)
        self.has_failed = True

    async def _come_without_name(self) -> None:
        """Without SASL a client is who ANONYMOUS would make it, where that is offered."""
        self.mechanism = ANONYMOUS
        try:
            answer = await self._door.sasl.start(ANONYMOUS, self._peer).step(b"")
        except UnsupportedMechanism as error:
            answer = Failure(str(error))
        if isinstance(answer, Success):
            self._identity = answer.identity
            self.is_over = True
            return
        logger.warning("%s: refused without SASL: %s", self._name, answer)
        self._machine.require()
        self.has_failed = True

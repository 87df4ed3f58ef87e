"""AMQP 1.0 part 2, section 2.6: what senders and receivers of a client share: how links begin and end."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from headwater.amqp.definitions import ErrorValue, ReceiverSettleMode, Role, SenderSettleMode
from headwater.amqp.events import Deliveries
from headwater.amqp.link import Link
from headwater.amqp.messaging import DeliveryState, Source, Target
from headwater.amqp.performatives import Attach
from headwater.client.amqp_connection import AmqpConnection
from headwater.client.amqp_errors import LinkEnded, LinkRefused, SessionEnded
from headwater.client.amqp_session import AmqpSession
from headwater.client.errors import RequestTimedOut
from headwater.encoding.amqp_types import Symbol
from headwater.encoding.ranges import IdRange
from headwater.errors import HeadwaterError

__all__ = ["AmqpLink", "new_name"]


def new_name() -> str:
    """A name that no other link has: links of one name between the same containers are the same link."""
    return f"headwater-{secrets.token_hex(8)}"


class AmqpLink:
    """One end of a link; made on a connection it has a session of its own, so that no other link ends with it."""

    def __init__(
        self, on: AmqpConnection | AmqpSession, kind: type[Link], name: str | None, what: str
    ) -> None:
        self._owns_session = isinstance(on, AmqpConnection)
        self.session = AmqpSession(on) if isinstance(on, AmqpConnection) else on
        self.connection = self.session.connection
        self.error: HeadwaterError | None = None
        """Why it ended, once it has."""
        self.what = what
        """What errors call it."""
        self._machine = kind(self.session.machine, name or new_name())
        self._opening: asyncio.Future[None] | None = None
        self._was_answered = False
        """Whether the server has attached too, be it without a terminus."""
        self._leaving: asyncio.Future[None] | None = None

    @property
    def name(self) -> str:
        """Its name, by which it is the same link when it is attached again."""
        return self._machine.name

    @property
    def remote(self) -> Attach:
        """What the server attached with: what it grants of what was asked for."""
        return self._machine.remote

    @property
    def address(self) -> str | None:
        """Of the node, as the server says; that of a dynamic node is the server's choice."""
        terminus = self._remote_terminus()
        return terminus.address if isinstance(terminus, Source | Target) else None

    async def close(self) -> None:
        """Detach for good, and wait for the server's answer; without effect when it has ended."""
        await self._leave(is_closed=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _open(
        self,
        source: Source,
        target: Target,
        snd_settle_mode: SenderSettleMode,
        rcv_settle_mode: ReceiverSettleMode,
        desired_capabilities: Sequence[str],
        properties: Mapping[str, Any] | None,
    ) -> None:
        """Attach; raises LinkRefused."""
        self._opening = asyncio.get_running_loop().create_future()
        try:
            self.session.add(self._machine, self)
            self._machine.attach(
                source,
                target,
                snd_settle_mode=snd_settle_mode,
                rcv_settle_mode=rcv_settle_mode,
                desired_capabilities=tuple(map(Symbol, desired_capabilities)),
                properties={Symbol(name): value for name, value in properties.items()}
                if properties
                else None,
            )
            self.connection.wrote()
            await self.connection.answer(self._opening, f"attach of {self.what}")
        except BaseException as error:
            self._machine.detach()
            self._gone(LinkEnded(self.what, "it was given up"))
            if self._was_answered and isinstance(error, RequestTimedOut):
                raise LinkRefused(self.what, None) from None
            raise

    async def _leave(self, *, is_closed: bool) -> None:
        if self.error is None:
            self._leaving = asyncio.get_running_loop().create_future()
            self._machine.detach(is_closed=is_closed)
            self.connection.wrote()
            self._end(LinkEnded(self.what, "it was closed here"))
            try:
                await self.connection.answer(self._leaving, f"detach of {self.what}")
            finally:
                self._gone(self.error)

    def _gone(self, error: HeadwaterError | None) -> None:
        """Nothing more comes on this link."""
        self.session.remove(self._machine)
        if self._owns_session:
            self.session.end_soon()
        if error is not None:
            self._end(error)

    def _check_alive(self) -> None:
        if self.error is not None:
            raise self.error.with_traceback(None)

    def _end(self, error: HeadwaterError) -> None:
        """Nothing more can be done with it; the first reason counts, and whoever waits is told."""
        if self.error is None:
            self.error = error
            self._ended(error)

    def _ended(self, error: HeadwaterError) -> None:
        """Tell whoever waits."""
        raise NotImplementedError

    def _remote_terminus(self) -> object:
        """The server's end of what the link is attached to."""
        return self.remote.target if self._machine.role is Role.SENDER else self.remote.source

    # What connection and session tell

    def attached(self) -> None:
        self._was_answered = True
        # Without a terminus the link is refused, and a detach follows that says why (section 2.6.3).
        if self._opening is not None and not self._opening.done() and self._remote_terminus() is not None:
            self._opening.set_result(None)
            self._attached()

    def _attached(self) -> None:
        """The link can be used."""

    def flow(self) -> None:
        raise NotImplementedError

    def delivered(self, event: Deliveries) -> None:
        raise NotImplementedError

    def settled(self, ranges: Sequence[IdRange], state: DeliveryState | None, *, is_settled: bool) -> None:
        raise NotImplementedError

    def detached(self, error: ErrorValue | None) -> None:
        if self._leaving is not None:
            if not self._leaving.done():
                if error is None:
                    self._leaving.set_result(None)
                else:
                    self._leaving.set_exception(LinkEnded(self.what, error))
        elif not self._took_refusal(error):
            self._gone(LinkEnded(self.what, error))

    def session_ended(self, error: ErrorValue | None) -> None:
        if not self._took_refusal(error):
            self.ended(SessionEnded(f"the session of {self.what}", error))

    def ended(self, error: HeadwaterError) -> None:
        for waiter in (self._opening, self._leaving):
            if waiter is not None and not waiter.done():
                waiter.set_exception(error)
        self._end(error)

    def _took_refusal(self, error: ErrorValue | None) -> bool:
        """Whether that was the answer to our attach."""
        if self._opening is None or self._opening.done():
            return False
        self._opening.set_exception(LinkRefused(self.what, error))
        return True

"""AMQP 1.0 part 2, section 2.5: a session of a client, which ends as a whole: with it go all its links."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Protocol

from headwater.amqp.definitions import ErrorValue
from headwater.amqp.link import Link
from headwater.client.amqp_connection import AmqpConnection, LinkEvents
from headwater.client.amqp_errors import SessionEnded
from headwater.errors import HeadwaterError

__all__ = ["AmqpSession"]


class SessionLink(LinkEvents, Protocol):
    """What a session tells a link of its own."""

    def session_ended(self, error: ErrorValue | None) -> None:
        """The server ended the session."""

    def ended(self, error: HeadwaterError) -> None:
        """Nothing more will come."""


class AmqpSession:
    """Begun as it is made; links that share it share its window, and its end."""

    def __init__(self, connection: AmqpConnection) -> None:
        self.connection = connection
        self.error: HeadwaterError | None = None
        """Why it ended, once it has."""
        self.machine = connection.begin(self)
        self._links: dict[Link, SessionLink] = {}
        self._waiter: asyncio.Future[None] | None = None

    def add(self, link: Link, events: SessionLink) -> None:
        """A link of this session."""
        self.check_alive()
        self._links[link] = events
        self.connection.watch(link, events)

    def remove(self, link: Link) -> None:
        """A link is gone."""
        self._links.pop(link, None)
        self.connection.forget(link)

    def check_alive(self) -> None:
        """Raises what ended the session, if something has."""
        if self.error is not None:
            raise self.error.with_traceback(None)

    async def end(self) -> None:
        """End it, and wait for the server's answer; without effect when it has ended."""
        if self.error is None:
            self._waiter = asyncio.get_running_loop().create_future()
            self.end_soon()
            await self.connection.answer(self._waiter, "end of a session")

    def end_soon(self) -> None:
        """End it; the server's answer is taken when it comes."""
        if self.error is None:
            self.machine.end()
            self.connection.protocol.flush_soon()
            self._drop(SessionEnded("the session", "it was ended here"))

    async def __aenter__(self) -> AmqpSession:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.end()

    # What the connection tells

    def session_ended(self, error: ErrorValue | None) -> None:
        self._answered()
        if self.error is None:
            self.error = SessionEnded("the session", error)
            links, self._links = self._links, {}
            for link, events in links.items():
                self.connection.forget(link)
                events.session_ended(error)

    def ended(self, error: HeadwaterError) -> None:
        self._answered()
        self._drop(error)

    def _drop(self, error: HeadwaterError) -> None:
        if self.error is not None:
            return
        self.error = error
        links, self._links = self._links, {}
        for link, events in links.items():
            self.connection.forget(link)
            events.ended(error)

    def _answered(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

"""The HTTP door's ports: they bind, say where, bound what peers may cost, and let requests under way end at closing."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus

import msgspec
from aiohttp import web

from headwater.server.http.authentication import Login
from headwater.server.http.problems import BAD_REQUEST, INTERNAL, problem_answer
from headwater.server.http.serving import HttpFigures
from headwater.server.listening import ListenFailed, address_of

__all__ = ["SERVER", "HttpLimits", "HttpListener", "HttpProtocol"]

HEADERS_MAX = 128
SERVER = "headwater"
"""What answers say of who made them: not which library it was."""

logger = logging.getLogger("headwater.http")


class HttpLimits(msgspec.Struct, frozen=True):
    """Bounds that all connections of the door share."""

    connections_max: int = 10_000
    """One more is closed at once."""
    header_bytes_max: int = 8190
    """Of the first line of a request, and of each header; there are at most `HEADERS_MAX` of these."""
    idle_timeout_s: float = 60.0
    """A connection on which no request, with all its headers, has come for so long is closed, and so is one whose
    client has not read what waits for it."""
    stop_timeout_s: float = 5.0
    """So long requests under way may take when the server stops."""


class HttpListener:
    """Serves one aiohttp application on one host, on as many ports as are opened."""

    def __init__(
        self,
        application: web.Application,
        limits: HttpLimits | None = None,
        figures: HttpFigures | None = None,
        end_websockets: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.limits = limits or HttpLimits()
        self.figures = figures or HttpFigures()
        self.connection_count = 0
        self._end_websockets = end_websockets
        self._servers: list[asyncio.Server] = []
        self._runner = web.AppRunner(
            application, access_log=None, handle_signals=False, shutdown_timeout=self.limits.stop_timeout_s
        )

    async def open(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> list[str]:
        """Bind and serve; gives the addresses as `host:port`, of which there are several when a name has several."""
        if self._runner.server is None:
            await self._runner.setup()
        assert self._runner.server is not None, "the runner is set up"
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(
                partial(HttpProtocol, self, self._runner.server, loop),
                host,
                port,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else self.limits.idle_timeout_s,
            )
        except (OSError, UnicodeError) as error:
            raise ListenFailed("http" if tls is None else "http-tls", host, port, error) from error
        self._servers.append(server)
        return [address_of(*socket.getsockname()[:2]) for socket in server.sockets]

    async def close(self) -> None:
        """Take no more connections, end WebSockets, wait for requests under way, and close."""
        for server in self._servers:
            server.close()
        if self._end_websockets is not None:
            # Now, since aiohttp hands nothing on to them from the next step on.
            await self._end_websockets()
        await self._runner.cleanup()


class HttpProtocol(web.RequestHandler):
    """A connection of the library's, counted and bounded; what is no HTTP is answered like any other error."""

    __slots__ = ("_is_refused", "_listener", "_unread", "login", "may_stall", "when_lost")

    def __init__(self, listener: HttpListener, server: web.Server, loop: asyncio.AbstractEventLoop) -> None:
        limits = listener.limits
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type] # as the library takes it, and does not say
            keepalive_timeout=limits.idle_timeout_s,
            max_line_size=limits.header_bytes_max,
            max_field_size=limits.header_bytes_max,
            max_headers=HEADERS_MAX,
        )
        self._listener = listener
        self._is_refused = False
        self._unread: asyncio.TimerHandle | None = None
        self.login: Login | None = None
        """Who has shown a right password on this connection last."""
        self.may_stall = False
        """Whether the client may leave unread what was sent for as long as it likes: a WebSocket bounds it itself."""
        self.when_lost: Callable[[], None] | None = None
        """Called at its end, for a request that would not see that before it writes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        listener = self._listener
        if listener.connection_count >= listener.limits.connections_max:
            logger.warning("closed a new connection: there are %d already", listener.connection_count)
            self._is_refused = True
            transport.close()
            return
        listener.connection_count += 1
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        if not self._is_refused:
            self._listener.connection_count -= 1
            self._is_read_again()
            super().connection_lost(exc)
            if self.when_lost is not None:
                self.when_lost()

    def data_received(self, data: bytes) -> None:
        if not self._is_refused:
            self._listener.figures.received_bytes += len(data)
            super().data_received(data)

    def pause_writing(self) -> None:
        super().pause_writing()
        if not self.may_stall and self._unread is None:
            self._unread = self._loop.call_later(self._listener.limits.idle_timeout_s, self._give_up)

    def resume_writing(self) -> None:
        self._is_read_again()
        super().resume_writing()

    def _is_read_again(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _give_up(self) -> None:
        if self.may_stall or self.transport is None:
            return
        logger.info(
            "%s: an answer was not read for %g s, closed", self.peername, self._listener.limits.idle_timeout_s
        )
        self.transport.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What could not be read as a request, or a bug of ours that nothing else has caught."""
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            logger.error("a request of %s failed", request.remote, exc_info=exc)
            refused = INTERNAL.refused("the log of the server says more")
        else:
            logger.info("%s: no HTTP request: %.200s", request.remote, message)
            said = (message or "it does not parse").partition("\n")[0].rstrip(":")
            refused = BAD_REQUEST.refused(f"this is no request of HTTP/1.1: {said:.200}")
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was begun already")
        answer = problem_answer(refused)
        answer.headers["Server"] = SERVER
        answer.force_close()
        return answer

"""AMQP over WebSocket for the tests: the HTTP door in front of an AMQP door, and a client's end of a WebSocket."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

import aiohttp
from aiohttp import ClientWebSocketResponse, WSMsgType

from headwater.amqp.sasl_frames import SaslCode
from headwater.server.health import Health, ServerState
from headwater.server.http.application import make_application
from headwater.server.http.listener import HttpLimits, HttpListener
from headwater.server.http.websocket import PATH, SUBPROTOCOL, AmqpOverWebSocket
from tests.amqp_client import TIMEOUT_S, AmqpClient, plain
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.listening import HOST
from tests.http_material import serving_of

__all__ = ["ListeningWebSocket", "WebSocket"]

ResultT = TypeVar("ResultT")


class WebSocket:
    """The client's end of a WebSocket, which carries bytes for an `AmqpClient`."""

    def __init__(
        self,
        port: int,
        *,
        protocols: tuple[str, ...] = (SUBPROTOCOL,),
        headers: Mapping[str, str] | None = None,
        pieces_bytes: int | None = None,
    ) -> None:
        self._pieces_bytes = pieces_bytes
        self.close_code: int | None = None
        """How the server closed it."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="websocket", daemon=True)
        self._thread.start()
        self._session: aiohttp.ClientSession
        self.socket: ClientWebSocketResponse
        try:
            self._run(self._open(f"ws://{HOST}:{port}{PATH}", protocols, dict(headers or {})))
        except BaseException:
            self._end()
            raise

    def sendall(self, data: bytes) -> None:
        """In one message, or in pieces of one size."""
        size = self._pieces_bytes or max(len(data), 1)
        for start in range(0, len(data), size):
            self._run(self.socket.send_bytes(data[start : start + size]))

    def send_text(self, text: str) -> None:
        self._run(self.socket.send_str(text))

    def recv(self, _bytes_max: int) -> bytes:
        """The next message; nothing when the server has closed."""
        message = self._run(self.socket.receive())
        assert message.type is not WSMsgType.TEXT
        if message.type is WSMsgType.CLOSE:
            # Answered at once, it might find the socket gone, and the code with it.
            self.close_code = message.data
            self._run(self.socket.close())
        return bytes(message.data) if message.type is WSMsgType.BINARY else b""

    def close(self) -> None:
        """Close it as the standard says."""
        if not self._loop.is_closed():
            self._run(self.socket.close())
            self._end()

    def vanish(self) -> None:
        """End the socket below without a word."""

        async def abort() -> None:
            transport = self.socket._response.connection.transport  # type: ignore[union-attr]
            assert transport is not None
            transport.abort()

        self._run(abort())
        self._end()

    async def _open(self, url: str, protocols: tuple[str, ...], headers: dict[str, str]) -> None:
        self._session = aiohttp.ClientSession()
        try:
            self.socket = await self._session.ws_connect(
                url, protocols=protocols, headers=headers, max_msg_size=0, autoclose=False
            )
        except BaseException:
            await self._session.close()
            raise

    def _run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_S)

    def _end(self) -> None:
        if hasattr(self, "_session"):
            self._run(self._session.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_S)
        self._loop.close()


class ListeningWebSocket(ListeningAmqp):
    """An AMQP door that is reached by WebSocket too."""

    http_limits = HttpLimits()

    def open_websocket(self, **how: Any) -> WebSocket:
        """A WebSocket on which nothing was said yet."""
        return WebSocket(self.http_port, **how)

    def over_websocket(self, **how: Any) -> AmqpClient:
        """A client that has opened its connection."""
        client = AmqpClient(self.open_websocket(**how))
        assert client.authenticate("PLAIN", plain()).code is SaslCode.OK
        return client.open()

    def begin(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        """Have something done on the thread of the door, without waiting for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _open(self) -> None:
        await super()._open()
        health = Health(state=ServerState.READY, version="1", uptime_s=0.0, data=None)
        self.over_http = AmqpOverWebSocket(self.amqp)
        self._serving = serving_of(self.catalogue)
        application = make_application(self._serving.__enter__(), lambda: health, amqp=self.over_http)
        self.http = HttpListener(application, self.http_limits, end_websockets=self.over_http.end)
        (address,) = await self.http.open(HOST, 0)
        self.http_port = int(address.rpartition(":")[2])

    async def _close(self) -> None:
        await self.http.close()
        self._serving.__exit__(None, None, None)
        await super()._close()

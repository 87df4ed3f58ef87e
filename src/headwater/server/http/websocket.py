"""AMQP over WebSocket: the subprotocol `amqp` at `/amqp`, served by the AMQP door like what comes over TCP.

A browser lets every page open WebSockets to anywhere, this machine included, where ANONYMOUS needs no password. It says
in `Origin` whose page it is, so that a page of somebody else is refused.
"""

from __future__ import annotations

import logging
from typing import Final

from aiohttp import web

from headwater.server.amqp.connection import AmqpProtocol
from headwater.server.amqp.door import Door
from headwater.server.amqp.listener import close_connections
from headwater.server.http.answers import Refused
from headwater.server.http.listener import HttpProtocol
from headwater.server.http.origins import is_of_own_origin
from headwater.server.http.problems import problem_answer
from headwater.server.http.websocket_transport import WebSocketTransport

__all__ = ["PATH", "SUBPROTOCOL", "AmqpOverWebSocket"]

PATH: Final = "/amqp"
SUBPROTOCOL: Final = "amqp"
ANY_ORIGIN = "*"

logger = logging.getLogger("headwater.http.websocket")


class AmqpOverWebSocket:
    """Takes WebSockets for one AMQP door; pages of `allowed_origin` may open them, those of `*` are all."""

    def __init__(self, door: Door, allowed_origin: str | None = None) -> None:
        self._door = door
        self._allowed_origin = allowed_origin
        self._connections: set[AmqpProtocol] = set()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """One WebSocket, from its request to its end."""
        try:
            self._check(request)
        except Refused as refused:
            logger.info("%s: refused: %s", request.remote, refused)
            return problem_answer(refused)
        limits = self._door.limits
        socket = web.WebSocketResponse(
            protocols=(SUBPROTOCOL,),
            # What is unpacked would have to be bounded too, and AMQP is mostly small or packed already.
            compress=False,
            max_msg_size=limits.websocket_message_bytes_max + 1,  # the least that is refused
            timeout=limits.close_timeout_s,
        )
        if isinstance(request.protocol, HttpProtocol):
            request.protocol.may_stall = True
        await socket.prepare(request)
        below = request.transport
        if below is None:
            return socket
        protocol = AmqpProtocol(self._door)
        self._connections.add(protocol)
        try:
            await WebSocketTransport(socket, below, protocol).run()
        finally:
            self._connections.discard(protocol)
        return socket

    async def end(self) -> None:
        """Tell all clients that the server stops; else it would wait for them."""
        await close_connections(self._door, self._connections)

    def _check(self, request: web.Request) -> None:
        """Raises `Refused` for what is no WebSocket of AMQP, or of somebody else's page."""
        if not web.WebSocketResponse(protocols=(SUBPROTOCOL,)).can_prepare(request).ok:
            reason = "AMQP is spoken here over WebSocket (RFC 6455)"
            raise Refused(426, "upgrade_required", reason, {"Upgrade": "websocket"})
        offered = request.headers.get("Sec-WebSocket-Protocol", "")
        if SUBPROTOCOL not in [each.strip() for each in offered.split(",")]:
            raise Refused(400, "bad_request", f"offer the subprotocol {SUBPROTOCOL!r}")
        origin = request.headers.get("Origin")
        if origin is not None and not self._may_come_from(origin, request):
            reason = f"pages of {origin:.200} may not connect; amqp_websocket_origin says which may"
            raise Refused(403, "forbidden", reason)

    def _may_come_from(self, origin: str, request: web.Request) -> bool:
        return self._allowed_origin in (origin, ANY_ORIGIN) or is_of_own_origin(origin, request)

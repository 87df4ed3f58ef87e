"""The application below /api: its routes, who may ask at all, and errors in RabbitMQ's shape."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from itertools import chain
from urllib.parse import unquote_to_bytes

from aiohttp import web

from headwater.errors import CallerError, StorageError, UnknownLog
from headwater.server.audit import note_change
from headwater.server.http.answers import Refused
from headwater.server.http.authentication import BasicAuthentication
from headwater.server.http.management import clients, connections, exchanges, overview, queues, vhosts
from headwater.server.http.management.call import CHANGED, Call, Handler, Management, not_found
from headwater.server.http.serving import peer_address
from headwater.server.security.errors import CatalogueBusy, UnknownVhost
from headwater.server.security.identity import Identity

__all__ = ["PREFIX", "ROUTES", "make_management"]

PREFIX = "/api"
ROUTES = tuple(
    chain.from_iterable(
        module.ROUTES for module in (clients, connections, exchanges, overview, queues, vhosts)
    )
)

logger = logging.getLogger("headwater.management")

INTERNAL_ERROR = Refused(500, "internal_server_error", "the log of the server says more")

READS = frozenset({"GET", "HEAD"})
_IDENTITY = "identity"
_Next = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_management(management: Management, authentication: BasicAuthentication) -> web.Application:
    """Build the application that belongs below `PREFIX`."""

    @web.middleware
    async def guard(request: web.Request, handler: _Next) -> web.StreamResponse:
        """Let in who has a name, also to what is not there; answer every error in the one shape; note changes."""
        response = await answered(request, handler)
        identity: Identity | None = request.get(_IDENTITY)
        if request.method not in READS and identity is not None:
            note_change(
                identity.user,
                peer_address(request),
                "http",
                f"{request.method} {request.path_qs}",
                response.status,
                changed=request.get(CHANGED, ""),
            )
        return response

    async def answered(request: web.Request, handler: _Next) -> web.StreamResponse:
        try:
            _check_path(request)
            request[_IDENTITY] = await authentication.identify(request)
            return await handler(request)
        except (Refused, web.HTTPException, web.RequestPayloadError, CallerError, StorageError) as error:
            return _refusal(error, request).answer()
        except Exception:  # a bug of ours: the client is told no more than that
            logger.exception("%s %s failed", request.method, request.path)
            return INTERNAL_ERROR.answer()

    application = web.Application(middlewares=[guard])
    for route in ROUTES:
        path = route.path.replace("}", ":[^/]+}")
        for ending in ("", "/"):
            application.router.add_route(
                route.method, path + ending, partial(_carry_out, management, route.handler)
            )
    return application


def _refusal(error: Exception, request: web.Request) -> Refused:
    """What an error is to the client."""
    match error:
        case Refused():
            return error
        case web.HTTPException():
            return _http_refusal(error)
        case web.RequestPayloadError():
            return Refused(400, "bad_request", "the body does not parse as the headers say")
        case UnknownLog() | UnknownVhost():
            return not_found()
        case CallerError():
            return Refused(400, "bad_request", str(error))
        case CatalogueBusy():
            return Refused(503, "service_unavailable", str(error))
    logger.error("%s %s: %s", request.method, request.path, error)
    return INTERNAL_ERROR


def _http_refusal(error: web.HTTPException) -> Refused:
    if error.status == HTTPStatus.NOT_FOUND:
        return not_found()
    words = HTTPStatus(error.status).phrase
    headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
    return Refused(error.status, words.lower().replace(" ", "_"), words, headers)


async def _carry_out(management: Management, handler: Handler, request: web.Request) -> web.Response:
    identity: Identity = request[_IDENTITY]
    return await handler(Call(management, request, identity))


def _check_path(request: web.Request) -> None:
    # What does not decode stays as it is in the parts of the path, and would name something else.
    try:
        unquote_to_bytes(request.rel_url.raw_path).decode()
    except UnicodeDecodeError as error:
        raise Refused(400, "bad_request", "the path is not UTF-8") from error

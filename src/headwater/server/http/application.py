"""The aiohttp application: its routes, and what every answer has in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

from aiohttp import web

from headwater.server.health import Health
from headwater.server.http.endpoint import Endpoint
from headwater.server.http.listener import SERVER
from headwater.server.http.openapi import document
from headwater.server.http.problems import http_refusal, problem_answer
from headwater.server.http.serving import Serving
from headwater.server.http.status import StatusEndpoints
from headwater.server.http.websocket import PATH, AmqpOverWebSocket

__all__ = ["EndpointGroup", "make_application"]

_Next = Callable[[web.Request], Awaitable[web.StreamResponse]]


class EndpointGroup(Protocol):
    """Endpoints that work on the same things."""

    def endpoints(self) -> Iterable[Endpoint[Any, Any]]:
        """All of them."""
        ...


def make_application(
    serving: Serving,
    health: Callable[[], Health],
    groups: Iterable[EndpointGroup] = (),
    below: Mapping[str, web.Application] | None = None,
    amqp: AmqpOverWebSocket | None = None,
) -> web.Application:
    """Build the application; `health` is asked anew for each request, `below` are others under their prefixes."""
    status = StatusEndpoints(health, lambda: document(endpoints))
    endpoints = [endpoint for group in (status, *groups) for endpoint in group.endpoints()]
    application = web.Application(middlewares=[_tell_problems])
    serving.add(application, endpoints)
    for prefix, other in (below or {}).items():
        application.add_subapp(prefix, other)
    if amqp is not None:
        application.router.add_get(PATH, amqp.serve)
    application.on_response_prepare.append(_name_the_server)
    return application


@web.middleware
async def _tell_problems(request: web.Request, handler: _Next) -> web.StreamResponse:
    """Paths and methods that are not served are refused like everything else."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        return problem_answer(http_refusal(error))


async def _name_the_server(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = SERVER

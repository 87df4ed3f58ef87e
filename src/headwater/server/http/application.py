"""The aiohttp application: its routes, and what every answer has in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aiohttp import web

from headwater.server.health import Health
from headwater.server.http.answers import json_answer
from headwater.server.http.websocket import PATH, AmqpOverWebSocket

__all__ = ["make_application"]


def make_application(
    health: Callable[[], Health],
    below: Mapping[str, web.Application] | None = None,
    amqp: AmqpOverWebSocket | None = None,
) -> web.Application:
    """Build the application; `health` is asked anew for each request, `below` are others under their prefixes."""

    async def get_health(_request: web.Request) -> web.Response:
        """200 while clients may come, 503 while the server starts or stops: what load balancers look at."""
        report = health()
        return json_answer(report, status=200 if report.state.is_serving else 503)

    application = web.Application()
    application.router.add_get("/health", get_health)
    for prefix, other in (below or {}).items():
        application.add_subapp(prefix, other)
    if amqp is not None:
        application.router.add_get(PATH, amqp.serve)
    application.on_response_prepare.append(_name_the_server)
    return application


async def _name_the_server(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = "headwater"

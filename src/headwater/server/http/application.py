"""The aiohttp application: its routes, and what every answer has in common."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from aiohttp import web

from headwater.server.health import Health

__all__ = ["make_application"]


def make_application(health: Callable[[], Health]) -> web.Application:
    """Build the application; `health` is asked anew for each request."""

    async def get_health(_request: web.Request) -> web.Response:
        """200 while clients may come, 503 while the server starts or stops: what load balancers look at."""
        report = health()
        return _json(report, status=200 if report.state.is_serving else 503)

    application = web.Application()
    application.router.add_get("/health", get_health)
    application.on_response_prepare.append(_name_the_server)
    return application


def _json(answer: object, status: int) -> web.Response:
    headers = {"Cache-Control": "no-store"}
    return web.Response(
        body=msgspec.json.encode(answer), status=status, content_type="application/json", headers=headers
    )


async def _name_the_server(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = "headwater"

"""/health and /openapi.json: what anybody may know of the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from aiohttp import web

from headwater.server.health import Health
from headwater.server.http.answers import json_answer
from headwater.server.http.endpoint import PUBLIC, Answer, Call, Empty, Endpoint

__all__ = ["StatusEndpoints"]


class Alive(msgspec.Struct, frozen=True):
    """The answer of `GET /health/live`."""

    state: str
    version: str


class StatusEndpoints:
    """What needs no name; `health` is asked anew for each request."""

    def __init__(self, health: Callable[[], Health], describe: Callable[[], dict[str, Any]]) -> None:
        self._health = health
        self._describe = describe
        self._document = b""

    def endpoints(self) -> Sequence[Endpoint[Any, Any]]:
        """All of them."""
        serving, waiting = (
            Answer(200, Health, "Clients may come."),
            Answer(503, Health, "Clients may not come."),
        )
        document = Answer(200, dict[str, Any], "The OpenAPI document.")
        return [
            Endpoint("GET", "/health", self.get_health, PUBLIC, [serving, waiting], Empty),
            Endpoint("GET", "/health/ready", self.get_ready, PUBLIC, [serving, waiting], Empty),
            Endpoint("GET", "/health/live", self.get_live, PUBLIC, [Answer(200, Alive)], Empty),
            Endpoint("GET", "/openapi.json", self.get_document, PUBLIC, [document], Empty),
        ]

    async def get_health(self, _call: Call[Empty, None]) -> web.Response:
        """Tell the state of the server: 200 while clients may come, 503 while it starts or stops."""
        report = self._health()
        is_serving = report.state.is_serving
        return json_answer(report, status=HTTPStatus.OK if is_serving else HTTPStatus.SERVICE_UNAVAILABLE)

    async def get_ready(self, call: Call[Empty, None]) -> web.Response:
        """Tell load balancers whether to send clients here: as `/health`."""
        return await self.get_health(call)

    async def get_live(self, _call: Call[Empty, None]) -> Alive:
        """Tell supervisors that the server need not be restarted: 200 whatever its state is."""
        report = self._health()
        return Alive(report.state.value, report.version)

    async def get_document(self, _call: Call[Empty, None]) -> web.Response:
        """Describe what is served, as OpenAPI."""
        if not self._document:
            self._document = msgspec.json.encode(self._describe())
        return web.Response(body=self._document, content_type="application/json")

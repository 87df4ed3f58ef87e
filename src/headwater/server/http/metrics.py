"""/metrics: what Prometheus asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiohttp import web

from headwater.server.http.endpoint import MONITOR, Answer, Call, Empty, Endpoint, Media

__all__ = ["MetricsEndpoints"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricsEndpoints:
    """The figures of the server; `text` puts them together anew for each request."""

    def __init__(self, text: Callable[[], Awaitable[bytes]]) -> None:
        self._text = text

    def endpoints(self) -> Sequence[Endpoint[Any, Any]]:
        """All of them."""
        answer = Answer(
            200, Media({"text/plain": {"type": "string"}}), "Figures, in the text format of Prometheus."
        )
        return [Endpoint("GET", "/metrics", self.get_metrics, MONITOR, [answer], Empty)]

    async def get_metrics(self, _call: Call[Empty, None]) -> web.Response:
        """Tell figures of the server, its logs, consumers and doors."""
        headers = {"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"}
        return web.Response(body=await self._text(), headers=headers)

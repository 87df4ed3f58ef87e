"""The management API as a tool calls it: one request, its status and what it answered."""

from __future__ import annotations

import base64
import http.client
import json
from typing import Any, NamedTuple

__all__ = ["Api", "Reply"]

TIMEOUT_S = 30


class Reply(NamedTuple):
    """What came back; a body that is no JSON is an error of the test's own."""

    status: int
    body: Any
    headers: dict[str, str]


class Api:
    """Asks as one user, or as nobody, each time on a new connection."""

    def __init__(self, port: int, user: str | None = "guest", password: str = "guest") -> None:
        self._port = port
        self._headers = {}
        if user is not None:
            credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {credentials}"

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        """Send a request to what lies below /api; `raw` bytes go as they are, any other body as JSON."""
        data = json.dumps(body).encode() if body is not None else raw
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_S)
        try:
            connection.request(method, "/api" + path, data, {**self._headers, **(headers or {})})
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        return Reply(answer.status, json.loads(content) if content else None, dict(answer.getheaders()))

    def get(self, path: str) -> Any:
        """What a GET that must succeed answers."""
        reply = self.ask("GET", path)
        assert reply.status == 200, (path, reply)
        return reply.body

    def do(self, method: str, path: str, body: object = None) -> Reply:
        """A change that must succeed."""
        reply = self.ask(method, path, body)
        assert reply.status in (201, 204), (method, path, reply)
        return reply

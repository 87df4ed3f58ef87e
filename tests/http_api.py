"""The management API as a tool calls it: one request, its status and what it answered."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from typing import Any, NamedTuple

__all__ = ["Api", "Reply"]

HOST = "127.0.0.1"
TIMEOUT_S = 30


class Reply(NamedTuple):
    """What came back; a body that is no JSON is an error of the test's own."""

    status: int
    body: Any
    headers: dict[str, str]


class Api:
    """Asks as one user, or as nobody, each time on a new connection."""

    def __init__(
        self,
        port: int,
        user: str | None = "guest",
        password: str = "guest",
        *,
        below: str = "/api",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._port = port
        self._below = below
        self._tls = tls
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
        """Send a request to what lies below; `raw` bytes go as they are, any other body as JSON."""
        status, content, received = self._send(method, path, body, raw, headers)
        return Reply(status, json.loads(content) if content else None, received)

    def _send(
        self, method: str, path: str, body: object, raw: bytes | None, headers: dict[str, str] | None
    ) -> tuple[int, bytes, dict[str, str]]:
        data = json.dumps(body).encode() if body is not None else raw
        sent = {**self._headers, **(headers or {})}
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        connection = self._connect()
        try:
            connection.request(method, self._below + path, data, sent)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        return answer.status, content, dict(answer.getheaders())

    def _connect(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(HOST, self._port, timeout=TIMEOUT_S)
        return http.client.HTTPSConnection(HOST, self._port, timeout=TIMEOUT_S, context=self._tls)

    def text(self, path: str) -> str:
        """What a GET that must succeed answers, as it is."""
        status, content, _ = self._send("GET", path, None, None, None)
        assert status == 200, (path, content)
        return content.decode()

    def get(self, path: str) -> Any:
        """What a GET that must succeed answers."""
        reply = self.ask("GET", path)
        assert reply.status == 200, (path, reply)
        return reply.body

    def do(self, method: str, path: str, body: object = None) -> Reply:
        """A change that must succeed."""
        reply = self.ask(method, path, body)
        assert reply.status in (200, 201, 204), (method, path, reply)
        return reply

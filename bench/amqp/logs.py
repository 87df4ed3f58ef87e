"""Logs for one run each, made and deleted through the HTTP API that Headwater and RabbitMQ have in common."""

from __future__ import annotations

import base64
import http
import http.client
import itertools
import json

from bench.doors.loading import LoadFailed
from bench.doors.servers import Server

__all__ = ["address_of", "delete_log", "fresh", "make_log"]

_AUTHORIZATION = "Basic " + base64.b64encode(b"guest:guest").decode()
_numbers = itertools.count()
_last: dict[str, str] = {}
"""By server the fresh log of the last run, which goes when the next one begins."""


def fresh(server: Server) -> tuple[str, ...]:
    """The options for a log that is empty."""
    old = _last.pop(server.name, None)
    if old is not None:
        delete_log(server, old)
    name = f"bench-{next(_numbers)}"
    make_log(server, name)
    _last[server.name] = name
    return "--address", address_of(server, name)


def address_of(server: Server, name: str) -> str:
    """How clients of AMQP name a log."""
    return server.address_prefix + name


def make_log(server: Server, name: str, *, kind: str = "stream") -> None:
    """A log, of RabbitMQ a queue of some kind; servers without that API make queues by themselves."""
    _call(server, "PUT", name, {"durable": True, "arguments": {"x-queue-type": kind}})


def delete_log(server: Server, name: str) -> None:
    """Give the disk back what it held, if it is there."""
    _call(server, "DELETE", name, None)


def _call(server: Server, method: str, name: str, body: object) -> None:
    if server.http_port is None:
        return
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=60)
    headers = {"Authorization": _AUTHORIZATION, "Content-Type": "application/json"}
    connection.request(method, f"/api/queues/%2F/{name}", json.dumps(body) if body else None, headers)
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    is_gone = method == "DELETE" and answer.status == http.HTTPStatus.NOT_FOUND
    if answer.status >= 300 and not is_gone:
        raise LoadFailed(f"{method} of log {name}: {answer.status} {said[:200]!r}")

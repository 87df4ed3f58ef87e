"""A client of server-sent events (HTML Living Standard, section 9.2.6), and events to publish."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self
from urllib.parse import quote

from tests.http_api import Api, Reply

__all__ = ["BATCH", "EVENT", "EventSource", "Sent", "event", "publish", "read", "word"]

HOST = "127.0.0.1"
TIMEOUT_S = 30
EVENT = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"


class Sent(NamedTuple):
    """One event as it was dispatched."""

    id: str
    type: str
    data: str

    @property
    def event(self) -> Any:
        """The CloudEvent that it is."""
        return json.loads(self.data)


class EventSource:
    """One connection on which events come; closed with `close`, or when the server ends it."""

    def __init__(
        self,
        port: int,
        path: str,
        *,
        last_event_id: str | None = None,
        user: str = "guest",
        password: str = "guest",
    ) -> None:
        credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
        headers = {"Accept": "text/event-stream", "Authorization": f"Basic {credentials}"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        self._connection = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT_S)
        self._connection.request("GET", path, headers=headers)
        self._answer = self._connection.getresponse()
        self.status = self._answer.status
        self.content_type = self._answer.getheader("Content-Type")
        self.last_event_id = last_event_id or ""
        self.retry_ms = 0
        self.comments: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Sent]:
        """Events, until the server ends the stream."""
        type_, data = "message", list[str]()
        for raw in self._answer:
            line = raw.decode().rstrip("\n")
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if not line:
                if data:
                    yield Sent(self.last_event_id, type_, "\n".join(data))
                type_, data = "message", []
            elif not field:
                self.comments.append(value)
            elif field == "data":
                data.append(value)
            elif field == "id":
                self.last_event_id = value
            elif field == "event":
                type_ = value
            elif field == "retry":
                self.retry_ms = int(value)

    def take(self, count: int) -> list[Sent]:
        """The next so many."""
        events = iter(self)
        return [next(events) for _ in range(count)]

    def close(self) -> None:
        """Hang up."""
        self._answer.close()
        self._connection.close()


def event(id: object, **others: object) -> dict[str, object]:
    """An event of the tests."""
    return {"specversion": "1.0", "id": str(id), "source": "/tests", "type": "org.example.test", **others}


def publish(api: Api, log: str, events: Sequence[object], query: str = "", **headers: str) -> Reply:
    """Send a batch."""
    sent = {"Content-Type": BATCH, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return api.ask("POST", f"/logs/{quote(log)}/events{query}", raw=json.dumps(events).encode(), headers=sent)


def read(api: Api, log: str, query: str = "") -> Any:
    """What there is, with positions."""
    return api.get(f"/logs/{quote(log)}/events{query}")


def word(reply: Reply) -> str:
    """What programs see of a refusal."""
    assert reply.headers["Content-Type"] == "application/problem+json", reply
    assert reply.body["status"] == reply.status
    assert reply.body["detail"]
    return str(reply.body["type"].removeprefix("urn:headwater:problem:"))

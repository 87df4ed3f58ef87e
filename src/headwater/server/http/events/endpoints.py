"""/events and /logs/{log}/events: published, read, followed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from aiohttp import web

from headwater.cloudevents.content_mode import media_type_of
from headwater.server.amqp.nodes import LogNode, Nodes
from headwater.server.http.endpoint import READ, USER, WRITE, Answer, Call, Endpoint, Media
from headwater.server.http.events.asked import EventsAsked, asked_of
from headwater.server.http.events.publishing import Published, Publisher, Publishing
from headwater.server.http.events.reading import NEXT, BatchReading, Waiting, schema
from headwater.server.http.events.stream import EventStreams
from headwater.server.http.problems import (
    DISK_FULL,
    INVALID,
    INVALID_EVENT,
    KEY_REUSED,
    READ_ONLY,
    STORAGE,
    UNAVAILABLE,
    UNKNOWN_LOG,
    UNKNOWN_PARTITION,
)

__all__ = ["EventEndpoints"]

_TEXT = {"type": "string", "minLength": 1}
_EVENT = {
    "type": "object",
    "required": ["specversion", "id", "source", "type"],
    "properties": {"specversion": {"const": "1.0"}, "id": _TEXT, "source": _TEXT, "type": _TEXT},
}
_BODIES = Media(
    {
        "application/cloudevents+json": _EVENT,
        "application/cloudevents-batch+json": {"type": "array", "items": _EVENT},
        "*/*": {"description": "The data of one event, whose attributes stand in headers `ce-…`."},
    }
)
_EVENTS = Media(
    {
        "application/json": schema(),
        "application/cloudevents-batch+json": {"type": "array", "items": _EVENT},
        "text/event-stream": {"type": "string"},
    }
)
_PUBLISHING_PROBLEMS = (
    INVALID,
    INVALID_EVENT,
    KEY_REUSED,
    UNKNOWN_PARTITION,
    READ_ONLY,
    STORAGE,
    DISK_FULL,
    UNAVAILABLE,
)


class EventEndpoints:
    """What goes in and out over HTTP."""

    def __init__(self, nodes: Nodes, default_log: str, body_bytes_max: int, heartbeat_s: float) -> None:
        self.streams = EventStreams(heartbeat_s)
        self._nodes = nodes
        self._body_bytes_max = body_bytes_max
        self._waiting = Waiting()
        self._publisher = Publisher(nodes, default_log, body_bytes_max)

    def endpoints(self) -> Sequence[Endpoint[Any, Any]]:
        """All of them."""
        stored = Answer(200, Published, "The events are on disk, each where it is said.")
        post = partial(
            Endpoint,
            "POST",
            answers=[stored],
            query=Publishing,
            body=_BODIES,
            body_bytes_max=self._body_bytes_max,
            is_change=False,
        )
        publisher = self._publisher
        return [
            post(
                "/events",
                publisher.publish_to_default,
                USER,
                problems=(*_PUBLISHING_PROBLEMS, UNKNOWN_LOG),
            ),
            post("/logs/{log}/events", publisher.publish, WRITE, problems=_PUBLISHING_PROBLEMS),
            Endpoint(
                "GET",
                "/logs/{log}/events",
                self.get_events,
                READ,
                [Answer(200, _EVENTS, "Events in the order of each partition.", {NEXT: "Where to go on."})],
                EventsAsked,
                problems=(INVALID, UNKNOWN_PARTITION, STORAGE),
            ),
        ]

    async def end(self, _application: web.Application) -> None:
        """Let go of all that wait for events; the server stops."""
        self._waiting.end()
        await self.streams.end()

    async def get_events(self, call: Call[EventsAsked, None]) -> web.StreamResponse:
        """Read events of a log: as JSON with positions, as a CloudEvents batch, or as server-sent events."""
        accepted = _accepted(call.request)
        wants_stream = "text/event-stream" in accepted
        last_event_id = call.request.headers.get("Last-Event-ID") if wants_stream else None
        asked = asked_of(call.query, self._node(call), last_event_id)
        if not wants_stream:
            reading = BatchReading(self._waiting, asked, call.query.limit, call.query.wait)
            return await reading.answer(as_batch="application/cloudevents-batch+json" in accepted)
        if self.streams.feeds.has_ended:
            raise UNAVAILABLE.refused("the server stops; connect again")
        vhost, name, access, identity = call.query.vhost, call.part("log"), call.access, call.identity
        return await self.streams.serve(call.request, asked, lambda: access.may_read(identity, vhost, name))

    def _node(self, call: Call[EventsAsked, None]) -> LogNode:
        name = call.part("log")
        node = self._nodes.find(call.query.vhost, name)
        if node is None:
            raise UNKNOWN_LOG.refused(f"there is no log {name!r:.100}; make it, or check the name")
        return node


def _accepted(request: web.Request) -> set[str]:
    """The media types that are asked for; those with a weight of 0 are few enough to be left in."""
    return {media_type_of(each) for each in request.headers.get("Accept", "").split(",")}

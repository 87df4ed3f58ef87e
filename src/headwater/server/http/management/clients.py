"""/api/consumers, /api/stream/consumers and /api/stream/publishers: who reads and writes, and how far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from aiohttp import web

from headwater.log.partition import Partition
from headwater.server.http.management.call import Call, Connected, Json, Route
from headwater.server.http.management.connections import connection_details, find_connection
from headwater.server.http.management.listing import list_answer
from headwater.server.http.management.node import Node
from headwater.server.streams.consuming import Subscription
from headwater.server.streams.publishing import Publisher

__all__ = ["ROUTES", "consumers_of", "publishers_of"]


class _Consumer(NamedTuple):
    connected: Connected
    subscription: Subscription


class _Publisher(NamedTuple):
    connected: Connected
    publisher: Publisher


def consumers_of(connections: Iterable[Connected], stream: Partition | None = None) -> Iterator[_Consumer]:
    """The subscriptions of these connections, of one stream or of all."""
    for connected in connections:
        for subscription in list(connected.session.subscriptions.values()):
            if stream is None or subscription.partition is stream:
                yield _Consumer(connected, subscription)


def publishers_of(connections: Iterable[Connected], stream: Partition | None = None) -> Iterator[_Publisher]:
    """The publishers of these connections, of one stream or of all."""
    for connected in connections:
        for publisher in list(connected.session.publishers):
            if stream is None or publisher.partition is stream:
                yield _Publisher(connected, publisher)


async def list_consumers(call: Call) -> web.Response:
    """The subscriptions, in the words of AMQP 0.9.1."""
    return await list_answer(consumers_of(call.connected()), lambda each: _as_channel(each, call.node))


async def list_stream_consumers(call: Call) -> web.Response:
    """The subscriptions, of a vhost or of one stream where the path names it."""
    return await list_answer(consumers_of(*_scope(call)), lambda each: _consumer(each, call.node))


async def list_publishers(call: Call) -> web.Response:
    """The publishers, of a vhost or of one stream where the path names it."""
    return await list_answer(publishers_of(*_scope(call)), lambda each: _publisher(each, call.node))


async def list_consumers_of_connection(call: Call) -> web.Response:
    """The subscriptions of one connection."""
    return await list_answer(consumers_of([find_connection(call)]), lambda each: _consumer(each, call.node))


async def list_publishers_of_connection(call: Call) -> web.Response:
    """The publishers of one connection."""
    return await list_answer(publishers_of([find_connection(call)]), lambda each: _publisher(each, call.node))


def _scope(call: Call) -> tuple[Iterable[Connected], Partition | None]:
    stream = call.stream("stream")[1] if call.has_part("stream") else None
    return call.connected(), stream


def _consumer(consumer: _Consumer, node: Node) -> Json:
    connected, subscription = consumer
    return {
        "connection_details": connection_details(connected, node),
        "queue": {"name": subscription.partition.name, "vhost": connected.session.vhost},
        "subscription_id": subscription.id,
        "credits": subscription.credit,
        "consumed": subscription.records_delivered,
        "offset": subscription.offset,
        "offset_lag": max(subscription.partition.committed_offset - subscription.offset, 0),
        "properties": subscription.properties,
        **_activity(consumer),
    }


def _as_channel(consumer: _Consumer, node: Node) -> Json:
    connected, subscription = consumer
    details = connection_details(connected, node)
    name = details.pop("name")
    return {
        "queue": {"name": subscription.partition.name, "vhost": connected.session.vhost},
        "consumer_tag": f"stream.subid-{subscription.id}",
        "channel_details": {**details, "connection_name": name, "name": "", "number": 0},
        "ack_required": False,
        "exclusive": False,
        "prefetch_count": 0,
        "arguments": subscription.properties,
        **_activity(consumer),
    }


def _activity(consumer: _Consumer) -> Json:
    connected, subscription = consumer
    if not connected.session.is_in_group(subscription.id):
        return {"active": True, "activity_status": "up"}
    active = not subscription.is_paused
    return {"active": active, "activity_status": "single_active" if active else "waiting"}


def _publisher(found: _Publisher, node: Node) -> Json:
    connected, publisher = found
    return {
        "connection_details": connection_details(connected, node),
        "queue": {"name": publisher.partition.name, "vhost": connected.session.vhost},
        "publisher_id": publisher.id,
        "reference": (publisher.reference or b"").decode(),
        "published": publisher.published_count,
        "confirmed": publisher.confirmed_count,
        "errored": publisher.refused_count,
    }


ROUTES = (
    Route("GET", "/consumers", list_consumers),
    Route("GET", "/consumers/{vhost}", list_consumers),
    Route("GET", "/stream/consumers", list_stream_consumers),
    Route("GET", "/stream/consumers/{vhost}", list_stream_consumers),
    Route("GET", "/stream/consumers/{vhost}/{stream}", list_stream_consumers),
    Route("GET", "/stream/publishers", list_publishers),
    Route("GET", "/stream/publishers/{vhost}", list_publishers),
    Route("GET", "/stream/publishers/{vhost}/{stream}", list_publishers),
    Route("GET", "/stream/connections/{vhost}/{connection}/consumers", list_consumers_of_connection),
    Route("GET", "/stream/connections/{vhost}/{connection}/publishers", list_publishers_of_connection),
)

"""/api/queues: streams, as the queues that RabbitMQ shows them to be."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
from aiohttp import web

from headwater.errors import InvalidSettings, LogDiffers, LogExists, PartitionUsed
from headwater.log.log import Log, LogDefinition
from headwater.log.partition import Partition, PartitionState
from headwater.log.settings import LogSettings
from headwater.server.http.answers import Refused, json_answer
from headwater.server.http.management.call import Call, Json, Route
from headwater.server.http.management.clients import consumers_of, publishers_of
from headwater.server.http.management.listing import list_answer
from headwater.server.http.management.node import Node
from headwater.server.streams.arguments import NUMBERS

__all__ = ["ROUTES", "QueueBody", "protocol_arguments", "queue_arguments"]

TYPE_ARGUMENT = "x-queue-type"
PREFIX = "x-"

ArgumentValue = str | int | float | bool | None


class QueueBody(msgspec.Struct):
    """What is asked of a queue that is to be made."""

    arguments: dict[str, ArgumentValue] = msgspec.field(default_factory=dict)
    durable: bool = True
    auto_delete: bool = False
    exclusive: bool = False


async def list_queues(call: Call) -> web.Response:
    """All streams that the user sees."""
    return await list_answer(call.streams(), lambda each: _shown(*each, call.node))


async def get_queue(call: Call) -> web.Response:
    """One stream, and who is at it."""
    log, partition = call.stream()
    connected = list(call.connected())
    shown = _shown(log, partition, call.node)
    shown["consumers"] = sum(1 for _ in consumers_of(connected, partition))
    shown["publishers"] = sum(1 for _ in publishers_of(connected, partition))
    return json_answer(shown)


async def put_queue(call: Call) -> web.Response:
    """Make a stream, or find that it is there already."""
    vhost, name = call.vhost(), call.part("name")
    call.require_configure(vhost, name)
    body = await call.body(QueueBody)
    if body.arguments.get(TYPE_ARGUMENT) != "stream":
        raise Refused(400, "bad_request", f"there are streams here alone: ask for {TYPE_ARGUMENT} = stream")
    if not body.durable or body.auto_delete or body.exclusive:
        raise Refused(400, "bad_request", "a stream is durable, and neither auto-delete nor exclusive")
    return make_stream(call, vhost, name, body.arguments)


def make_stream(call: Call, vhost: str, name: str, arguments: Mapping[str, ArgumentValue]) -> web.Response:
    """201 for a new stream, 204 for one that is there; raises `Refused` for another of its name."""
    try:
        call.door.topology.make(vhost, name, "stream", (), protocol_arguments(arguments))
    except LogDiffers as error:
        raise Refused(400, "bad_request", f"inequivalent arguments: {error}") from error
    except LogExists as error:
        if call.store.stream(name, vhost) is None:
            raise Refused(400, "bad_request", f"{name!r} is the name of a super stream") from error
        return web.Response(status=204)
    call.log_change(f"made the stream {name!r} in {vhost!r}")
    return web.Response(status=201)


async def delete_queue(call: Call) -> web.Response:
    """Delete a stream with its events; a super stream's own partition while the super stream has never been used."""
    vhost, name = call.vhost(), call.part("name")
    call.require_configure(vhost, name)
    log, _ = call.stream()
    if log.definition.kind == "stream":
        call.door.delete_log(vhost, name)
    else:
        _delete_partition(call, vhost, name)
    call.log_change(f"deleted the stream {name!r} in {vhost!r}")
    return web.Response(status=204)


def _delete_partition(call: Call, vhost: str, name: str) -> None:
    try:
        call.door.delete_unused_partition(vhost, name)
    except PartitionUsed as error:
        instead = "DELETE /api/stream/super-streams/{vhost}/{name}"
        raise Refused(400, "bad_request", f"{error}: {instead}") from error


def protocol_arguments(arguments: Mapping[str, ArgumentValue]) -> dict[str, str]:
    """Arguments of a queue in the words of the stream protocol: without `x-`, as text."""
    found = {}
    for name, value in arguments.items():
        if isinstance(value, bool | float | None):
            raise InvalidSettings(name, f"{value!r} is neither text nor a whole number")
        found[name.removeprefix(PREFIX)] = str(value)
    return found


def queue_arguments(definition: LogDefinition) -> Json:
    """Arguments of a stream in the words of a queue, as they were given when it was made."""
    given = definition.arguments or _arguments_of(definition.settings)
    shown: Json = {TYPE_ARGUMENT: "stream"}
    for name, value in given.items():
        shown[PREFIX + name] = int(value) if name in NUMBERS else value
    return shown


def _arguments_of(settings: LogSettings) -> dict[str, str]:
    """For a log that came into being without arguments, those that would have made it the same."""
    found = {}
    if settings.max_bytes is not None:
        found["max-length-bytes"] = str(settings.max_bytes)
    if settings.max_age_ms is not None:
        found["max-age"] = f"{settings.max_age_ms / 1000:g}s"
    return found


def _shown(log: Log, partition: Partition, node: Node) -> Json:
    count = partition.committed_offset - partition.first_offset
    return {
        "name": partition.name,
        "vhost": log.definition.vhost,
        "type": "stream",
        "durable": True,
        "auto_delete": False,
        "exclusive": False,
        "arguments": queue_arguments(log.definition),
        "node": node.name,
        "leader": node.name,
        "members": [node.name],
        "online": [node.name],
        "state": "running" if partition.state is PartitionState.OPEN else partition.state.value,
        "reason": None if partition.error is None else str(partition.error),
        "messages": count,
        "messages_ready": count,
        "messages_unacknowledged": 0,
        "message_bytes": partition.size_bytes,
        "segments": len(partition.segments),
        "first_offset": partition.first_offset,
        "committed_offset": partition.committed_offset - 1,
        "super_stream": log.name if log.definition.kind == "super_stream" else None,
        "last_published": _time(partition.timestamp_ms_max),
    }


def _time(timestamp_ms: int) -> str | None:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat() if timestamp_ms else None


ROUTES = (
    Route("GET", "/queues", list_queues),
    Route("GET", "/queues/{vhost}", list_queues),
    Route("GET", "/queues/{vhost}/{name}", get_queue),
    Route("PUT", "/queues/{vhost}/{name}", put_queue),
    Route("DELETE", "/queues/{vhost}/{name}", delete_queue),
)

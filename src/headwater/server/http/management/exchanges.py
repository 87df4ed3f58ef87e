"""/api/exchanges, /api/bindings and /api/stream/super-streams: super streams, made as a whole or stream by stream.

To RabbitMQ a super stream is a direct exchange, and its partitions are streams bound to it with their routing keys.
Here it is a log: with partitions of its own when it was made as a whole, and with the streams that were bound to it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from aiohttp import web

from headwater.errors import LogExists
from headwater.log.log import PARTITIONS_MAX, Log, PartitionDefinition
from headwater.server.http.answers import Refused, json_answer
from headwater.server.http.management.call import Call, Json, Route, not_authorised
from headwater.server.http.management.listing import list_answer
from headwater.server.http.management.queues import ArgumentValue, protocol_arguments

__all__ = ["ROUTES", "super_streams"]

TYPE = "direct"
ORDER_ARGUMENT = "x-stream-partition-order"
ORDER_DIGITS_MAX = 9


class ExchangeBody(msgspec.Struct):
    """What is asked of an exchange that is to be made."""

    type: str = TYPE
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: dict[str, ArgumentValue] = msgspec.field(default_factory=dict)


class BindingBody(msgspec.Struct):
    """With which key a stream is bound, and in which place."""

    routing_key: str = ""
    arguments: dict[str, ArgumentValue] = msgspec.field(default_factory=dict)


class SuperStreamBody(msgspec.Struct, rename="kebab"):
    """How many partitions a super stream has, or their binding keys, set apart by commas."""

    partitions: int | None = None
    binding_keys: str | None = None
    arguments: dict[str, ArgumentValue] = msgspec.field(default_factory=dict)


async def list_exchanges(call: Call) -> web.Response:
    """All super streams that the user sees."""
    return await list_answer(super_streams(call), _exchange)


async def get_exchange(call: Call) -> web.Response:
    """One super stream."""
    return json_answer(_exchange(call.super_stream()))


async def put_exchange(call: Call) -> web.Response:
    """Make a super stream without partitions; streams are bound to it."""
    vhost, name = call.vhost(), call.part("name")
    call.require_configure(vhost, name)
    body = await call.body(ExchangeBody)
    if body.type != TYPE or not body.durable or body.auto_delete or body.internal:
        reason = f"exchanges are super streams here: of type {TYPE}, durable, not auto-delete, not internal"
        raise Refused(400, "bad_request", reason)
    return _make(call, vhost, name, [], {}, status_if_there=204)


async def delete_exchange(call: Call) -> web.Response:
    """Delete a super stream whose partitions are bound streams; these stay."""
    log = call.super_stream()
    vhost = call.vhost()
    call.require_configure(vhost, log.name)
    if log.own_partitions:
        reason = (
            f"the partitions of {log.name!r} are its own, and their events would go with it: "
            "DELETE /api/stream/super-streams/{vhost}/{name}"
        )
        raise Refused(400, "bad_request", reason)
    return _delete(call, vhost, log)


async def list_bindings(call: Call) -> web.Response:
    """The partitions of the super streams that the user sees, with their routing keys."""
    return await list_answer(_bindings(call), lambda each: _binding(*each))


async def list_bindings_of_exchange(call: Call) -> web.Response:
    """The partitions of one super stream, or of these the one that the path names."""
    log = call.super_stream("exchange")
    wanted = call.part("queue") if call.has_part("queue") else None
    found = [
        _binding(log, number)
        for number, partition in enumerate(log.definition.partitions)
        if wanted is None or partition.name == wanted
    ]
    return json_answer(found)


async def post_binding(call: Call) -> web.Response:
    """Make a stream a partition of a super stream; asked for are RabbitMQ's rights: to read this, to write that."""
    vhost, exchange, queue = call.vhost(), call.part("exchange"), call.part("queue")
    if not call.access.may_write(call.identity, vhost, queue):
        raise not_authorised(f"write access to {queue!r} in vhost {vhost!r} refused")
    if not call.access.may_read(call.identity, vhost, exchange):
        raise not_authorised(f"read access to {exchange!r} in vhost {vhost!r} refused")
    body = await call.body(BindingBody)
    log = call.super_stream("exchange")
    call.stream("queue")
    call.store.bind_stream(log.name, queue, vhost=vhost, key=body.routing_key, order=_order(body.arguments))
    call.log_change(f"bound {queue!r} to the super stream {log.name!r} in {vhost!r}")
    return web.Response(status=201, headers={"Location": f"{queue}/{_properties_key(body.routing_key)}"})


async def put_super_stream(call: Call) -> web.Response:
    """Make a super stream with all its partitions."""
    vhost, name = call.vhost(), call.part("name")
    call.require_configure(vhost, name)
    body = await call.body(SuperStreamBody)
    keys = _keys(body)
    partitions = [PartitionDefinition(f"{name}-{key}", key) for key in keys]
    call.require_configure(vhost, *(partition.name for partition in partitions))
    return _make(call, vhost, name, partitions, protocol_arguments(body.arguments), status_if_there=400)


async def delete_super_stream(call: Call) -> web.Response:
    """Delete a super stream, its own partitions and their events; bound streams stay."""
    log, vhost = call.super_stream(), call.vhost()
    call.require_configure(vhost, log.name)
    return _delete(call, vhost, log)


def super_streams(call: Call) -> Iterator[Log]:
    """The super streams that the user sees, in the vhosts of the path."""
    vhosts = set(call.vhosts())
    for (vhost, name), log in sorted(call.store.logs.items()):
        if log.definition.kind == "super_stream" and vhost in vhosts and call.sees_log(vhost, name):
            yield log


def _make(
    call: Call,
    vhost: str,
    name: str,
    partitions: list[PartitionDefinition],
    arguments: dict[str, str],
    *,
    status_if_there: int,
) -> web.Response:
    try:
        call.door.topology.make(vhost, name, "super_stream", partitions, arguments)
    except LogExists as error:
        is_there = call.door.topology.super_stream(vhost, name) is not None
        if is_there and status_if_there == 204:
            return web.Response(status=204)
        raise Refused(400, "bad_request", str(error)) from error
    call.log_change(f"made the super stream {name!r} in {vhost!r}")
    return web.Response(status=201)


def _delete(call: Call, vhost: str, log: Log) -> web.Response:
    call.door.delete_log(vhost, log.name)
    call.log_change(f"deleted the super stream {log.name!r} in {vhost!r}")
    return web.Response(status=204)


def _keys(body: SuperStreamBody) -> list[str]:
    if (body.partitions is None) == (body.binding_keys is None):
        raise Refused(400, "bad_request", "give partitions or binding-keys, one of the two")
    if body.binding_keys is not None:
        keys = [key.strip() for key in body.binding_keys.split(",") if key.strip()]
    else:
        count = body.partitions or 0
        keys = [str(number) for number in range(count)] if count <= PARTITIONS_MAX else []
    if not keys:
        raise Refused(400, "bad_request", f"a super stream has 1 to {PARTITIONS_MAX} partitions")
    return keys


def _order(arguments: dict[str, ArgumentValue]) -> int | None:
    """The place that a binding asks for; clients send it as text."""
    given = arguments.get(ORDER_ARGUMENT)
    if given is None:
        return None
    text = str(given)
    if isinstance(given, bool) or not (text.isascii() and text.isdigit()) or len(text) > ORDER_DIGITS_MAX:
        raise Refused(400, "bad_request", f"{ORDER_ARGUMENT} is {text[:32]!r}, expected a whole number")
    return int(text)


def _bindings(call: Call) -> Iterator[tuple[Log, int]]:
    for log in super_streams(call):
        yield from ((log, number) for number in range(len(log.definition.partitions)))


def _exchange(log: Log) -> Json:
    return {
        "name": log.name,
        "vhost": log.definition.vhost,
        "type": TYPE,
        "durable": True,
        "auto_delete": False,
        "internal": False,
        "arguments": {"x-super-stream": True},
    }


def _binding(log: Log, number: int) -> Json:
    partition = log.definition.partitions[number]
    return {
        "source": log.name,
        "vhost": log.definition.vhost,
        "destination": partition.name,
        "destination_type": "queue",
        "routing_key": partition.key,
        "arguments": {ORDER_ARGUMENT: number},
        "properties_key": _properties_key(partition.key),
    }


def _properties_key(key: str) -> str:
    return key or "~"


_PAIR = "/bindings/{vhost}/e/{exchange}/q/{queue}"

ROUTES = (
    Route("GET", "/exchanges", list_exchanges),
    Route("GET", "/exchanges/{vhost}", list_exchanges),
    Route("GET", "/exchanges/{vhost}/{name}", get_exchange),
    Route("PUT", "/exchanges/{vhost}/{name}", put_exchange),
    Route("DELETE", "/exchanges/{vhost}/{name}", delete_exchange),
    Route("GET", "/exchanges/{vhost}/{exchange}/bindings/source", list_bindings_of_exchange),
    Route("GET", "/bindings", list_bindings),
    Route("GET", "/bindings/{vhost}", list_bindings),
    Route("GET", _PAIR, list_bindings_of_exchange),
    Route("POST", _PAIR, post_binding),
    Route("PUT", "/stream/super-streams/{vhost}/{name}", put_super_stream),
    Route("DELETE", "/stream/super-streams/{vhost}/{name}", delete_super_stream),
)

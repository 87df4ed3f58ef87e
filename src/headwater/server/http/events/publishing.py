"""Events that come in over HTTP: read from the request, appended, and answered when they are on disk."""

from __future__ import annotations

from hashlib import blake2b
from typing import Annotated, Any, NamedTuple

import msgspec
from aiohttp import web
from msgspec import Meta

from headwater.amqp.definitions import Condition
from headwater.encoding._cloudevents_text_kernel import NAME, is_allowed
from headwater.errors import EntryTooLarge, InvalidCloudEvent, InvalidValue
from headwater.log.idempotency import FINGERPRINT_BITS
from headwater.log.log import Log, LogDefinition
from headwater.server.amqp.nodes import LogNode, Nodes
from headwater.server.amqp.nodes import Refused as NodeRefused
from headwater.server.http.answers import Refused, read_body
from headwater.server.http.endpoint import Call, InVhost, forbidden
from headwater.server.http.events.appending import (
    IdempotencyKey,
    KeyReused,
    Stored,
    append,
    durable,
    shares_of,
)
from headwater.server.http.events.incoming import (
    Incoming,
    NotACloudEvent,
    UnknownFormat,
    incoming_events,
    plain_message,
)
from headwater.server.http.problems import (
    BAD_REQUEST,
    INVALID,
    INVALID_EVENT,
    KEY_REUSED,
    LOG_EXISTS,
    NOT_JSON,
    STORAGE,
    TOO_LARGE,
    UNAVAILABLE,
    UNKNOWN_LOG,
    UNKNOWN_PARTITION,
)

__all__ = ["BODIES_BYTES_MAX", "Published", "Publisher", "Publishing", "StoredEvent"]

BODIES_BYTES_MAX = 64 << 20
"""Of all requests that are being read; one more is to come again later."""
KEY_CHARS_MAX = 255
NODES_KNOWN_MAX = 1000
IDEMPOTENCY_KEY = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
ANSWERED = {"Cache-Control": "no-store", "Content-Type": "application/json"}
HOW_TO_SEND = (
    "this is no CloudEvent: send headers ce-specversion: 1.0, ce-id, ce-source and ce-type beside the data; or the"
    " event as JSON with Content-Type: application/cloudevents+json, several as application/cloudevents-batch+json."
    " A body that is to be stored as it is goes to ?plain=true"
)


class Publishing(InVhost, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where events go, and what they are."""

    partition: Annotated[
        str | None,
        Meta(description="Id or name of the partition that all events go to, whatever their keys."),
    ] = None
    key: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(
            description="The attribute whose value decides on the partition; else what the log's setting"
            " partition_attribute names.",
        ),
    ] = None
    plain: Annotated[
        bool, Meta(description="Whether the body is stored as it is, as one message that is no CloudEvent.")
    ] = False


class StoredEvent(msgspec.Struct, frozen=True, gc=False):
    """Where an event is, durably."""

    partition: str
    offset: int


class Published(msgspec.Struct, frozen=True):
    """The events of a request, in its order."""

    events: list[StoredEvent]


class _Known(NamedTuple):
    """A log as it was, and its node."""

    log: Log
    definition: LogDefinition
    node: LogNode


class Publisher:
    """Takes events for the logs of a server."""

    def __init__(self, nodes: Nodes, default_log: str, body_bytes_max: int) -> None:
        self._nodes = nodes
        self._default_log = default_log
        self._body_bytes_max = body_bytes_max
        self._held_bytes = 0
        self._known: dict[tuple[str, str], _Known] = {}
        self._turns: dict[int, int] = {}
        """Of logs by their ids, the partition that the next events without a key go to."""

    async def publish_to_default(self, call: Call[Publishing, None]) -> web.Response:
        """Store CloudEvents in the default log; answered when they are on disk."""
        if not call.access.may_write(call.identity, call.query.vhost, self._default_log):
            raise forbidden(f"write the log {self._default_log!r} in the vhost {call.query.vhost!r}")
        return await self._publish(call, self._default_log)

    async def publish(self, call: Call[Publishing, None]) -> web.Response:
        """Store CloudEvents in a log, one by its headers or as JSON, or a batch; answered when they are on disk."""
        return await self._publish(call, call.part("log"))

    async def _publish(self, call: Call[Publishing, None], name: str) -> web.Response:
        request = call.request
        idempotency_key = request.headers.get(IDEMPOTENCY_KEY)
        if idempotency_key is not None and not 1 <= len(idempotency_key) <= KEY_CHARS_MAX:
            raise BAD_REQUEST.refused(f"{IDEMPOTENCY_KEY} has 1 to {KEY_CHARS_MAX} characters")
        room_bytes = self._take_room(request)
        try:
            body = await read_body(request, self._body_bytes_max)
            node = self._find(call.query.vhost, name)
            attribute = call.query.key or (
                "partitionkey" if node is None else node.log.definition.settings.partition_attribute
            )
            incoming = _incoming(call, body, attribute)
            if node is None:
                node = self._made(call, name)
            key = None
            if idempotency_key is not None:
                key = _idempotency(call, idempotency_key, body)
            stored = self._append(call.query, node, incoming, key)
        finally:
            self._held_bytes -= room_bytes
        await durable([node.partitions[number] for number in stored.touched])
        return _answer(node, stored)

    def _find(self, vhost: str, name: str) -> LogNode | None:
        """The node of a name; that of a log is made anew when its definition is another one."""
        known = self._known.get((vhost, name))
        log = self._nodes.log(vhost, name)
        if known is not None and known.log is log and known.definition is log.definition:
            return known.node
        node = self._nodes.find(vhost, name)
        if node is not None and log is not None:
            if len(self._known) >= NODES_KNOWN_MAX:
                self._known.clear()
            self._known[vhost, name] = _Known(log, log.definition, node)
        return node

    def _append(
        self, query: Publishing, node: LogNode, incoming: Incoming, key: IdempotencyKey | None
    ) -> Stored:
        chosen = None if query.partition is None else _number_of(node, query.partition)
        otherwise = self._next_partition(node, key) if chosen is None else chosen
        shares = shares_of(incoming, len(node.partitions), otherwise, keyed=chosen is None)
        try:
            return append(incoming, shares, node.partitions, key)
        except KeyReused as error:
            raise KEY_REUSED.refused(str(error)) from error
        except InvalidCloudEvent as error:
            raise INVALID_EVENT.refused(str(error)) from error
        except EntryTooLarge as error:
            raise TOO_LARGE.refused(
                f"{error.size_bytes} bytes are above the maximum of {error.size_bytes_max} for one event,"
                f" and for what has an {IDEMPOTENCY_KEY}; send less at once"
            ) from error

    def _next_partition(self, node: LogNode, key: IdempotencyKey | None) -> int:
        count = len(node.partitions)
        if count == 1:
            return 0
        if key is not None:
            return int.from_bytes(key.digest[:4], "big") % count
        log_id = node.log.definition.id
        chosen = self._turns.get(log_id, 0) % count
        if len(self._turns) >= NODES_KNOWN_MAX and log_id not in self._turns:
            self._turns.clear()
        self._turns[log_id] = chosen + 1
        return chosen

    def _take_room(self, request: web.Request) -> int:
        """Take room for a body until it is appended; gives its bytes, and raises `Refused` where there is none."""
        length = request.content_length
        size = self._body_bytes_max if length is None else min(length, self._body_bytes_max)
        if self._held_bytes + size > BODIES_BYTES_MAX:
            raise UNAVAILABLE.refused(
                "too much is being received at this moment; send it again a little later"
            )
        self._held_bytes += size
        return size

    def _made(self, call: Call[Publishing, None], name: str) -> LogNode:
        try:
            return self._nodes.to_write(call.identity, call.query.vhost, name)
        except NodeRefused as refused:
            raise _refusal(refused) from refused


def _incoming(call: Call[Publishing, None], body: bytes, attribute: str) -> Incoming:
    query, request = call.query, call.request
    if attribute is query.key and not is_allowed(NAME, attribute.encode("utf-8", "replace")):
        raise INVALID.refused(f"{attribute!r:.100} is no name of an attribute: lower-case letters and digits")
    try:
        if query.plain:
            return plain_message(request.headers.get("Content-Type"), body)
        return incoming_events(request.headers, body, attribute)
    except NotACloudEvent as error:
        raise INVALID_EVENT.refused(HOW_TO_SEND) from error
    except UnknownFormat as error:
        raise NOT_JSON.refused(f"events in the format {error} are not read here; send JSON") from error
    except (InvalidCloudEvent, InvalidValue) as error:
        raise INVALID_EVENT.refused(str(error)) from error


def _idempotency(call: Call[Publishing, None], key: str, body: bytes) -> IdempotencyKey:
    """A user's key, and what was sent with it; keys of others are other keys."""
    digest = blake2b(f"{call.identity.user}\0{key}".encode("utf-8", "surrogateescape"), digest_size=16)
    content = blake2b(msgspec.json.encode(call.query), digest_size=8)
    for name, value in sorted(call.request.headers.items()):
        if name.lower() == "content-type" or name.lower().startswith("ce-"):
            content.update(f"\n{name.lower()}:{value}".encode("utf-8", "surrogateescape"))
    content.update(b"\n\n" + body)
    fingerprint = int.from_bytes(content.digest(), "big") >> (64 - FINGERPRINT_BITS)
    return IdempotencyKey(digest.digest(), fingerprint)


def _number_of(node: LogNode, wanted: str) -> int:
    if wanted in node.ids:
        return node.ids.index(wanted)
    for number, partition in enumerate(node.partitions):
        if partition.name == wanted:
            return number
    raise UNKNOWN_PARTITION.refused(f"{node.name!r:.100} has no partition {wanted!r:.100}")


def _answer(node: LogNode, stored: Stored) -> web.Response:
    ids = node.ids
    events = [
        StoredEvent(ids[number], offset)
        for number, offset in zip(stored.partitions, stored.offsets, strict=True)
    ]
    headers = ANSWERED if not stored.was_there else {**ANSWERED, REPLAYED: "true"}
    return web.Response(body=_encode(Published(events)), headers=headers)


_encode = msgspec.json.Encoder().encode
_KINDS: dict[Any, Any] = {
    Condition.NOT_FOUND: UNKNOWN_LOG,
    Condition.PRECONDITION_FAILED: LOG_EXISTS,
    Condition.INVALID_FIELD: INVALID,
    Condition.RESOURCE_LIMIT_EXCEEDED: STORAGE,
}


def _refusal(refused: NodeRefused) -> Refused:
    """What a node that cannot be had is over HTTP."""
    if refused.condition == Condition.UNAUTHORIZED_ACCESS:
        return forbidden(f"do that: {refused.description}")
    refusal: Refused = _KINDS.get(refused.condition, INVALID).refused(refused.description)
    return refusal

"""Connections as manageable entities: the clients of all doors; READ, QUERY, and DELETE, which closes one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from headwater.amqp.management import Request, Response, StatusCode
from headwater.encoding.amqp_types import Timestamp
from headwater.server.amqp.management.entity_types import (
    Asker,
    Attributes,
    EntityType,
    Operation,
    forbidden,
    name_in,
)
from headwater.server.management.clients import Client, Clients, Figures

__all__ = ["Connection", "ConnectionType"]

REASON = "Closed via AMQP management"


class Connection(NamedTuple):
    """A client that has opened, with its figures of this moment."""

    client: Client
    figures: Figures


class ConnectionType(EntityType[Connection]):
    """The connections of the whole server: everybody sees and closes the own ones, monitors see all."""

    name: ClassVar[str] = "headwater.connection"

    def __init__(self, clients: Clients, loop: asyncio.AbstractEventLoop) -> None:
        self._clients = clients
        self._loop = loop
        self.attributes: Attributes[Connection] = {
            "name": lambda each: each.client.name,
            "identity": lambda each: each.client.name,
            "type": lambda _: self.name,
            "user": lambda each: each.client.identity.user,
            "vhost": lambda each: each.client.vhost,
            "protocol": lambda each: each.client.protocol,
            "state": lambda each: "running" if each.figures.is_running else "closing",
            "host": lambda each: each.figures.host,
            "port": lambda each: each.figures.port,
            "peer_host": lambda each: each.figures.peer_host,
            "peer_port": lambda each: each.figures.peer_port,
            "is_encrypted": lambda each: each.figures.is_encrypted,
            "mechanism": lambda each: each.figures.mechanism,
            "connected_at": lambda each: Timestamp(each.figures.connected_at_ms),
            "properties": lambda each: dict(each.figures.properties),
            "session_count": lambda each: each.figures.session_count,
            "received_bytes": lambda each: each.figures.received_bytes,
            "sent_bytes": lambda each: each.figures.sent_bytes,
        }

    @property
    def operations(self) -> dict[str, Operation]:
        return {**super().operations, "DELETE": Operation(self._delete, ("name", "identity"))}

    def entities(self, asker: Asker) -> Iterator[Connection]:
        return (Connection(client, client.figures()) for client in self._clients.seen_by(asker))

    def find(self, asker: Asker, request: Request) -> Connection:
        name = name_in(request)
        client = self._clients.named(name)
        if client is None:
            raise self.not_found(name)
        if not asker.sees_connection(client.identity):
            raise forbidden(f"connection {name!r} is of another user; the roles monitor and admin see those")
        return Connection(client, client.figures())

    async def _delete(self, asker: Asker, request: Request) -> Response:
        client = self.find(asker, request).client
        if not asker.may_close(client.identity):
            raise forbidden(f"connection {client.name!r} is of another user; the role admin closes those")
        # Behind the response, which may have to go out on this very connection.
        self._loop.call_soon(client.close, REASON)
        return Response(StatusCode.NO_CONTENT)

"""/connections: the clients that have opened, at all doors, and closing one of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headwater.server.http.endpoint import USER, Answer, Call, Empty, Endpoint, forbidden
from headwater.server.http.paging import Page
from headwater.server.http.problems import UNKNOWN_CONNECTION
from headwater.server.management.clients import Client, Clients
from headwater.server.management.turns import in_turns

__all__ = ["ConnectionEndpoints"]

REASON_CHARS_MAX = 255


class ConnectionShown(msgspec.Struct, frozen=True):
    """A client that has opened its connection."""

    name: str
    """From where to where."""
    user: str
    vhost: str
    protocol: str
    state: str
    given_name: str
    peer: str
    is_encrypted: bool
    mechanism: str
    connected_at: str
    session_count: int
    received_bytes: int
    sent_bytes: int
    properties: dict[str, str | int | float | bool]


class ConnectionList(msgspec.Struct, frozen=True):
    """Connections by their names."""

    connections: list[ConnectionShown]
    next: Annotated[
        str | None, Meta(description="What to give as `after` for the next page; null on the last one.")
    ]


class Closing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the client is told."""

    reason: Annotated[str, Meta(min_length=1, max_length=REASON_CHARS_MAX)] = "closed by an operator"


class ConnectionEndpoints:
    """What /connections does with the clients of all doors."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def endpoints(self) -> Sequence[Endpoint[Any, Any]]:
        """All of them."""
        path, unknown = "/connections/{connection}", (UNKNOWN_CONNECTION,)
        return [
            Endpoint("GET", "/connections", self.list_connections, USER, [Answer(200, ConnectionList)], Page),
            Endpoint(
                "GET",
                path,
                self.get_connection,
                USER,
                [Answer(200, ConnectionShown)],
                Empty,
                problems=unknown,
            ),
            Endpoint("DELETE", path, self.close_connection, USER, [Answer(204)], Closing, problems=unknown),
        ]

    async def list_connections(self, call: Call[Page, None]) -> ConnectionList:
        """List connections: the user's own, and for the roles monitor and admin all."""
        seen = {client.name: client for client in self._clients.seen_by(call)}
        names, following = call.query.cut(list(seen))
        return ConnectionList([_shown(seen[name]) async for name in in_turns(names)], following)

    async def get_connection(self, call: Call[Empty, None]) -> ConnectionShown:
        """Show a connection."""
        return _shown(self._client(call))

    async def close_connection(self, call: Call[Closing, None]) -> None:
        """Tell a client that it is closed and why, and close it; everybody may end the own ones, an admin all."""
        client = self._client(call)
        if not call.may_close(client.identity):
            raise forbidden("close the connections of others")
        call.changed = f"closed the connection of {client.identity.user!r}: {call.query.reason}"
        client.close(call.query.reason)

    def _client(self, call: Call[Any, None]) -> Client:
        """The client that the path names; one that the user does not see is not there."""
        client = self._clients.named(call.part("connection"))
        if client is None or not call.sees_connection(client.identity):
            raise UNKNOWN_CONNECTION.refused("no such connection is open; /connections lists those that are")
        return client


def _shown(client: Client) -> ConnectionShown:
    figures = client.figures()
    return ConnectionShown(
        name=client.name,
        user=client.identity.user,
        vhost=client.vhost,
        protocol=client.protocol,
        state="running" if figures.is_running else "closing",
        given_name=figures.given_name,
        peer=figures.peer_host,
        is_encrypted=figures.is_encrypted,
        mechanism=figures.mechanism,
        connected_at=datetime.fromtimestamp(figures.connected_at_ms / 1000, UTC).isoformat(),
        session_count=figures.session_count,
        received_bytes=figures.received_bytes,
        sent_bytes=figures.sent_bytes,
        properties={
            name: value if isinstance(value, str | int | float | bool) else str(value)
            for name, value in figures.properties.items()
        },
    )

"""/api/connections and /api/stream/connections: the clients that have opened, and closing one of them."""

from __future__ import annotations

from aiohttp import web

from headwater.server.http.answers import json_answer
from headwater.server.http.management.call import Call, Connected, Json, Route, not_authorised, not_found
from headwater.server.http.management.listing import list_answer
from headwater.server.http.management.node import Node
from headwater.server.management.clients import Client
from headwater.server.streams.clients import PROTOCOL as STREAM

__all__ = ["ROUTES", "connection_details", "find_connection"]

REASON_CHARS_MAX = 255


def connection_details(connected: Connected, node: Node) -> Json:
    """What lists of consumers and publishers say of a connection."""
    connection, session = connected
    host, port = connection.address("peername")
    return {
        "name": connection.name,
        "user": session.identity.user,
        "node": node.name,
        "peer_host": host,
        "peer_port": port,
    }


def find_connection(call: Call) -> Connected:
    """The connection of the stream door that the path names; raises `Refused` as `_find_client` does."""
    client = _find_client(call, STREAM)
    return next(found for found in call.connected() if found.connection.name == client.name)


async def list_connections(call: Call) -> web.Response:
    """All that the user sees."""
    return await list_answer(call.clients_seen(), lambda client: _shown(client, call.node))


async def list_stream_connections(call: Call) -> web.Response:
    """Those of the stream door."""
    return await list_answer(call.clients_seen(STREAM), lambda client: _shown(client, call.node))


async def get_connection(call: Call) -> web.Response:
    """One connection."""
    return json_answer(_shown(_find_client(call), call.node))


async def get_stream_connection(call: Call) -> web.Response:
    """One of the stream door."""
    return json_answer(_shown(_find_client(call, STREAM), call.node))


async def delete_connection(call: Call) -> web.Response:
    """Tell the client that it is closed and why, and close it; everybody may end the own ones, an admin all."""
    return _close(call, _find_client(call))


async def delete_stream_connection(call: Call) -> web.Response:
    """The same of one of the stream door."""
    return _close(call, _find_client(call, STREAM))


def _find_client(call: Call, protocol: str | None = None) -> Client:
    """The client that the path names; raises `Refused` if there is none, or it is none of the user's business."""
    client = call.clients.named(call.part("connection"))
    vhosts = set(call.vhosts()) if call.has_part("vhost") else None
    if client is None or not (vhosts is None or client.vhost in vhosts):
        raise not_found()
    if protocol not in (None, client.protocol):
        raise not_found()
    if not call.sees_connection(client.identity):
        raise not_authorised("User not authorised to access object")
    return client


def _close(call: Call, client: Client) -> web.Response:
    if not call.may_close(client.identity):
        raise not_authorised("Not administrator user")
    reason = (call.header("X-Reason") or "Closed via management plugin")[:REASON_CHARS_MAX]
    call.log_change(f"closed the connection {client.name}: {reason!r}")
    client.close(reason)
    return web.Response(status=204)


def _shown(client: Client, node: Node) -> Json:
    figures = client.figures()
    return {
        "name": client.name,
        "user": client.identity.user,
        "user_who_performed_action": client.identity.user,
        "node": node.name,
        "vhost": client.vhost,
        "peer_host": figures.peer_host,
        "peer_port": figures.peer_port,
        "host": figures.host,
        "port": figures.port,
        "type": "network",
        "protocol": client.protocol,
        "state": "running" if figures.is_running else "closing",
        "ssl": figures.is_encrypted,
        "auth_mechanism": figures.mechanism,
        "connected_at": figures.connected_at_ms,
        "client_properties": figures.properties,
        "user_provided_name": figures.given_name,
        "frame_max": figures.frame_bytes_max,
        "timeout": figures.timeout_s,
        "channels": figures.session_count,
        "recv_oct": figures.received_bytes,
        "send_oct": figures.sent_bytes,
    }


ROUTES = (
    Route("GET", "/connections", list_connections),
    Route("GET", "/connections/{connection}", get_connection),
    Route("DELETE", "/connections/{connection}", delete_connection),
    Route("GET", "/vhosts/{vhost}/connections", list_connections),
    Route("GET", "/stream/connections", list_stream_connections),
    Route("GET", "/stream/connections/{vhost}", list_stream_connections),
    Route("GET", "/stream/connections/{vhost}/{connection}", get_stream_connection),
    Route("DELETE", "/stream/connections/{vhost}/{connection}", delete_stream_connection),
)

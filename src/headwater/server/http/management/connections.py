"""/api/connections and /api/stream/connections: the clients that have opened, and closing one of them."""

from __future__ import annotations

from aiohttp import web

from headwater.server.http.answers import json_answer
from headwater.server.http.management.call import Call, Connected, Json, Route, not_authorised, not_found
from headwater.server.http.management.listing import list_answer
from headwater.server.http.management.node import Node
from headwater.streams.connection import State

__all__ = ["ROUTES", "connection_details", "find_connection"]

REASON_CHARS_MAX = 255


def connection_details(connected: Connected, node: Node) -> Json:
    """What other lists say of a connection."""
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
    """The connection that the path names; raises `Refused` if there is none, or it is none of the user's business."""
    name = call.part("connection")
    vhosts = set(call.vhosts()) if call.has_part("vhost") else None
    for connection in call.door.connections:
        session = connection.session
        if connection.name != name or session is None or not (vhosts is None or session.vhost in vhosts):
            continue
        if not call.sees_session(session):
            raise not_authorised("User not authorised to access object")
        return Connected(connection, session)
    raise not_found()


async def list_connections(call: Call) -> web.Response:
    """All that the user sees."""
    return await list_answer(call.connected(), lambda connected: _shown(connected, call.node))


async def get_connection(call: Call) -> web.Response:
    """One connection."""
    return json_answer(_shown(find_connection(call), call.node))


async def delete_connection(call: Call) -> web.Response:
    """Tell the client that it is closed and why, and close it; everybody may end the own ones, an admin all."""
    connected = find_connection(call)
    if not call.owns(connected.session):
        call.require_admin()
    reason = (call.header("X-Reason") or "Closed via management plugin")[:REASON_CHARS_MAX]
    call.log_change(f"closed the connection {connected.connection.name}: {reason!r}")
    connected.connection.force_close(reason)
    return web.Response(status=204)


def _shown(connected: Connected, node: Node) -> Json:
    connection, session = connected
    machine = connection.machine
    host, port = connection.address("sockname")
    return {
        **connection_details(connected, node),
        "user_who_performed_action": session.identity.user,
        "vhost": session.vhost,
        "host": host,
        "port": port,
        "type": "network",
        "protocol": "stream",
        "state": "running" if machine.state is State.OPENED else "closing",
        "ssl": connection.is_encrypted,
        "auth_mechanism": machine.mechanism,
        "connected_at": connection.connected_at_ms,
        "client_properties": machine.peer_properties,
        "user_provided_name": machine.peer_properties.get("connection_name", ""),
        "frame_max": machine.frame_size_bytes_max,
        "timeout": machine.heartbeat_s,
        "channels": 0,
        "recv_oct": connection.received_bytes,
        "send_oct": connection.sent_bytes,
    }


ROUTES = (
    Route("GET", "/connections", list_connections),
    Route("GET", "/connections/{connection}", get_connection),
    Route("DELETE", "/connections/{connection}", delete_connection),
    Route("GET", "/vhosts/{vhost}/connections", list_connections),
    Route("GET", "/stream/connections", list_connections),
    Route("GET", "/stream/connections/{vhost}", list_connections),
    Route("GET", "/stream/connections/{vhost}/{connection}", get_connection),
    Route("DELETE", "/stream/connections/{vhost}/{connection}", delete_connection),
)

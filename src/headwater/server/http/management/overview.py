"""/api/overview, /api/nodes and /api/whoami: the server as a whole, and who is asking."""

from __future__ import annotations

from aiohttp import web

from headwater.server.http.answers import json_answer
from headwater.server.http.management.call import Call, Json, Route, not_found
from headwater.server.http.management.clients import consumers_of, publishers_of
from headwater.server.http.management.exchanges import super_streams
from headwater.server.http.management.node import CLUSTER
from headwater.server.management.turns import in_turns
from headwater.server.security.users import Role

__all__ = ["ROUTES"]

TAGS = {Role.ADMIN: "administrator", Role.MONITOR: "monitoring"}


async def get_overview(call: Call) -> web.Response:
    """Totals of what the user sees; ports and state of the server for those who see all of it."""
    streams = messages = 0
    async for _, partition in in_turns(call.streams()):
        streams += 1
        messages += partition.committed_offset - partition.first_offset
    connected = list(call.connected())
    shown: Json = {
        **call.node.versions(),
        "cluster_name": CLUSTER,
        "node": call.node.name,
        "object_totals": {
            "connections": len(call.clients_seen()),
            "channels": 0,
            "exchanges": sum(1 for _ in super_streams(call)),
            "queues": streams,
            "consumers": sum(1 for _ in consumers_of(connected)),
            "publishers": sum(1 for _ in publishers_of(connected)),
        },
        "queue_totals": {"messages": messages, "messages_ready": messages, "messages_unacknowledged": 0},
    }
    if call.may_monitor:
        shown["listeners"] = call.node.listening()
        shown["damaged"] = call.store.damaged
        shown["uncommitted_bytes"] = call.store.uncommitted_bytes
    return json_answer(shown)


async def list_nodes(call: Call) -> web.Response:
    """The one node there is."""
    call.require_monitor()
    return json_answer([_node(call)])


async def get_node(call: Call) -> web.Response:
    """The same by its name."""
    call.require_monitor()
    if call.part("name") != call.node.name:
        raise not_found()
    return json_answer(_node(call))


async def whoami(call: Call) -> web.Response:
    """Name and roles of who asks."""
    identity = call.identity
    return json_answer({"name": identity.user, "tags": [TAGS[role] for role in sorted(identity.roles)]})


def _node(call: Call) -> Json:
    return {
        **call.node.figures(),
        "applications": [{"name": "headwater", "version": call.node.versions()["product_version"]}],
        "sockets_used": sum(1 for _ in call.clients),
        "sockets_total": call.clients.count_max,
        "mem_uncommitted": call.store.uncommitted_bytes,
    }


ROUTES = (
    Route("GET", "/overview", get_overview),
    Route("GET", "/nodes", list_nodes),
    Route("GET", "/nodes/{name}", get_node),
    Route("GET", "/whoami", whoami),
)

"""/api/vhosts and /api/permissions: vhosts made and deleted while the server runs, and who may do what in them."""

from __future__ import annotations

import asyncio

import msgspec
from aiohttp import web

from headwater.errors import UnknownLog
from headwater.server.http.answers import Refused, json_answer
from headwater.server.http.management.call import Call, Json, Route, not_found
from headwater.server.http.management.listing import list_answer
from headwater.server.management.turns import in_turns
from headwater.server.security.errors import UnknownUser, VhostExists
from headwater.server.security.permissions import Permission
from headwater.server.security.users import DEFAULT_VHOST

__all__ = ["ROUTES"]


class PermissionBody(msgspec.Struct):
    """Regular expressions on names of logs, all three of them."""

    configure: str
    write: str
    read: str


class VhostBody(msgspec.Struct):
    """RabbitMQ's wishes for a vhost, none of which is kept here."""


async def list_vhosts(call: Call) -> web.Response:
    """Those that the user sees."""
    return json_answer(await _shown(call))


async def get_vhost(call: Call) -> web.Response:
    """One of them."""
    (vhost,) = await _shown(call)
    return json_answer(vhost)


async def put_vhost(call: Call) -> web.Response:
    """Make a vhost, in which nobody has permissions yet."""
    call.require_admin()
    await call.body(VhostBody)
    vhost = call.part("vhost")
    try:
        await call.catalogue.add_vhost(vhost)
    except VhostExists:
        return web.Response(status=204)
    call.log_change(f"made the vhost {vhost!r}")
    return web.Response(status=201)


async def delete_vhost(call: Call) -> web.Response:
    """Close the connections in a vhost, and delete its logs, the permissions in it, and the vhost."""
    call.require_admin()
    vhost = call.vhost()
    if vhost == DEFAULT_VHOST:
        raise Refused(400, "bad_request", f"the vhost {DEFAULT_VHOST!r} is always there")
    # Logs first: if the server ends in between, the vhost is still there, and what is left in it can be deleted.
    _close_connections(call, vhost)
    await _delete_logs(call, vhost)
    await call.catalogue.delete_vhost(vhost)
    # Nobody has a permission in it any more; what came meanwhile goes as well.
    _close_connections(call, vhost)
    await _delete_logs(call, vhost)
    call.log_change(f"deleted the vhost {vhost!r}")
    return web.Response(status=204)


async def list_permissions(call: Call) -> web.Response:
    """All permissions, or those in one vhost."""
    call.require_admin()
    vhosts = set(call.vhosts())
    found = sorted(call.catalogue.state.permissions.items(), key=lambda item: item[0])
    return await list_answer(
        [item for item in found if item[0][1] in vhosts], lambda item: _permission(*item[0], item[1])
    )


async def get_permission(call: Call) -> web.Response:
    """What one user may do in one vhost."""
    call.require_admin()
    user, vhost = call.part("user"), call.vhost()
    permission = call.catalogue.state.permissions.get((user, vhost))
    if permission is None:
        raise not_found()
    return json_answer(_permission(user, vhost, permission))


async def put_permission(call: Call) -> web.Response:
    """Give a user this permission in place of the old one."""
    call.require_admin()
    user, vhost = call.part("user"), call.vhost()
    is_new = (user, vhost) not in call.catalogue.state.permissions
    body = await call.body(PermissionBody)
    try:
        await call.catalogue.set_permission(user, vhost, Permission(body.configure, body.write, body.read))
    except UnknownUser as error:
        raise Refused(400, "bad_request", str(error)) from error
    call.log_change(f"changed what {user!r} may do in {vhost!r}")
    return web.Response(status=201 if is_new else 204)


async def delete_permission(call: Call) -> web.Response:
    """Take from a user all it may do in a vhost."""
    call.require_admin()
    user, vhost = call.part("user"), call.vhost()
    if (user, vhost) not in call.catalogue.state.permissions:
        raise not_found()
    await call.catalogue.clear_permission(user, vhost)
    call.log_change(f"took from {user!r} what it may do in {vhost!r}")
    return web.Response(status=204)


def _close_connections(call: Call, vhost: str) -> None:
    for client in list(call.clients):
        if client.vhost == vhost:
            client.close(f"the vhost {vhost!r} was deleted")


async def _delete_logs(call: Call, vhost: str) -> None:
    """One in each turn of the loop, since each of them waits for the disk."""
    for name in [name for its_vhost, name in call.store.logs if its_vhost == vhost]:
        try:
            call.door.delete_log(vhost, name)
        except UnknownLog:
            continue
        await asyncio.sleep(0)


async def _shown(call: Call) -> list[Json]:
    messages = dict.fromkeys(call.vhosts(), 0)
    async for log, partition in in_turns(call.streams()):
        messages[log.definition.vhost] += partition.committed_offset - partition.first_offset
    return [
        {
            "name": vhost,
            "default_queue_type": "stream",
            "cluster_state": {call.node.name: "running"},
            "messages": count,
            "messages_ready": count,
            "messages_unacknowledged": 0,
        }
        for vhost, count in messages.items()
    ]


def _permission(user: str, vhost: str, permission: Permission) -> Json:
    return {
        "user": user,
        "vhost": vhost,
        "configure": permission.configure,
        "write": permission.write,
        "read": permission.read,
    }


ROUTES = (
    Route("GET", "/vhosts", list_vhosts),
    Route("GET", "/vhosts/{vhost}", get_vhost),
    Route("PUT", "/vhosts/{vhost}", put_vhost),
    Route("DELETE", "/vhosts/{vhost}", delete_vhost),
    Route("GET", "/vhosts/{vhost}/permissions", list_permissions),
    Route("GET", "/permissions", list_permissions),
    Route("GET", "/permissions/{vhost}/{user}", get_permission),
    Route("PUT", "/permissions/{vhost}/{user}", put_permission),
    Route("DELETE", "/permissions/{vhost}/{user}", delete_permission),
)

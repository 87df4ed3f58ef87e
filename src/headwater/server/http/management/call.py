"""One request to the management API: who asks, for what, and what of it the user may see and do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypeVar

from aiohttp import web

from headwater.log.log import Log
from headwater.log.partition import Partition
from headwater.server.catalogue import Catalogue
from headwater.server.http.answers import Refused, read_json
from headwater.server.http.management.node import Node
from headwater.server.management.clients import Client, Clients
from headwater.server.management.viewer import Viewer
from headwater.server.security.identity import Identity
from headwater.server.streams.connection import StreamProtocol
from headwater.server.streams.door import Door
from headwater.server.streams.session import Session

__all__ = [
    "CHANGED",
    "Call",
    "Connected",
    "Handler",
    "Json",
    "Management",
    "Route",
    "not_authorised",
    "not_found",
]

BODY_BYTES_MAX = 64 * 1024
CHANGED = "changed"

Json: TypeAlias = dict[str, object]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Management:
    """What the management API shows and changes."""

    door: Door
    clients: Clients
    catalogue: Catalogue
    node: Node


class Connected(NamedTuple):
    """A client that has opened its connection at the stream door."""

    connection: StreamProtocol
    session: Session


class Call(Viewer):
    """One request of one user."""

    def __init__(self, management: Management, request: web.Request, identity: Identity) -> None:
        super().__init__(management.door.access, identity)
        self.door = management.door
        self.store = management.door.store
        self.clients = management.clients
        self.catalogue = management.catalogue
        self.node = management.node
        self._request = request

    # What is asked for

    def part(self, name: str) -> str:
        """A part of the path, decoded."""
        return self._request.match_info[name]

    def has_part(self, name: str) -> bool:
        """Whether the path names this."""
        return name in self._request.match_info

    def header(self, name: str) -> str | None:
        """A header of the request."""
        return self._request.headers.get(name)

    async def body(self, kind: type[_T]) -> _T:
        """The body, of this type; raises `Refused`."""
        return await read_json(self._request, kind, BODY_BYTES_MAX)

    def log_change(self, text: str) -> None:
        """Have the audit log say what this user did."""
        self._request[CHANGED] = text

    # What the user may see

    def vhosts(self) -> list[str]:
        """The vhosts that the user sees, or of these the one that the path names; raises `Refused` if it is none."""
        seen = [vhost for vhost in sorted(self.catalogue.state.vhosts) if self.sees_vhost(vhost)]
        if not self.has_part("vhost"):
            return seen
        if self.part("vhost") in seen:
            return [self.part("vhost")]
        raise (
            not_found() if self.may_monitor else not_authorised("User not authorised to access virtual host")
        )

    def vhost(self) -> str:
        """The vhost that the path names; raises `Refused` if the user does not see it."""
        (vhost,) = self.vhosts()
        return vhost

    def clients_seen(self, protocol: str | None = None) -> list[Client]:
        """The clients that the user sees, in the vhost that the path names if it names one; of one door or of all."""
        vhosts = set(self.vhosts()) if self.has_part("vhost") else None
        return [
            client
            for client in self.clients.seen_by(self)
            if (vhosts is None or client.vhost in vhosts) and protocol in (None, client.protocol)
        ]

    def connected(self) -> Iterator[Connected]:
        """The same of the stream door, with their sessions."""
        vhosts = set(self.vhosts()) if self.has_part("vhost") else None
        for connection in sorted(self.door.connections, key=lambda each: each.name):
            session = connection.session
            if session is None or (vhosts is not None and session.vhost not in vhosts):
                continue
            if self.sees_connection(session.identity):
                yield Connected(connection, session)

    def streams(self) -> Iterator[tuple[Log, Partition]]:
        """The streams that the user sees, partitions of super streams among them, in the vhosts of the path."""
        vhosts = set(self.vhosts())
        for (vhost, _), log in sorted(self.store.logs.items()):
            if vhost in vhosts:
                for partition in log.own_partitions:
                    if self.sees_log(vhost, partition.name):
                        yield log, partition

    def stream(self, part: str = "name") -> tuple[Log, Partition]:
        """The stream that the path names; raises `Refused` if there is none, or the user does not see it."""
        vhost, name = self.vhost(), self.part(part)
        partition = self.store.stream(name, vhost)
        if not self.sees_log(vhost, name):
            raise not_authorised()
        if partition is None:
            raise not_found()
        owner = next(log for log in self.store.logs.values() if log.definition.id == partition.id.log_id)
        return owner, partition

    def super_stream(self, part: str = "name") -> Log:
        """The super stream that the path names; raises `Refused` if there is none, or the user does not see it."""
        vhost, name = self.vhost(), self.part(part)
        if not self.sees_log(vhost, name):
            raise not_authorised()
        log = self.door.topology.super_stream(vhost, name)
        if log is None:
            raise not_found()
        return log

    # What the user may do

    def require_admin(self) -> None:
        """Refuse who has not the role `admin`."""
        if not self.access.is_admin(self.identity):
            raise not_authorised("Not administrator user")

    def require_monitor(self) -> None:
        """Refuse who has neither the role `admin` nor `monitor`."""
        if not self.may_monitor:
            raise not_authorised("Not monitor user")

    def require_configure(self, vhost: str, *names: str) -> None:
        """Refuse who may not make, change and delete logs of these names."""
        for name in names:
            if not self.may_configure(vhost, name):
                raise not_authorised(f"configure access to {name!r} in vhost {vhost!r} refused")


Handler: TypeAlias = Callable[[Call], Awaitable[web.Response]]


class Route(NamedTuple):
    """One thing that can be asked for; `path` is below /api, and may end with a slash."""

    method: str
    path: str
    handler: Handler


def not_found() -> Refused:
    """What is asked for is not there."""
    return Refused(404, "Object Not Found", "Not Found")


def not_authorised(reason: str = "Access refused.") -> Refused:
    """The user is known, and may not; RabbitMQ answers 401, and its clients look for that."""
    return Refused(401, "not_authorised", reason)

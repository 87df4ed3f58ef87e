"""Groups and subscriptions as manageable entities: READ, QUERY, RESET; DELETE, which ends one; CREATE of groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar
from urllib.parse import unquote

import msgspec

from headwater.amqp.management import OperationFailed, Request, Response, StatusCode
from headwater.engine.group import Group
from headwater.server.amqp.management.entity_types import (
    Asker,
    Attributes,
    EntityType,
    Operation,
    forbidden,
    name_in,
)
from headwater.server.consumers.consumer import Member
from headwater.server.management.consumer_shapes import GroupShown, SubscriptionShown
from headwater.server.management.consumer_views import NativeSubscription, View, group_id
from headwater.server.management.groups import ManagedGroups
from headwater.server.management.reset_target import parse_target
from headwater.server.management.subscriptions import ManagedSubscriptions

__all__ = ["GroupType", "SubscriptionType"]

EntityT = TypeVar("EntityT")


class _ConsumerType(EntityType[EntityT]):
    """Types whose attributes are had all at once."""

    def _have(self, names: Sequence[str]) -> Attributes[EntityT]:
        return {name: lambda entity, name=name: self.shown(entity)[name] for name in names}  # type: ignore[misc]

    def row(self, entity: EntityT, names: Sequence[str]) -> list[object]:
        shown = self.shown(entity)
        return [shown.get(name) for name in names]


class SeenGroup(NamedTuple):
    """A group, and what shows it to who asks."""

    group: Group[Member]
    view: View


class SeenSubscription(NamedTuple):
    """The same of a subscription."""

    subscription: NativeSubscription
    view: View


class GroupType(_ConsumerType[SeenGroup]):
    """The consumer groups of a vhost, named by their log and their own name with a slash between."""

    name: ClassVar[str] = "headwater.group"

    def __init__(self, groups: ManagedGroups) -> None:
        self._groups = groups
        others = [name for name in GroupShown.__struct_fields__ if name not in ("id", "name")]
        self.attributes = self._have(["name", "identity", "type", "group", *others])

    @property
    def operations(self) -> dict[str, Operation]:
        return {
            "CREATE": Operation(self._create, ("name",)),
            **super().operations,
            "RESET": Operation(self._reset, ("name", "identity")),
            "DELETE": Operation(self._delete, ("name", "identity")),
        }

    def shown(self, entity: SeenGroup) -> dict[str, object]:
        fields = msgspec.to_builtins(entity.view.group(entity.group))
        id_, group = fields.pop("id"), fields.pop("name")
        return {"name": id_, "identity": id_, "type": self.name, "group": group, **fields}

    def cost(self, entity: SeenGroup) -> int:
        return len(entity.group.partitions)

    def entities(self, asker: Asker) -> Iterator[SeenGroup]:
        view = self._groups.view(asker)
        for group in sorted(self._groups.seen_by(asker, asker.vhost), key=group_id):
            if self._groups.is_there(group):
                yield SeenGroup(group, view)

    def find(self, asker: Asker, request: Request) -> SeenGroup:
        log, name = _names(name_in(request))
        if not asker.sees_consumers(asker.vhost, log):
            raise forbidden(f"user {asker.identity.user!r} may not read {log!r}")
        return SeenGroup(self._groups.find(asker.vhost, log, name), self._groups.view(asker))

    async def _create(self, asker: Asker, request: Request) -> Response:
        log, name = _names(request.name or "")
        _require_change(asker, log)
        given = _given(request, ("start",))
        start = None if given.get("start") is None else parse_target(given["start"])
        group = await self._groups.make(asker.vhost, log, name, start)
        return Response(StatusCode.CREATED, self.shown(SeenGroup(group, self._groups.view(asker))))

    async def _reset(self, asker: Asker, request: Request) -> Response:
        group = self._find_to_change(asker, request)
        given = _given(request, ("to", "partition"))
        await self._groups.reset(group, parse_target(given.get("to")), _partition(given))
        return Response(StatusCode.OK, self.shown(SeenGroup(group, self._groups.view(asker))))

    async def _delete(self, asker: Asker, request: Request) -> Response:
        await self._groups.end(self._find_to_change(asker, request))
        return Response(StatusCode.NO_CONTENT)

    def _find_to_change(self, asker: Asker, request: Request) -> Group[Member]:
        group, _ = self.find(asker, request)
        _require_change(asker, group.definition.id.log)
        return group


class SubscriptionType(_ConsumerType[SeenSubscription]):
    """What clients subscribed to in a vhost, by id: several may have one name."""

    name: ClassVar[str] = "headwater.subscription"

    def __init__(self, subscriptions: ManagedSubscriptions) -> None:
        self._subscriptions = subscriptions
        others = [name for name in SubscriptionShown.__struct_fields__ if name not in ("id", "name")]
        self.attributes = self._have(["name", "identity", "type", *others])

    @property
    def operations(self) -> dict[str, Operation]:
        return {
            "READ": Operation(self.read, ("identity",)),
            "RESET": Operation(self._reset, ("identity",)),
            "DELETE": Operation(self._delete, ("identity",)),
        }

    def shown(self, entity: SeenSubscription) -> dict[str, object]:
        fields = msgspec.to_builtins(entity.view.subscription(entity.subscription))
        return {"name": fields["name"], "identity": fields.pop("id"), "type": self.name, **fields}

    def cost(self, entity: SeenSubscription) -> int:
        return self._subscriptions.cost(entity.subscription)

    def entities(self, asker: Asker) -> Iterator[SeenSubscription]:
        view = self._subscriptions.view(asker)
        return (SeenSubscription(each, view) for each in self._subscriptions.seen_by(asker, asker.vhost))

    def find(self, asker: Asker, request: Request) -> SeenSubscription:
        if request.identity is None:
            reason = "give the application property identity; several subscriptions may have one name"
            raise OperationFailed(StatusCode.BAD_REQUEST, reason)
        found = self._subscriptions.find(asker, asker.vhost, request.identity)
        return SeenSubscription(found, self._subscriptions.view(asker))

    async def _reset(self, asker: Asker, request: Request) -> Response:
        found = self._find_to_change(asker, request)
        given = _given(request, ("to", "partition"))
        await self._subscriptions.reset(found, parse_target(given.get("to")), _partition(given))
        return Response(StatusCode.OK, self.shown(SeenSubscription(found, self._subscriptions.view(asker))))

    async def _delete(self, asker: Asker, request: Request) -> Response:
        await self._subscriptions.end(self._find_to_change(asker, request))
        return Response(StatusCode.NO_CONTENT)

    def _find_to_change(self, asker: Asker, request: Request) -> NativeSubscription:
        found, _ = self.find(asker, request)
        if not self._subscriptions.may_change(asker, found):
            raise forbidden(f"user {asker.identity.user!r} may not read and configure its log")
        return found


def _names(path: str) -> tuple[str, str]:
    """The names of log and group that the name of an entity is made of; raises `OperationFailed`."""
    log, slash, name = path.partition("/")
    if not (log and slash and name) or "/" in name:
        reason = f"{path!r:.300} is no LOG/GROUP; a slash in a name is %2F"
        raise OperationFailed(StatusCode.BAD_REQUEST, reason)
    return unquote(log), unquote(name)


def _given(request: Request, names: Sequence[str]) -> dict[str, Any]:
    given = request.map_body()
    unknown = next((name for name in given if name not in names), None)
    if unknown is not None:
        reason = f"{unknown!r:.100} is nothing to be said here; these are: {', '.join(names)}"
        raise OperationFailed(StatusCode.BAD_REQUEST, reason)
    return given


def _partition(given: dict[str, Any]) -> str | None:
    found = given.get("partition")
    if found is None or isinstance(found, str):
        return found
    raise OperationFailed(StatusCode.BAD_REQUEST, f"partition is {found!r:.100}, expected the id of one")


def _require_change(asker: Asker, log: str) -> None:
    if not asker.may_change_consumers(asker.vhost, log):
        raise forbidden(f"user {asker.identity.user!r} may not read and configure {log!r}")

"""AMQP Management 1.0: types of manageable entities: their attributes, and the operations on them.

A new type extends EntityType with its attributes, with how its entities are found, and with operations of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

from headwater.amqp.management import OperationFailed, Request, Response, StatusCode
from headwater.server.management.viewer import Viewer
from headwater.server.security.access import Access
from headwater.server.security.identity import Identity

__all__ = ["Asker", "Attributes", "EntityType", "Operation", "forbidden", "name_in", "too_large"]

EntityT = TypeVar("EntityT")
Attributes: TypeAlias = Mapping[str, Callable[[EntityT], object]]
"""Names of attributes, each with how its value is had of an entity."""


class Asker(Viewer):
    """The user who asks, in the vhost of its connection."""

    def __init__(
        self, access: Access, identity: Identity, vhost: str, response_bytes_max: int, peer: str = ""
    ) -> None:
        super().__init__(access, identity)
        self.vhost = vhost
        self.peer = peer
        """From where to where its connection goes."""
        self.response_bytes_max = response_bytes_max
        """A larger response cannot be sent to this one."""


class Operation(NamedTuple):
    """Something that can be asked for; `arguments` are the application properties that it looks at."""

    carry_out: Callable[[Asker, Request], Awaitable[Response]]
    arguments: tuple[str, ...] = ()


class EntityType(Generic[EntityT]):
    """One type; READ, and QUERY over all types, come with the attributes."""

    name: ClassVar[str]
    attributes: Attributes[EntityT]

    @property
    def operations(self) -> dict[str, Operation]:
        """What can be done with entities of this type."""
        return {"READ": Operation(self.read, ("name", "identity"))}

    def entities(self, asker: Asker) -> Iterable[EntityT]:
        """Those that the user sees, in an order that stays."""
        raise NotImplementedError

    def find(self, asker: Asker, request: Request) -> EntityT:
        """The one that a request names; raises `OperationFailed` if there is none, or the user does not see it."""
        raise NotImplementedError

    def cost(self, entity: EntityT) -> int:
        """How much work it is to show one, in multiples of what it mostly is."""
        return 1

    async def read(self, asker: Asker, request: Request) -> Response:
        """All attributes of one entity."""
        return Response(StatusCode.OK, self.shown(self.find(asker, request)))

    def shown(self, entity: EntityT) -> dict[str, object]:
        """All attributes of an entity."""
        return {name: value(entity) for name, value in self.attributes.items()}

    def row(self, entity: EntityT, names: Sequence[str]) -> list[object]:
        """These attributes of an entity, None for what it has not."""
        return [None if (value := self.attributes.get(name)) is None else value(entity) for name in names]

    def not_found(self, named: str) -> OperationFailed:
        """There is no entity of this name."""
        return OperationFailed(StatusCode.NOT_FOUND, f"there is no {self.name} {named!r:.300}")


def name_in(request: Request) -> str:
    """The name or identity that a request gives; raises `OperationFailed` unless it gives one of the two."""
    if (request.name is None) == (request.identity is None):
        reason = "give one of the application properties name and identity; one of the two says what is meant"
        raise OperationFailed(StatusCode.BAD_REQUEST, reason)
    return str(request.name if request.identity is None else request.identity)


def forbidden(reason: str) -> OperationFailed:
    """The user is known, and may not."""
    return OperationFailed(StatusCode.FORBIDDEN, reason)


def too_large(bytes_max: int) -> OperationFailed:
    """The answer does not go into a message."""
    reason = f"the response is above {bytes_max} bytes; ask for fewer attributes, or in parts with offset and count"
    return OperationFailed(StatusCode.RESPONSE_TOO_LARGE, reason)

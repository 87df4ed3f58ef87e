"""AMQP Management 1.0: the management node as an entity of its own: QUERY over all types, and what types there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from headwater.amqp.management import MANAGEMENT_TYPE, OperationFailed, Request, Response, StatusCode
from headwater.encoding.amqp_encoder import encode
from headwater.server.amqp.management.entity_types import (
    Asker,
    Attributes,
    EntityType,
    Operation,
    too_large,
)
from headwater.server.management.turns import in_turns

__all__ = ["NodeType"]

SELF = "self"


class NodeType(EntityType[str]):
    """The node that requests are sent to; there is one, named `self`."""

    name: ClassVar[str] = MANAGEMENT_TYPE

    def __init__(self, types: Mapping[str, EntityType[Any]]) -> None:
        """`types` are all types, this one among them."""
        self._types = types
        self.attributes: Attributes[str] = {
            "name": lambda node: node,
            "identity": lambda node: node,
            "type": lambda _: self.name,
        }

    @property
    def operations(self) -> dict[str, Operation]:
        return {
            **super().operations,
            "QUERY": Operation(self._query, ("entityType", "offset", "count")),
            "GET-TYPES": self._telling(lambda _: []),
            "GET-ANNOTATIONS": self._telling(lambda _: []),
            "GET-ATTRIBUTES": self._telling(lambda each: list(each.attributes)),
            "GET-OPERATIONS": self._telling(
                lambda each: {name: list(operation.arguments) for name, operation in each.operations.items()}
            ),
            "GET-MGMT-NODES": Operation(_other_nodes),
        }

    def entities(self, asker: Asker) -> Iterator[str]:
        yield SELF

    def find(self, asker: Asker, request: Request) -> str:
        return SELF

    def _asked(self, request: Request) -> list[EntityType[Any]]:
        """The types that a request is about: one, or all."""
        wanted = request.text("entityType")
        return [each for name, each in self._types.items() if wanted in (None, name)]

    def _telling(self, tell: Callable[[EntityType[Any]], object]) -> Operation:
        """An operation that says something of each type."""

        async def carry_out(_asker: Asker, request: Request) -> Response:
            return Response(StatusCode.OK, {each.name: tell(each) for each in self._asked(request)})

        return Operation(carry_out, ("entityType",))

    async def _query(self, asker: Asker, request: Request) -> Response:
        """Attributes of all entities that the user sees, or of those from `offset` on, `count` of them."""
        types, wanted = self._asked(request), _attribute_names(request)
        names = wanted or list(dict.fromkeys(name for each in types for name in each.attributes))
        first, count = request.number("offset") or 0, request.number("count")
        end = None if count is None else first + count
        results: list[list[object]] = []
        left_bytes, number = asker.response_bytes_max, -1
        every = ((each, one) for each in types for one in each.entities(asker))
        async for type_, entity in in_turns(every, lambda found: found[0].cost(found[1])):
            number += 1
            if end is not None and number >= end:
                break
            if number >= first:
                row = type_.row(entity, names)
                left_bytes -= len(encode(row))
                if left_bytes < 0:
                    raise too_large(asker.response_bytes_max)
                results.append(row)
        return Response(StatusCode.OK, {"attributeNames": names, "results": results}, {"count": len(results)})


async def _other_nodes(_asker: Asker, _request: Request) -> Response:
    """This management node knows of no other ones."""
    return Response(StatusCode.OK, [])


def _attribute_names(request: Request) -> list[str]:
    names: object = request.map_body().get("attributeNames") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise OperationFailed(StatusCode.BAD_REQUEST, "attributeNames is no list of names")
    if len(set(names)) < len(names):
        raise OperationFailed(StatusCode.BAD_REQUEST, "attributeNames has a name twice")
    return names

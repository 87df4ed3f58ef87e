"""AMQP Management 1.0: finds the operation that a request asks for, and makes a response of whatever comes of it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from headwater.amqp.management import OperationFailed, Request, Response, StatusCode
from headwater.errors import CallerError, LogExists, StorageError, UnknownLog
from headwater.server.amqp.management.entity_types import Asker, EntityType, Operation
from headwater.server.amqp.management.node_type import NodeType
from headwater.server.audit import note_change
from headwater.server.management.consumer_errors import (
    GroupExists,
    NotDurable,
    UnknownGroup,
    UnknownSubscription,
)

__all__ = ["Agent"]

READS = frozenset({"READ", "QUERY"})
GET_PREFIX = "GET-"
"""Operations that change nothing; all others stand in the audit log."""

logger = logging.getLogger("headwater.amqp.management")


class Agent:
    """Answers requests; one for all connections."""

    def __init__(self, types: Sequence[EntityType[Any]]) -> None:
        self._types: dict[str, EntityType[Any]] = {}
        for each in (NodeType(self._types), *types):
            self._types[each.name] = each

    async def answer(self, asker: Asker, request: Request) -> Response:
        """Do what is asked for; what goes wrong is a response too."""
        response = await self._carried_out(asker, request)
        if not (request.operation in READS or request.operation.startswith(GET_PREFIX)):
            action = (
                f"{request.operation} {request.type} {request.name or request.identity!r} in {asker.vhost!r}"
            )
            note_change(asker.identity.user, asker.peer, "amqp", action, int(response.status))
        return response

    async def _carried_out(self, asker: Asker, request: Request) -> Response:
        try:
            return await self._operation(request).carry_out(asker, request)
        except (OperationFailed, CallerError, StorageError) as error:
            return _failure(error).response
        except Exception:  # a bug of ours: the client is told no more than that
            logger.exception("%s of %s failed", request.operation, request.type)
            return Response(StatusCode.INTERNAL_ERROR, description="the log of the server says more")

    def _operation(self, request: Request) -> Operation:
        type_ = self._types.get(request.type)
        if type_ is None:
            reason = f"there is no type {request.type!r:.100}; known are {', '.join(self._types)}"
            raise OperationFailed(StatusCode.NOT_FOUND, reason)
        operations = type_.operations
        found = operations.get(request.operation)
        if found is None:
            reason = (
                f"{type_.name} has no operation {request.operation!r:.100}; it has {', '.join(operations)}"
            )
            raise OperationFailed(StatusCode.NOT_IMPLEMENTED, reason)
        return found


def _failure(error: OperationFailed | CallerError | StorageError) -> OperationFailed:
    match error:
        case OperationFailed():
            return error
        case UnknownLog() | UnknownGroup() | UnknownSubscription():
            return OperationFailed(StatusCode.NOT_FOUND, str(error))
        case LogExists() | GroupExists() | NotDurable():
            return OperationFailed(StatusCode.CONFLICT, str(error))
        case CallerError():
            return OperationFailed(StatusCode.BAD_REQUEST, str(error))
    logger.error("%s", error)
    return OperationFailed(StatusCode.SERVICE_UNAVAILABLE, str(error))

"""Logs as manageable entities: CREATE, READ, UPDATE, DELETE and QUERY of those in the vhost of the connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar

import msgspec

from headwater.amqp.management import OperationFailed, Request, Response, StatusCode
from headwater.log.log import PARTITIONS_MAX, Log, LogKind
from headwater.log.partition import PartitionState
from headwater.log.settings import LogPolicies, LogSettings
from headwater.log.store import Store
from headwater.server.amqp.management.entity_types import (
    Asker,
    Attributes,
    EntityType,
    Operation,
    forbidden,
    name_in,
)
from headwater.server.management.log_settings import dead_letters_refused
from headwater.server.management.logs import (
    SEGMENT_BYTES_MAX,
    SEGMENT_BYTES_MIN,
    make_log,
    numbered_partitions,
)

__all__ = ["LogType"]

StructT = TypeVar("StructT", bound=msgspec.Struct)

RESERVED_PREFIX = "$"
CHANGEABLE = ("segment_bytes", "filter_bytes", "max_age_ms", "max_bytes", *LogPolicies.__struct_fields__)
SETTINGS = ("durability", *CHANGEABLE)


class _Shape(msgspec.Struct):
    """What may be said of a log that is to be made, next to its settings."""

    kind: LogKind | None = None
    partition_count: int = 1


class LogType(EntityType[Log]):
    """The logs of a vhost: streams, and super streams as a whole."""

    name: ClassVar[str] = "headwater.log"

    def __init__(self, store: Store, delete: Callable[[str, str], None]) -> None:
        self._store = store
        self._delete_log = delete
        self.attributes: Attributes[Log] = {
            "name": lambda log: log.name,
            "identity": lambda log: str(log.definition.id),
            "type": lambda _: self.name,
            "vhost": lambda log: log.definition.vhost,
            "kind": lambda log: log.definition.kind,
            "partition_count": lambda log: len(log.partitions),
            "partitions": _partitions,
            "message_count": lambda log: sum(
                partition.committed_offset - partition.first_offset for partition in log.partitions
            ),
            "size_bytes": lambda log: sum(partition.size_bytes for partition in log.partitions),
            **{name: _setting(name) for name in SETTINGS},
        }

    @property
    def operations(self) -> dict[str, Operation]:
        return {
            "CREATE": Operation(self._create, ("name",)),
            **super().operations,
            "UPDATE": Operation(self._update, ("name", "identity")),
            "DELETE": Operation(self._delete, ("name", "identity")),
        }

    def entities(self, asker: Asker) -> Iterator[Log]:
        found = sorted(name for vhost, name in self._store.logs if vhost == asker.vhost)
        for name in found:
            log = self._store.logs.get((asker.vhost, name))
            if log is not None and asker.sees_log(asker.vhost, name):
                yield log

    def find(self, asker: Asker, request: Request) -> Log:
        named, log = name_in(request), None
        if request.identity is None:
            log = self._store.logs.get((asker.vhost, named))
        else:
            of_vhost = (log for (vhost, _), log in self._store.logs.items() if vhost == asker.vhost)
            log = next((log for log in of_vhost if str(log.definition.id) == named), None)
        if not asker.sees_log(asker.vhost, named if log is None else log.name):
            raise forbidden(f"no permission of user {asker.identity.user!r} covers {named!r}")
        if log is None:
            raise self.not_found(named)
        return log

    async def _create(self, asker: Asker, request: Request) -> Response:
        name = request.name
        if not name or name.startswith(RESERVED_PREFIX):
            reason = f"the application property name is {name!r}; a log has one, and it begins with no $"
            raise OperationFailed(StatusCode.BAD_REQUEST, reason)
        given = request.map_body()
        wanted = _shape(given)
        settings = _settings(given, LogSettings(), SETTINGS, _Shape.__struct_fields__)
        is_stream = wanted.kind == "stream" or (wanted.kind is None and wanted.partition_count == 1)
        partitions = [] if is_stream else numbered_partitions(name, wanted.partition_count)
        _require_configure(asker, name, *(partition.name for partition in partitions))
        _require_dead_letters(asker, name, settings)
        kind: LogKind = "stream" if is_stream else "super_stream"
        log = make_log(self._store, asker.vhost, name, kind, partitions, settings)
        return Response(StatusCode.CREATED, self.shown(log))

    async def _update(self, asker: Asker, request: Request) -> Response:
        log = self.find(asker, request)
        _require_configure(asker, log.name)
        before = log.definition.settings
        settings = _settings(request.map_body(), before, CHANGEABLE)
        if settings.dead_letter_log != before.dead_letter_log:
            _require_dead_letters(asker, log.name, settings)
        self._store.change_settings(log.name, settings, vhost=asker.vhost)
        return Response(StatusCode.OK, self.shown(log))

    async def _delete(self, asker: Asker, request: Request) -> Response:
        log = self.find(asker, request)
        _require_configure(asker, log.name)
        self._delete_log(asker.vhost, log.name)
        return Response(StatusCode.NO_CONTENT)


def _shape(given: dict[str, Any]) -> _Shape:
    """What is to be made; numbers may come as text. Raises `OperationFailed`."""
    wanted = _converted(given, _Shape)
    reason = ""
    if not 1 <= wanted.partition_count <= PARTITIONS_MAX:
        reason = f"partition_count is {wanted.partition_count}, expected 1 to {PARTITIONS_MAX}"
    elif wanted.kind == "stream" and wanted.partition_count != 1:
        reason = "a stream has one partition; leave kind out, or make it a super_stream"
    if reason:
        raise OperationFailed(StatusCode.BAD_REQUEST, reason)
    return wanted


def _settings(
    given: dict[str, Any], before: LogSettings, names: Sequence[str], others: Sequence[str] = ()
) -> LogSettings:
    """The settings with what is given in place of what was; raises `OperationFailed`, `InvalidSettings`."""
    unknown = next((name for name in given if name not in names and name not in others), None)
    if unknown is not None:
        reason = f"{unknown!r:.100} cannot be set here; these can: {', '.join((*others, *names))}"
        raise OperationFailed(StatusCode.BAD_REQUEST, reason)
    changes = {name: value for name, value in given.items() if name in names}
    settings = _converted({**msgspec.structs.asdict(before), **changes}, LogSettings)
    size = settings.segment_bytes
    if size != before.segment_bytes and not SEGMENT_BYTES_MIN <= size <= SEGMENT_BYTES_MAX:
        reason = f"segment_bytes is {size}, expected {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX}"
        raise OperationFailed(StatusCode.BAD_REQUEST, reason)
    return settings


def _converted(given: dict[str, Any], to: type[StructT]) -> StructT:
    try:
        return msgspec.convert(given, to, strict=False)
    except msgspec.ValidationError as error:
        reason = f"the attributes are not those of a log: {error}"
        raise OperationFailed(StatusCode.BAD_REQUEST, reason) from error


def _require_configure(asker: Asker, *names: str) -> None:
    for name in names:
        if not asker.may_configure(asker.vhost, name):
            raise forbidden(f"user {asker.identity.user!r} may not configure {name!r}")


def _require_dead_letters(asker: Asker, name: str, settings: LogSettings) -> None:
    refusal = dead_letters_refused(asker, asker.vhost, name, settings)
    if refusal is not None:
        raise forbidden(refusal)


def _setting(name: str) -> Callable[[Log], object]:
    return lambda log: getattr(log.definition.settings, name)


def _partitions(log: Log) -> list[dict[str, object]]:
    return [
        {
            "id": id_,
            "name": partition.name,
            "state": "running" if partition.state is PartitionState.OPEN else partition.state.value,
            "first_offset": partition.first_offset,
            "next_offset": partition.committed_offset,
            "size_bytes": partition.size_bytes,
        }
        for id_, partition in zip(log.definition.partition_ids, log.partitions, strict=True)
    ]

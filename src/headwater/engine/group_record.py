"""A consumer group in `$state`: who it is, and the epoch of each partition of its log.

    [ 1                      version
      vhost, log, log id     a log of that name with another id is another log: the group is over
      name
      dialect                1 Event Stream Extensions
      configured             made by an operator, rather than by an attach
      [ [ partition, epoch ], ... ] ]

The group's position in each partition is a cursor (`cursor_record`). A partition that the log has and the record does
not came when the group was there, and a crash took what was written of that: the group reads it from its beginning.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Annotated

import msgspec

from headwater.engine.state_record import GROUP, Put, decode, encode, owner_digest, owner_key
from headwater.errors import MalformedState

__all__ = [
    "EPOCH_MAX",
    "GROUP_NAME_BYTES_MAX",
    "Dialect",
    "GroupDefinition",
    "GroupId",
    "decode_group",
    "put_group",
]

EPOCH_MAX = (1 << 63) - 1
GROUP_NAME_BYTES_MAX = 4_096
_PARTITIONS_MAX = 1 << 16

_Number = Annotated[int, msgspec.Meta(ge=0, le=EPOCH_MAX)]
_Partition = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]


class Dialect(enum.IntEnum):
    """Whose rules a group follows; groups of another dialect are a namespace of their own (ES-13)."""

    EVENT_STREAMS = 1


class GroupId(msgspec.Struct, frozen=True):
    """The consumers of one group name on one log."""

    vhost: str
    log: str
    name: str
    dialect: Dialect = Dialect.EVENT_STREAMS

    @property
    def digest(self) -> bytes:
        """What stands for it in keys."""
        return owner_digest(GROUP, self.vhost, self.log, self.name, self.dialect.name)


class GroupDefinition(msgspec.Struct, frozen=True):
    """What a group is."""

    id: GroupId
    log_id: int = 0
    is_configured: bool = False


class _Record(msgspec.Struct, frozen=True, array_like=True, tag=1, forbid_unknown_fields=True):
    vhost: str
    log: str
    log_id: _Number
    name: str
    dialect: Dialect
    is_configured: bool
    epochs: Annotated[list[tuple[_Partition, _Number]], msgspec.Meta(max_length=_PARTITIONS_MAX)]


def put_group(definition: GroupDefinition, epochs: Mapping[int, int]) -> Put:
    """What records a group."""
    id_ = definition.id
    record = _Record(
        id_.vhost,
        id_.log,
        definition.log_id,
        id_.name,
        id_.dialect,
        definition.is_configured,
        list(epochs.items()),
    )
    return Put(owner_key(GROUP, id_.digest), encode(record))


def decode_group(data: bytes) -> tuple[GroupDefinition, dict[int, int]]:
    """A group and the epochs of its partitions by its record; raises `MalformedState`."""
    record = decode(data, _Record)
    epochs = dict(record.epochs)
    if len(epochs) < len(record.epochs):
        raise MalformedState("a partition has two epochs")
    id_ = GroupId(record.vhost, record.log, record.name, record.dialect)
    return GroupDefinition(id_, record.log_id, record.is_configured), epochs

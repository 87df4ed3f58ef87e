"""Making logs: names that clients may give, settings, and what it means that one is there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.errors import InvalidSettings, LogDiffers, LogExists
from headwater.log.log import Log, LogKind, PartitionDefinition
from headwater.log.settings import LogSettings
from headwater.log.store import Store

__all__ = [
    "SEGMENT_BYTES_MAX",
    "SEGMENT_BYTES_MIN",
    "is_valid_name",
    "make_log",
    "numbered_partitions",
]

RESERVED_PREFIX = "amq."
SEGMENT_BYTES_MIN = 64 * 1024
SEGMENT_BYTES_MAX = 2 * 1024 * 1024 * 1024
"""Segments that clients may ask for are of these sizes."""


def is_valid_name(name: str) -> bool:
    """Whether clients may give this name to something."""
    return bool(name.strip()) and not name.startswith(RESERVED_PREFIX)


def numbered_partitions(name: str, count: int) -> list[PartitionDefinition]:
    """The partitions of a super stream that is made by their number."""
    return [PartitionDefinition(f"{name}-{number}", str(number)) for number in range(count)]


def make_log(
    store: Store,
    vhost: str,
    name: str,
    kind: LogKind,
    partitions: Sequence[PartitionDefinition],
    settings: LogSettings,
    arguments: Mapping[str, str] | None = None,
) -> Log:
    """Make a log; raises `InvalidSettings`, `LogExists`, `LogDiffers` if the other one has other settings."""
    for each in (name, *(partition.name for partition in partitions)):
        if not is_valid_name(each):
            raise InvalidSettings("name", f"{each!r} is empty, or begins with {RESERVED_PREFIX!r}")
    try:
        return store.create_log(
            name, vhost=vhost, kind=kind, partitions=partitions, settings=settings, arguments=arguments
        )
    except LogExists:
        existing = store.stream(name, vhost)
        if kind == "stream" and existing is not None:
            owner = next(log for log in store.logs.values() if existing in log.own_partitions)
            if not owner.definition.is_asked_for_by(settings):
                raise LogDiffers(name) from None
        raise

"""Event Stream Extensions, sections 4.1 and 4.3: links that are bound to one partition of a log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.amqp.definitions import Condition
from headwater.amqp.event_streams import PARTITION
from headwater.encoding.amqp_types import Symbol
from headwater.server.amqp.nodes import LogNode, Refused

__all__ = ["bound_to", "partition_asked_for", "refuse_binding"]


def partition_asked_for(properties: Mapping[Symbol, Any] | None) -> str | None:
    """The id of the partition that the properties of a link ask for, if they do; raises `Refused`."""
    found = (properties or {}).get(PARTITION)
    if found is not None and not isinstance(found, str):
        raise Refused(Condition.INVALID_FIELD, f"{PARTITION} is {found!r:.100}; it is a symbol")
    return found


def refuse_binding(partition_id: str | None) -> None:
    """Raise `Refused` if a partition is asked for where there is none: behind the anonymous relay."""
    if partition_id is not None:
        raise Refused(Condition.NOT_FOUND, "a link without an address has no partition to be bound to")


def bound_to(node: LogNode | None) -> dict[Symbol, object] | None:
    """The properties of an attach that say what partition its link is bound to; None for one that is not."""
    return {PARTITION: Symbol(node.ids[0])} if node is not None and node.is_bound else None

"""AMQP Binding and Mapping for JMS: what its clients ask for, and take for granted without a look.

Such a client names the kind of node that it wants. Others read in the answer to their attach what they were granted, it
does not: what cannot be granted is refused.
"""

from __future__ import annotations

import msgspec

from headwater.amqp.definitions import Condition
from headwater.amqp.messaging import Source
from headwater.encoding.amqp_types import Symbol
from headwater.server.amqp.nodes import Refused
from headwater.server.amqp.offsets import Start

__all__ = ["start_for_jms"]

NODE_KINDS = frozenset({"queue", "topic", "temporary-queue", "temporary-topic"})
BROWSING = Symbol("copy")


def start_for_jms(source: Source, start: Start) -> Start:
    """Where such a client begins to read; any other as it asked. Raises `Refused`."""
    if NODE_KINDS.isdisjoint(source.capabilities):
        return start
    for name in source.filter or {}:
        if name not in start.applied:
            raise Refused(
                Condition.NOT_IMPLEMENTED,
                f"the filter {name!r:.100} is not implemented here; receive all, and choose in the application",
            )
    is_browser = source.distribution_mode == BROWSING and "queue" in source.capabilities
    if is_browser and start.position is None:
        return msgspec.structs.replace(start, position="first")
    return start

"""The links of the AMQP door that read a log for themselves, as management shows them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from headwater.amqp.definitions import Condition, ErrorValue
from headwater.amqp.messaging import Source
from headwater.encoding.amqp_types import Described
from headwater.log.partition import Partition
from headwater.server.amqp.consuming import Consuming
from headwater.server.management.receivers import LiveReceiver

if TYPE_CHECKING:
    from headwater.server.amqp.container import Container
    from headwater.server.amqp.door import Door

__all__ = ["amqp_receivers"]


def amqp_receivers(door: Door, connection: str | None = None) -> Iterator[LiveReceiver]:
    """Those of all connections, or of the one of this name."""
    for each in list(door.connections):
        container = each.container
        if container is not None and connection in (None, each.name):
            for handler in list(container.links.values()):
                if isinstance(handler, Consuming):
                    yield _receiver(container, handler)


def _receiver(container: Container, handler: Consuming) -> LiveReceiver:
    return LiveReceiver(
        connection=container.name,
        name=handler.link.name,
        container=container.container_id,
        user=container.identity.user,
        vhost=container.vhost,
        log=handler.log.name,
        offsets=partial(_offsets, handler),
        filters=partial(_filters, handler),
        is_there=lambda: container.links.get(handler.link) is handler,
        end=partial(_end, container, handler),
    )


def _offsets(handler: Consuming) -> dict[Partition, int]:
    return {feed.partition: feed.position for feed in handler.feeds}


def _filters(handler: Consuming) -> dict[str, str]:
    source = handler.link.remote.source
    found = source.filter if isinstance(source, Source) else None
    return {
        str(name): str(given.value if isinstance(given, Described) else given)
        for name, given in (found or {}).items()
    }


def _end(container: Container, handler: Consuming) -> None:
    words = f"link {handler.link.name!r:.100} was ended by an operator"
    container.guarded(
        lambda: container.break_link(handler.link, ErrorValue(Condition.RESOURCE_DELETED, words))
    )

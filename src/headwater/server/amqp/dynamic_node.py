"""AMQP 1.0 part 3, section 3.5.10: a node that was made for a link, and goes with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headwater.amqp.events import Deliveries
from headwater.amqp.messaging import DeliveryState
from headwater.encoding.ranges import IdRange
from headwater.server.amqp.link_owner import LinkHandler
from headwater.server.amqp.nodes import LogNode

if TYPE_CHECKING:
    from headwater.server.amqp.container import Container

__all__ = ["DynamicNode", "dynamic_node"]


class DynamicNode(LinkHandler):
    """Does what another handler does, and deletes the node when the link is gone."""

    def __init__(self, name: str, handler: LinkHandler, delete: Callable[[], None]) -> None:
        self.link = handler.link
        self.name = name
        self._handler = handler
        self._delete = delete

    def start(self) -> None:
        self._handler.start()

    def deliveries(self, event: Deliveries, index: int) -> int:
        return self._handler.deliveries(event, index)

    def flow(self) -> None:
        self._handler.flow()

    def settled(self, ranges: Sequence[IdRange], state: DeliveryState | None, *, is_settled: bool) -> None:
        self._handler.settled(ranges, state, is_settled=is_settled)

    def when_settled(self, call: Callable[[], None]) -> bool:
        return self._handler.when_settled(call)

    def pump(self) -> None:
        self._handler.pump()

    def close(self) -> None:
        self._handler.close()
        self._delete()


def dynamic_node(
    container: Container, partition_id: str | None
) -> tuple[LogNode, Callable[[LinkHandler], DynamicNode]]:
    """A new node for a link of a container, and what makes it go with the link; raises `Refused`."""
    nodes, vhost = container.door.nodes, container.vhost
    node = nodes.dynamic(container.identity, vhost, container.container_id, partition_id)
    return node, lambda handler: DynamicNode(node.name, handler, partial(nodes.delete, vhost, node.name))

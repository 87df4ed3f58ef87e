"""AMQP 1.0 part 3, section 3.5: what the terminus of an attach asks for, and the handler that gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from headwater.amqp.definitions import Condition, ReceiverSettleMode
from headwater.amqp.event_streams import INFORMATION_SUFFIX
from headwater.amqp.link import Link
from headwater.amqp.management import MANAGEMENT_NODE
from headwater.amqp.messaging import Source, Target, TerminusDurability, TerminusExpiryPolicy
from headwater.amqp.receiver_link import ReceiverLink
from headwater.amqp.sender_link import SenderLink
from headwater.amqp.transactions import Coordinator
from headwater.encoding.amqp_types import Symbol
from headwater.log.partition import Partition
from headwater.server.amqp.binding import bound_to, partition_asked_for, refuse_binding
from headwater.server.amqp.consuming import Consuming
from headwater.server.amqp.dynamic_node import DynamicNode
from headwater.server.amqp.feed import Feed
from headwater.server.amqp.jms import start_for_jms
from headwater.server.amqp.link_owner import LinkHandler
from headwater.server.amqp.management.conversation import Requests
from headwater.server.amqp.nodes import LogNode, Refused
from headwater.server.amqp.offsets import Start, start_of
from headwater.server.amqp.publishing import Publishing
from headwater.server.amqp.relay import Relay
from headwater.server.amqp.runtime_information import RuntimeInformation

if TYPE_CHECKING:
    from headwater.server.amqp.container import Container

__all__ = ["handler_for"]

OUTCOMES = tuple(Symbol(f"amqp:{name}:list") for name in ("accepted", "rejected", "released", "modified"))
TOPIC = Symbol("topic")
SHARED = Symbol("shared")
NOT_DURABLE: dict[str, Any] = {
    "durable": TerminusDurability.NONE,
    "expiry_policy": TerminusExpiryPolicy.LINK_DETACH,
    "timeout": 0,
}
"""Section 3.5: the answer says what a terminus is, not what was asked for: nothing of one outlives its link."""


def handler_for(container: Container, link: Link) -> LinkHandler:
    """Accept the attach of a link, and give what acts for it; raises `Refused`."""
    if isinstance(link, ReceiverLink):
        return _receiving(container, link)
    assert isinstance(link, SenderLink), "a link has one of two roles"
    return _sending(container, link)


def _receiving(container: Container, link: ReceiverLink) -> LinkHandler:
    target = link.remote.target
    if isinstance(target, Coordinator):
        raise Refused(Condition.NOT_IMPLEMENTED, "there are no transactions here; use a session without them")
    if target is not None and not isinstance(target, Target):
        raise Refused(Condition.NOT_IMPLEMENTED, "a target of this kind is unknown here")
    partition_id = partition_asked_for(link.remote.properties)
    if target is not None and target.dynamic:
        node = _dynamic_node(container, partition_id)
        _accept_target(container, link, msgspec.structs.replace(target, address=node.name), node)
        return _deleting(container, node, Publishing(link, container, node))
    if target is None or target.address is None:
        refuse_binding(partition_id)
        _accept_target(container, link, target or Target())
        nodes, identity, vhost = container.door.nodes, container.identity, container.vhost
        conversation = container.conversation
        return Relay(link, container, lambda address: nodes.to_write(identity, vhost, address), conversation)
    if target.address.endswith(INFORMATION_SUFFIX):
        raise Refused(Condition.NOT_ALLOWED, f"{target.address!r:.100} tells of a log: receive from it")
    if target.address == MANAGEMENT_NODE:
        _accept_target(container, link, target)
        return Requests(link, container.conversation)
    node = container.door.nodes.to_write(container.identity, container.vhost, target.address, partition_id)
    _accept_target(container, link, target, node)
    return Publishing(link, container, node)


def _sending(container: Container, link: SenderLink) -> LinkHandler:
    source = link.remote.source
    if not isinstance(source, Source):
        raise Refused(
            Condition.NOT_FOUND, "the attach names no log to receive from, and no subscription to end"
        )
    partition_id = partition_asked_for(link.remote.properties)
    if source.dynamic:
        node = _dynamic_node(container, partition_id)
        _accept_source(container, link, msgspec.structs.replace(source, address=node.name, filter=None), node)
        return _deleting(container, node, Consuming(link, container, node.name, _feeds(node, Start())))
    if source.address is None:
        raise Refused(Condition.INVALID_FIELD, "the source has no address")
    if source.address == MANAGEMENT_NODE:
        _accept_source(container, link, msgspec.structs.replace(source, filter=None))
        return container.conversation.responses(link)
    if source.address.endswith(INFORMATION_SUFFIX):
        return _informing(
            container, link, source, source.address.removesuffix(INFORMATION_SUFFIX), partition_id
        )
    # First, so that a link that is refused makes no log.
    start = start_for_jms(source, start_of(source.filter or {}))
    node = container.door.nodes.to_read(
        container.identity, container.vhost, source.address, partition_id, creates=_is_to_last(source)
    )
    feeds = _feeds(node, start)
    _accept_source(container, link, msgspec.structs.replace(source, filter=start.applied or None), node)
    return Consuming(link, container, node.name, feeds)


def _informing(
    container: Container, link: SenderLink, source: Source, log: str, partition_id: str | None
) -> RuntimeInformation:
    def find() -> LogNode:
        return container.door.nodes.to_read(container.identity, container.vhost, log, partition_id)

    node = find()
    _accept_source(container, link, msgspec.structs.replace(source, filter=None), node)
    return RuntimeInformation(link, container, node, find)


def _accept_target(
    container: Container, link: ReceiverLink, target: Target, node: LogNode | None = None
) -> None:
    container.make_way_for(link)
    if _waits_to_be_settled(link):
        link.rcv_settle_mode = ReceiverSettleMode.FIRST
    granted = msgspec.structs.replace(target, **NOT_DURABLE, capabilities=_granted(target.capabilities))
    source = link.remote.source
    link.accept(source if isinstance(source, Source) else None, granted, properties=bound_to(node))


def _waits_to_be_settled(link: ReceiverLink) -> bool:
    """Whether the peer asks us to settle second, and never settles first: the Event Hubs SDK for Python.

    It waits for our settling, so we say that we settle first: the mode is ours to decide (section 2.7.3).
    """
    source = link.remote.source
    return isinstance(source, Source) and source.address == f"sender-link-{link.name}"


def _accept_source(
    container: Container, link: SenderLink, source: Source, node: LogNode | None = None
) -> None:
    container.make_way_for(link)
    granted = msgspec.structs.replace(
        source,
        **NOT_DURABLE,
        outcomes=OUTCOMES,
        default_outcome=None,
        capabilities=_granted(source.capabilities),
    )
    target = link.remote.target
    link.accept(granted, target if isinstance(target, Target) else None, properties=bound_to(node))


def _granted(capabilities: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
    return tuple(each for each in capabilities if each == TOPIC)


def _is_to_last(source: Source) -> bool:
    """Whether somebody will come back to it, so that it matters that it is there from now on."""
    return source.durable is not TerminusDurability.NONE or SHARED in source.capabilities


def _feeds(node: LogNode, start: Start) -> list[Feed]:
    return [_feed(partition, id_, start) for id_, partition in zip(node.ids, node.partitions, strict=True)]


def _feed(partition: Partition, partition_id: str, start: Start) -> Feed:
    selection = start.selection(partition)
    return Feed(partition, start.offset(partition, selection), partition_id, selection)


def _dynamic_node(container: Container, partition_id: str | None) -> LogNode:
    return container.door.nodes.dynamic(
        container.identity, container.vhost, container.container_id, partition_id
    )


def _deleting(container: Container, node: LogNode, handler: LinkHandler) -> DynamicNode:
    return DynamicNode(node.name, handler, lambda: container.door.nodes.delete(container.vhost, node.name))

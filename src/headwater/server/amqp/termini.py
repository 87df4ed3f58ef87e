"""AMQP 1.0 part 3, section 3.5: what the terminus of an attach asks for, and the handler that gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headwater.amqp.definitions import Condition, ReceiverSettleMode
from headwater.amqp.event_streams import INFORMATION_SUFFIX
from headwater.amqp.link import Link
from headwater.amqp.management import MANAGEMENT_NODE
from headwater.amqp.messaging import Source, Target
from headwater.amqp.receiver_link import ReceiverLink
from headwater.amqp.sender_link import SenderLink
from headwater.amqp.transactions import Coordinator
from headwater.server.amqp.binding import bound_to, partition_asked_for, refuse_binding
from headwater.server.amqp.dynamic_node import dynamic_node
from headwater.server.amqp.link_owner import LinkHandler
from headwater.server.amqp.management.conversation import Requests
from headwater.server.amqp.nodes import LogNode, Refused
from headwater.server.amqp.publishing import Publishing
from headwater.server.amqp.relay import Relay
from headwater.server.amqp.sources import NOT_DURABLE, TOPIC, sending_handler

if TYPE_CHECKING:
    from headwater.server.amqp.container import Container

__all__ = ["handler_for"]


def handler_for(container: Container, link: Link) -> LinkHandler:
    """Accept the attach of a link, and give what acts for it; raises `Refused`."""
    if isinstance(link, ReceiverLink):
        return _receiving(container, link)
    assert isinstance(link, SenderLink), "a link has one of two roles"
    return sending_handler(container, link)


def _receiving(container: Container, link: ReceiverLink) -> LinkHandler:
    target = link.remote.target
    if isinstance(target, Coordinator):
        raise Refused(Condition.NOT_IMPLEMENTED, "there are no transactions here; use a session without them")
    if target is not None and not isinstance(target, Target):
        raise Refused(Condition.NOT_IMPLEMENTED, "a target of this kind is unknown here")
    partition_id = partition_asked_for(link.remote.properties)
    if target is not None and target.dynamic:
        node, deleting = dynamic_node(container, partition_id)
        _accept_target(container, link, msgspec.structs.replace(target, address=node.name), node)
        return deleting(Publishing(link, container, node))
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
    node = container.bound(link, node)
    _accept_target(container, link, target, node)
    return Publishing(link, container, node)


def _accept_target(
    container: Container, link: ReceiverLink, target: Target, node: LogNode | None = None
) -> None:
    container.make_way_for(link, node)
    if _waits_to_be_settled(link):
        link.rcv_settle_mode = ReceiverSettleMode.FIRST
    capabilities = tuple(each for each in target.capabilities if each == TOPIC)
    granted = msgspec.structs.replace(target, **NOT_DURABLE, capabilities=capabilities)
    source = link.remote.source
    link.accept(source if isinstance(source, Source) else None, granted, properties=bound_to(node))


def _waits_to_be_settled(link: ReceiverLink) -> bool:
    """Whether the peer asks us to settle second, and never settles first: the Event Hubs SDK for Python.

    It waits for our settling, so we say that we settle first: the mode is ours to decide (section 2.7.3).
    """
    source = link.remote.source
    return isinstance(source, Source) and source.address == f"sender-link-{link.name}"

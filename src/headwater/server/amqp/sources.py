"""AMQP 1.0 part 3, section 3.5.3: what the source of an attach asks for, and the handler that gives it.

| the source                          | who consumes                                                |
|-------------------------------------|-------------------------------------------------------------|
| none                                | nobody: durable subscriptions end as the link closes (JMS)  |
| `$management`, `LOG/$info`, dynamic | the link alone                                              |
| a log, and the link names a group   | the group (Event Stream Extensions, section 4.5)            |
| a log, shared or durable            | a topic subscription; or a durable terminus (ES-4), with a  |
|                                     | partition or a filter of Event Stream Extensions            |
| a log                               | the link alone, from its filter on or from now on           |
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from headwater.amqp.definitions import Condition
from headwater.amqp.event_streams import EPOCH, GROUP, INFORMATION_SUFFIX, PARTITION
from headwater.amqp.management import MANAGEMENT_NODE
from headwater.amqp.messaging import DeliveryState, Source, Target, TerminusDurability, TerminusExpiryPolicy
from headwater.amqp.sender_link import SenderLink
from headwater.encoding.amqp_encoder import encode
from headwater.encoding.amqp_types import Symbol, Timestamp
from headwater.engine.group_effects import GroupAttach
from headwater.engine.group_record import GroupDefinition, GroupId
from headwater.engine.link_id import LinkId
from headwater.engine.subscription_record import Definition, Expiry, Kind
from headwater.engine.subscriptions import Attach, Refusal
from headwater.server.amqp.accounted_link import default_outcome
from headwater.server.amqp.binding import bound_to, partition_asked_for
from headwater.server.amqp.consuming import Consuming
from headwater.server.amqp.dynamic_node import dynamic_node
from headwater.server.amqp.grouped import Grouped
from headwater.server.amqp.jms import start_for_jms
from headwater.server.amqp.link_owner import LinkHandler
from headwater.server.amqp.nodes import LogNode, Refused
from headwater.server.amqp.offsets import Start, start_of
from headwater.server.amqp.runtime_information import RuntimeInformation
from headwater.server.amqp.subscribing import Subscribing, condition_of
from headwater.server.amqp.unsubscribing import Unsubscribing

if TYPE_CHECKING:
    from headwater.server.amqp.container import Container

__all__ = ["NOT_DURABLE", "TOPIC", "sending_handler"]

OUTCOMES = tuple(Symbol(f"amqp:{name}:list") for name in ("accepted", "rejected", "released", "modified"))
TOPIC, SHARED, GLOBAL = Symbol("topic"), Symbol("shared"), Symbol("global")
COPY, MOVE = Symbol("copy"), Symbol("move")
NOT_DURABLE: dict[str, Any] = {
    "durable": TerminusDurability.NONE,
    "expiry_policy": TerminusExpiryPolicy.LINK_DETACH,
    "timeout": 0,
}
"""Section 3.5: the answer says what a terminus is, not what was asked for: nothing of this one outlives its link."""


def sending_handler(container: Container, link: SenderLink) -> LinkHandler:
    """Accept the attach of a link, and give what acts for it; raises `Refused`."""
    source = link.remote.source
    if source is None:
        return _unsubscribing(container, link)
    if not isinstance(source, Source):
        raise Refused(Condition.NOT_IMPLEMENTED, "a source of this kind is unknown here")
    partition_id = partition_asked_for(link.remote.properties)
    if source.dynamic:
        node, deleting = dynamic_node(container, partition_id)
        _accept(container, link, msgspec.structs.replace(source, address=node.name, filter=None), node)
        return deleting(Consuming(link, container, node, Start()))
    if source.address is None:
        raise Refused(Condition.INVALID_FIELD, "the source has no address")
    if source.address == MANAGEMENT_NODE:
        _accept(container, link, msgspec.structs.replace(source, filter=None))
        return container.conversation.responses(link)
    if source.address.endswith(INFORMATION_SUFFIX):
        return _informing(
            container, link, source, source.address.removesuffix(INFORMATION_SUFFIX), partition_id
        )
    # First, so that a link that is refused makes no log.
    start = start_for_jms(source, start_of(source.filter or {}))
    group, epoch = _group_asked_for(link), _epoch_asked_for(link)
    is_to_last = (
        group is not None or source.durable is not TerminusDurability.NONE or SHARED in source.capabilities
    )
    node = container.door.nodes.to_read(
        container.identity, container.vhost, source.address, partition_id, creates=is_to_last
    )
    asked = msgspec.structs.replace(source, filter=start.applied or None)
    if group is not None:
        return _grouped(container, link, asked, node, start, group, epoch)
    attach = _attach_of(container, link, asked, node, start)
    if attach.is_shared or attach.is_durable or container.door.consumers.subscriptions.find(attach):
        consumers, dealers = container.door.consumers, container.door.dealers
        accept = partial(_accept_subscriber, container, link, asked)
        return Subscribing(link, container, consumers, dealers, node, start, attach, accept)
    node = container.bound(link, node)
    consuming = Consuming(link, container, node, start)
    _accept(container, link, asked, node)
    return consuming


def _informing(
    container: Container, link: SenderLink, source: Source, log: str, partition_id: str | None
) -> RuntimeInformation:
    def find() -> LogNode:
        return container.door.nodes.to_read(container.identity, container.vhost, log, partition_id)

    node = find()
    asked = msgspec.structs.replace(source, filter=None)
    _accept(container, link, asked, properties=bound_to(node))  # which is not bound as consumers are
    return RuntimeInformation(link, container, node, find)


# Topic subscriptions and durable termini


def _attach_of(container: Container, link: SenderLink, source: Source, node: LogNode, start: Start) -> Attach:
    is_durable = source.durable is not TerminusDurability.NONE
    is_terminus = is_durable and (node.is_bound or start.is_event_streams)
    return Attach(
        container.vhost,
        node.log.name,
        node.log.definition.id,
        _id_of(container, link),
        GLOBAL in source.capabilities,
        SHARED in source.capabilities,
        is_durable,
        Kind.TERMINUS if is_terminus else Kind.SUBSCRIPTION,
        next(iter(node.numbered)) if node.is_bound else None,
        encode(source.filter) if source.filter else b"",
        _EXPIRIES[source.expiry_policy],
        source.timeout * 1000,
    )


def _accept_subscriber(
    container: Container, link: SenderLink, source: Source, definition: Definition, node: LogNode
) -> None:
    """Say what was granted (TS-13); of a subscription to one partition its node, also where none was asked for."""
    lasting: dict[str, Any] = {}
    if definition.is_durable:
        lasting = {
            "durable": source.durable,
            "expiry_policy": source.expiry_policy,
            "timeout": source.timeout,
        }
    capabilities = (GLOBAL, SHARED) if definition.is_shared else (GLOBAL,)
    _accept(
        container,
        link,
        source,
        node,
        lasting,
        capabilities,
        default=default_outcome(link),
        is_shared=definition.is_shared,
    )


def _unsubscribing(container: Container, link: SenderLink) -> LinkHandler:
    """Find what the client wants to be rid of; it says only its name, and whether it is global."""
    is_global = GLOBAL in link.remote.desired_capabilities
    consumers = container.door.consumers
    found = consumers.subscriptions.to_end(container.vhost, _id_of(container, link), is_global=is_global)
    if isinstance(found, Refusal):
        words = f"{found.value}: {link.name!r:.100}"
        raise Refused(condition_of(found), words)
    found = [each for each in found if container.may_read(each.definition.id.log)]
    if not found:
        raise Refused(
            Condition.UNAUTHORIZED_ACCESS, f"reading is not allowed to who wants to end {link.name!r:.100}"
        )
    definition = found[0].definition
    container.make_way_for(link)
    source = Source(
        definition.id.log,
        TerminusDurability.UNSETTLED_STATE,
        TerminusExpiryPolicy.NEVER,
        capabilities=tuple(
            name
            for name, is_so in ((GLOBAL, is_global), (SHARED, definition.is_shared), (TOPIC, True))
            if is_so
        ),
    )
    target = link.remote.target
    link.accept(source, target if isinstance(target, Target) else None)
    return Unsubscribing(link, consumers, found)


# Groups


def _group_asked_for(link: SenderLink) -> str | None:
    found = (link.remote.properties or {}).get(GROUP)
    if found is not None and not (isinstance(found, str) and found):
        raise Refused(Condition.INVALID_FIELD, f"{GROUP} is {found!r:.100}; it is a string")
    return None if found is None else str(found)


def _epoch_asked_for(link: SenderLink) -> int | None:
    found = (link.remote.properties or {}).get(EPOCH)
    is_number = isinstance(found, int) and not isinstance(found, bool | Timestamp)
    if found is not None and not is_number:
        raise Refused(Condition.INVALID_FIELD, f"{EPOCH} is {found!r:.100}; it is an integer")
    return None if found is None else int(found)


def _grouped(
    container: Container,
    link: SenderLink,
    source: Source,
    node: LogNode,
    start: Start,
    group: str,
    epoch: int | None,
) -> Grouped:
    definition = GroupDefinition(GroupId(container.vhost, node.log.name, group), node.log.definition.id)
    number = next(iter(node.numbered)) if node.is_bound else None
    asked = GroupAttach(_id_of(container, link), number, epoch, start.names_position)

    def accept(partition_id: str | None, epoch: int) -> None:
        properties: dict[Symbol, object] = {GROUP: group, EPOCH: epoch}
        if partition_id is not None:
            properties[PARTITION] = Symbol(partition_id)
        _accept(container, link, source, default=default_outcome(link), properties=properties)

    return Grouped(link, container, container.door.consumers, node, start, definition, asked, accept)


# Answers


def _accept(
    container: Container,
    link: SenderLink,
    source: Source,
    node: LogNode | None = None,
    lasting: dict[str, Any] = NOT_DURABLE,
    capabilities: tuple[Symbol, ...] = (),
    *,
    default: DeliveryState | None = None,
    is_shared: bool = False,
    properties: dict[Symbol, object] | None = None,
) -> None:
    """Answer the attach: the source is told as it was granted, of which `lasting` is what outlives the link.

    There is a default outcome where it matters what becomes of deliveries.
    """
    container.make_way_for(link, node, shares=is_shared)
    granted = msgspec.structs.replace(
        source,
        **(lasting or NOT_DURABLE),
        distribution_mode=source.distribution_mode and (MOVE if is_shared else COPY),
        default_outcome=default,
        outcomes=OUTCOMES,
        capabilities=tuple(each for each in source.capabilities if each in (TOPIC, *capabilities)),
    )
    target = link.remote.target
    link.accept(
        granted,
        target if isinstance(target, Target) else None,
        properties=properties if properties is not None else bound_to(node),
    )


def _id_of(container: Container, link: SenderLink) -> LinkId:
    return LinkId(container.container_id, link.name, container.identity.user)


_EXPIRIES = {
    TerminusExpiryPolicy.LINK_DETACH: Expiry.LINK_DETACH,
    TerminusExpiryPolicy.SESSION_END: Expiry.SESSION_END,
    TerminusExpiryPolicy.CONNECTION_CLOSE: Expiry.CONNECTION_CLOSE,
    TerminusExpiryPolicy.NEVER: Expiry.NEVER,
}

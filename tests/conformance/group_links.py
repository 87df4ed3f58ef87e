"""What tests of consumer groups share: links that name a group, and what is published for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headwater.amqp.definitions import ErrorValue, Role
from headwater.amqp.messaging import Accepted, DeliveryState, Source, Target
from headwater.amqp.performatives import Attach, Detach, Disposition
from headwater.encoding.amqp_types import Described, Symbol
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_wire import AmqpWire, Delivered, data

__all__ = [
    "CHANGED",
    "EARLIEST",
    "EPOCH",
    "GROUP",
    "LATEST",
    "PARTITION",
    "after",
    "ask_to_join",
    "close_link",
    "ended",
    "granted",
    "in_group",
    "join",
    "joined_partition",
    "not_joined",
    "places",
    "publish",
    "refusal",
    "settle",
]

GROUP = Symbol("event-streams-consumer-group")
EPOCH = Symbol("event-streams-epoch")
PARTITION = Symbol("event-streams-partition")
CHANGED = Symbol("event-streams-associated-partitions-changed")
ANNOTATIONS_FILTER = Symbol("amqp:event-streams-delivery-annotations-filter")


def after(offset: str) -> dict[Symbol, Any]:
    """The filter for what comes after an offset."""
    value = {Symbol("event-streams-offset"): Symbol(offset)}
    return {ANNOTATIONS_FILTER: Described(ANNOTATIONS_FILTER, value)}


EARLIEST, LATEST = after("@earliest"), after("@latest")


def in_group(group: object = "g", partition: object = None, epoch: object = None) -> dict[Symbol, Any]:
    """The properties of a link that consumes in a group."""
    asked = {GROUP: group, PARTITION: partition, EPOCH: epoch}
    return {name: value for name, value in asked.items() if value is not None}


def attach_of(log: str, asked: dict[Symbol, Any], **fields: Any) -> Attach:
    handle = fields.get("handle", 0)
    source = Source(log, filter=fields.pop("filter", None), **fields.pop("source", {}))
    return Attach(
        **{
            "name": f"member-{handle}",
            "handle": handle,
            "role": Role.RECEIVER,
            "source": source,
            "target": Target(),
            "properties": asked,
            **fields,
        }
    )


def ask_to_join(wire: AmqpWire, log: str, asked: dict[Symbol, Any] | None = None, **fields: Any) -> None:
    """Attach without waiting for the answer; the link's name is made of its handle."""
    wire.send(attach_of(log, asked or in_group(), **fields))


def granted(wire: AmqpWire, *, credit: int = 1000, handle: int = 0, **fields: Any) -> dict[Symbol, Any]:
    """The properties of the attach that answers ours, which is not refused; then there is credit."""
    answer = wire.take(Attach)
    assert isinstance(answer.source, Source), f"{answer} refuses the link: {wire.next()}"
    assert answer.properties is not None
    if credit:
        wire.credit(credit, handle, **fields)
    return answer.properties


def join(
    wire: AmqpWire, log: str, asked: dict[Symbol, Any] | None = None, *, credit: int = 1000, **fields: Any
) -> dict[Symbol, Any]:
    """Attach in a group; gives the properties of the answer."""
    ask_to_join(wire, log, asked, **fields)
    return granted(wire, credit=credit, handle=fields.get("handle", 0))


def joined_partition(wire: AmqpWire, log: str, **fields: Any) -> str:
    """Attach in a group without naming a partition; gives the one that the link is bound to."""
    return str(join(wire, log, **fields)[PARTITION])


def not_joined(
    wire: AmqpWire, condition: str, log: str, asked: dict[Symbol, Any] | None = None, **fields: Any
) -> ErrorValue:
    """Attach in a group and be refused; gives why."""
    ask_to_join(wire, log, asked, **fields)
    return refusal(wire, condition, fields.get("handle", 0))


def refusal(wire: AmqpWire, condition: str, handle: int = 0) -> ErrorValue:
    """Our attach is answered without a source, and the link closed for this reason."""
    answer = wire.take(Attach)
    assert answer.source is None
    return wire.assert_detaches(condition, handle, theirs=answer.handle)


def ended(wire: AmqpWire, handle: int = 0, **fields: Any) -> Detach:
    """The server detaches the link, which is all that comes; gives how."""
    detach = wire.take(Detach)
    wire.send(Detach(handle, closed=detach.closed))
    return detach


def close_link(wire: AmqpWire, handle: int = 0, *, is_closed: bool = True) -> None:
    """Detach, and see it answered; deliveries that were on their way are passed over."""
    wire.send(Detach(handle, closed=is_closed))
    assert wire.until(Detach).closed is is_closed


def settle(
    wire: AmqpWire,
    first: int,
    last: int | None = None,
    state: DeliveryState | None = None,
    *,
    settled: bool = True,
) -> None:
    """Say what became of deliveries."""
    wire.send(Disposition(Role.RECEIVER, first, last, settled=settled, state=state or Accepted()))


def publish(door: ListeningAmqp, log: str, partition: int, numbers: Iterable[int]) -> None:
    """Append messages that are these numbers to a partition, by a connection of their own."""
    with door.connect() as wire:
        wire.sender(f"{log}-{partition}")
        wire.publish([data(b"%d" % number) for number in numbers])


def places(deliveries: Iterable[Delivered]) -> list[tuple[str, int]]:
    """Partition and offset of deliveries."""
    return [(each.partition, each.offset) for each in deliveries]

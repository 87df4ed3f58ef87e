"""Event Stream Extensions, sections 3.1, 4.1, 4.3 and 4.4: links that are bound to one partition of a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.amqp.definitions import Condition, Role
from headwater.amqp.messaging import Source, Target
from headwater.amqp.performatives import Attach, Flow
from headwater.encoding.amqp_types import Symbol, Uint
from headwater.server.amqp.nodes import AutoCreate
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_wire import FIRST, AmqpWire, data

PARTITION = Symbol("event-streams-partition")
BOTH = pytest.mark.parametrize("role", [Role.SENDER, Role.RECEIVER], ids=["sender", "receiver"])


def to_partition(partition_id: object) -> dict[Symbol, Any]:
    """The property that asks for a partition."""
    return {PARTITION: partition_id}


def attached(wire: AmqpWire, role: Role, address: str | None, **fields: Any) -> Attach:
    """Attach a link in a role; gives the answer, whatever it is."""
    if role is Role.SENDER:
        return wire.attach(role, Source(), Target(address), **fields)
    return wire.attach(role, Source(address, filter=FIRST), Target(), **fields)


def refused(wire: AmqpWire, condition: str, role: Role, address: str | None, **fields: Any) -> str:
    """Attach a link that is refused; gives the words."""
    answer = attached(wire, role, address, **fields)
    assert (answer.target if role is Role.SENDER else answer.source) is None
    error = wire.assert_detaches(condition, fields.get("handle", 0), theirs=answer.handle)
    return error.description or ""


@pytest.mark.clause("ES-1")
@pytest.mark.parametrize("desired", [(), (Symbol("AMQP_EVENT_STREAMS_V1_0"),)])
def test_the_capability_is_offered_whether_it_is_desired_or_not(
    amqp_door: ListeningAmqp, desired: tuple[Symbol, ...]
) -> None:
    with amqp_door.raw() as wire:
        wire.greet()
        assert (
            Symbol("AMQP_EVENT_STREAMS_V1_0") in wire.open(desired_capabilities=desired).offered_capabilities
        )


@pytest.mark.clause("ES-5", "ES-10", "ES-11")
@pytest.mark.parametrize("kind", [Symbol, str])
def test_links_are_bound_to_the_partition_that_they_ask_for(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str, kind: type[str]
) -> None:
    amqp_door.super_stream(log, 3)
    answer = attached(peer, Role.SENDER, log, properties=to_partition(kind("1")))
    assert answer.properties == {PARTITION: "1"}
    assert type(answer.properties[PARTITION]) is Symbol
    peer.take(Flow)
    peer.publish([data(b"%d" % number) for number in range(5)])
    assert amqp_door.counts(log) == [0, 5, 0]
    peer.sender(f"{log}-2", handle=1)
    peer.publish([data(b"elsewhere")], first_id=5, handle=1)
    answer = peer.receiver(log, handle=2, properties=to_partition(kind("1")))
    assert answer.properties == {PARTITION: "1"}
    assert [(each.partition, each.offset) for each in peer.messages(5)] == [("1", n) for n in range(5)]
    peer.assert_nothing_came()


@pytest.mark.clause("ES-2", "ES-5", "ES-6", "ES-10")
@BOTH
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_link_that_asks_for_no_partition_is_bound_to_none(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str, role: Role, partitions: int
) -> None:
    if partitions > 1:
        amqp_door.super_stream(log, partitions)
    else:
        amqp_door.call(lambda: amqp_door.store.create_log(log))
    assert attached(peer, role, log).properties is None


@pytest.mark.clause("ES-5", "ES-10", "ES-11")
@pytest.mark.parametrize("is_super_stream", [False, True])
def test_the_only_partition_of_a_log_is_0(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str, *, is_super_stream: bool
) -> None:
    if is_super_stream:
        amqp_door.super_stream(log, 1)
    answer = attached(peer, Role.SENDER, log, properties=to_partition(Symbol("0")))
    assert answer.properties == {PARTITION: "0"}
    peer.take(Flow)
    peer.publish([data(b"x")])
    assert peer.receiver(log, handle=1, properties=to_partition(Symbol("0"))).properties == {PARTITION: "0"}
    assert peer.message().partition == "0"


@pytest.mark.clause("ES-5", "ES-10")
@BOTH
def test_a_link_to_the_address_of_a_partition_is_bound_to_it(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str, role: Role
) -> None:
    amqp_door.super_stream(log, 3)
    for handle, properties in enumerate([None, to_partition(Symbol("2"))]):
        answer = attached(peer, role, f"{log}-2", handle=handle, properties=properties)
        assert answer.properties == {PARTITION: "2"}
        if role is Role.SENDER:
            peer.take(Flow)
    words = refused(
        peer, Condition.NOT_FOUND, role, f"{log}-2", handle=2, properties=to_partition(Symbol("1"))
    )
    assert words == f"'{log}-2' is partition '2' of its log, and not '1'"


@pytest.mark.clause("ES-5", "ES-10")
@BOTH
def test_a_partition_that_is_not_there_refuses_the_link_and_tells_those_that_are(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str, role: Role
) -> None:
    amqp_door.super_stream(log, 3)
    words = refused(peer, Condition.NOT_FOUND, role, log, properties=to_partition(Symbol("3")))
    assert words == f"'{log}' has no partition '3'; it has 0, 1, 2"
    words = refused(peer, Condition.INVALID_FIELD, role, log, properties=to_partition(Uint(1)))
    assert words == "event-streams-partition is 1; it is a symbol"
    amqp_door.super_stream(f"{log}-many", 100)
    words = refused(peer, Condition.NOT_FOUND, role, f"{log}-many", properties=to_partition("x" * 1000))
    assert len(words) < 300
    assert words.endswith("13, 14, 15, ...")


@pytest.mark.clause("ES-5")
def test_a_link_that_is_refused_makes_no_log(tmp_path: Path) -> None:
    policy = AutoCreate(partition_count=3)
    with ListeningAmqp(tmp_path / "data", auto_create=policy) as door, door.connect() as wire:
        refused(wire, Condition.NOT_FOUND, Role.SENDER, "orders", properties=to_partition(Symbol("3")))
        assert not door.call(lambda: dict(door.store.logs))
        answer = attached(wire, Role.SENDER, "orders", properties=to_partition(Symbol("2")))
        assert answer.properties == {PARTITION: "2"}
        assert len(door.counts("orders")) == 3


@pytest.mark.clause("ES-5", "ES-10")
@BOTH
def test_a_dynamic_node_has_the_partition_0_and_the_relay_has_none(peer: AmqpWire, role: Role) -> None:
    def dynamic(handle: int, partition_id: str) -> Attach:
        source = Source(dynamic=True) if role is Role.RECEIVER else Source()
        target = Target(dynamic=True) if role is Role.SENDER else Target()
        return peer.attach(role, source, target, handle=handle, properties=to_partition(partition_id))

    assert dynamic(0, "0").properties == {PARTITION: "0"}
    if role is Role.SENDER:
        peer.take(Flow)
    peer.assert_detaches(Condition.NOT_FOUND, 1, theirs=dynamic(1, "1").handle)
    if role is Role.SENDER:
        refused(peer, Condition.NOT_FOUND, role, None, handle=2, properties=to_partition("0"))


@pytest.mark.clause("ES-3", "ES-10")
@pytest.mark.parametrize("properties", [None, to_partition(Symbol("1"))], ids=["agnostic", "bound"])
def test_a_receiver_without_a_filter_begins_with_what_is_accepted_from_its_attach_on(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str, properties: dict[Symbol, Any] | None
) -> None:
    amqp_door.super_stream(log, 2)
    peer.sender(f"{log}-1")
    peer.publish([data(b"before")] * 3)
    peer.receiver(log, filter=None, handle=1, properties=properties)
    peer.assert_nothing_came()
    with amqp_door.connect() as writer:
        writer.sender(f"{log}-1")
        writer.publish([data(b"after")])
    came = peer.message()
    assert (came.record, came.offset) == (data(b"after"), 3)

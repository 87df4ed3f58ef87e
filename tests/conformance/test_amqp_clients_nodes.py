"""What AMQP clients need of addresses: logs made on demand, in the forms and limits that the settings say."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.amqp.definitions import Condition, Role
from headwater.amqp.messaging import Source, Target, TerminusDurability
from headwater.amqp.performatives import Flow
from headwater.server.amqp.nodes import DYNAMIC_BYTES_MAX, AutoCreate
from headwater.server.security.name_pattern import compile_pattern
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_wire import AmqpWire, data
from tests.conformance.conftest import ConnectAmqp


@pytest.mark.clause("AMQP logs 13")
def test_a_sender_makes_the_log_that_is_missing_and_a_plain_receiver_does_not(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    peer.refused(Condition.NOT_FOUND, Role.RECEIVER, Source(log), Target())
    assert ("/", log) not in amqp_door.store.logs
    peer.sender(log)
    (partition,) = amqp_door.store.log(log).partitions
    assert partition.name == log
    peer.receiver(log, handle=1)


@pytest.mark.clause("AMQP logs 13")
@pytest.mark.parametrize("durable", [TerminusDurability.CONFIGURATION, TerminusDurability.UNSETTLED_STATE])
def test_a_durable_receiver_makes_the_log_that_is_missing(
    peer: AmqpWire, log: str, durable: TerminusDurability
) -> None:
    peer.attach(Role.RECEIVER, Source(log, durable=durable), Target())
    peer.credit(1)
    peer.sender(log, handle=1)
    peer.assert_nothing_came()


@pytest.mark.clause("AMQP logs 13")
def test_a_durable_receiver_makes_nothing_where_a_sender_could_not(tmp_path: Path) -> None:
    with ListeningAmqp(tmp_path / "data", auto_create=AutoCreate(False)) as door, door.connect() as wire:
        source = Source("orders", durable=TerminusDurability.CONFIGURATION)
        wire.refused(Condition.NOT_FOUND, Role.RECEIVER, source, Target())
        wire.refused(Condition.NOT_FOUND, Role.SENDER, Source(), Target("orders"))
        door.call(lambda: door.store.create_log("orders"))
        wire.sender("orders")


@pytest.mark.clause("AMQP logs 13")
def test_logs_are_made_with_the_partitions_and_names_of_the_settings(tmp_path: Path) -> None:
    policy = AutoCreate(True, 3, compile_pattern("event-.*"))
    with ListeningAmqp(tmp_path / "data", auto_create=policy) as door, door.connect() as wire:
        wire.refused(Condition.NOT_FOUND, Role.SENDER, Source(), Target("orders"))
        wire.sender("event-orders")
        made = door.store.log("event-orders")
        assert made.definition.kind == "super_stream"
        assert [each.name for each in made.partitions] == [f"event-orders-{number}" for number in range(3)]
        wire.sender("event-orders-2", handle=1)


@pytest.mark.clause("AMQP logs 13")
def test_a_partition_whose_name_is_taken_makes_no_log(tmp_path: Path) -> None:
    with ListeningAmqp(tmp_path / "data", auto_create=AutoCreate(True, 3)) as door, door.connect() as wire:
        door.call(lambda: door.store.create_log("orders-1"))
        wire.refused(Condition.PRECONDITION_FAILED, Role.SENDER, Source(), Target("orders"))


@pytest.mark.clause("AMQP logs 13")
@pytest.mark.parametrize("name", ["$info", "$management-x", "amq.direct", "a/b", "/queue/a"])
def test_reserved_names_make_no_log(peer: AmqpWire, name: str) -> None:
    peer.refused(Condition.NOT_FOUND, Role.SENDER, Source(), Target(name))


@pytest.mark.clause("AMQP logs 13")
def test_a_name_that_no_log_can_have_is_refused(peer: AmqpWire) -> None:
    answer = peer.attach(Role.SENDER, Source(), Target("é" * 128))
    assert answer.target is None
    assert peer.next().performative is not None


@pytest.mark.clause("AMQP logs 13")
def test_an_address_of_rabbitmqs_form_is_the_log_of_that_name(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    name = f"{log} %/é"
    amqp_door.call(lambda: amqp_door.store.create_log(name))
    peer.sender(f"/queues/{log}%20%25%2F%C3%A9")
    peer.publish([data(b"x")])
    peer.receiver(name, handle=1)
    assert peer.message().record == data(b"x")


@pytest.mark.clause("AMQP links 7")
def test_a_dynamic_node_is_bounded_and_in_memory_mode(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp
) -> None:
    wire = connect_amqp(fields={"container_id": "my-app/1"})
    answer = wire.attach(Role.SENDER, Source(), Target(dynamic=True))
    wire.take(Flow)
    assert isinstance(answer.target, Target)
    assert answer.target.address is not None
    assert answer.target.address.startswith("dynamic-myapp1-")
    settings = amqp_door.store.log(answer.target.address).definition.settings
    assert (settings.durability, settings.max_bytes) == ("memory", DYNAMIC_BYTES_MAX)

"""Messages that consumers of a subscription or a group cannot take: they go to the log that the policy names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.amqp.definitions import Role
from headwater.amqp.messaging import (
    Accepted,
    DeliveryState,
    Modified,
    Rejected,
    Source,
    TerminusDurability,
    TerminusExpiryPolicy,
)
from headwater.amqp.performatives import Detach, Disposition
from headwater.encoding.amqp_message import Message, decode_message
from headwater.encoding.amqp_types import Symbol
from headwater.log.settings import LogSettings
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_wire import FIRST, AmqpWire, Delivered, data
from tests.conformance.conftest import ConnectAmqp

FAILED = Modified(delivery_failed=True)
CREDIT = 50
GROUP = {Symbol("event-streams-consumer-group"): "workers"}


@pytest.fixture
def orders(amqp_door: ListeningAmqp, log: str) -> str:
    """A log whose dead letters go to another one, after two failed deliveries."""
    settings = LogSettings(dead_letter_log=f"{log}-dead", delivery_count_max=2)
    amqp_door.call(lambda: amqp_door.store.create_log(log, settings=settings))
    return log


def subscribed(wire: AmqpWire, log: str, **fields: Any) -> None:
    source = Source(log, TerminusDurability.UNSETTLED_STATE, TerminusExpiryPolicy.NEVER)
    wire.attach(Role.RECEIVER, source, None, name="orders", **fields)
    wire.credit(CREDIT, fields.get("handle", 0))


def settle(wire: AmqpWire, message: Delivered, state: DeliveryState) -> None:
    wire.send(Disposition(Role.RECEIVER, message.id, message.id, settled=True, state=state))


def dead(connect_amqp: ConnectAmqp, log: str, count: int) -> Iterator[Message]:
    """What stands in the dead-letter log of a log, so many at least."""
    wire = connect_amqp()
    wire.sender(f"{log}-dead")
    wire.receiver(f"{log}-dead", handle=1, filter=FIRST)
    for each in wire.messages(count):
        yield decode_message(each.record, 0, len(each.record))


def why(message: Message) -> dict[str, Any]:
    prefix = "x-opt-dead-letter-"
    return {
        str(key).removeprefix(prefix): value for key, value in (message.message_annotations or {}).items()
    }


def test_a_rejected_message_goes_to_the_dead_letter_log_and_says_why(
    peer: AmqpWire, connect_amqp: ConnectAmqp, orders: str
) -> None:
    subscribed(peer, orders)
    writer = connect_amqp()
    writer.sender(orders)
    writer.publish([data(b"good"), data(b"bad")])
    good, bad = peer.messages(2)
    settle(peer, bad, Rejected())
    settle(peer, good, Accepted())
    (letter,) = dead(connect_amqp, orders, 1)
    assert letter.body == decode_message(data(b"bad"), 0, len(data(b"bad"))).body
    assert why(letter) == {
        "reason": "rejected",
        "log": orders,
        "partition": 0,
        "offset": "0000000000000001",
        "delivery-count": 0,
        "consumer": "subscription orders",
    }


def test_a_message_that_fails_too_often_is_a_dead_letter(
    peer: AmqpWire, connect_amqp: ConnectAmqp, orders: str
) -> None:
    subscribed(peer, orders)
    writer = connect_amqp()
    writer.sender(orders)
    writer.publish([data(b"poison")])
    for _ in range(3):
        settle(peer, peer.message(), FAILED)
    (letter,) = dead(connect_amqp, orders, 1)
    assert (why(letter)["reason"], why(letter)["delivery-count"]) == ("delivery-count", 3)
    peer.assert_nothing_came()


def test_members_of_a_group_leave_dead_letters_too(
    peer: AmqpWire, connect_amqp: ConnectAmqp, orders: str
) -> None:
    peer.receiver(orders, filter=None, properties=GROUP)
    writer = connect_amqp()
    writer.sender(orders)
    writer.publish([data(b"bad")])
    settle(peer, peer.message(), Rejected())
    (letter,) = dead(connect_amqp, orders, 1)
    assert why(letter)["consumer"] == "group workers"


def test_consumers_that_vanish_leave_dead_letters_behind(connect_amqp: ConnectAmqp, orders: str) -> None:
    writer = connect_amqp()
    writer.sender(orders)
    for number in range(3):
        wire = connect_amqp(fields={"container_id": "the same"})
        subscribed(wire, orders)
        if not number:
            writer.publish([data(b"poison")])
        assert wire.message().offset == 0
        wire.send(Detach(0))
        wire.take(Detach)
    (letter,) = dead(connect_amqp, orders, 1)
    assert why(letter)["reason"] == "delivery-count"


def test_without_a_dead_letter_log_rejected_messages_are_settled(
    peer: AmqpWire, connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    writer = connect_amqp()
    writer.sender(log)
    subscribed(peer, log)
    writer.publish([data(b"bad"), data(b"failing")])
    bad, failing = peer.messages(2)
    settle(peer, bad, Rejected())
    settle(peer, failing, FAILED)
    again = peer.message()
    assert again.offset == 1
    settle(peer, again, Accepted())
    peer.echo()

    def low() -> int:
        (subscription,) = amqp_door.amqp.consumers.subscriptions.on_log("/", log)
        return subscription.cursors.by_partition[0].low

    assert amqp_door.call(low) == 2


def test_what_cannot_be_written_is_kept_over_a_restart_until_it_can(tmp_path: Path) -> None:
    nowhere = LogSettings(dead_letter_log="amq.nobody-may-make-this")
    with ListeningAmqp(tmp_path / "data") as door, door.connect() as wire, door.connect() as writer:
        door.call(lambda: door.store.create_log("orders", settings=nowhere))
        subscribed(wire, "orders")
        writer.sender("orders")
        writer.publish([data(b"bad")])
        settle(wire, wire.message(), Rejected())
        wire.echo()
        door.call(door.amqp.consumers.close)
    with ListeningAmqp(tmp_path / "data") as door, door.connect() as wire:
        door.call(lambda: door.store.change_settings("orders", LogSettings(dead_letter_log="dead")))
        wire.sender("dead")
        wire.receiver("dead", handle=1, filter=FIRST)
        message = wire.message()
        assert why(decode_message(message.record, 0, len(message.record)))["reason"] == "rejected"

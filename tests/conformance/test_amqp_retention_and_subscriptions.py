"""Topic subscriptions, cases b, c, f and g: what they need is held back from retention, as far as the log allows."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from headwater.amqp.definitions import Role
from headwater.amqp.messaging import Accepted, Source, Target, TerminusDurability, TerminusExpiryPolicy
from headwater.amqp.performatives import Detach, Disposition
from headwater.encoding.amqp_types import Symbol
from headwater.log.settings import LogSettings
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_wire import AmqpWire, data
from tests.conformance.conftest import ConnectAmqp

COUNT = 12
SEGMENT = 1024
"""One message is more than that, so each has a segment of its own."""
KEPT: dict[str, Any] = {"segment_bytes": SEGMENT, "max_bytes": 3 * SEGMENT}
pytestmark = pytest.mark.clause("TS-8")

CONTAINER = {"container_id": "one who comes back"}


def durable(log: str, *, shared: bool = False) -> Source:
    """A source that is kept while nobody is there."""
    capabilities = (Symbol("shared"),) if shared else ()
    return Source(
        log, TerminusDurability.UNSETTLED_STATE, TerminusExpiryPolicy.NEVER, capabilities=capabilities
    )


def make(door: ListeningAmqp, log: str, **settings: Any) -> None:
    door.call(lambda: door.store.create_log(log, settings=LogSettings(**KEPT, **settings)))


def publish(wire: AmqpWire, log: str) -> None:
    wire.sender(log)
    for number in range(COUNT):
        wire.publish([data(b"%02d" % number + bytes(SEGMENT))], first_id=number)


def first_left(door: ListeningAmqp, log: str) -> int:
    """The first offset that is there when retention has done its work."""

    def enforce() -> int:
        assert door.store.enforce_retention() == []
        return door.partition(log).first_offset

    return door.call(enforce)


@pytest.mark.parametrize("shared", [False, True], ids=["one consumer", "shared"])
def test_what_a_durable_subscription_did_not_settle_is_there_when_its_consumer_comes_back(
    amqp_door: ListeningAmqp, connect_amqp: ConnectAmqp, peer: AmqpWire, log: str, *, shared: bool
) -> None:
    make(amqp_door, log)
    consumer = connect_amqp(fields=CONTAINER)
    consumer.attach(Role.RECEIVER, durable(log, shared=shared), Target(), name=log)
    consumer.credit(5)
    publish(peer, log)
    came = consumer.messages(5)
    consumer.send(Disposition(Role.RECEIVER, came[0].id, came[3].id, True, Accepted()))
    consumer.assert_nothing_came()
    assert first_left(amqp_door, log) == 4
    consumer.send(Detach(0, closed=False))
    consumer.take(Detach)
    assert first_left(amqp_door, log) == 4
    consumer.attach(Role.RECEIVER, durable(log, shared=shared), Target(), name=log, handle=1)
    consumer.credit(100, 1)
    rest = consumer.messages(COUNT - 4)
    assert [each.offset for each in rest] == list(range(4, COUNT))
    consumer.send(Disposition(Role.RECEIVER, rest[0].id, rest[-1].id, True, Accepted()))
    consumer.send(Detach(1, closed=True))
    consumer.take(Detach)
    assert first_left(amqp_door, log) == COUNT - 2


def test_beyond_the_limit_what_was_needed_goes_and_the_loss_is_told(
    amqp_door: ListeningAmqp,
    connect_amqp: ConnectAmqp,
    peer: AmqpWire,
    log: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    make(amqp_door, log, retention_hold_bytes_max=4 * SEGMENT)
    consumer = connect_amqp(fields=CONTAINER)
    consumer.attach(Role.RECEIVER, durable(log), Target(), name=log)
    publish(peer, log)
    size = amqp_door.call(lambda: amqp_door.partition(log).segments[0].size)
    surplus, held = COUNT - 3 * SEGMENT // size, 4 * SEGMENT // size
    with caplog.at_level(logging.WARNING, "headwater.consumers"):
        first = first_left(amqp_door, log)
    assert first == surplus - held
    assert f"{log}: {first} messages were removed before subscription {log!r} settled them" in caplog.text
    consumer.credit(100)
    assert [each.offset for each in consumer.messages(COUNT - first)] == list(range(first, COUNT))


@pytest.mark.parametrize("limit", [0, 1 << 30])
def test_a_limit_that_is_changed_holds_from_the_next_time_on(
    amqp_door: ListeningAmqp, connect_amqp: ConnectAmqp, peer: AmqpWire, log: str, limit: int
) -> None:
    make(amqp_door, log, retention_hold_bytes_max=(1 << 30) - limit)
    consumer = connect_amqp(fields=CONTAINER)
    consumer.attach(Role.RECEIVER, durable(log), Target(), name=log)
    publish(peer, log)

    def change() -> None:
        settings = amqp_door.store.log(log).definition.settings
        amqp_door.store.change_settings(
            log, msgspec.structs.replace(settings, retention_hold_bytes_max=limit)
        )

    amqp_door.call(change)
    assert (first_left(amqp_door, log) == 0) == (limit > 0)


def test_subscriptions_that_are_not_durable_hold_nothing_back(
    amqp_door: ListeningAmqp, connect_amqp: ConnectAmqp, peer: AmqpWire, log: str
) -> None:
    make(amqp_door, log)
    consumer = connect_amqp(fields=CONTAINER)
    source = Source(log, capabilities=(Symbol("shared"),))
    consumer.attach(Role.RECEIVER, source, Target(), name=log)
    publish(peer, log)
    first = first_left(amqp_door, log)
    assert first == COUNT - 2
    consumer.credit(100)
    assert [each.offset for each in consumer.messages(2)] == [COUNT - 2, COUNT - 1]

"""AMQP Binding and Mapping for JMS: a link without a source ends a durable subscription as it is closed (TS-9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headwater.amqp.definitions import Condition, Role
from headwater.amqp.messaging import Source, Target, TerminusDurability, TerminusExpiryPolicy
from headwater.encoding.amqp_types import Symbol
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_subscriber import (
    GLOBAL,
    SHARED,
    TOPIC,
    Publisher,
    leave,
    offsets,
    subscribe,
    unsubscribe,
)
from tests.conformance.amqp_wire import AmqpWire
from tests.conformance.conftest import ConnectAmqp

DURABLE: list[tuple[str, ...]] = [
    ("durable",),
    ("durable", "global"),
    ("shared", "durable"),
    ("shared", "durable", "global"),
]


@pytest.fixture
def publish(connect_amqp: ConnectAmqp, log: str) -> Publisher:
    return Publisher(connect_amqp(), log)


@pytest.fixture
def connect(connect_amqp: ConnectAmqp) -> Callable[[], AmqpWire]:
    """Opens connections of one container."""
    return lambda: connect_amqp(fields={"container_id": "unsubscriber"})


def subscriptions(door: ListeningAmqp, log: str) -> list[Any]:
    return door.call(lambda: list(door.consumers.subscriptions.on_log("/", log)))


def detached(connect: Callable[[], AmqpWire], log: str, name: str, *words: str) -> None:
    """A subscription whose only consumer is gone."""
    peer = connect()
    subscribe(peer, log, name, *words)
    leave(peer)


def wishes(words: tuple[str, ...]) -> list[str]:
    return [word for word in words if word != "durable"]


@pytest.mark.clause("TS-9")
@pytest.mark.parametrize("words", DURABLE)
def test_a_subscription_ends_as_a_link_of_its_name_without_a_source_is_closed(
    connect: Callable[[], AmqpWire],
    publish: Publisher,
    amqp_door: ListeningAmqp,
    log: str,
    words: tuple[str, ...],
) -> None:
    name = f"sub-{log}"
    detached(connect, log, f"{name}|1", *words)
    peer = connect()
    answer = unsubscribe(peer, f"{name}|2", *wishes(words))
    assert isinstance(answer.source, Source)
    assert answer.source.address == log
    assert (answer.source.durable, answer.source.expiry_policy) == (
        TerminusDurability.UNSETTLED_STATE,
        TerminusExpiryPolicy.NEVER,
    )
    assert set(answer.source.capabilities) == {TOPIC, *map(Symbol, wishes(words))}
    assert subscriptions(amqp_door, log)
    leave(peer, closed=True)
    assert not subscriptions(amqp_door, log)
    publish(3)
    subscribe(peer, log, name, *words)
    peer.assert_nothing_came()


@pytest.mark.clause("TS-9")
def test_who_only_detaches_has_ended_nothing(
    connect: Callable[[], AmqpWire], publish: Publisher, log: str
) -> None:
    detached(connect, log, "sub", "durable")
    peer = connect()
    unsubscribe(peer, "sub")
    leave(peer)
    publish(3)
    subscribe(peer, log, "sub", "durable")
    assert offsets(peer.messages(3)) == [0, 1, 2]


@pytest.mark.clause("TS-9")
def test_a_link_without_a_source_sends_nothing_whatever_its_credit(
    connect: Callable[[], AmqpWire], publish: Publisher, log: str
) -> None:
    detached(connect, log, "sub", "durable")
    publish(3)
    peer = connect()
    unsubscribe(peer, "sub")
    peer.credit(10)
    peer.assert_nothing_came()


@pytest.mark.clause("TS-9")
@pytest.mark.parametrize("words", DURABLE)
def test_a_subscription_that_is_consumed_from_is_not_ended(
    connect: Callable[[], AmqpWire],
    publish: Publisher,
    amqp_door: ListeningAmqp,
    log: str,
    words: tuple[str, ...],
) -> None:
    name = f"sub-{log}"
    active, peer = connect(), connect()
    subscribe(active, log, f"{name}|1", *words)
    error = refused(peer, Condition.RESOURCE_LOCKED, f"{name}|2", *wishes(words))
    assert "another consumer is attached to this subscription" in error
    publish(1)
    assert offsets(active.messages(1)) == [0]


@pytest.mark.clause("TS-9")
def test_a_subscription_that_somebody_attaches_to_meanwhile_is_not_ended_under_them(
    connect: Callable[[], AmqpWire], publish: Publisher, log: str
) -> None:
    detached(connect, log, "sub|1", "shared", "durable")
    peer, active = connect(), connect()
    unsubscribe(peer, "sub|2", "shared")
    subscribe(active, log, "sub|3", "shared", "durable")
    leave(peer, closed=True)
    publish(2)
    assert offsets(active.messages(2)) == [0, 1]


@pytest.mark.clause("TS-9")
@pytest.mark.parametrize(
    ("made", "asked"),
    [
        (("durable",), ("global",)),
        (("durable", "global"), ()),
        (("shared", "durable"), ("shared", "global")),
        (("shared", "durable", "global"), ("shared",)),
    ],
)
def test_scopes_are_not_mixed_up(
    connect: Callable[[], AmqpWire],
    publish: Publisher,
    amqp_door: ListeningAmqp,
    log: str,
    made: tuple[str, ...],
    asked: tuple[str, ...],
) -> None:
    name = f"sub-{log}"
    detached(connect, log, name, *made)
    error = refused(connect(), Condition.NOT_FOUND, name, *asked)
    assert error == f"there is no subscription of this name: '{name}'"
    assert subscriptions(amqp_door, log)


@pytest.mark.clause("TS-9")
def test_what_is_no_durable_subscription_is_unknown(
    connect: Callable[[], AmqpWire], connect_amqp: ConnectAmqp, publish: Publisher, log: str
) -> None:
    peer, stranger = connect(), connect_amqp()
    subscribe(peer, log, "volatile", "shared")
    detached(connect, log, "sub", "durable")
    refused(peer, Condition.NOT_FOUND, "volatile", "shared", handle=1)
    refused(peer, Condition.NOT_FOUND, "never heard of", handle=1)
    refused(stranger, Condition.NOT_FOUND, "sub")


@pytest.mark.clause("TS-9")
def test_another_user_cannot_end_a_subscription_by_its_container_and_name(
    connect: Callable[[], AmqpWire],
    connect_amqp: ConnectAmqp,
    publish: Publisher,
    amqp_door: ListeningAmqp,
    log: str,
) -> None:
    amqp_door.add_user(f"user-{log}")
    amqp_door.permit(f"user-{log}", read="other")
    fields = {"container_id": "same"}
    detached(connect, log, "sub", "durable")
    detached(connect, log, f"global-{log}", "durable", "global")
    thief = connect_amqp(user=f"user-{log}", password="pencil", fields=fields)
    refused(thief, Condition.NOT_FOUND, "sub")
    refused(thief, Condition.UNAUTHORIZED_ACCESS, f"global-{log}", "global")
    assert len(subscriptions(amqp_door, log)) == 2
    amqp_door.permit(f"user-{log}", read=log)
    unsubscribe(thief, f"global-{log}", "global")
    leave(thief, closed=True)
    assert len(subscriptions(amqp_door, log)) == 1


@pytest.mark.clause("TS-9")
def test_a_durable_terminus_is_not_ended_by_a_subscription_of_its_name(
    connect: Callable[[], AmqpWire], publish: Publisher, amqp_door: ListeningAmqp, log: str
) -> None:
    peer = connect()
    properties = {Symbol("event-streams-partition"): Symbol("0")}
    subscribe(peer, log, "terminus", "durable", link={"properties": properties})
    leave(peer)
    refused(peer, Condition.NOT_FOUND, "terminus")
    assert subscriptions(amqp_door, log)


def refused(peer: AmqpWire, condition: str, name: str, *words: str, handle: int = 0) -> str:
    """See that there is nothing to be ended; gives the reason."""
    desired = tuple({"global": GLOBAL, "shared": SHARED}[word] for word in words)
    error = peer.refused(
        condition, Role.RECEIVER, None, Target(), name=name, handle=handle, desired_capabilities=desired
    )
    return str(error.description)

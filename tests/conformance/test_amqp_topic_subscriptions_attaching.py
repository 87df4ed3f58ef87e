"""Topic subscriptions: who is refused and why, who takes over from whom, and what a detach or a close leaves behind."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.amqp.definitions import Condition, Role
from headwater.amqp.messaging import Source, Target
from headwater.amqp.performatives import Attach, Close, Detach, End, Transfer
from headwater.encoding.amqp_types import Described, Symbol
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_subscriber import (
    Publisher,
    leave,
    offsets,
    refused,
    settle,
    source_of,
    subscribe,
)
from tests.conformance.amqp_wire import AmqpWire, from_offset
from tests.conformance.conftest import ConnectAmqp

SELECTOR = Symbol("apache.org:selector-filter:string")
CASES: list[tuple[str, ...]] = [
    ("durable",),
    ("durable", "global"),
    ("shared",),
    ("shared", "global"),
    ("shared", "durable"),
    ("shared", "durable", "global"),
]


@pytest.fixture
def publish(connect_amqp: ConnectAmqp, log: str) -> Publisher:
    return Publisher(connect_amqp(), log)


@pytest.fixture
def subscriber(connect_amqp: ConnectAmqp) -> Any:
    """Opens connections of a container, or of one of its own."""

    def made(container: str | None = None, **how: Any) -> AmqpWire:
        fields = {} if container is None else {"container_id": container}
        return connect_amqp(fields=fields, **how)

    return made


def selecting(text: str) -> dict[Symbol, Any]:
    return {SELECTOR: Described(SELECTOR, text)}


# Refusals


@pytest.mark.clause("TS-6")
@pytest.mark.parametrize(("words", "container"), [(("durable",), "same"), (("durable", "global"), "another")])
def test_a_second_receiver_of_a_subscription_that_is_not_shared_is_refused(
    publish: Publisher, subscriber: Any, log: str, words: tuple[str, ...], container: str
) -> None:
    name = f"sub-{log}"
    first, second = subscriber("same"), subscriber(container)
    subscribe(first, log, f"{name}|1", *words)
    error = refused(second, Condition.RESOURCE_LOCKED, log, f"{name}|2", *words)
    assert error.description == (f"another consumer is attached to this subscription: '{name}|2' on '{log}'")
    publish(3)
    came = first.messages(3)
    settle(first, came)
    leave(first)
    subscribe(second, log, f"{name}|2", *words)
    second.assert_nothing_came()


@pytest.mark.clause("TS-10")
@pytest.mark.parametrize(
    ("existing", "asked"),
    [
        (existing, asked)
        for existing in CASES
        for asked in [(), ("global",), *CASES]
        if existing != asked and ("global" in existing) == ("global" in asked)
    ],
)
def test_a_subscription_is_not_attached_to_with_other_properties(
    publish: Publisher, subscriber: Any, log: str, existing: tuple[str, ...], asked: tuple[str, ...]
) -> None:
    name = f"sub-{log}"
    first, second = subscriber("same"), subscriber("same")
    subscribe(first, log, f"{name}|1", *existing)
    error = refused(second, Condition.PRECONDITION_FAILED, log, f"{name}|2", *asked)
    assert str(error.description).startswith("the subscription exists with other properties (shared, durable")
    publish(3)
    assert offsets(first.messages(3)) == [0, 1, 2]


@pytest.mark.clause("TS-10")
def test_a_receiver_that_wants_nothing_special_does_not_take_a_durable_subscription_that_waits(
    publish: Publisher, subscriber: Any, log: str
) -> None:
    peer = subscriber()
    subscribe(peer, log, "sub", "durable")
    leave(peer)
    refused(peer, Condition.PRECONDITION_FAILED, log, "sub")
    refused(peer, Condition.PRECONDITION_FAILED, log, "sub", "shared")
    publish(2)
    subscribe(peer, log, "sub", "durable")
    assert offsets(peer.messages(2)) == [0, 1]


@pytest.mark.clause("TS-1", "TS-10")
@pytest.mark.parametrize("words", CASES)
@pytest.mark.parametrize("other", [None, selecting("n > 4"), from_offset("first")])
def test_another_filter_is_refused(
    publish: Publisher, subscriber: Any, log: str, words: tuple[str, ...], other: dict[Symbol, Any] | None
) -> None:
    name = f"sub-{log}"
    peer = subscriber()
    subscribe(peer, log, f"{name}|1", *words, filter=selecting("n > 3"))
    error = refused(peer, Condition.PRECONDITION_FAILED, log, f"{name}|2", *words, filter=other, handle=1)
    assert str(error.description).startswith("the subscription exists with another filter")


@pytest.mark.clause("TS-1")
@pytest.mark.parametrize("what", ["name", "container"])
def test_what_is_too_long_to_be_kept_is_refused(
    publish: Publisher, subscriber: Any, log: str, what: str
) -> None:
    peer = subscriber("c" * 5000 if what == "container" else None)
    name = "n" * 5000 if what == "name" else "sub"
    error = refused(peer, Condition.INVALID_FIELD, log, name, "durable")
    assert "is too long to be kept" in str(error.description)


@pytest.mark.clause("TS-1")
def test_the_longest_names_are_kept(publish: Publisher, subscriber: Any, log: str) -> None:
    peer = subscriber("c" * 4096)
    subscribe(peer, log, "ü" * 2048, "durable")
    publish(2)
    leave(peer)
    again = subscriber("c" * 4096)
    subscribe(again, log, "ü" * 2048, "durable")
    assert offsets(again.messages(2)) == [0, 1]


@pytest.mark.clause("TS-1")
def test_there_are_only_so_many_subscriptions(
    publish: Publisher, subscriber: Any, amqp_door: ListeningAmqp, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = subscriber()
    subscribe(peer, log, "one", "durable", credit=0)
    monkeypatch.setattr(amqp_door.amqp.consumers.subscriptions, "subscriptions_max", 1)
    error = refused(peer, Condition.RESOURCE_LIMIT_EXCEEDED, log, "two", "durable", handle=1)
    assert "as many subscriptions" in str(error.description)
    refused(peer, Condition.RESOURCE_LIMIT_EXCEEDED, log, "three", "shared", handle=1)
    leave(peer)
    subscribe(peer, log, "one", "durable")


@pytest.mark.clause("TS-3")
def test_a_shared_subscription_has_only_so_many_consumers(
    publish: Publisher, subscriber: Any, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.engine.subscriptions.CONSUMERS_MAX", 2)
    peer = subscriber()
    for handle in range(2):
        subscribe(peer, log, f"sub|{handle}", "shared", handle=handle, credit=0)
    refused(peer, Condition.RESOURCE_LIMIT_EXCEEDED, log, "sub|2", "shared", handle=2)


@pytest.mark.clause("TS-1")
def test_who_may_not_read_has_no_subscription_and_leaves_no_log_behind(
    subscriber: Any, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.add_user(f"user-{log}")
    amqp_door.permit(f"user-{log}", configure=".*", read="other")
    peer = subscriber(user=f"user-{log}", password="pencil")
    refused(peer, Condition.UNAUTHORIZED_ACCESS, log, "sub", "durable")
    amqp_door.permit(f"user-{log}", read=".*")
    refused(peer, Condition.UNAUTHORIZED_ACCESS, log, "sub", "durable")
    assert ("/", log) not in amqp_door.call(lambda: dict(amqp_door.store.logs))


@pytest.mark.clause("ES-3", "TS-1")
def test_a_filter_that_is_wrong_makes_neither_subscription_nor_log(
    subscriber: Any, amqp_door: ListeningAmqp, log: str
) -> None:
    peer = subscriber()
    refused(peer, Condition.INVALID_FIELD, log, "sub", "durable", filter=selecting("n >"))
    assert ("/", log) not in amqp_door.call(lambda: dict(amqp_door.store.logs))


# Taking over


@pytest.mark.clause("TS-6")
@pytest.mark.parametrize("words", [("durable",), ("durable", "global")])
def test_the_same_link_of_the_same_container_takes_itself_over(
    publish: Publisher, subscriber: Any, log: str, words: tuple[str, ...]
) -> None:
    name = f"sub-{log}"
    old, new = subscriber("same"), subscriber("same")
    subscribe(old, log, name, *words)
    publish(10)
    settle(old, old.messages(10)[:4])
    old.assert_nothing_came()
    subscribe(new, log, name, *words)
    old.assert_detaches(Condition.LINK_STOLEN)
    assert offsets(new.messages(6)) == list(range(4, 10))
    publish(1)
    assert offsets(new.messages(1)) == [10]


@pytest.mark.clause("TS-6")
def test_the_link_of_a_machine_that_lost_its_power_is_taken_over_too(
    publish: Publisher, subscriber: Any, log: str
) -> None:
    old, new = subscriber("same"), subscriber("same")
    subscribe(old, log, "sub", "durable", credit=5)
    publish(10)
    settle(old, old.messages(5)[:2])
    old.assert_nothing_came()
    old.vanish()
    subscribe(new, log, "sub", "durable")
    assert offsets(new.messages(8)) == list(range(2, 10))


@pytest.mark.clause("TS-6")
def test_two_attaches_of_one_name_at_once_leave_one_link(
    publish: Publisher, subscriber: Any, log: str
) -> None:
    peer = subscriber()
    attach = [
        Attach("sub", handle, Role.RECEIVER, source=source_of(log, "durable"), target=Target())
        for handle in range(2)
    ]
    peer.send(*attach)
    first, detach, second = peer.next().performative, peer.next().performative, peer.next().performative
    assert isinstance(first, Attach)
    assert isinstance(detach, Detach)
    assert detach.error is not None
    assert detach.error.condition == Condition.LINK_STOLEN
    assert isinstance(second, Attach)
    assert isinstance(second.source, Source)
    peer.send(Detach(0, closed=True))
    peer.credit(10, 1)
    publish(3)
    assert offsets(peer.messages(3)) == [0, 1, 2]


@pytest.mark.clause("TS-9")
@pytest.mark.parametrize("closed", [False, True])
def test_an_attach_and_its_detach_at_once_are_both_answered(
    publish: Publisher, subscriber: Any, log: str, closed: bool
) -> None:
    peer = subscriber()
    attach = Attach("sub", 0, Role.RECEIVER, source=source_of(log, "durable"), target=Target())
    peer.send(attach, Detach(0, closed=closed))
    assert isinstance(peer.next().performative, Attach)
    assert isinstance(peer.next().performative, Detach)
    publish(3)
    subscribe(peer, log, "sub", "durable")
    if closed:
        peer.assert_nothing_came()
    else:
        assert offsets(peer.messages(3)) == [0, 1, 2]


@pytest.mark.clause("TS-3", "TS-4")
def test_of_links_that_share_a_connection_has_one_of_each_name(
    publish: Publisher, subscriber: Any, log: str
) -> None:
    peer = subscriber()
    subscribe(peer, log, "sub", "shared", "durable")
    subscribe(peer, log, "sub|2", "shared", "durable", handle=1)
    peer.begin(1)
    attach = Attach("sub", 0, Role.RECEIVER, source=source_of(log, "shared", "durable"), target=Target())
    peer.send(attach, channel=1)
    stolen = peer.take(Detach)
    assert stolen.handle == 0
    assert stolen.error is not None
    assert stolen.error.condition == Condition.LINK_STOLEN
    assert isinstance(peer.take(Attach, 1).source, Source)
    peer.send(Detach(0, closed=True))
    publish(3)
    assert offsets(peer.messages(3)) == [0, 1, 2]


# Detach, end, close


@pytest.mark.clause("TS-9")
@pytest.mark.parametrize("words", [("durable",), ("durable", "global"), ("shared", "durable")])
def test_a_close_ends_a_durable_subscription(
    publish: Publisher, subscriber: Any, log: str, words: tuple[str, ...]
) -> None:
    name = f"sub-{log}"
    peer = subscriber()
    subscribe(peer, log, name, *words)
    publish(5)
    peer.messages(5)
    leave(peer, closed=True)
    publish(5)
    subscribe(peer, log, name, *words)
    peer.assert_nothing_came()
    publish(1)
    assert offsets(peer.messages(1)) == [10]


@pytest.mark.clause("TS-9")
@pytest.mark.parametrize("how", ["end", "close", "vanish"])
def test_a_durable_subscription_outlives_session_and_connection(
    publish: Publisher, subscriber: Any, log: str, how: str
) -> None:
    peer = subscriber("same")
    subscribe(peer, log, "sub", "durable")
    publish(5)
    peer.messages(5)
    if how == "end":
        peer.send(End())
        peer.until(End)
    elif how == "close":
        peer.send(Close())
        peer.until(Close)
    else:
        peer.vanish()
    publish(5)
    again = subscriber("same")
    subscribe(again, log, "sub", "durable")
    assert offsets(again.messages(10)) == list(range(10))


@pytest.mark.clause("TS-9")
def test_who_closes_one_of_several_that_share_leaves_the_subscription_to_the_others(
    publish: Publisher, subscriber: Any, log: str
) -> None:
    peer, other = subscriber("same"), subscriber("same")
    subscribe(peer, log, "sub|1", "shared", "durable", credit=5)
    subscribe(other, log, "sub|2", "shared", "durable", credit=0)
    publish(5)
    peer.messages(5)
    leave(peer, closed=True)
    other.credit(10)
    assert offsets(other.messages(5)) == list(range(5))
    publish(5)
    assert offsets(other.messages(5)) == list(range(5, 10))


@pytest.mark.clause("TS-11")
def test_nothing_comes_without_credit(publish: Publisher, subscriber: Any, log: str) -> None:
    peer = subscriber()
    subscribe(peer, log, "sub", "shared", "durable", credit=0)
    publish(5)
    peer.assert_nothing_came()
    peer.credit(2)
    assert offsets(peer.messages(2)) == [0, 1]
    peer.assert_nothing_came()
    peer.credit(2, delivery_count=2)
    assert isinstance(peer.next().performative, Transfer)

"""Topic subscriptions: the seven cases of the proposal, what names them, and what they are granted."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.amqp.messaging import Modified, Released, Source, TerminusDurability, TerminusExpiryPolicy
from headwater.encoding.amqp_types import Described, Symbol
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_subscriber import (
    GLOBAL,
    SHARED,
    TOPIC,
    Publisher,
    bodies,
    body,
    leave,
    offsets,
    settle,
    subscribe,
)
from tests.conformance.amqp_wire import FIRST, AmqpWire
from tests.conformance.conftest import ConnectAmqp

DURABLE = (TerminusDurability.UNSETTLED_STATE, TerminusExpiryPolicy.NEVER)
NOT_DURABLE = (TerminusDurability.NONE, TerminusExpiryPolicy.LINK_DETACH)
SELECTOR = Symbol("apache.org:selector-filter:string")


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


def source_granted(peer: AmqpWire, log: str, name: str, *words: str, **fields: Any) -> Source:
    source = subscribe(peer, log, name, *words, **fields).source
    assert isinstance(source, Source)
    return source


# The cases


@pytest.mark.clause("TS-5")
def test_a_of_receivers_that_are_neither_shared_nor_durable_each_gets_all_and_nothing_is_kept(
    publish: Publisher, subscriber: Any, log: str
) -> None:
    one, two = subscriber("same"), subscriber("same")
    subscribe(one, log, "one")
    subscribe(two, log, "two")
    publish(10)
    assert offsets(one.messages(10)) == offsets(two.messages(10)) == list(range(10))
    leave(one)
    publish(10)
    subscribe(one, log, "one")
    one.assert_nothing_came()
    publish(1)
    assert offsets(one.messages(1)) == [20]


@pytest.mark.clause("TS-6", "TS-9")
@pytest.mark.parametrize(("words", "again"), [(("durable",), "same"), (("durable", "global"), "another")])
def test_b_and_c_a_durable_subscription_keeps_what_comes_while_nobody_is_attached(
    publish: Publisher, subscriber: Any, log: str, words: tuple[str, ...], again: str
) -> None:
    name = f"sub-{log}"
    peer = subscriber("same")
    publish(5)
    subscribe(peer, log, name, *words)
    publish(5)
    came = peer.messages(5)
    assert offsets(came) == [5, 6, 7, 8, 9]
    settle(peer, came[:3])
    leave(peer)
    publish(5)
    later = subscriber(again)
    subscribe(later, log, name, *words)
    assert offsets(later.messages(7)) == list(range(8, 15))
    later.assert_nothing_came()


@pytest.mark.clause("TS-3", "TS-7")
@pytest.mark.parametrize(("words", "other"), [(("shared",), "same"), (("shared", "global"), "another")])
def test_d_and_e_a_shared_subscription_divides_and_is_gone_with_its_last_consumer(
    publish: Publisher, subscriber: Any, log: str, words: tuple[str, ...], other: str
) -> None:
    name = f"sub-{log}"
    one, two = subscriber("same"), subscriber(other)
    subscribe(one, log, name, *words)
    subscribe(two, log, f"{name}|2", *words)
    publish(20)
    first, second = one.messages(10), two.messages(10)
    assert sorted(offsets(first) + offsets(second)) == list(range(20))
    settle(one, first)
    leave(one)
    publish(10)
    assert offsets(two.messages(10)) == list(range(20, 30))
    leave(two)
    publish(10)
    subscribe(one, log, name, *words)
    one.assert_nothing_came()
    publish(1)
    assert offsets(one.messages(1)) == [40]


@pytest.mark.clause("TS-3", "TS-8", "TS-9")
@pytest.mark.parametrize(
    ("words", "other"), [(("shared", "durable"), "same"), (("shared", "durable", "global"), "another")]
)
def test_f_and_g_a_shared_durable_subscription_divides_and_stays_when_all_have_detached(
    publish: Publisher, subscriber: Any, log: str, words: tuple[str, ...], other: str
) -> None:
    name = f"sub-{log}"
    one, two = subscriber("same"), subscriber(other)
    subscribe(one, log, name, *words)
    subscribe(two, log, f"{name}|2", *words)
    publish(20)
    first, second = one.messages(10), two.messages(10)
    assert sorted(offsets(first) + offsets(second)) == list(range(20))
    settle(one, first)
    settle(two, second)
    leave(one)
    leave(two)
    publish(10)
    subscribe(two, log, name, *words)
    assert offsets(two.messages(10)) == list(range(20, 30))


@pytest.mark.clause("TS-1", "TS-3", "TS-4")
@pytest.mark.parametrize("words", [("shared",), ("shared", "global"), ("shared", "durable")])
def test_consumers_of_one_link_name_on_several_connections_share_too(
    publish: Publisher, subscriber: Any, log: str, words: tuple[str, ...]
) -> None:
    name = f"sub-{log}"
    peers = [subscriber("same") for _ in range(3)]
    for peer in peers:
        subscribe(peer, log, name, *words)
    publish(30)
    assert sorted(each for peer in peers for each in offsets(peer.messages(10))) == list(range(30))
    for peer in peers:
        peer.assert_nothing_came()


# What names a subscription


@pytest.mark.clause("TS-1", "TS-2")
def test_another_container_another_name_or_another_log_is_another_subscription(
    publish: Publisher, subscriber: Any, log: str
) -> None:
    peers = [subscriber("one"), subscriber("two"), subscriber("one")]
    for peer, name in zip(peers, ("sub", "sub", "other"), strict=True):
        subscribe(peer, log, name, "durable")
    subscribe(peers[0], f"{log}-more", "sub|on another log", "durable", handle=1)
    publish(10)
    for peer in peers:
        assert offsets(peer.messages(10)) == list(range(10))
        peer.assert_nothing_came()


@pytest.mark.clause("TS-4")
def test_link_names_count_up_to_the_first_bar(publish: Publisher, subscriber: Any, log: str) -> None:
    peer = subscriber()
    for handle, name in enumerate(("sub|a", "sub|b|c", "sub|", "sub")):
        subscribe(peer, log, name, "shared", "durable", handle=handle, credit=0)
    subscribe(peer, log, "su|b", "shared", "durable", handle=4, credit=0)
    for handle in range(5):
        peer.credit(1, handle)
    publish(8)
    came = peer.messages(5)
    assert sorted(offsets(came)) == [0, 0, 1, 2, 3]


@pytest.mark.clause("TS-4")
def test_names_that_begin_with_a_bar_are_of_one_subscription_without_a_name(
    publish: Publisher, subscriber: Any, log: str
) -> None:
    peer = subscriber()
    for handle, name in enumerate(("|a", "|b")):
        subscribe(peer, log, name, "shared", handle=handle)
    publish(10)
    assert sorted(offsets(peer.messages(10))) == list(range(10))


@pytest.mark.clause("TS-1", "TS-2")
def test_another_user_has_subscriptions_of_its_own_but_for_global_ones(
    publish: Publisher, subscriber: Any, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.add_user(f"user-{log}")
    amqp_door.permit(f"user-{log}", read=".*")
    mine, theirs = subscriber("same"), subscriber("same", user=f"user-{log}", password="pencil")
    for peer in (mine, theirs):
        subscribe(peer, log, "own", "shared", "durable", credit=0)
        subscribe(peer, log, f"global-{log}", "shared", "durable", "global", handle=1, credit=0)
    publish(10)
    for peer in (mine, theirs):
        peer.credit(100, 0)
        assert offsets(peer.messages(10)) == list(range(10))
        peer.credit(5, 1)
    assert sorted(offsets(mine.messages(5)) + offsets(theirs.messages(5))) == list(range(10))


@pytest.mark.clause("TS-6")
def test_a_name_kept_by_one_case_is_not_taken_by_a_plain_receiver_elsewhere(
    publish: Publisher, subscriber: Any, log: str
) -> None:
    durable, plain = subscriber("one"), subscriber("two")
    subscribe(durable, log, "sub", "durable")
    subscribe(plain, log, "sub")
    publish(3)
    assert offsets(durable.messages(3)) == offsets(plain.messages(3)) == [0, 1, 2]


# What is granted


@pytest.mark.clause("TS-13")
@pytest.mark.parametrize(
    ("words", "lasting"),
    [
        (("durable",), DURABLE),
        (("durable", "global"), DURABLE),
        (("shared",), NOT_DURABLE),
        (("shared", "global"), NOT_DURABLE),
        (("shared", "durable"), DURABLE),
        (("shared", "durable", "global"), DURABLE),
    ],
)
def test_the_answer_shows_the_source_as_it_was_granted(
    publish: Publisher, subscriber: Any, log: str, words: tuple[str, ...], lasting: tuple[Any, Any]
) -> None:
    asked = [Symbol(word) for word in words if word != "durable"]
    capabilities = (TOPIC, Symbol("DELAYED_DELIVERY"), *asked)
    source = source_granted(subscriber(), log, f"sub-{log}", *words, capabilities=capabilities)
    assert source.address == log
    assert (source.durable, source.expiry_policy) == lasting
    assert source.capabilities == (TOPIC, *asked)
    assert source.outcomes == tuple(
        Symbol(f"amqp:{name}:list") for name in ("accepted", "rejected", "released", "modified")
    )


@pytest.mark.clause("TS-13")
def test_capabilities_of_what_it_is_not_are_not_granted(
    publish: Publisher, subscriber: Any, log: str
) -> None:
    source = source_granted(subscriber(), log, "sub", capabilities=(GLOBAL, TOPIC))
    assert source.capabilities == (TOPIC,)


@pytest.mark.clause("TS-13")
@pytest.mark.parametrize("words", [("durable",), ("shared",)])
@pytest.mark.parametrize("asked", [None, Released(), Modified(delivery_failed=True)])
def test_the_default_outcome_is_told_and_is_released_unless_the_client_names_another(
    publish: Publisher, subscriber: Any, log: str, words: tuple[str, ...], asked: Any
) -> None:
    source = source_granted(subscriber(), log, "sub", *words, default_outcome=asked)
    assert source.default_outcome == (asked or Released())


@pytest.mark.clause("TS-12", "TS-13")
@pytest.mark.parametrize(
    ("words", "asked", "granted"),
    [
        (("shared",), "copy", "move"),
        (("shared", "durable"), "move", "move"),
        (("durable",), "move", "copy"),
        ((), "copy", "copy"),
        ((), "move", "copy"),
        (("shared",), None, None),
    ],
)
def test_messages_are_moved_to_one_of_those_that_share_and_copied_to_all_others(
    publish: Publisher, subscriber: Any, log: str, words: tuple[str, ...], asked: str | None, granted: str
) -> None:
    mode = None if asked is None else Symbol(asked)
    source = source_granted(subscriber(), log, "sub", *words, distribution_mode=mode)
    assert source.distribution_mode == granted


@pytest.mark.clause("TS-13", "ES-28")
def test_the_filter_in_force_is_told_and_what_is_unknown_is_not(
    publish: Publisher, subscriber: Any, log: str
) -> None:
    selector = {SELECTOR: Described(SELECTOR, "n > 3")}
    filters = {**selector, Symbol("x"): Described(Symbol("vendor:filter"), "y")}
    assert source_granted(subscriber(), log, "sub", "shared", "durable", filter=filters).filter == selector


# Where it begins


@pytest.mark.clause("ES-3", "TS-6")
def test_a_subscription_begins_with_what_is_accepted_from_its_attach_on_or_where_a_filter_says(
    publish: Publisher, subscriber: Any, log: str
) -> None:
    publish(5)
    peer = subscriber()
    subscribe(peer, log, "new", "durable")
    peer.assert_nothing_came()
    subscribe(peer, log, "all", "shared", "durable", handle=1, filter=FIRST)
    came = peer.messages(5)
    assert bodies(came) == [body(number) for number in range(5)]


@pytest.mark.clause("TS-8")
@pytest.mark.parametrize("words", [("durable",), ("shared",), ("shared", "durable")])
def test_a_log_that_is_not_there_yet_is_made_for_a_subscription(
    subscriber: Any, amqp_door: ListeningAmqp, log: str, words: tuple[str, ...]
) -> None:
    peer = subscriber()
    subscribe(peer, log, "sub", *words)
    assert amqp_door.counts(log) == [0]
    Publisher(subscriber(), log)(3)
    assert offsets(peer.messages(3)) == [0, 1, 2]


@pytest.mark.clause("TS-3")
def test_all_partitions_of_a_log_are_subscribed_to_and_new_ones_too(
    subscriber: Any, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 3)
    peer, writer = subscriber(), subscriber()
    subscribe(peer, log, "sub", "shared", "durable")
    for number in range(3):
        writer.sender(f"{log}-{number}", handle=number)
        writer.publish([body(number)] * 2, first_id=2 * number, handle=number)
    came = peer.messages(6)
    assert sorted((each.partition, each.offset) for each in came) == [
        (str(number), offset) for number in range(3) for offset in range(2)
    ]
    settle(peer, came)
    leave(peer)
    writer.publish([body(7)], first_id=6, handle=1)
    subscribe(peer, log, "sub", "shared", "durable")
    assert [(each.partition, each.offset) for each in peer.messages(1)] == [("1", 2)]


@pytest.mark.clause("TS-13")
def test_a_source_asks_for_shared_letter_by_letter_as_old_examples_do(
    publish: Publisher, subscriber: Any, log: str
) -> None:
    letters = tuple(Symbol(letter) for letter in "shared")
    source = source_granted(subscriber(), log, "sub", capabilities=letters)
    assert source.capabilities == (SHARED,)

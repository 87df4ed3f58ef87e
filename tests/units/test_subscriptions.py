"""The registry of subscriptions: the seven cases, the refusals, and when a subscription ends."""

from __future__ import annotations

import tracemalloc
from typing import Any

import msgspec
import pytest

from headwater.engine.cursor_flushes import CursorFlushes
from headwater.engine.cursor_record import decode_position
from headwater.engine.delivery import Outcome
from headwater.engine.link_id import LinkId
from headwater.engine.state_record import Delete, Put, unowned
from headwater.engine.subscription_record import Expiry, Kind, decode_definition
from headwater.engine.subscriptions import (
    REATTACH_MS,
    Attach,
    Departure,
    Ended,
    Granted,
    NotASubscription,
    Refusal,
    Refused,
    Reset,
    Stolen,
    Subscriptions,
    Woken,
)
from headwater.engine.topic_subscription import TopicSubscription


class Node:
    """The registry, and a `$state` that keeps every record."""

    def __init__(self) -> None:
        self.flushes: CursorFlushes[str, str] = CursorFlushes()
        self.all: Subscriptions[str] = Subscriptions(self.flushes)
        self.state: dict[bytes, bytes] = {}
        self.now_ms = 0

    def did(self, effects: list[Any]) -> list[Any]:
        for effect in effects:
            if isinstance(effect, Put):
                self.state[effect.key] = effect.value
            elif isinstance(effect, Delete):
                del self.state[effect.key]
        return [effect for effect in effects if not isinstance(effect, Put | Delete)]

    def attach(self, consumer: str, link: str = "s", container: str = "c1", **asked: Any) -> Any:
        id_ = LinkId(container, link, asked.pop("user", "ann"))
        attach = Attach("/", asked.pop("log", "orders"), 7, id_, **asked)
        return self.did(self.all.attach(consumer, attach, {0: 10}))

    def depart(self, consumer: str, how: Departure) -> list[Any]:
        return self.did(self.all.depart(consumer, how, self.now_ms))

    def granted(self, consumer: str, *args: str, **asked: Any) -> TopicSubscription[str]:
        (effect,) = self.attach(consumer, *args, **asked)
        assert isinstance(effect, Granted)
        return effect.subscription

    def flush(self) -> None:
        for flush in self.flushes.begin(1000):
            self.state[flush.key] = flush.value
            self.flushes.done(flush)

    def restart(self, ends: dict[int, int] | None = None) -> Node:
        node = Node()
        node.state, node.now_ms = self.state, self.now_ms
        definitions = [decode_definition(value) for key, value in self.state.items() if key[:4] == b"subs"]
        cursors = {key: decode_position(value) for key, value in self.state.items() if key[:4] == b"curs"}
        assert unowned(cursors, [definition.id.digest for definition in definitions]) == []
        for definition in definitions:
            digest = definition.id.digest
            positions = {
                int.from_bytes(key[-4:], "big"): position
                for key, position in cursors.items()
                if digest in key
            }
            node.did(node.all.restore(definition, positions, ends or {0: 100}, self.now_ms))
        return node


DURABLE: dict[str, Any] = {"is_durable": True}
SHARED: dict[str, Any] = {"is_shared": True}
BOTH: dict[str, Any] = {"is_durable": True, "is_shared": True}
GLOBAL: dict[str, Any] = {"is_global": True}


def test_a_neither_shared_nor_durable_is_no_subscription() -> None:
    node = Node()
    assert node.attach("a") == [NotASubscription("a")]
    assert node.attach("b") == [NotASubscription("b")]
    assert node.state == {}


@pytest.mark.parametrize("scope", [{}, GLOBAL], ids=["b", "c"])
def test_b_and_c_a_durable_one_keeps_its_place_while_nobody_is_attached(scope: dict[str, Any]) -> None:
    node = Node()
    subscription = node.granted("a", **DURABLE, **scope)
    subscription.deal({"a": 5}, {0: 100})
    subscription.settle("a", 0, 10, 13, Outcome.ACCEPTED)
    assert node.depart("a", Departure.CONNECTION_CLOSE) == []
    node.flush()
    (effect,) = node.restart().attach("b", **DURABLE, **scope)
    assert not effect.is_new
    (deal,) = effect.subscription.deal({"b": 9}, {0: 100})
    assert [(each.run.first, each.run.end) for each in deal.runs] == [(13, 15), (15, 22)]


def test_c_a_global_one_is_the_same_from_any_container_and_b_is_not() -> None:
    node = Node()
    node.granted("a", **DURABLE)
    assert node.granted("b", "s", "c2", **DURABLE).definition.id.container == "c2"
    node.granted("c", "s", "c1", **DURABLE, **GLOBAL)
    assert node.attach("d", "s", "c2", **DURABLE, **GLOBAL) == [Refused("d", Refusal.IN_USE)]


@pytest.mark.parametrize("scope", [{}, GLOBAL], ids=["d", "e"])
def test_d_and_e_a_shared_one_ends_with_its_last_consumer(scope: dict[str, Any]) -> None:
    node = Node()
    subscription = node.granted("a", "s|1", **SHARED, **scope)
    assert node.granted("b", "s|2", **SHARED, **scope) is subscription
    assert node.depart("a", Departure.CLOSE) == []
    assert node.depart("b", Departure.DETACH) == [Ended(subscription, ())]
    assert node.state == {}
    assert node.flushes.begin(9) == []
    assert node.granted("c", **SHARED, **scope) is not subscription


@pytest.mark.parametrize("scope", [{}, GLOBAL], ids=["f", "g"])
def test_f_and_g_a_shared_durable_one_survives_its_consumers_and_a_restart(scope: dict[str, Any]) -> None:
    node = Node()
    node.granted("a", "s|1", **BOTH, **scope)
    node.granted("b", "s|2", **BOTH, **scope)
    assert node.depart("a", Departure.CLOSE) == []
    assert node.depart("b", Departure.DETACH) == []
    node = node.restart()
    subscription = node.granted("c", **BOTH, **scope)
    assert node.depart("c", Departure.CLOSE) == [Ended(subscription, ())]
    assert node.state == {}


def test_the_same_link_from_elsewhere_joins_a_shared_one() -> None:
    node = Node()
    assert node.granted("a", **BOTH) is node.granted("b", **BOTH)


def test_the_same_link_from_elsewhere_takes_its_own_durable_one_over() -> None:
    node = Node()
    subscription = node.granted("a", **DURABLE)
    subscription.deal({"a": 3}, {0: 100})
    stolen, granted = node.attach("b", **DURABLE)
    assert (stolen, granted.consumer) == (Stolen("a"), "b")
    (deal,) = subscription.deal({"b": 3}, {0: 100})
    assert [(each.run.first, each.run.delivery_count) for each in deal.runs] == [(10, 1)]
    assert node.depart("a", Departure.CLOSE) == []
    assert list(subscription.consumers) == ["b"]


def test_another_link_to_a_durable_one_is_refused() -> None:
    node = Node()
    node.granted("a", "s|1", **DURABLE)
    assert node.attach("b", "s|2", **DURABLE) == [Refused("b", Refusal.IN_USE)]
    node.depart("a", Departure.DETACH)
    node.granted("b", "s|2", **DURABLE)


@pytest.mark.parametrize("first", [DURABLE, SHARED, BOTH])
@pytest.mark.parametrize("second", [{}, DURABLE, SHARED, BOTH])
def test_other_properties_are_refused(first: dict[str, Any], second: dict[str, Any]) -> None:
    node = Node()
    node.granted("a", **first)
    if first != second:
        assert node.attach("b", **second) == [Refused("b", Refusal.OTHER_PROPERTIES)]


def test_another_filter_is_refused_and_another_log_is_another_subscription() -> None:
    node = Node()
    one = node.granted("a", **BOTH, filter=b"colour = 'red'")
    assert node.attach("b", **BOTH) == [Refused("b", Refusal.OTHER_FILTER)]
    assert node.granted("b", **BOTH, log="bills") is not one


def test_a_terminus_keeps_its_place_whatever_filter_comes_again() -> None:
    node = Node()
    terminus = node.granted("a", "s|1", **DURABLE, kind=Kind.TERMINUS, filter=b"@earliest", bound_partition=0)
    node.depart("a", Departure.DETACH)
    node = node.restart()
    again = node.granted("b", "s|1", **DURABLE, filter=b"@latest")
    assert again.definition == msgspec.structs.replace(terminus.definition, filter=b"@latest")
    assert node.restart().granted("c", "s|2", **DURABLE).definition.id.kind is Kind.SUBSCRIPTION
    node.depart("b", Departure.DETACH)
    assert node.attach("d", "s|1", **DURABLE, bound_partition=1) == [Refused("d", Refusal.OTHER_PROPERTIES)]


@pytest.mark.parametrize(
    ("expiry", "how"),
    [
        (Expiry.LINK_DETACH, Departure.DETACH),
        (Expiry.SESSION_END, Departure.SESSION_END),
        (Expiry.CONNECTION_CLOSE, Departure.CONNECTION_CLOSE),
    ],
)
def test_the_time_out_runs_from_what_the_expiry_policy_names(expiry: Expiry, how: Departure) -> None:
    node = Node()
    node.now_ms = 1000
    subscription = node.granted("a", **DURABLE, expiry=expiry, timeout_ms=500)
    for earlier in Departure:
        if earlier < how:
            assert node.depart("a", earlier) == []
            assert node.all.next_expiry_ms is None
    assert node.depart("a", how) == []
    assert node.all.next_expiry_ms == 1500
    assert node.did(node.all.expire(1499)) == []
    assert node.did(node.all.expire(1500)) == [Ended(subscription, ())]
    assert not node.state
    assert node.all.next_expiry_ms is None


def test_a_consumer_that_comes_back_in_time_stops_the_time_out() -> None:
    node = Node()
    node.granted("a", **DURABLE, expiry=Expiry.SESSION_END, timeout_ms=500)
    node.depart("a", Departure.SESSION_END)
    node.granted("b", **DURABLE, expiry=Expiry.SESSION_END, timeout_ms=500)
    assert node.did(node.all.expire(10_000)) == []
    node.depart("b", Departure.DETACH)
    node.granted("c", **DURABLE, expiry=Expiry.SESSION_END)
    assert node.depart("b", Departure.SESSION_END) == []
    assert node.all.next_expiry_ms is None


def test_without_a_time_out_the_end_is_at_once_and_after_a_restart_everybody_has_left() -> None:
    node = Node()
    node.granted("a", **DURABLE, expiry=Expiry.CONNECTION_CLOSE, timeout_ms=50)
    node.now_ms = 100
    again = node.restart()
    assert again.all.next_expiry_ms == 150
    subscription = node.granted("b", "t", **DURABLE, expiry=Expiry.LINK_DETACH)
    assert node.depart("b", Departure.DETACH) == [Ended(subscription, ())]


def test_unsubscribing_finds_durable_ones_of_the_name_and_refuses_those_in_use() -> None:
    node = Node()
    one, other = node.granted("a", "s|x", **BOTH), node.granted("b", **BOTH, log="bills")
    node.granted("c", **DURABLE, **GLOBAL)
    node.granted("d", "t", **SHARED)
    assert node.all.to_end("/", LinkId("c1", "s|9", "ann"), is_global=False) is Refusal.IN_USE
    node.depart("a", Departure.DETACH)
    node.depart("b", Departure.DETACH)
    assert node.all.to_end("/", LinkId("c1", "s|9", "ann"), is_global=False) == [one, other]
    assert node.all.to_end("/", LinkId("c2", "s", "ann"), is_global=False) is Refusal.UNKNOWN
    assert node.all.to_end("/", LinkId("c1", "t", "ann"), is_global=False) is Refusal.UNKNOWN
    assert node.did(node.all.end(one.definition.id)) == [Ended(one, ())]
    assert node.all.end(one.definition.id) == []
    assert node.all.to_end("/", LinkId("c1", "s", "ann"), is_global=False) == [other]


def test_the_same_names_of_another_user_are_another_subscription_unless_it_is_global() -> None:
    node = Node()
    own = node.granted("a", **DURABLE)
    assert node.granted("b", user="eve", **DURABLE) is not own
    assert node.all.to_end("/", LinkId("c1", "s", "bob"), is_global=False) is Refusal.UNKNOWN
    of_all = node.granted("c", **BOTH, **GLOBAL)
    assert node.granted("d", user="eve", **BOTH, **GLOBAL) is of_all


def test_a_deleted_log_ends_its_subscriptions_with_those_who_are_on_them() -> None:
    node = Node()
    one = node.granted("a", **BOTH)
    node.granted("b", **BOTH)
    other = node.granted("c", **BOTH, log="bills")
    assert node.did(node.all.log_deleted("/", "orders")) == [Ended(one, ("a", "b"))]
    assert node.depart("a", Departure.CONNECTION_CLOSE) == []
    assert list(node.all.on_log("/", "bills")) == [other]


def test_a_log_that_grows_gives_its_partitions_to_all_but_those_bound_to_one() -> None:
    node = Node()
    one = node.granted("a", **BOTH)
    other = node.granted("b", "t", **DURABLE, kind=Kind.TERMINUS, bound_partition=0)
    assert node.did(node.all.log_changed("/", "orders", dict.fromkeys([0, 1, 2], 0))) == [Woken(one)]
    assert (sorted(one.cursors.by_partition), sorted(other.cursors.by_partition)) == ([0, 1, 2], [0])
    assert one.cursors.by_partition[2].low == 0


def test_a_partition_that_goes_ends_what_is_bound_to_it_and_leaves_the_rest_to_the_others() -> None:
    node = Node()
    one = node.granted("a", **BOTH)
    bound = node.granted("b", "t", **DURABLE, kind=Kind.TERMINUS, bound_partition=0)
    far = 1 << 31
    node.did(node.all.log_changed("/", "orders", dict.fromkeys([0, far], 0)))
    one.deal({"a": 9}, {0: 14, far: 5})
    one.settle("a", 0, 10, 12, Outcome.ACCEPTED)
    node.flush()
    assert node.did(node.all.log_changed("/", "orders", dict.fromkeys([far], 0))) == [
        Woken(one),
        Ended(bound, ("b",)),
    ]
    assert node.did(node.all.log_changed("/", "orders", dict.fromkeys([far], 0))) == []
    assert len(node.state) == 2
    assert node.depart("b", Departure.CLOSE) == []
    assert one.settle("a", 0, 12, 14, Outcome.ACCEPTED) == 0
    assert one.deal({"a": 9}, {far: 7})[0].runs[0].partition == far
    assert node.did(node.all.log_changed("/", "orders", {0: 7, far: 0})) == [Woken(one)]
    assert (one.cursors.by_partition[0].next_offset, one.cursors.lost_count) == (7, 0)


def test_a_restart_that_finds_partitions_gone_removes_what_was_of_them() -> None:
    node = Node()
    node.granted("a", **BOTH)
    node.granted("b", "t", **DURABLE, kind=Kind.TERMINUS, bound_partition=0)
    again = node.restart(ends={3: 50})
    (left,) = again.all.on_log("/", "orders")
    assert list(left.cursors.by_partition) == [3]
    assert [key[:4] for key in again.state] == [b"subs"]
    assert decode_definition(*again.state.values()) == left.definition


def test_retention_is_held_back_by_durable_ones_up_to_the_limit_and_loss_is_counted() -> None:
    node = Node()
    assert node.all.retention_floor("/", "orders", 0, 5) is None
    node.granted("s", "v", **SHARED)
    assert node.all.retention_floor("/", "orders", 0, 5) is None
    subscription = node.granted("a", **DURABLE)
    assert node.all.retention_floor("/", "orders", 0, 5) == 10
    assert node.all.retention_floor("/", "orders", 0, 30) == 30
    assert node.all.retention_floor("/", "orders", 1, 30) is None
    lost = node.all.overtaken("/", "orders", 0, 30)
    assert lost[subscription.definition.id] == subscription.cursors.lost_count == 20


def test_messages_of_a_consumer_that_goes_wake_the_others() -> None:
    node = Node()
    subscription = node.granted("a", "s|1", **BOTH)
    node.granted("b", "s|2", **BOTH)
    subscription.deal({"a": 1}, {0: 100})
    assert node.depart("a", Departure.SESSION_END) == [Woken(subscription)]
    assert node.depart("b", Departure.SESSION_END) == []


def test_names_filters_and_numbers_have_bounds() -> None:
    node = Node()
    node.all.subscriptions_max = 1
    assert node.attach("a", "x" * 5000, **DURABLE) == [Refused("a", Refusal.NAME_TOO_LONG)]
    assert node.attach("a", filter=b"x" * 70_000, **DURABLE) == [Refused("a", Refusal.NAME_TOO_LONG)]
    node.granted("a", **BOTH)
    assert node.attach("b", "t", **DURABLE) == [Refused("b", Refusal.TOO_MANY)]


def test_a_subscription_is_on_disk_only_with_its_cursors() -> None:
    node = Node()
    attach = Attach("/", "orders", 7, LinkId("c", "s"), is_durable=True)
    effects = node.all.attach("a", attach, {0: 3, 1: 4})
    assert [type(effect) for effect in effects] == [Put, Put, Put, Granted]
    assert [effect.key[:4] for effect in effects if isinstance(effect, Put)] == [b"curs", b"curs", b"subs"]
    ended = node.all.depart("a", Departure.CLOSE, 0)
    assert [effect.key[:4] for effect in ended if isinstance(effect, Delete)] == [b"subs", b"curs", b"curs"]


@pytest.mark.parametrize("is_used", [False, True])
def test_ten_thousand_idle_durable_subscriptions_cost_20_megabytes_at_most(is_used: bool) -> None:
    flushes: CursorFlushes[str, str] = CursorFlushes()
    subscriptions: Subscriptions[str] = Subscriptions(flushes)
    tracemalloc.start()
    try:
        for number in range(2_000):
            attach = Attach(
                "/", "orders", 7, LinkId(f"container-{number}", "a subscription", "ann"), **DURABLE
            )
            consumer = f"consumer-{number}"
            *_, granted = subscriptions.attach(consumer, attach, {0: 10})
            assert isinstance(granted, Granted)
            if is_used:
                granted.subscription.deal({consumer: 10}, {0: 100})
                granted.subscription.settle(consumer, 0, 10, 20, Outcome.ACCEPTED)
            subscriptions.depart(consumer, Departure.DETACH, 0)
        while begun := flushes.begin(100):
            for flush in begun:
                flushes.done(flush)
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert used * 5 < 20_000_000


def test_a_reset_goes_on_from_elsewhere_ends_the_links_and_survives_a_restart() -> None:
    node = Node()
    subscription = node.granted("a", "s|1", **BOTH)
    node.granted("b", "s|2", **BOTH)
    subscription.deal({"a": 10, "b": 10}, {0: 100})
    node.flush()
    effects = node.did(node.all.reset(subscription.definition.id, {0: 5}, node.now_ms))
    assert effects == [Reset("a"), Reset("b")]
    assert not subscription.consumers
    # The links go as they are told to, and that changes nothing any more.
    assert node.depart("a", Departure.DETACH) == []
    restarted = node.restart().granted("c", "s|1", **BOTH)
    for each, ends in ((restarted, 5), (subscription, 5)):
        cursor = each.cursors.by_partition[0]
        assert (cursor.low, cursor.next_offset, cursor.unsettled_count, cursor.due_count) == (ends, 5, 0, 0)


def test_a_subscription_that_expires_waits_for_consumers_that_a_reset_sent_away() -> None:
    node = Node()
    subscription = node.granted("a", **DURABLE, expiry=Expiry.LINK_DETACH)
    node.did(node.all.reset(subscription.definition.id, {0: 5}, node.now_ms))
    node.depart("a", Departure.DETACH)
    assert node.all.next_expiry_ms == node.now_ms + REATTACH_MS
    assert node.granted("a", **DURABLE, expiry=Expiry.LINK_DETACH) is subscription
    assert node.all.next_expiry_ms is None


def test_a_subscription_is_found_by_what_stands_for_it_in_keys_as_long_as_it_is_there() -> None:
    node = Node()
    subscription = node.granted("a", **DURABLE)
    digest = subscription.definition.id.digest
    assert node.all.with_digest(digest) is subscription
    assert (list(node.all), len(node.all)) == ([subscription], 1)
    node.did(node.all.end(subscription.definition.id))
    assert (node.all.with_digest(digest), len(node.all)) == (None, 0)

"""How the messages of a shared subscription are divided."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.cursor import CursorLimits
from headwater.engine.cursor_flushes import CursorFlushes
from headwater.engine.delivery import Outcome, Run
from headwater.engine.link_id import LinkId
from headwater.engine.subscription_record import Definition, SubscriptionId
from headwater.engine.topic_subscription import DEAL_COUNT_MAX, Deal, TopicSubscription

DEFINITION = Definition(SubscriptionId("/", "orders", None, "s"), is_shared=True)


def subscription_of(consumers: str, partitions: int = 1) -> TopicSubscription[str]:
    flushes: CursorFlushes[str, str] = CursorFlushes()
    subscription = TopicSubscription(DEFINITION, CursorLimits(), flushes)
    for partition in range(partitions):
        subscription.cursors.begin(partition, 0)
    for consumer in consumers:
        subscription.join(consumer, LinkId(consumer, "s"))
    return subscription


def counts(deals: list[Deal[str]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for deal in deals:
        found[deal.consumer] += sum(each.run.end - each.run.first for each in deal.runs)
    return dict(found)


def test_messages_are_divided_evenly_between_those_with_credit() -> None:
    subscription = subscription_of("abc")
    assert counts(subscription.deal({"a": 100, "b": 100, "c": 0}, {0: 10})) == {"a": 5, "b": 5}


def test_nobody_gets_more_than_its_credit_and_the_rest_goes_to_the_others() -> None:
    subscription = subscription_of("abc")
    assert counts(subscription.deal({"a": 1, "b": 2, "c": 100}, {0: 30})) == {"a": 1, "b": 2, "c": 27}


def test_messages_that_come_one_by_one_go_round() -> None:
    subscription = subscription_of("abc")
    got = [subscription.deal(dict.fromkeys("abc", 9), {0: end})[0].consumer for end in range(1, 7)]
    assert got == list("abcabc")


def test_one_deal_ends_before_others_wait_for_long() -> None:
    subscription = subscription_of("a")
    assert counts(subscription.deal({"a": 1_000_000}, {0: 1_000_000})) == {"a": DEAL_COUNT_MAX}


def test_partitions_take_turns() -> None:
    subscription = subscription_of("a", 3)
    ends = {0: 100, 1: 100, 2: 100}
    first = [subscription.deal({"a": 1}, ends)[0].runs[0].partition for _ in range(6)]
    assert sorted(first[:3]) == [0, 1, 2]
    assert first[:3] == first[3:]


def test_what_a_vanished_consumer_held_goes_to_the_others() -> None:
    subscription = subscription_of("ab")
    subscription.deal({"a": 5}, {0: 5})
    subscription.settle("a", 0, 0, 2, Outcome.ACCEPTED)
    assert subscription.leave("a")
    (deal,) = subscription.deal({"b": 9}, {0: 5})
    assert [(deal.consumer, each.run) for each in deal.runs] == [("b", Run(2, 5, 1))]
    assert not subscription.leave("b")


def test_a_message_that_one_cannot_take_goes_to_another() -> None:
    subscription = subscription_of("ab")
    subscription.deal({"a": 1}, {0: 1})
    subscription.settle("a", 0, 0, 1, Outcome.FAILED, is_undeliverable_here=True)
    assert subscription.deal({"a": 1}, {0: 1}) == []
    assert counts(subscription.deal({"a": 1, "b": 1}, {0: 1})) == {"b": 1}


@given(
    st.dictionaries(st.sampled_from("abcde"), st.integers(0, 40), min_size=1),
    st.lists(st.integers(0, 60), min_size=1, max_size=3),
)
def test_all_that_credit_allows_is_dealt_and_nothing_twice(credit: dict[str, int], ends: list[int]) -> None:
    subscription = subscription_of("".join(sorted(credit)), len(ends))
    left, got = dict(credit), list[tuple[int, int]]()
    while deals := subscription.deal(left, dict(enumerate(ends))):
        for deal in deals:
            for each in deal.runs:
                got += [(each.partition, offset) for offset in range(each.run.first, each.run.end)]
                left[deal.consumer] -= each.run.end - each.run.first
    assert len(got) == len(set(got)) == min(sum(credit.values()), sum(ends))
    assert all(count >= 0 for count in left.values())
    for partition in range(len(ends)):
        assert [offset for number, offset in got if number == partition] == list(
            range(sum(number == partition for number, _ in got))
        )

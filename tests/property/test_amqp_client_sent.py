"""Outcomes find their messages, in whatever ranges and order they come: held to a dictionary of single messages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.amqp.messaging import Accepted, DeliveryState, Released
from headwater.client.amqp_sent import SentBatch, Unsettled
from headwater.encoding.ranges import IdRanges

outcomes = st.sampled_from([Accepted(), Released(), None])


@given(
    # Batches, each sent in runs of deliveries with so many of other links before them.
    st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), min_size=1, max_size=4), max_size=6),
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20), outcomes), max_size=30),
)
def test_every_message_gets_the_outcome_of_its_delivery_once(
    sent: list[list[tuple[int, int]]], told: list[tuple[int, int, DeliveryState | None]]
) -> None:
    unsettled, ids = Unsettled(), IdRanges()
    expected: dict[int, tuple[SentBatch, int]] = {}
    found: dict[tuple[int, int], DeliveryState | None] = {}
    batches, next_id = [], 0
    for runs in sent:
        batch = SentBatch(0, sum(count for _, count in runs), sum(count for _, count in runs))
        batches.append(batch)
        index = 0
        for others, count in runs:
            next_id += others
            unsettled.add(next_id, count, batch, index)
            ids.add(next_id, next_id + count)
            expected |= {next_id + place: (batch, index + place) for place in range(count)}
            next_id, index = next_id + count, index + count
    for first, count, outcome in [*told, (0, next_id, Accepted())]:
        # The link tells each delivery once.
        for start, end in ids.take(first, first + count):
            seen = [
                (id(batch), index + place)
                for batch, index, length in unsettled.settle(start, end, outcome)
                for place in range(length)
            ]
            assert seen == [(id(expected[each][0]), expected[each][1]) for each in range(start, end)]
            found |= dict.fromkeys(seen, outcome)
        assert unsettled.count == ids.count
    assert len(found) == len(expected)
    for batch in batches:
        assert batch.unsettled_count == 0
        refused = {each.first + place: each.outcome for each in batch.refusals for place in range(each.count)}
        own = {index: outcome for (owner, index), outcome in found.items() if owner == id(batch)}
        assert refused == {index: outcome for index, outcome in own.items() if outcome != Accepted()}


def test_settled_runs_are_forgotten_however_many_there_are() -> None:
    unsettled = Unsettled()
    batch = SentBatch(0, 10_000, 10_000)
    for number in range(10_000):
        unsettled.add(2 * number, 1, batch, number)
    for number in range(9_999):
        list(unsettled.settle(2 * number, 2 * number + 1, Accepted()))
        assert len(unsettled._runs) <= max(2 * unsettled.count + 2, 2048) + 1
    assert (unsettled.count, batch.unsettled_count) == (1, 1)

"""Delivery counts as ranges, against a plain map."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.encoding.ranges import RangeBudget
from headwater.engine.delivery_counts import COUNT_MAX, DeliveryCounts

spans = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda pair: (min(pair), max(pair)))
steps = st.lists(
    st.tuples(st.sampled_from(["increase", "forget", "set"]), spans, st.integers(0, 4)), max_size=25
)


@given(steps)
def test_counts_are_those_of_a_map_and_cost_what_the_budget_says(
    taken: list[tuple[str, tuple[int, int], int]],
) -> None:
    budget = RangeBudget(1000)
    counts, model = DeliveryCounts(budget), dict.fromkeys(range(31), 0)
    for step, (first, end), value in taken:
        for offset in range(first, end):
            model[offset] = {"increase": model[offset] + 1, "forget": 0, "set": value}[step]
        if step == "set":
            counts.set(first, end, value)
        else:
            getattr(counts, step)(first, end)
    found = {offset: count for first, end, count in counts.within(0, 31) for offset in range(first, end)}
    assert found == model
    assert all(count > 0 for _, _, count in counts)
    assert budget.count == len(list(counts))
    counts.clear()
    assert (list(counts), budget.count) == ([], 0)


def test_a_count_ends_at_its_maximum() -> None:
    counts = DeliveryCounts()
    for _ in range(COUNT_MAX + 5):
        counts.increase(7, 9)
    assert list(counts) == [(7, 9, COUNT_MAX)]


def test_what_is_asked_for_is_cut_to_what_was_asked_for() -> None:
    counts = DeliveryCounts()
    counts.set(0, 100, 2)
    assert counts.within(10, 20) == [(10, 20, 2)]
    assert counts.within(90, 110) == [(90, 100, 2), (100, 110, 0)]
    assert counts.within(5, 5) == []

"""Sets of ids against plain sets."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from headwater.encoding.ranges import IdRanges, RangeBudget

spans = st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda pair: (min(pair), max(pair)))
steps = st.lists(st.tuples(st.booleans(), spans), max_size=30)


@given(steps)
def test_ranges_hold_what_a_set_of_ids_holds(taken: list[tuple[bool, tuple[int, int]]]) -> None:
    ranges, ids = IdRanges(), set[int]()
    for is_added, (first, end) in taken:
        if is_added:
            ranges.add(first, end)
            ids.update(range(first, end))
        else:
            found = ranges.take(first, end)
            assert [id_ for one, other in found for id_ in range(one, other)] == sorted(
                ids.intersection(range(first, end))
            )
            ids.difference_update(range(first, end))
    assert [id_ for first, end in ranges for id_ in range(first, end)] == sorted(ids)
    assert {id_ for id_ in range(70) if id_ in ranges} == ids
    assert (ranges.count, bool(ranges)) == (len(ids), bool(ids))
    assert ranges.first == min(ids, default=None)
    missing = [id_ for first, end in ranges.missing(5, 50) for id_ in range(first, end)]
    assert missing == [id_ for id_ in range(5, 50) if id_ not in ids]


@given(st.lists(spans, min_size=1, max_size=20))
def test_neighbours_are_joined(added: list[tuple[int, int]]) -> None:
    ranges = IdRanges()
    for first, end in added:
        ranges.add(first, end)
    found = list(ranges)
    assert all(end < first for (_, end), (first, _) in itertools.pairwise(found))
    assert ranges.range_count == len(found)


def test_a_million_ids_in_order_are_one_range() -> None:
    ranges = IdRanges()
    for first in range(0, 1_000_000, 1000):
        ranges.add(first, first + 1000)
    assert (ranges.range_count, ranges.count) == (1, 1_000_000)


@given(st.lists(spans, max_size=20), st.integers(0, 60), st.integers(0, 60))
def test_a_range_that_ends_before_it_begins_has_nothing(
    added: list[tuple[int, int]], first: int, end: int
) -> None:
    ranges = IdRanges()
    for span in added:
        ranges.add(*span)
    before = list(ranges)
    high, low = max(first, end), min(first, end)
    assert ranges.missing(high, low) == []
    assert (ranges.take(high, low), ranges.within(high, low), ranges.has_any(high, low)) == ([], [], False)
    ranges.add(high, low)
    assert list(ranges) == before


@given(steps)
def test_a_budget_knows_what_its_sets_cost(taken: list[tuple[bool, tuple[int, int]]]) -> None:
    budget = RangeBudget(5)
    sets = [IdRanges(budget), IdRanges(budget)]
    for number, (is_added, span) in enumerate(taken):
        (sets[number % 2].add if is_added else sets[number % 2].take)(*span)
        assert budget.count == sum(each.range_count for each in sets)
        assert budget.is_full or budget.count < 5
    for each in sets:
        each.clear()
        assert not each
    assert (budget.count, budget.is_full) == (0, False)


def test_a_full_budget_has_room_again_when_a_quarter_is_free() -> None:
    budget = RangeBudget(8)
    ranges = IdRanges(budget)
    for number in range(8):
        ranges.add(2 * number, 2 * number + 1)
    seen = [budget.is_full]
    for number in range(3):
        ranges.take(2 * number, 2 * number + 1)
        seen.append(budget.is_full)
    assert seen == [True, True, False, False]
    assert (budget.has_room_again(), budget.has_room_again()) == (True, False)

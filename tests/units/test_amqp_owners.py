"""Which link a delivery is of, against a plain table of ids."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.amqp.owners import TIDY_RUNS_MIN, Owners
from headwater.encoding.ranges import IdRanges, RangeBudget


class Holder:
    """A link, as far as owners ask."""

    def __init__(self, budget: RangeBudget | None = None) -> None:
        self.unsettled = IdRanges(budget)

    def holds(self, first: int, end: int) -> bool:
        return self.unsettled.has_any(first, end)


runs = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.booleans()), max_size=300)


@given(runs, st.lists(st.tuples(st.integers(-5, 1200), st.integers(-5, 1200)), max_size=20))
def test_unsettled_deliveries_are_found_with_their_link(
    sent: list[tuple[int, int, bool]], asked: list[tuple[int, int]]
) -> None:
    budget = RangeBudget(1 << 20)
    links = [Holder(budget) for _ in range(4)]
    owners: Owners[Holder] = Owners()
    owner_of: dict[int, Holder] = {}
    next_id = 0
    for number, count, is_unsettled in sent:
        link = links[number]
        owners.note(next_id, link)
        if is_unsettled:
            link.unsettled.add(next_id, next_id + count)
            owner_of.update(dict.fromkeys(range(next_id, next_id + count), link))
        next_id += count
    for first, end in asked:
        found = {
            id_: link
            for link, start, behind in owners.of(first, end)
            for one, other in link.unsettled.within(start, behind)
            for id_ in range(one, other)
        }
        assert found == {id_: link for id_, link in owner_of.items() if first <= id_ < end}
    assert len(owners) <= 2 * budget.count + TIDY_RUNS_MIN + 1


def test_links_that_take_turns_cost_what_they_leave_unsettled() -> None:
    links = [Holder(), Holder()]
    owners: Owners[Holder] = Owners()
    links[0].unsettled.add(0, 1)
    for number in range(100_000):
        owners.note(number, links[number % 2])
    assert len(owners) <= TIDY_RUNS_MIN
    assert owners.of(0, 1) == [(links[0], 0, 1)]


def test_a_link_alone_is_one_run() -> None:
    link = Holder()
    owners: Owners[Holder] = Owners()
    for number in range(0, 1000, 10):
        owners.note(number, link)
    assert len(owners) == 1
    assert owners.of(15, 2000) == [(link, 15, 2000)]
    assert owners.of(20, 20) == []

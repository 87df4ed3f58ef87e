"""Ranges of ids that wait for an answer behave as a set of them would."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.client import unanswered
from headwater.client.unanswered import Unanswered

steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 3), st.integers(1, 9)),
        st.tuples(st.just("remove"), st.integers(0, 60), st.integers(1, 30)),
    ),
    max_size=60,
)


@given(steps)
def test_it_is_the_set_of_what_was_added_and_not_removed(steps: list[tuple[str, int, int]]) -> None:
    ids, model, behind = Unanswered(), set[int](), 1
    for what, place, count in steps:
        if what == "add":
            ids.add(behind + place, count)
            model |= set(range(behind + place, behind + place + count))
            behind += place + count
        else:
            gone = model & set(range(place, place + count))
            model -= gone
            assert ids.remove(place, count) == len(gone)
        assert ids.count == len(model)
        assert ids.lowest == min(model, default=None)


def test_many_ranges_answered_in_order_leave_nothing_behind() -> None:
    ids = Unanswered()
    for number in range(10 * unanswered._GONE_MIN):
        ids.add(2 * number, 1)
    for number in range(10 * unanswered._GONE_MIN):
        assert ids.remove(2 * number, 1) == 1
    assert (ids.count, ids.lowest) == (0, None)
    assert len(ids._firsts) <= 2 * unanswered._GONE_MIN

"""Spreading partitions over members."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.partition_spread import spread


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=8, unique=True),
    st.dictionaries(st.integers(0, 40), st.none() | st.integers(0, 12)),
)
def test_the_spread_is_even_and_moves_as_few_as_it_can(
    members: list[int], owners: dict[int, int | None]
) -> None:
    found = spread(members, owners)
    assert set(found) == set(owners)
    counts = Counter(found.values())
    loads = [counts[member] for member in members]
    assert max(loads) - min(loads) <= 1
    before = Counter(owner for owner in owners.values() if owner in members)
    share, more = divmod(len(owners), len(members))
    ranked = sorted((before[member] for member in members), reverse=True)
    surplus = sum(max(count - share - (rank < more), 0) for rank, count in enumerate(ranked))
    moved = [p for p, owner in owners.items() if owner in members and found[p] != owner]
    assert len(moved) == surplus


def test_an_even_spread_stays_as_it_is() -> None:
    owners = {0: "a", 1: "b", 2: "a", 3: "b", 4: "b"}
    assert spread(["a", "b"], owners) == owners


def test_nobody_gets_anything_when_nobody_is_there() -> None:
    assert spread([], {0: None}) == {}

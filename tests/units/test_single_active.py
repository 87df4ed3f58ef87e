"""Single active consumer: who reads, who waits, and the hand-over between them."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.single_active import GroupId, SingleActive, Update

GROUP = GroupId("/", "orders", "billing")


def test_the_first_consumer_of_a_stream_is_active_and_the_second_waits() -> None:
    groups: SingleActive[str] = SingleActive()
    assert groups.join(GROUP, "a") == [Update("a", True)]
    assert groups.join(GROUP, "b") == []
    assert groups.active(GROUP) == "a"


def test_the_next_consumer_takes_over_when_the_active_one_leaves() -> None:
    groups: SingleActive[str] = SingleActive()
    for member in "abc":
        groups.join(GROUP, member)
    assert groups.leave(GROUP, "a") == [Update("b", True)]
    assert groups.leave(GROUP, "c") == []
    assert groups.active(GROUP) == "b"


def test_a_partition_goes_to_the_member_of_its_index_after_the_old_one_answered() -> None:
    groups: SingleActive[str] = SingleActive()
    assert groups.join(GROUP, "a", 1) == [Update("a", True)]
    assert groups.join(GROUP, "b", 1) == [Update("a", False)]
    assert groups.active(GROUP) is None
    assert groups.stepped_down(GROUP, "b") == []
    assert groups.stepped_down(GROUP, "a") == [Update("b", True)]
    assert groups.active(GROUP) == "b"


def test_a_member_that_vanishes_while_it_steps_down_is_not_waited_for() -> None:
    groups: SingleActive[str] = SingleActive()
    groups.join(GROUP, "a", 1)
    groups.join(GROUP, "b", 1)
    assert groups.leave(GROUP, "a") == [Update("b", True)]


def test_an_empty_group_is_forgotten() -> None:
    groups: SingleActive[str] = SingleActive()
    groups.join(GROUP, "a")
    assert groups.leave(GROUP, "a") == []
    assert groups.leave(GROUP, "a") == []
    assert groups.members(GROUP) == ()
    assert groups.join(GROUP, "b") == [Update("b", True)]


class Consumers:
    """Consumers that do as they are told, and answer when the test lets them."""

    def __init__(self, index: int | None) -> None:
        self.groups: SingleActive[int] = SingleActive()
        self.index = index
        self.reading: set[int] = set()
        self.asked: list[int] = []

    def join(self, member: int) -> None:
        if member not in self.groups.members(GROUP):
            self._carry_out(self.groups.join(GROUP, member, self.index))

    def leave(self, member: int) -> None:
        self.reading.discard(member)
        if member in self.asked:
            self.asked.remove(member)
        self._carry_out(self.groups.leave(GROUP, member))

    def answer(self, _: int = 0) -> None:
        if self.asked:
            member = self.asked.pop(0)
            self.reading.discard(member)
            self._carry_out(self.groups.stepped_down(GROUP, member))

    def _carry_out(self, updates: list[Update[int]]) -> None:
        for update in updates:
            if update.active:
                assert not self.reading
                self.reading.add(update.member)
            elif update.member in self.reading:
                self.asked.append(update.member)


@given(
    index=st.none() | st.integers(0, 5),
    steps=st.lists(
        st.tuples(st.sampled_from([Consumers.join, Consumers.leave, Consumers.answer]), st.integers(0, 4)),
        max_size=60,
    ),
)
def test_never_do_two_read_and_with_all_answers_in_one_does(
    index: int | None, steps: list[tuple[Callable[[Consumers, int], None], int]]
) -> None:
    consumers = Consumers(index)
    for step, member in steps:
        step(consumers, member)
    while consumers.asked:
        consumers.answer()
    members = consumers.groups.members(GROUP)
    assert len(consumers.reading) == (1 if members else 0)
    if members and index is not None:
        assert consumers.reading == {members[index % len(members)]}

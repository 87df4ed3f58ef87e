"""The record of a consumer group."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.group_record import EPOCH_MAX, GroupDefinition, GroupId, decode_group, put_group
from headwater.engine.state_record import GROUP
from headwater.errors import MalformedState

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
groups = st.builds(
    GroupDefinition, st.builds(GroupId, names, names, names), st.integers(0, EPOCH_MAX), st.booleans()
)
epochs = st.lists(st.integers(0, EPOCH_MAX), max_size=6)


@given(groups, epochs)
def test_what_is_written_is_read_but_for_zeros_at_the_end(group: GroupDefinition, numbers: list[int]) -> None:
    put = put_group(group, [*numbers, 0, 0])
    found, read = decode_group(put.value)
    assert found == group
    assert read + [0] * (len(numbers) - len(read)) == numbers
    assert put.key == GROUP + group.id.digest


@given(st.binary(max_size=40) | st.builds(lambda *each: put_group(*each).value, groups, epochs), st.data())
def test_any_bytes_are_a_group_or_refused(data: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, max(len(data) - 1, 0)))
    value = data[:at] + draw.draw(st.binary(max_size=2)) + data[at + 1 :]
    try:
        _, numbers = decode_group(value)
    except MalformedState:
        return
    assert all(0 <= epoch <= EPOCH_MAX for epoch in numbers)

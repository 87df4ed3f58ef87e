"""The record of a consumer group."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.group_record import EPOCH_MAX, GroupDefinition, GroupId, decode_group, put_group
from headwater.engine.state_record import GROUP
from headwater.errors import MalformedState

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
groups = st.builds(
    GroupDefinition, st.builds(GroupId, names, names, names), st.integers(0, EPOCH_MAX), st.booleans()
)
epochs = st.dictionaries(st.integers(0, (1 << 32) - 1), st.integers(0, EPOCH_MAX), max_size=6)


@given(groups, epochs)
def test_what_is_written_is_read(group: GroupDefinition, numbers: dict[int, int]) -> None:
    put = put_group(group, numbers)
    assert decode_group(put.value) == (group, numbers)
    assert put.key == GROUP + group.id.digest


@given(st.binary(max_size=40) | st.builds(lambda *each: put_group(*each).value, groups, epochs), st.data())
def test_any_bytes_are_a_group_or_refused(data: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, max(len(data) - 1, 0)))
    value = data[:at] + draw.draw(st.binary(max_size=2)) + data[at + 1 :]
    try:
        _, numbers = decode_group(value)
    except MalformedState:
        return
    assert all(0 <= partition < 1 << 32 for partition in numbers)
    assert all(0 <= epoch <= EPOCH_MAX for epoch in numbers.values())


def test_two_epochs_of_one_partition_are_refused() -> None:
    value = put_group(GroupDefinition(GroupId("/", "orders", "g")), {1: 5, 2: 6}).value
    with pytest.raises(MalformedState, match="two epochs"):
        decode_group(value.replace(b"\x92\x02\x06", b"\x92\x01\x06"))

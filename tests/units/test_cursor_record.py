"""The record of a cursor: what is written is read, and any other bytes are refused with the one error."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.encoding.ranges import IdRanges
from headwater.engine.cursor_record import (
    OFFSET_MAX,
    RECORD_BYTES_MAX,
    RECORD_OTHERS_MAX,
    RECORD_RANGES_MAX,
    Position,
    decode_position,
    encode_position,
)
from headwater.engine.state_record import cursor_key, owner_digest, unowned
from headwater.errors import MalformedState
from headwater.log.state import KEY_BYTES_MAX

spans = st.tuples(st.integers(1, 1 << 40), st.integers(1, 1 << 40))


@st.composite
def positions(draw: st.DrawFn) -> Position:
    low = draw(st.integers(0, 1 << 62))

    def ranges() -> list[tuple[int, int]]:
        found = IdRanges()
        for gap, length in draw(st.lists(spans, max_size=8)):
            found.add(low + gap, low + gap + length)
        return list(found)

    raised = [(first, end, draw(st.integers(1, 255))) for first, end in ranges()]
    return Position(low, tuple(ranges()), tuple(ranges()), tuple(raised), draw(st.integers(0, 1 << 50)))


@given(positions())
def test_what_is_written_is_read(position: Position) -> None:
    assert decode_position(encode_position(position)) == position


@given(st.binary(max_size=60) | positions().map(encode_position))
def test_any_bytes_are_a_position_or_refused(data: bytes) -> None:
    for cut in range(len(data)):
        try:
            position = decode_position(data[:cut] + data[cut + 1 :])
        except MalformedState:
            continue
        for ranges in (position.settled, position.rejected, position.raised):
            assert all(position.low <= each[0] < each[1] <= OFFSET_MAX for each in ranges)


@pytest.mark.parametrize(
    "array",
    [
        [2, 5, 0, [], [], []],
        [1, -1, 0, [], [], []],
        [1, 5, 0, [1], [], []],
        [1, 5, 0, [1, 0], [], []],
        [1, 5, 0, [1, OFFSET_MAX], [], []],
        [1, 5, 0, [], [1], []],
        [1, 5, 0, [], [], [1, 1]],
        [1, 5, 0, [], [], [1, 1, 0]],
        [1, 5, 0, [], [], [1, 1, 256]],
        [1, 5, 0, [], [], [], []],
        [1, 5, 0, [1, 1] * (RECORD_RANGES_MAX + 1), [], []],
        [1, 5, 0, [], [1, 1] * (RECORD_OTHERS_MAX + 1), []],
        {"low": 5},
    ],
)
def test_what_no_cursor_can_be_is_refused(array: object) -> None:
    with pytest.raises(MalformedState):
        decode_position(msgspec.msgpack.encode(array))


def test_the_largest_record_keeps_to_its_bound() -> None:
    step = OFFSET_MAX // (RECORD_RANGES_MAX + 1)
    ranges = tuple((number * step + 1, (number + 1) * step) for number in range(RECORD_RANGES_MAX))
    raised = tuple((first, end, 255) for first, end in ranges[:RECORD_OTHERS_MAX])
    data = encode_position(Position(0, ranges, ranges[:RECORD_OTHERS_MAX], raised, OFFSET_MAX))
    assert RECORD_BYTES_MAX // 3 < len(data) <= RECORD_BYTES_MAX


def test_a_cursor_in_order_takes_a_dozen_bytes() -> None:
    assert len(encode_position(Position(1_000_000_000))) <= 12


def test_keys_are_short_whatever_names_peers_choose() -> None:
    digest = owner_digest(b"subscription/", "/", "orders", "c" * 100_000, "s")
    assert len(cursor_key(digest, 999)) <= 32 < KEY_BYTES_MAX
    assert digest != owner_digest(b"subscription/", "/", "orders", None, "s")
    assert owner_digest(b"", "a", "bc") != owner_digest(b"", "ab", "c")


def test_cursors_without_an_owner_are_found() -> None:
    one, other = owner_digest(b"group/", "one"), owner_digest(b"group/", "other")
    keys = [cursor_key(one, 0), cursor_key(other, 0), cursor_key(one, 1)]
    assert [delete.key for delete in unowned(keys, [one])] == [cursor_key(other, 0)]

"""Positions of readers as text: what is written is read again, and any text is a position or refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.server.http.events.positions import (
    POSITION_CHARS_MAX,
    InvalidPosition,
    PositionText,
    read_position,
)

IDS = st.lists(st.text(min_size=1, max_size=10).filter(str.isascii), min_size=1, max_size=5, unique=True)
OFFSETS = st.integers(0, 2**63 - 1)


@given(IDS, st.data())
def test_what_is_written_is_read_again(ids: list[str], data: st.DataObject) -> None:
    text = PositionText(ids)
    for _ in range(3):
        offsets = data.draw(st.lists(OFFSETS, min_size=len(ids), max_size=len(ids)))
        assert read_position(text.at(offsets), ids) == dict(zip(ids, offsets, strict=True))


@given(st.text(max_size=40) | st.text(alphabet="0123:,% ", max_size=40))
def test_any_text_is_a_position_or_refused(text: str) -> None:
    try:
        found = read_position(text, ["0", "1"])
    except InvalidPosition:
        return
    assert found.keys() <= {"0", "1"}
    assert all(0 <= offset < 2**63 for offset in found.values())


@pytest.mark.parametrize("text", ["0:" + "9" * 5000, f"0:{2**63}", "0:1" + " " * POSITION_CHARS_MAX])
def test_what_is_too_large_is_refused(text: str) -> None:
    with pytest.raises(InvalidPosition):
        read_position(text, ["0"])

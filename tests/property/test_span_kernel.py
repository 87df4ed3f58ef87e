"""Records go from spans into a chunk and into transfers as the layouts say, by both forms of the kernel alike."""

from __future__ import annotations

import struct
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.encoding import _span_kernel as compiled
from headwater.encoding._amqp_kernel import peek_transfer, scan_transfers, skim_entries
from headwater.encoding._span_kernel import SPAN_FIELDS, gather_spans, write_transfers
from headwater.encoding.delivery_annotations import (
    annotations_before_offset,
    message_to_send,
    offset_digits,
)
from tests.amqp_frames import (
    NULL,
    TRUE,
    Message,
    chunk_data,
    compound,
    described,
    frame,
    messages,
    records,
    uint,
)
from tests.kernel_forms import both_forms, same_in

FORMS = both_forms(compiled)
EACH = pytest.mark.parametrize("form", FORMS, ids=["compiled", "uncompiled"])
same = same_in(FORMS)
CANARY = 0xA5
SERIALS = 2**32


def test_both_forms_are_there() -> None:
    assert FORMS[0].COMPILED, "the kernel was not compiled: run `make ready`"
    assert not FORMS[1].COMPILED


def spans_of(data: bytes, count: int) -> array[int]:
    """The spans of all entries of chunk data."""
    spans = array("q", bytes(8 * SPAN_FIELDS * count))
    assert skim_entries(data, 0, len(data), count, spans) == (count, len(data))
    return spans


@EACH
@given(
    run=st.lists(messages(), max_size=5),
    first=st.integers(0, 2),
    room=st.integers(0, 900),
    entries_room=st.integers(0, 5),
    entry_bytes_max=st.sampled_from([0, 20, 64, 10_000]),
)
def test_messages_are_gathered_without_their_annotations(
    form: Any, run: list[Message], first: int, room: int, entries_room: int, entry_bytes_max: int
) -> None:
    data, spans, expected, open_ = b"junk", array("q"), b"", True
    for message in run:
        start, data = len(data), data + message.payload
        head_end = start + len(message.header)
        spans.extend((start, head_end, head_end + len(message.annotations), len(data)))
    first, taken = min(first, len(run)), 0
    for message in run[first:]:
        entry = chunk_data([message.record])
        fits = len(expected) + len(entry) <= room and taken < entries_room and len(entry) <= entry_bytes_max
        open_ = open_ and fits
        if open_:
            expected, taken = expected + entry, taken + 1
    out = bytearray([CANARY]) * (room + 6)
    result = form.gather_spans(
        data, spans, first, len(run) - first, entry_bytes_max, out, 3, 3 + room, entries_room
    )
    assert result == (taken, 3 + len(expected))
    assert out[3 : result[1]] == expected
    assert set(out[:3] + out[result[1] :]) == {CANARY}


link_settings = st.tuples(
    st.sampled_from([0, 1, 65_535]),
    st.sampled_from([0, 1, 2**31, SERIALS - 1]),
    st.sampled_from([0, 255, 2**31, SERIALS - 2, SERIALS - 1]),
    st.booleans(),
)
"""Channel, handle, first delivery-id and settled."""
offsets = st.sampled_from([0, 8, 9, 0xF, 0x9F, 0xFFFF_FFFE, 0xFFFF_FFFF, 2**63 - 9, 2**64 - 7])


@EACH
@given(
    parts=st.lists(records, max_size=6),
    link=link_settings,
    offset=offsets,
    partition=st.sampled_from([None, "0", "p" * 300]),
    room=st.sampled_from([0, 37, 200, 600, 5000]),
    frame_size_max=st.sampled_from([512, 200, 1 << 20]),
)
def test_records_are_written_as_the_layouts_say(
    form: Any,
    parts: list[bytes],
    link: tuple[int, int, int, bool],
    offset: int,
    partition: str | None,
    room: int,
    frame_size_max: int,
) -> None:
    data = chunk_data(parts)
    spans = spans_of(data, len(parts))
    before_offset = annotations_before_offset(1_700_000_000_000, partition)
    channel, handle, first_id, settled = link
    expected, written = b"", 0
    for number, part in enumerate(parts):
        delivery_id = (first_id + number) % SERIALS
        fields = [
            uint(handle, 5),
            uint(delivery_id, 5),
            b"\xa0\x04" + struct.pack(">I", delivery_id),
            uint(0),
            TRUE if settled else b"\x42",
            b"\x42",
            NULL,
            NULL,
            b"\x42",
            b"\x42",
            b"\x42",
        ]
        payload = message_to_send(part, before_offset + offset_digits(offset + number))
        written_frame = frame(channel, described(0x14, compound(fields)) + payload)
        if len(written_frame) > frame_size_max or len(expected) + len(written_frame) > room:
            break
        expected, written = expected + written_frame, written + 1
    out = bytearray([CANARY]) * (room + 6)
    annotations = before_offset + offset_digits(offset)
    result = form.write_transfers(
        data, spans, 0, len(parts), out, 3, 3 + room, frame_size_max, *link, annotations
    )
    assert result == (written, 3 + len(expected))
    assert out[3 : result[1]] == expected
    assert set(out[:3] + out[result[1] :]) == {CANARY}


@given(st.lists(messages(annotated=False), min_size=1, max_size=6), link_settings, offsets)
def test_what_was_written_is_scanned_as_it_was_stored(
    parts: list[Message], link: tuple[int, int, int, bool], offset: int
) -> None:
    data = chunk_data([part.record for part in parts])
    spans = spans_of(data, len(parts))
    out, again = bytearray(20_000), bytearray(len(data))
    annotations = annotations_before_offset(0, "0") + offset_digits(offset)
    written, end = write_transfers(data, spans, 0, len(parts), out, 0, len(out), 512, *link, annotations)
    assert written == len(parts)
    assert peek_transfer(out, 0, end, 512) == link
    found = scan_transfers(out, 0, end, 512, *link, 0, spans)
    assert found == (len(parts), end, len(parts))
    gathered = gather_spans(out, spans, 0, len(parts), 512, again, 0, len(again), 9)
    assert gathered == (len(parts), len(data))
    assert again == data


@given(st.lists(messages(annotated=True), min_size=1, max_size=6), link_settings)
def test_without_annotations_head_and_rest_of_a_message_follow_each_other(
    parts: list[Message], link: tuple[int, int, int, bool]
) -> None:
    data = chunk_data([part.payload for part in parts])
    spans = spans_of(data, len(parts))

    def written(form: Any) -> Any:
        out = bytearray([CANARY]) * 20_000
        return form.write_transfers(data, spans, 0, len(parts), out, 0, len(out), 4096, *link, b""), bytes(
            out
        )

    (count, end), out = same(written)[1]
    assert count == len(parts)
    assert set(out[end:]) == {CANARY}
    again = array("q", bytes(8 * SPAN_FIELDS * count))
    assert scan_transfers(out, 0, end, 4096, *link, 0, again)[:2] == (count, end)
    sent = [out[again[4 * number] : again[4 * number + 3]] for number in range(count)]
    assert sent == [part.record for part in parts]


int64s = st.one_of(st.integers(-2, 40), st.sampled_from([-(2**63), 2**63 - 1, 2**31, 2**62]))


@given(st.lists(int64s, min_size=8, max_size=9), st.integers(-1, 2), st.integers(-1, 3))
def test_spans_of_any_numbers_are_the_same_in_both_forms(fields: list[int], first: int, count: int) -> None:
    data, spans, annotations = bytes(range(30)), array("q", fields), annotations_before_offset(0, None)

    def gathered(form: Any) -> Any:
        out = bytearray(100)
        return form.gather_spans(data, spans, first, count, 1 << 40, out, 5, 90, 9), out

    def written(form: Any) -> Any:
        out = bytearray(400)
        arguments = (0, 0, 0, False, annotations + offset_digits(5))
        return form.write_transfers(data, spans, first, count, out, 5, 390, 512, *arguments), out

    for call in (gathered, written):
        assert same(call)[0] in ("result", ValueError)


@EACH
def test_rooms_outside_of_the_output_and_short_annotations_are_refused(form: Any) -> None:
    spans = array("q", [0, 0, 0, 4])
    for start, end in ((-1, 4), (5, 4), (0, 11)):
        with pytest.raises(ValueError, match="no span"):
            form.gather_spans(bytes(4), spans, 0, 1, 99, bytearray(10), start, end, 1)
        with pytest.raises(ValueError, match="no span"):
            form.write_transfers(
                bytes(4), spans, 0, 1, bytearray(10), start, end, 512, 0, 0, 0, False, bytes(16)
            )
    with pytest.raises(ValueError, match="do not end with an offset"):
        form.write_transfers(bytes(4), spans, 0, 1, bytearray(10), 0, 10, 512, 0, 0, 0, False, bytes(15))

"""Compiled and uncompiled, the kernels of the client and of the bench give the same results and the same errors."""

from __future__ import annotations

import itertools
import struct
from array import array
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.cli import _kernel as bench_kernel
from headwater.cli.histogram import upper_us
from headwater.client import _kernel as client_kernel
from headwater.encoding._kernel import UNNAMED, gather_published
from headwater.encoding.amqp_message import data_section
from headwater.errors import HeadwaterError, MalformedFrame
from tests.kernel_forms import both_forms

CLIENT = both_forms(client_kernel)
BENCH = both_forms(bench_kernel)
U64_MAX = 2**64 - 1
CANARY = 0xA5
MARKER = 0x1122334455667788

ids = st.one_of(st.integers(0, 9), st.sampled_from([2**31, 2**32, 2**63, U64_MAX - 9]))
records = st.lists(st.one_of(st.binary(max_size=40), st.binary(min_size=250, max_size=260)), max_size=6)
values = st.one_of(st.none(), st.binary(max_size=9))


def outcomes(forms: list[Any], call: Callable[[Any], object]) -> object:
    """What each form gives, or which of our errors, or ValueError, it raises; they must agree."""
    found: list[object] = []
    for form in forms:
        try:
            found.append(call(form))
        except (HeadwaterError, ValueError) as error:
            found.append((type(error).__name__, str(error)))
    assert found[0] == found[1]
    return found[0]


@given(records, ids, st.booleans(), st.data())
def test_a_publish_is_filled_as_the_server_reads_it(
    sent: list[bytes], first_id: int, as_data: bool, data: st.DataObject
) -> None:
    filters = data.draw(st.one_of(st.none(), st.lists(values, min_size=len(sent), max_size=len(sent))))
    own_ids = data.draw(st.one_of(st.none(), st.lists(ids, min_size=len(sent), max_size=len(sent))))

    def fill(form: Any) -> tuple[bytes, int]:
        count, size = form.messages_that_fit(sent, 0, len(sent), filters, as_data, 1 << 20)
        assert count == len(sent)
        out = bytearray([CANARY]) * (size + 4)
        end = form.fill_publish(out, 2, sent, 0, count, first_id, own_ids, filters, as_data)
        assert out[:2] + out[end:] == bytes([CANARY] * 4)
        assert end == size + 2
        return bytes(out[2:end]), count

    filled: Any = outcomes(CLIENT, fill)
    body, count = filled
    out, seen = bytearray(len(body)), bytearray(8 * count)
    _, taken, *_, behind, _ = gather_published(
        body, 0, len(body), count, filters is not None, UNNAMED, out, 0, len(out), 65_535, seen, 0
    )
    bodies = [data_section(record) for record in sent] if as_data else sent
    assert out[:behind] == b"".join(struct.pack(">I", len(each)) + each for each in bodies)
    expected = own_ids if own_ids is not None else range(first_id, first_id + count)
    assert taken == count
    assert seen == b"".join(each.to_bytes(8, "big") for each in expected)


@given(records, st.integers(-1, 7), st.integers(-1, 7), st.booleans(), st.integers(-1, 700))
def test_what_fits_is_what_is_filled_and_no_byte_more(
    sent: list[bytes], start: int, end: int, as_data: bool, room: int
) -> None:
    def fits(form: Any) -> object:
        count, size = form.messages_that_fit(sent, start, end, None, as_data, room)
        assert size <= max(room, 0)
        out = bytearray(size)
        assert form.fill_publish(out, 0, sent, start, start + count, 1, None, None, as_data) == size
        if count and size:
            with pytest.raises(ValueError, match="have no room"):
                form.fill_publish(bytearray(size - 1), 0, sent, start, start + count, 1, None, None, as_data)
        return count, size, bytes(out)

    outcomes(CLIENT, fits)


@pytest.mark.parametrize("form", CLIENT)
def test_fewer_ids_or_filter_values_than_records_are_refused(form: Any) -> None:
    with pytest.raises(ValueError, match="1 ids for 2"):
        form.fill_publish(bytearray(100), 0, [b"", b""], 0, 2, 1, [1], None, False)
    with pytest.raises(ValueError, match="no span"):
        form.messages_that_fit([b"", b""], 0, 2, [None], False, 100)
    with pytest.raises(ValueError, match="no room"):
        form.fill_publish(bytearray(100), -1, [b""], 0, 1, 1, None, None, False)


@given(st.lists(st.integers(0, 6) | ids, max_size=30))
@example([U64_MAX, 0, 1])
@example([2**63 - 1, 2**63])
def test_ids_are_the_runs_that_they_make(numbers: list[int]) -> None:
    packed = b"".join(number.to_bytes(8, "big") for number in numbers)
    runs: Any = outcomes(CLIENT, lambda form: form.id_runs(b"??" + packed, 2, 2 + len(packed)))
    assert [first + at for first, count in runs for at in range(count)] == numbers
    assert all(first + count != following for (first, count), (following, _) in itertools.pairwise(runs))


@given(st.binary(max_size=40), st.integers(-2, 45), st.integers(-2, 45))
def test_a_span_that_is_none_of_ids_is_refused(data: bytes, start: int, end: int) -> None:
    for view in (data, bytearray(data), memoryview(data)):
        outcomes(CLIENT, lambda form, view=view: form.id_runs(view, start, end))  # type: ignore[misc]


# The bench


def message(body: bytes) -> bytes:
    entry = data_section(body)
    return struct.pack(">I", len(entry)) + entry


def own(sent_ns: int, filling: int) -> bytes:
    return message(struct.pack(">QQ", MARKER, sent_ns) + bytes(filling))


def scanned(form: Any, data: bytes, entries: int, now_ns: int = 5_000_000) -> object:
    histogram = array("q", bytes(8 * form.BUCKETS))
    found = form.scan(data, 0, len(data), entries, MARKER, now_ns, histogram)
    return found, histogram.tolist()


@given(
    st.lists(
        st.one_of(
            st.builds(own, st.integers(0, U64_MAX), st.sampled_from([0, 9, 239, 240, 300])),
            st.binary(max_size=30).map(message),
            st.binary(max_size=30).map(lambda each: struct.pack(">I", len(each)) + each),
            st.binary(max_size=30).map(lambda each: struct.pack(">BHII", 0x90, 2, 8, len(each)) + each),
        ),
        max_size=8,
    ),
    st.integers(0, U64_MAX),
)
def test_all_messages_of_the_run_are_counted_and_no_others(entries: list[bytes], now_ns: int) -> None:
    result: Any = outcomes(BENCH, lambda form: scanned(form, b"".join(entries), len(entries), now_ns))
    found, histogram = result
    marker = MARKER.to_bytes(8, "big")
    ours = [entry for entry in entries if marker in (entry[9:17], entry[12:20])]
    assert (found[0], sum(histogram)) == (len(ours), len(ours))


@given(st.binary(max_size=80), st.integers(0, 8))
def test_any_bytes_are_scanned_or_malformed(data: bytes, entries: int) -> None:
    for view in (data, bytearray(data), memoryview(data)):
        outcomes(BENCH, lambda form, view=view: scanned(form, view, entries))  # type: ignore[misc]


@pytest.mark.parametrize("form", BENCH)
def test_entries_that_end_too_early_or_too_late_are_malformed(form: Any) -> None:
    data = own(1, 5)
    for cut, entries in ((data[:-1], 1), (data, 2), (data + b"x", 1), (b"\x80\0\x02" + bytes(8), 0)):
        with pytest.raises(MalformedFrame):
            scanned(form, cut, entries)
    with pytest.raises(ValueError, match="no span"):
        form.scan(data, 0, len(data) + 1, 1, MARKER, 1, array("q", bytes(8 * form.BUCKETS)))
    with pytest.raises(ValueError, match="too small"):
        form.scan(data, 0, len(data), 1, MARKER, 1, array("q", [0]))
    with pytest.raises(ValueError, match="too small"):
        form.record(array("q", [0]), 1, 1)


@given(
    st.integers(0, 4),
    st.integers(8, 40),
    st.integers(0, 40),
    st.integers(0, U64_MAX - 9),
    st.integers(0, U64_MAX),
)
def test_a_stamp_writes_ids_and_times_and_nothing_else(
    count: int, stride: int, time_at: int, first_id: int, time_ns: int
) -> None:
    def stamped(form: Any) -> bytes:
        frame = bytearray([CANARY]) * (3 + count * stride + 1)
        form.stamp(frame, 3, count, stride, time_at, first_id, time_ns)
        return bytes(frame)

    frame = outcomes(BENCH, stamped)
    if isinstance(frame, bytes):
        expected = bytearray([CANARY]) * len(frame)
        for number in range(count):
            at = 3 + number * stride
            expected[at : at + 8] = (first_id + number).to_bytes(8, "big")
            expected[at + time_at : at + time_at + 8] = time_ns.to_bytes(8, "big")
        assert frame == expected
    else:
        assert not 8 <= time_at <= stride - 8


@pytest.mark.parametrize("form", BENCH)
def test_a_stamp_beyond_the_frame_is_refused(form: Any) -> None:
    with pytest.raises(ValueError, match="no room"):
        form.stamp(bytearray(47), 0, 2, 24, 8, 1, 1)


@given(st.one_of(st.integers(0, 300), st.integers(0, 2**41 - 1)))
@example(127)
@example(128)
@example(2**41 - 1)
def test_a_value_is_counted_in_the_bucket_that_holds_it(value: int) -> None:
    def bucket(form: Any) -> int:
        histogram = array("q", bytes(8 * form.BUCKETS))
        form.record(histogram, value, 3)
        (found,) = [place for place, count in enumerate(histogram) if count == 3]
        return found

    place: Any = outcomes(BENCH, bucket)
    assert upper_us(place - 1) < value <= upper_us(place)
    assert upper_us(place) - value <= value / 64


@pytest.mark.parametrize("form", BENCH)
def test_what_is_too_large_is_counted_in_the_last_bucket(form: Any) -> None:
    histogram = array("q", bytes(8 * form.BUCKETS))
    form.record(histogram, U64_MAX, 1)
    form.record(histogram, 2**41, 1)
    assert histogram[-1] == 2


@given(records, st.booleans(), st.integers(0, 2))
def test_spans_of_records_lie_one_behind_the_other(sent: list[bytes], as_data: bool, spare: int) -> None:
    def spans_of(form: Any) -> object:
        spans = array("q", [CANARY] * (4 * len(sent) + spare))
        longest = form.record_spans(sent, as_data, spans)
        return longest, spans.tolist()

    found: Any = outcomes(CLIENT, spans_of)
    longest, spans = found
    ends = list(itertools.accumulate(map(len, sent)))
    expected = []
    for record, end in zip(sent, ends, strict=True):
        head = -1 if as_data else end - len(record)
        expected += [head, head, end - len(record), end]
    assert (longest, spans) == (max(map(len, sent), default=0), expected + [CANARY] * spare)


@given(
    st.lists(st.integers(0, 1 << 40), max_size=13),
    st.integers(-1, 4),
    st.integers(0, 1 << 40),
    st.integers(0, 16),
)
def test_spans_move_with_what_they_lie_in(fields: list[int], count: int, base: int, room: int) -> None:
    def moved(form: Any) -> object:
        out = array("q", [CANARY] * room)
        form.moved_spans(array("q", fields), count, base, out)
        return out.tolist()

    found: Any = outcomes(CLIENT, moved)
    if 0 <= 4 * count <= min(len(fields), room):
        assert found == [each - base for each in fields[: 4 * count]] + [CANARY] * (room - 4 * count)
    else:
        assert found[0] == "ValueError"


def test_records_have_no_more_spans_than_there_is_room_for() -> None:
    found: Any = outcomes(CLIENT, lambda form: form.record_spans([b"a", b"b"], False, array("q", [0] * 7)))
    assert found[0] == "ValueError"

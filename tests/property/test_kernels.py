"""Compiled and uncompiled, the kernel gives the same results and the same errors, whatever bytes it gets."""

from __future__ import annotations

import struct
import types
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.encoding import _kernel as compiled
from headwater.errors import MalformedChunk, MalformedFrame, MalformedSubBatch
from tests.kernel_forms import both_forms, same_in

U64_MAX = 2**64 - 1
CANARY = 0xA5


FORMS = both_forms(compiled)
uncompiled = FORMS[1]

# Valid input, built by the layouts alone.


def _sub_batch(compression: int, records: int, packed: bytes, spare: int) -> bytes:
    return struct.pack(">BHII", 0x80 | compression << 4, records, 4 * records + spare, len(packed)) + packed


records = st.binary(max_size=40).map(lambda record: struct.pack(">I", len(record)) + record)
sub_batches = st.builds(
    _sub_batch,
    st.integers(0, 4),
    st.integers(1, 65_535),
    st.binary(max_size=40),
    st.integers(0, 1000),
)
entries = st.lists(st.one_of(records, records, sub_batches), max_size=8)
publishing_ids = st.one_of(
    st.integers(0, 6),
    st.sampled_from([2**31, 2**63 - 1, 2**63, U64_MAX - 1, U64_MAX]),
    st.integers(0, U64_MAX),
)
values = st.one_of(st.none(), st.binary(max_size=6))
last_sequences = st.one_of(st.sampled_from([-2, -1, 0, 3, 2**63, U64_MAX]), st.integers(0, U64_MAX))


@st.composite
def bodies(draw: st.DrawFn, filtered: bool) -> tuple[bytes, int]:
    """A Publish body and its message count."""
    parts = []
    messages = draw(entries)
    for entry in messages:
        parts.append(struct.pack(">Q", draw(publishing_ids)))
        if filtered:
            value = draw(values)
            parts.append(b"\xff\xff" if value is None else struct.pack(">H", len(value)) + value)
        parts.append(entry)
    return b"".join(parts), len(messages)


@st.composite
def mutated(draw: st.DrawFn, valid: st.SearchStrategy[tuple[bytes, int]]) -> tuple[bytes, int]:
    """Valid bytes with some of them changed, cut off or doubled; sometimes bytes that mean nothing at all."""
    data, count = draw(valid)
    how = draw(st.sampled_from(["not", "change", "length", "cut", "count", "random"]))
    if how == "change" and data:
        at = draw(st.integers(0, len(data) - 1))
        data = data[:at] + draw(st.binary(min_size=1, max_size=4)) + data[at + 1 :]
    elif how == "length" and len(data) > 4:
        at = draw(st.integers(0, len(data) - 4))
        extreme = draw(st.sampled_from(["80000000", "ffffffff", "7fffffff", "00000000"]))
        data = data[:at] + bytes.fromhex(extreme) + data[at + 4 :]
    elif how == "cut":
        data = data[: draw(st.integers(0, len(data)))]
    elif how == "count":
        count = draw(st.integers(-1, 200_000))
    elif how == "random":
        data = draw(st.binary(max_size=200))
    return data, count


same = same_in(FORMS)


def gathered(
    form: Any, body: bytes, count: int, filtered: bool, last: int, room: int, entries_room: int
) -> tuple[tuple[int, ...], bytes, bytes]:
    """Position and counts, the copied entries and the ids; nothing else in the two buffers may have changed."""
    out, ids = bytearray([CANARY]) * (room + 6), bytearray([CANARY]) * (8 * max(count, 0) + 6)
    result = form.gather_published(
        body, 0, len(body), count, filtered, last, out, 3, 3 + room, entries_room, ids, 3
    )
    out_end, ids_end = result[4], 3 + 8 * result[1]
    for buffer, end in ((out, out_end), (ids, ids_end)):
        assert set(buffer[:3] + buffer[end:]) == {CANARY}
    return result, bytes(out[3:out_end]), bytes(ids[3:ids_end])


def test_both_forms_are_there() -> None:
    assert compiled.COMPILED, "the kernel was not compiled: run `make ready`"
    assert not uncompiled.COMPILED
    assert sorted(uncompiled.__all__) == sorted(
        name for name in uncompiled.__all__ if hasattr(compiled, name)
    )


# gather_published


@given(mutated(bodies(filtered=False)), last_sequences, st.integers(0, 400), st.integers(0, 10))
@example((bytes(8) + b"\x80\x00\x00\x00", 1), -1, 100, 10)
@example((bytes(8) + b"\xff\xff\xff\xff" + bytes(7), 1), -1, 100, 10)
@example((bytes(8) + b"\x7f\xff\xff\xff", 1), -1, 100, 10)
def test_gathering_is_the_same_in_both_forms(
    message: tuple[bytes, int], last: int, room: int, entries_room: int
) -> None:
    body, count = message
    found = same(lambda form: gathered(form, body, count, False, last, room, entries_room))
    assert found[0] in ("result", MalformedFrame, MalformedSubBatch)


@given(mutated(bodies(filtered=True)), last_sequences, st.integers(0, 400), st.integers(0, 10))
@example((bytes(8) + b"\x80\x00" + bytes(8), 1), -1, 100, 10)
@example((bytes(8) + b"\xff\xfe" + bytes(8), 1), -1, 100, 10)
def test_gathering_filtered_messages_is_the_same_in_both_forms(
    message: tuple[bytes, int], last: int, room: int, entries_room: int
) -> None:
    body, count = message
    found = same(lambda form: gathered(form, body, count, True, last, room, entries_room))
    assert found[0] in ("result", MalformedFrame, MalformedSubBatch)
    found = same(lambda form: form.filter_values(body, 0, len(body), count))
    assert found[0] in ("result", MalformedFrame, MalformedSubBatch)


@pytest.mark.parametrize("form", FORMS, ids=["compiled", "uncompiled"])
@given(
    messages=st.lists(st.tuples(publishing_ids, values, st.one_of(records, sub_batches)), max_size=8),
    filtered=st.booleans(),
    last=last_sequences,
    room=st.integers(0, 300),
    entries_room=st.integers(0, 8),
)
def test_gathering_keeps_its_contract(
    form: Any,
    messages: list[tuple[int, bytes | None, bytes]],
    filtered: bool,
    last: int,
    room: int,
    entries_room: int,
) -> None:
    body, out, ids, taken, position = b"", b"", b"", 0, 0
    record_count, copied, before, open_ = 0, 0, last, True
    for publishing_id, value, entry in messages:
        body += struct.pack(">Q", publishing_id)
        if filtered:
            body += b"\xff\xff" if value is None else struct.pack(">H", len(value)) + value
        body += entry
        new = before == -1 or publishing_id > before
        open_ = open_ and not (new and (len(out) + len(entry) > room or copied == entries_room))
        if not open_:
            continue
        taken, position, ids = taken + 1, len(body), ids + struct.pack(">Q", publishing_id)
        if new:
            out, copied = out + entry, copied + 1
            record_count += 1 if entry[0] < 0x80 else struct.unpack_from(">H", entry, 1)[0]
            before = before if last == -1 else publishing_id
    expected = (position, taken, copied, record_count, 3 + len(out), before)
    assert gathered(form, body, len(messages), filtered, last, room, entries_room) == (expected, out, ids)


# new_buffer


@pytest.mark.parametrize("form", FORMS)
def test_a_new_buffer_has_its_size_and_may_be_written(form: Any) -> None:
    for size in (0, 1, 70_000):
        buffer = form.new_buffer(size)
        assert type(buffer) is bytearray
        assert len(buffer) == size
        buffer[:] = bytes(size)
        assert buffer == bytes(size)
    with pytest.raises(ValueError, match="-1 bytes"):
        form.new_buffer(-1)


# join_published


def _frame(
    publisher_id: int, messages: list[tuple[int, bytes]], version: int = 1, spare: bytes = b""
) -> bytes:
    body = b"".join(struct.pack(">Q", id_) + entry for id_, entry in messages) + spare
    return struct.pack(">IHHBI", 9 + len(body), 2, version, publisher_id, len(messages)) + body


def _is_filled(frame: bytes) -> bool:
    """Whether the messages of `frame` end where it ends."""
    end = 13
    for _ in range(int.from_bytes(frame[9:13], "big")):
        head = 12 if frame[end + 8] < 0x80 else 19
        end += head + int.from_bytes(frame[end + head - 4 : end + head], "big")
    return end == len(frame)


frames = st.builds(
    _frame,
    st.sampled_from([1, 1, 1, 2]),
    st.lists(st.tuples(publishing_ids, st.one_of(records, sub_batches)), max_size=3),
    st.sampled_from([1, 1, 1, 2]),
    st.sampled_from([b"", b"", b"", b"x"]),
)


def joined(form: Any, first: bytes, count: int, behind: bytes) -> tuple[tuple[int, ...], bytes]:
    buffer = bytearray(first + behind)
    result = form.join_published(buffer, 13, len(first), len(buffer), count, 1)
    assert buffer[result[2] :] == (first + behind)[result[2] :], "what was not taken stays as it was"
    return result, bytes(buffer[13 : result[1]])


@given(st.lists(frames, min_size=1, max_size=6), st.integers(0, 200), st.integers(0, 255), st.integers(0, 20))
def test_joining_is_the_same_in_both_forms(parts: list[bytes], at: int, byte: int, cut: int) -> None:
    behind = bytearray(b"".join(parts[1:]))
    if behind:
        behind[at % len(behind)] = byte
    count = int.from_bytes(parts[0][9:13], "big")
    found = same(lambda form: joined(form, parts[0], count, bytes(behind[: len(behind) - cut])))
    assert found[0] == "result"


@pytest.mark.parametrize("form", FORMS, ids=["compiled", "uncompiled"])
@given(st.lists(frames, min_size=1, max_size=6))
def test_joined_frames_hold_the_messages_of_each(form: Any, parts: list[bytes]) -> None:
    def fits(part: bytes) -> bool:
        return part[6:9] == b"\0\1\1" and _is_filled(part)

    taken = 1
    if fits(parts[0]):
        while taken < len(parts) and fits(parts[taken]):
            taken += 1
        counts = [int.from_bytes(part[9:13], "big") for part in parts]
        (count, _, position), messages = joined(form, parts[0], counts[0], b"".join(parts[1:]))
        assert count == sum(counts[:taken])
        assert position == sum(map(len, parts[:taken]))
        assert messages == b"".join(part[13:] for part in parts[:taken])


@pytest.mark.parametrize("form", FORMS, ids=["compiled", "uncompiled"])
def test_large_frames_are_left_where_they_are(form: Any) -> None:
    def sized(size: int) -> bytes:
        return _frame(1, [(7, struct.pack(">I", size) + bytes(size))])

    first = sized(10)
    assert joined(form, first, 1, sized((1 << 16) - 21))[0][0] == 2
    assert joined(form, first, 1, sized((1 << 16) - 20))[0] == (1, len(first), len(first))


@pytest.mark.parametrize("form", FORMS, ids=["compiled", "uncompiled"])
def test_gathering_takes_every_kind_of_buffer(form: Any) -> None:
    body = struct.pack(">QI", 7, 3) + b"abc"
    for source in (body, bytearray(body), memoryview(body), memoryview(b"x" + body)[1:]):
        for out in (bytearray(10), memoryview(bytearray(10)), memoryview(bytearray(20))[5:15]):
            ids = memoryview(bytearray(8))
            result = form.gather_published(source, 0, len(body), 1, False, -2, out, 1, 10, 1, ids, 0)
            assert result == (len(body), 1, 1, 1, 8, 7)
            assert bytes(out) == b"\x00\x00\x00\x00\x03abc\x00\x00"
            assert bytes(ids) == body[:8]


@pytest.mark.parametrize("form", FORMS, ids=["compiled", "uncompiled"])
def test_a_large_entry_takes_nothing_and_is_no_error(form: Any) -> None:
    body = struct.pack(">QI", 1, 1000) + bytes(1000)
    assert gathered(form, body, 1, False, -1, 1003, 1)[0] == (0, 0, 0, 0, 3, -1)
    assert gathered(form, body, 1, False, -1, 1004, 1)[0] == (len(body), 1, 1, 1, 1007, -1)


@pytest.mark.parametrize("form", FORMS, ids=["compiled", "uncompiled"])
@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (_sub_batch(5, 1, b"", 0), "compression is unknown"),
        (_sub_batch(0, 0, b"", 9), "holds no records"),
        (struct.pack(">BHII", 0x80, 2, 7, 0), "too small for its records"),
        (struct.pack(">BHII", 0x80, 2, 0x4000001, 0), "above 64 MiB"),
        (struct.pack(">BHII", 0x80, 2, 0xFFFFFFFF, 0), "above 64 MiB"),
    ],
)
def test_an_invalid_sub_batch_names_its_publishing_id_and_lets_those_before_it_be(
    form: Any, entry: bytes, reason: str
) -> None:
    valid = struct.pack(">QI", 1, 0)
    body = valid + struct.pack(">Q", U64_MAX) + entry
    (position, taken, *_), _, _ = gathered(form, body, 2, False, -1, 100, 2)
    assert (position, taken) == (len(valid), 1)
    with pytest.raises(MalformedSubBatch, match=reason) as caught:
        gathered(form, body[position:], 1, False, -1, 100, 2)
    assert caught.value.publishing_id == U64_MAX
    with pytest.raises(MalformedChunk, match=reason):
        form.walk_entries(entry, 0, len(entry), 1)


@pytest.mark.parametrize("form", FORMS, ids=["compiled", "uncompiled"])
@pytest.mark.parametrize("size", [0x80000000, 0xFFFFFFFF])
def test_a_sub_batch_that_is_cut_off_has_nothing_behind_it_that_could_be_read(form: Any, size: int) -> None:
    entry = struct.pack(">BHII", 0x80, 2, 8, size)
    with pytest.raises(MalformedFrame, match="reaches beyond") as caught:
        gathered(form, bytes(8) + entry, 1, False, -1, 100, 2)
    assert not isinstance(caught.value, MalformedSubBatch)
    with pytest.raises(MalformedChunk, match="reaches beyond"):
        form.walk_entries(entry, 0, len(entry), 1)


@pytest.mark.parametrize("form", FORMS, ids=["compiled", "uncompiled"])
def test_the_largest_sub_batch_is_taken(form: Any) -> None:
    entry = struct.pack(">BHII", 0xCF, 65_535, 0x4000000, 1) + b"z"
    assert form.walk_entries(entry, 0, len(entry), 1) == (len(entry), 65_535)
    assert form.entry_spans(entry, 0, len(entry), 1) == [(11, 1, 65_535, 4)]


@pytest.mark.parametrize("form", FORMS, ids=["compiled", "uncompiled"])
@pytest.mark.parametrize(
    ("start", "end", "out_start", "out_end", "ids_start"),
    [
        (-1, 4, 0, 8, 0),
        (5, 4, 0, 8, 0),
        (0, 21, 0, 8, 0),
        (0, 20, -1, 8, 0),
        (0, 20, 0, 9, 0),
        (0, 20, 0, 8, 1),
    ],
)
def test_spans_outside_of_a_buffer_are_refused(
    form: Any, start: int, end: int, out_start: int, out_end: int, ids_start: int
) -> None:
    with pytest.raises(ValueError, match="no span"):
        form.gather_published(
            bytes(20), start, end, 1, False, -1, bytearray(8), out_start, out_end, 1, bytearray(8), ids_start
        )


@pytest.mark.parametrize("form", FORMS, ids=["compiled", "uncompiled"])
def test_filter_values_are_distinct_and_in_order(form: Any) -> None:
    body = b""
    for value in (b"b", None, b"a", b"b", b"", None):
        body += (
            bytes(8) + (b"\xff\xff" if value is None else struct.pack(">H", len(value)) + value) + bytes(4)
        )
    assert form.filter_values(memoryview(body), 0, len(body), 6) == [b"b", None, b"a", b""]


# walk_entries, walk_records, pass_entries and entry_spans


@given(mutated(st.builds(lambda parts: (b"".join(parts), len(parts)), entries)), st.integers(0, 3))
@example((b"\x80\x00\x00\x00", 1), 0)
@example((b"\xff\xff\xff\xff" + bytes(7), 1), 0)
def test_entries_are_the_same_in_both_forms(data: tuple[bytes, int], start: int) -> None:
    start = min(start, len(data[0]))
    walked = same(lambda form: form.walk_entries(data[0], start, len(data[0]), data[1]))
    spans = same(lambda form: form.entry_spans(data[0], start, len(data[0]), data[1]))
    assert walked[0] in ("result", MalformedChunk)
    assert (walked[0] == "result") == (spans[0] == "result")
    if spans[0] == "result":
        assert sum(records for _, _, records, _ in spans[1]) == walked[1][1]


@pytest.mark.parametrize("form", FORMS, ids=["compiled", "uncompiled"])
@given(parts=entries)
def test_spans_give_back_what_the_entries_hold(form: Any, parts: list[bytes]) -> None:
    data = b"head" + b"".join(parts)
    spans = form.entry_spans(data, 4, len(data), len(parts))
    assert form.walk_entries(data, 4, len(data), len(parts)) == (len(data), sum(span[2] for span in spans))
    for part, (position, length, record_count, compression) in zip(parts, spans, strict=True):
        if compression < 0:
            assert (part[4:], 1) == (data[position : position + length], record_count)
        else:
            assert (
                part == struct.pack(">B", 0x80 | compression << 4) + data[position - 10 : position + length]
            )
            assert record_count == struct.unpack_from(">H", part, 1)[0]


@given(mutated(st.builds(lambda parts: (b"".join(parts), len(parts)), entries)), st.integers(-1, 9))
@example((b"\x80\x00\x00\x00", 1), 1)
def test_walking_records_and_passing_entries_is_the_same_in_both_forms(
    data: tuple[bytes, int], records_max: int
) -> None:
    walked = same(lambda form: form.walk_records(data[0], 0, len(data[0]), data[1]))
    passed = same(lambda form: form.pass_entries(data[0], 0, len(data[0]), data[1], records_max))
    assert {walked[0], passed[0]} <= {"result", MalformedChunk}


@pytest.mark.parametrize("form", FORMS, ids=["compiled", "uncompiled"])
@given(parts=entries)
def test_only_single_records_are_walked_as_records(form: Any, parts: list[bytes]) -> None:
    data = b"".join(parts)
    if any(part[0] >= 0x80 for part in parts):
        with pytest.raises(MalformedChunk, match="no single record"):
            form.walk_records(data, 0, len(data), len(parts))
    else:
        assert form.walk_records(data, 0, len(data), len(parts)) == len(data)


@pytest.mark.parametrize("form", FORMS, ids=["compiled", "uncompiled"])
@given(parts=entries, records_max=st.one_of(st.integers(0, 9), st.integers(0, 200_000)))
def test_entries_before_a_record_are_passed(form: Any, parts: list[bytes], records_max: int) -> None:
    data, position, passed, before = b"head" + b"".join(parts), 4, 0, 0
    for part in parts:
        count = 1 if part[0] < 0x80 else struct.unpack_from(">H", part, 1)[0]
        if before == records_max or before + count > records_max:
            break
        position, passed, before = position + len(part), passed + 1, before + count
    assert form.pass_entries(data, 4, len(data), len(parts), records_max) == (position, passed, before)


# scan_chunks


@st.composite
def chunk_runs(draw: st.DrawFn) -> tuple[bytes, int]:
    """Chunks one behind the other with dense offsets, and the first offset; CRCs are not looked at here."""
    first = expected = draw(st.sampled_from([0, 5, 2**32, 2**63 - 100_000]))
    parts = []
    for kind in draw(st.lists(st.integers(0, 2), max_size=5)):
        data = draw(st.binary(min_size=8, max_size=30)) if kind != 1 else b""
        entry_count = draw(st.integers(1, len(data) // 4)) if kind == 0 else 0
        record_count = draw(st.integers(entry_count, 1000)) if kind == 0 else 0
        bloom = draw(st.sampled_from([0, 16, 255]))
        trailer = 28 + bloom + draw(st.integers(0, 20))
        head = struct.pack(
            ">BBHIQQQIIIB3x",
            0x50,
            kind,
            entry_count,
            record_count,
            1,
            2,
            expected,
            3,
            len(data),
            trailer,
            bloom,
        )
        parts.append(head + data + bytes(trailer))
        expected += record_count
    return b"".join(parts), first


def scanned(form: Any, data: bytes, first: int, room: int) -> tuple[tuple[int, ...], list[int]]:
    positions = array("q", [-7]) * (room * form.SCAN_FIELDS + 2)
    result = form.scan_chunks(data, 0, len(data), first, positions)
    found = result[0] * form.SCAN_FIELDS
    assert set(positions[found:]) <= {-7}
    return result, positions[:found].tolist()


@given(mutated(chunk_runs()), st.integers(0, 6))
def test_scanning_is_the_same_in_both_forms(data: tuple[bytes, int], room: int) -> None:
    body, first = data
    if first < 0:
        first = 0
    found = same(lambda form: scanned(form, body, first, room))
    (count, consumed, _, damaged), fields = found[1]
    assert consumed <= len(body)
    assert count <= room
    assert isinstance(damaged, bool)
    for start, deliver, total, *_ in zip(*[iter(fields)] * 6, strict=True):
        assert 0 <= start <= start + 48 <= start + deliver < start + total <= consumed


@pytest.mark.parametrize("form", FORMS, ids=["compiled", "uncompiled"])
@given(run=chunk_runs(), cut=st.integers(0, 40))
def test_a_run_of_chunks_is_found_whole_and_a_cut_one_is_left(
    form: Any, run: tuple[bytes, int], cut: int
) -> None:
    data, first = run
    (count, consumed, expected, damaged), fields = scanned(form, data, first, 10)
    assert (consumed, damaged) == (len(data), False)
    assert expected == first + sum(fields[4::6])
    if data and 0 < cut < 28:
        shorter = scanned(form, data[:-cut], first, 10)
        assert shorter == ((count - 1, fields[-6], fields[-1], False), fields[:-6])


@pytest.mark.parametrize("form", FORMS, ids=["compiled", "uncompiled"])
def test_a_gap_in_the_offsets_is_damage(form: Any) -> None:
    def user(first: int) -> bytes:
        return struct.pack(">BBHIQQQIIIB3x", 0x50, 0, 1, 2, 0, 0, first, 0, 4, 28, 0) + bytes(32)

    assert scanned(form, user(5) + user(7) + user(9), 5, 9)[0] == (3, 240, 11, False)
    assert scanned(form, user(5) + user(8), 5, 9)[0] == (1, 80, 7, True)
    assert scanned(form, user(5) + user(7), 5, 1)[0] == (1, 80, 7, False)
    assert scanned(form, user(2**64 - 1), 0, 9)[0] == (0, 0, 0, True)


def test_the_module_under_test_is_the_one_file() -> None:
    assert isinstance(compiled, types.ModuleType)
    assert Path(compiled.__file__ or "").parent == Path(uncompiled.__file__ or "").parent

"""Runs of transfers and dispositions are found as the layouts say, by both forms alike, whatever bytes come."""

from __future__ import annotations

import itertools
import struct
from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.encoding import _amqp_kernel as compiled
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.amqp_message import decode_message
from headwater.errors import MalformedChunk, MalformedValue
from tests.amqp_frames import (
    NULL,
    TRUE,
    Message,
    Transfer,
    chunk_data,
    compound,
    described,
    descriptor_forms,
    disposition,
    frame,
    frame_of,
    messages,
    records,
    transfers,
    uint,
)
from tests.kernel_forms import both_forms, same_in

FORMS = both_forms(compiled)
EACH = pytest.mark.parametrize("form", FORMS, ids=["compiled", "uncompiled"])
same = same_in(FORMS)
FRAME_MAX = 1 << 20
SERIALS = 2**32


def test_both_forms_are_there() -> None:
    assert FORMS[0].COMPILED, "the kernel was not compiled: run `make ready`"
    assert not FORMS[1].COMPILED


@st.composite
def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """The same with a byte or a length changed, or cut off."""
    how = draw(st.sampled_from(["change", "length", "cut", "not"]))
    at = draw(st.integers(0, max(0, len(data) - 1)))
    if how == "change":
        return data[:at] + draw(st.binary(max_size=2)) + data[at + 1 :]
    if how == "length":
        extreme = draw(st.sampled_from(["80000000", "ffffffff", "7fffffff", "00000000"]))
        return data[:at] + bytes.fromhex(extreme) + data[at + 4 :]
    return data[:at] if how == "cut" else data


# Transfers.


def scanned(
    form: Any,
    data: bytes,
    key: tuple[int, int, int, bool] | None,
    room: int = 9,
    behind: bytes = b"",
    *,
    frame_size_max: int = FRAME_MAX,
    message_size_max: int = 0,
) -> tuple[Any, list[list[int]]]:
    """What peeking at the start tells, and what scanning with it, or with the key, gives."""
    buffer, end = data + behind, len(data)
    peeked = form.peek_transfer(buffer, 0, end, frame_size_max)
    spans = array("q", [-7]) * (SPAN_FIELDS * room + 1)
    arguments = key or peeked or (0, 0, 0, False)
    result = form.scan_transfers(buffer, 0, end, frame_size_max, *arguments, message_size_max, spans)
    assert set(spans[SPAN_FIELDS * result[0] :]) == {-7}
    found = [list(spans[at : at + SPAN_FIELDS]) for at in range(0, SPAN_FIELDS * result[0], SPAN_FIELDS)]
    return (peeked, result), found


@st.composite
def runs(draw: st.DrawFn) -> list[Transfer]:
    """Transfers of which each mostly goes on where the one before it ends."""
    run = [draw(transfers())]
    for drawn in draw(st.lists(transfers(), max_size=4)):
        last = run[-1]
        following = replace(
            drawn,
            channel=last.channel,
            handle=last.handle,
            settled=last.settled,
            delivery_id=(last.delivery_id + 1) % SERIALS,
        )
        run.append(following if draw(st.sampled_from([True, True, True, False])) else drawn)
    return run


def goes_on(last: Transfer, following: Transfer) -> bool:
    return (
        following.channel == last.channel
        and following.handle == last.handle
        and following.settled == last.settled
        and following.delivery_id == (last.delivery_id + 1) % SERIALS
    )


@EACH
@given(run=runs(), room=st.integers(0, 6))
def test_a_run_of_transfers_is_found_as_far_as_it_goes(form: Any, run: list[Transfer], room: int) -> None:
    frames = [frame_of(transfer) for transfer in run]
    data = b"".join(frames)
    count = 1
    while count < len(run) and goes_on(run[count - 1], run[count]):
        count += 1
    count = min(count, room)
    first = run[0]
    (peeked, result), spans = scanned(form, data, None, room)
    assert peeked == (first.channel, first.handle, first.delivery_id, first.settled)
    annotated = sum(bool(transfer.message.annotations) for transfer in run[:count])
    assert result == (count, sum(map(len, frames[:count])), annotated)
    for (head_start, head_end, rest_start, rest_end), transfer in zip(spans, run, strict=False):
        assert data[head_start:head_end] + data[rest_start:rest_end] == transfer.message.record
        assert data[head_end:rest_start] == transfer.message.annotations
        assert data[head_start:rest_end] == transfer.message.payload


@given(runs(), st.data())
def test_scanning_any_bytes_is_the_same_in_both_forms(run: list[Transfer], data: st.DataObject) -> None:
    first = run[0]
    mixed = data.draw(
        st.one_of(
            mutated(b"".join(map(frame_of, run))),
            st.binary(max_size=80).map(lambda body: frame(0, b"\0\x53\x14" + body)),
            st.binary(max_size=80),
        )
    )
    key = data.draw(st.sampled_from([None, (first.channel, first.handle, first.delivery_id, first.settled)]))
    size_max = data.draw(st.sampled_from([0, 60, 300, 2**32 - 1]))
    kind, found = same(lambda form: scanned(form, mixed, key, frame_size_max=size_max))
    (_, (count, position, annotated)), spans = found
    assert kind == "result"
    going_on = frame_of(replace(first, delivery_id=(first.delivery_id + count) % SERIALS))
    for behind in (b"\0" * 99, going_on[len(going_on) // 2 :]):
        assert scanned(compiled, mixed, key, behind=behind, frame_size_max=size_max) == found, (
            "it read beyond the end"
        )
    assert 0 <= annotated <= count
    assert position <= len(mixed)
    last_end = 0
    for head_start, head_end, rest_start, rest_end in spans:
        assert last_end < head_start <= head_end <= rest_start <= rest_end
        last_end = rest_end
    assert last_end == position


PLAIN = Message(rest=described(0x75, b"\xa0\x03abc"))


@EACH
@pytest.mark.parametrize(
    "uncommon",
    [
        frame(0, frame_of(Transfer(PLAIN))[8:], type=1),
        frame(0, frame_of(Transfer(PLAIN))[8:], doff=1),
        frame_of(Transfer(PLAIN))[:-1],
        frame_of(Transfer(Message())),
        frame_of(Transfer(PLAIN, tag=b"")),
        frame_of(Transfer(PLAIN, tag=bytes(33))),
        frame_of(Transfer(PLAIN, format=uint(1))),
        frame_of(Transfer(PLAIN, format=TRUE)),
        *(frame_of(Transfer(PLAIN, others=(NULL,) * at + (TRUE,) + (NULL,) * (5 - at))) for at in range(5)),
        frame(0, described(0x14, compound([uint(0), uint(0), NULL])) + PLAIN.payload),
        frame(0, described(0x14, compound([uint(0), NULL, b"\xa0\x01t"])) + PLAIN.payload),
        frame(0, described(0x14, compound([NULL, uint(0), b"\xa0\x01t"])) + PLAIN.payload),
        frame(0, described(0x14, compound([uint(0), uint(0)])) + PLAIN.payload),
        frame(0, described(0x14, b"\x45") + PLAIN.payload),
        frame(0, described(0x14, compound([uint(0), uint(0), b"\xa0\x01t"] + [NULL] * 9)) + PLAIN.payload),
        frame(0, described(0x14, compound([uint(0)], is_map=True)) + PLAIN.payload),
        frame(0, b"\0\x53\x14\xc0\xff\x03\x43\x43\xa0\x01t" + PLAIN.payload),
        frame(0, b"\0\x53\x14\xd0\xff\xff\xff\xff\0\0\0\x03\x43\x43\xa0\x01t" + PLAIN.payload),
        frame(0, b"\0\xa3\x12amqp:transfer:lisT" + compound([uint(0), uint(0), b"\xa0\x01t"]) + b"payload"),
        frame(0, b""),
        disposition(0, 0),
    ],
)
def test_an_uncommon_frame_ends_the_run_and_is_no_error(form: Any, uncommon: bytes) -> None:
    assert scanned(form, uncommon, (0, 0, 0, False))[0] == (None, (0, 0, 0))
    common = frame_of(Transfer(PLAIN, delivery_id=SERIALS - 1))
    assert scanned(form, common + uncommon, None)[0][1] == (1, len(common), 0)


@EACH
def test_frames_and_messages_above_their_maxima_are_left_to_others(form: Any) -> None:
    data = frame_of(Transfer(PLAIN)) + frame_of(Transfer(Message(rest=PLAIN.rest + b"."), delivery_id=1))
    size, payload = len(frame_of(Transfer(PLAIN))), len(PLAIN.payload)
    assert scanned(form, data, None, frame_size_max=size)[0][1][:2] == (1, size)
    assert scanned(form, data, None, frame_size_max=size - 1)[0] == (None, (0, 0, 0))
    assert scanned(form, data, None, message_size_max=payload)[0][1][:2] == (1, size)
    assert scanned(form, data, None, message_size_max=payload - 1)[0][1][:2] == (0, 0)
    assert scanned(form, data, None, message_size_max=0)[0][1][:2] == (2, len(data))


@EACH
@pytest.mark.parametrize(
    "rest",
    [
        described(0x71, b"\xc1\x09\x02\xa3\x01k"),
        described(0x71, b"\xd1\xff\xff\xff\xff\0\0\0\0"),
        described(0x71, b"\xd1\0\0\0\x03\0\0\0"),
        described(0x71, b"\xc1\0"),
        described(0x71, b"\x45"),
        described(0x71, compound([b"\xa3\x01k", NULL])),
        described(0x70, b"\xc0\x20\0") + described(0x71, compound([], is_map=True)),
        described(0x70, compound([], is_map=True)) + described(0x71, compound([], is_map=True)),
        described(0x73, b"\x45") + described(0x71, compound([], is_map=True)),
        b"\0\0\x53\x71\x40" + compound([], is_map=True),
        b"\0\x80" + (0x100000071).to_bytes(8, "big") + compound([], is_map=True),
        b"\0\x53",
        b"\0\xa3\x1damqp:delivery-annotations:ma",
        b"anything",
    ],
)
def test_what_does_not_parse_is_kept_as_it_is(form: Any, rest: bytes) -> None:
    data = frame_of(Transfer(Message(rest=rest)))
    (_, result), ((head_start, head_end, rest_start, rest_end),) = scanned(form, data, None)
    assert result == (1, len(data), 0)
    assert head_start == head_end == rest_start
    assert data[rest_start:rest_end] == rest
    assert form.skim_message(rest, 0, len(rest))[1] == form.skim_message(rest, 0, len(rest))[2]


@EACH
@given(message=messages(), before=st.binary(max_size=3))
def test_a_message_is_skimmed_wherever_it_stands(form: Any, message: Message, before: bytes) -> None:
    data = before + message.payload
    start = len(before) + len(message.header)
    expected = (True, start, start + len(message.annotations))
    assert form.skim_message(data, len(before), len(data)) == expected
    assert form.skim_message(memoryview(data), len(before), len(data)) == expected


@pytest.mark.parametrize(
    "record",
    [
        *(b"", b"\0", b"\0\x53\x75", b"\0\x53\x6f\x40", b"\0\x53\x79\x40", b"text"),
        b"\0\x53\x75\xa0\x04cut",
        b"\0\x53\x75\xb0\0\0\0\x04cut",
        b"\0\x53\x75\xb0\xff\xff\xff\xffcut",
        b"\0\x53\x75\xa0\x01abehind",
        b"\0\x53\x75\xa0\x01a\0\x53\x79\x40",
        b"\0\x53\x77\0\x53\x01",
        b"\0\x53\x77" + b"\0" * 9,
        b"\0\x53\x77\x30",
        b"\0\x53\x77\x81\0",
    ],
)
def test_what_known_sections_do_not_fill_is_no_message(record: bytes) -> None:
    assert same(lambda form: form.skim_message(record, 0, len(record))) == ("result", (False, 0, 0))


@pytest.mark.parametrize(
    "value",
    [
        *(b"\x40", b"\x41", b"\x44", b"\x45", b"\x50\x01", b"\x60\0\1", b"\x70\0\0\0\1"),
        *(b"\x80" + bytes(8), b"\x98" + bytes(16), b"\xa1\0", b"\xb1\0\0\0\1a", b"\xc0\1\0", b"\xc1\1\0"),
        *(b"\xd0\0\0\0\4\0\0\0\0", b"\xe0\2\0\x40", b"\xf0\0\0\0\5\0\0\0\0\x40"),
        *(b"\0\x53\1\x40", b"\0\0\x53\1\x53\2\0\x53\3\x40"),
    ],
)
def test_a_body_of_any_value_is_a_message(value: bytes) -> None:
    record = b"\0\x53\x77" + value
    decode_message(record, 0, len(record))
    assert same(lambda form: form.skim_message(record, 0, len(record))) == ("result", (True, 0, 0))


@given(st.binary(max_size=40).map(lambda tail: b"\0\x53\x75\xa0\x02ab" + tail))
def test_what_decodes_is_a_message(record: bytes) -> None:
    try:
        decode_message(record, 0, len(record))
    except MalformedValue:
        return
    assert same(lambda form: form.skim_message(record, 0, len(record)))[1][0]


@EACH
@pytest.mark.parametrize(("start", "end"), [(-1, 4), (5, 4), (0, 11)])
def test_spans_outside_of_a_buffer_are_refused(form: Any, start: int, end: int) -> None:
    spans = array("q", bytes(32))
    calls: list[Callable[[], Any]] = [
        lambda: form.peek_transfer(bytes(10), start, end, 512),
        lambda: form.scan_transfers(bytes(10), start, end, 512, 0, 0, 0, False, 0, spans),
        lambda: form.join_dispositions(bytes(10), start, end, 512),
        lambda: form.skim_message(bytes(10), start, end),
        lambda: form.skim_entries(bytes(10), start, end, 1, spans),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="no span"):
            call()


# Dispositions.

ranges = st.tuples(st.sampled_from([0, 5, 300, SERIALS - 3, SERIALS - 1]), st.sampled_from([0, 0, 1, 7, 300]))


@st.composite
def said(draw: st.DrawFn) -> list[tuple[dict[str, Any], bytes]]:
    """Dispositions of which each mostly goes on where the one before it ends."""
    found: list[tuple[dict[str, Any], bytes]] = []
    for drawn, more in draw(st.lists(ranges, min_size=1, max_size=5)):
        first = drawn
        last_one = found[-1][0] if found else None
        fields: dict[str, Any] = {name: draw(st.booleans()) for name in ("receiver", "settled", "accepted")}
        fields["channel"] = draw(st.sampled_from([0, 0, 0, 9]))
        if last_one is not None and draw(st.sampled_from([True, True, True, False])):
            fields = {name: last_one[name] for name in fields}
            first = (last_one["last"] + 1) % SERIALS
        last = (first + more) % SERIALS
        data = disposition(
            first,
            None if not more and draw(st.booleans()) else last,
            **fields,
            state=draw(st.sampled_from([b"\x45", compound([]), compound([], wide=True)])),
            forms=draw(st.tuples(descriptor_forms, descriptor_forms)),
            fields_sent=draw(st.integers(2, 6)),
            wide=draw(st.booleans()),
        )
        found.append(({**fields, "first": first, "last": last}, data))
    return found


@EACH
@given(run=said())
def test_dispositions_that_go_on_are_joined(form: Any, run: list[tuple[dict[str, Any], bytes]]) -> None:
    first, count = run[0][0], 1
    for (one, _), (other, _) in itertools.pairwise(run):
        alike = all(one[name] == other[name] for name in ("receiver", "settled", "accepted", "channel"))
        if not alike or other["first"] != (one["last"] + 1) % SERIALS:
            break
        count += 1
    data = b"".join(frame for _, frame in run)
    joined = form.join_dispositions(data, 0, len(data), FRAME_MAX)
    assert joined == (
        count,
        sum(len(frame) for _, frame in run[:count]),
        first["channel"],
        first["receiver"],
        first["first"],
        run[count - 1][0]["last"],
        first["settled"],
        first["accepted"],
    )


@given(said(), st.data())
def test_joining_any_bytes_is_the_same_in_both_forms(
    run: list[tuple[dict[str, Any], bytes]], data: st.DataObject
) -> None:
    mixed = data.draw(
        st.one_of(
            mutated(b"".join(frame for _, frame in run)),
            st.binary(max_size=40).map(lambda body: frame(0, b"\0\x53\x15" + body)),
        )
    )
    kind, found = same(lambda form: form.join_dispositions(mixed, 0, len(mixed), FRAME_MAX))
    assert kind == "result"
    for behind in (bytes(99), run[-1][1]):
        again = compiled.join_dispositions(mixed + behind, 0, len(mixed), FRAME_MAX)
        assert again == found, "it read beyond the end"
    assert found is None or 0 < found[0] <= found[1] <= len(mixed)


@EACH
@pytest.mark.parametrize(
    "uncommon",
    [
        disposition(5, 4),
        disposition(0, 2**31),
        disposition(0, 0)[:-1],
        frame(0, described(0x15, compound([TRUE])) + b""),
        frame(0, described(0x15, compound([NULL, uint(0)]))),
        frame(0, described(0x15, compound([TRUE, NULL]))),
        frame(0, described(0x15, compound([TRUE, uint(0), TRUE]))),
        frame(0, described(0x15, compound([TRUE, uint(0), NULL, uint(1)]))),
        frame(0, described(0x15, compound([TRUE, uint(0), NULL, TRUE, b"\0\x53\x25\x45"]))),
        frame(0, described(0x15, compound([TRUE, uint(0), NULL, TRUE, b"\0\x53\x24\x40"]))),
        frame(0, described(0x15, compound([TRUE, uint(0), NULL, TRUE, NULL, uint(0)]))),
        frame(0, described(0x15, compound([TRUE, uint(0), NULL, TRUE, NULL, NULL, NULL]))),
        frame(0, described(0x15, compound([TRUE, uint(0)])) + b"payload"),
        frame(0, b"\0\x53\x15\xc0\x04\x03\x41\x43"),
        frame(0, b"\0\x53\x15\xc0\x03\x06\x41\x43"),
        frame_of(Transfer(PLAIN)),
    ],
)
def test_an_uncommon_disposition_is_left_to_others(form: Any, uncommon: bytes) -> None:
    assert form.join_dispositions(uncommon, 0, len(uncommon), FRAME_MAX) is None
    common = disposition(SERIALS - 1, None)
    assert form.join_dispositions(common + uncommon, 0, len(common + uncommon), FRAME_MAX)[0] == 1


@EACH
def test_a_range_is_joined_up_to_half_of_all_ids(form: Any) -> None:
    data = disposition(0, 2**31 - 2) + disposition(2**31 - 1, None) + disposition(2**31, None)
    joined = form.join_dispositions(data, 0, len(data), FRAME_MAX)
    assert (joined[0], joined[4:6]) == (2, (0, 2**31 - 1))


# Entries of a chunk.


def skimmed(form: Any, data: bytes, count: int, room: int = 9, start: int = 0) -> tuple[Any, array[int]]:
    spans = array("q", [-7]) * (SPAN_FIELDS * room + 1)
    result = form.skim_entries(data, start, len(data), count, spans)
    assert set(spans[SPAN_FIELDS * result[0] :]) == {-7}
    return result, spans


@EACH
@given(parts=st.lists(records, max_size=6), room=st.integers(0, 7), count=st.integers(0, 7))
def test_entries_are_skimmed(form: Any, parts: list[bytes], room: int, count: int) -> None:
    data = b"head" + chunk_data(parts)
    (found, position), spans = skimmed(form, data, min(count, len(parts)), room, start=4)
    assert found == min(count, len(parts), room)
    assert position == 4 + len(chunk_data(parts[:found]))
    for part, at in zip(parts[:found], range(0, 4 * found, 4), strict=True):
        head_start, head_end, rest_start, rest_end = spans[at : at + 4]
        is_message, head_bytes, annotations_end = form.skim_message(part, 0, len(part))
        begin = rest_end - len(part)
        assert rest_start == begin + (annotations_end if is_message else 0)
        assert (head_start, head_end) == ((begin, begin + head_bytes) if is_message else (-1, -1))


@given(st.lists(records, max_size=3), st.data())
@example([], None)
def test_skimming_any_chunk_data_is_the_same_in_both_forms(
    parts: list[bytes], data: st.DataObject | None
) -> None:
    mixed = b"\x80\0\0\0" if data is None else data.draw(mutated(chunk_data(parts)))
    found = same(lambda form: skimmed(form, mixed, 3))
    assert found[0] in ("result", MalformedChunk)


@EACH
def test_skimming_stops_before_a_sub_batch_and_refuses_what_is_cut_off(form: Any) -> None:
    data = chunk_data([b"one", b""]) + struct.pack(">BHII", 0x80, 1, 4, 4) + bytes(4)
    assert skimmed(form, data, 9)[0] == (2, 11)
    for cut in (data[:10], data[:6], b"\x7f\xff\xff\xff"):
        with pytest.raises(MalformedChunk, match="reaches beyond the end"):
            skimmed(form, cut, 2)
    with pytest.raises(MalformedChunk, match="entry 2: an entry reaches beyond the end"):
        skimmed(form, data[:11], 3)

"""Annotations are found, and runs sorted, as the layouts say, by both forms alike, whatever bytes come."""

from __future__ import annotations

from array import array
from typing import Any

import mmh3
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.encoding import _hash_kernel as compiled_hash
from headwater.encoding import _key_kernel as compiled
from headwater.encoding._amqp_kernel import skim_message
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.amqp_composite import read_descriptor
from headwater.encoding.amqp_decoder import read_compound, skip
from headwater.encoding.amqp_encoder import encode
from headwater.encoding.amqp_message import Data, Header, Message, SectionCode, encode_message
from headwater.encoding.amqp_types import Array, Described, Symbol, Timestamp, Ulong
from headwater.errors import MalformedValue
from tests.amqp_frames import compound, described
from tests.kernel_forms import both_forms, same_in

FORMS = both_forms(compiled)
HASHES = both_forms(compiled_hash)
EACH = pytest.mark.parametrize("form", FORMS, ids=["compiled", "uncompiled"])
same = same_in(FORMS)
NAME = b"event-streams-group-key"
SECTIONS = (SectionCode.DELIVERY_ANNOTATIONS, SectionCode.MESSAGE_ANNOTATIONS)
DELIVERY, MESSAGE = SECTIONS
CODES: dict[Any, int] = {
    "amqp:header:list": 0x70,
    "amqp:delivery-annotations:map": 0x71,
    "amqp:message-annotations:map": 0x72,
}
NONE, UNREADABLE = compiled.NONE, compiled.UNREADABLE


def spans_of(buffer: bytes, start: int, end: int) -> list[int]:
    """The spans of a message as a run of transfers has them."""
    _, head_end, rest = skim_message(buffer, start, end)
    return [start, head_end, rest, end] if rest != head_end else [start, start, start, end]


def symbol(name: bytes, *, wide: bool = False) -> bytes:
    return b"\xb3" + len(name).to_bytes(4, "big") + name if wide else b"\xa3" + bytes((len(name),)) + name


names = st.sampled_from([NAME, NAME[:-1], NAME + b"s", b"x-opt", b"", b"event-streams-group-kez"])
texts = st.text(max_size=6).map(str.encode)
values = st.one_of(
    texts.map(lambda text: b"\xa1" + bytes((len(text),)) + text),
    texts.map(lambda text: b"\xb1" + len(text).to_bytes(4, "big") + text),
    st.sampled_from([b"\x40", b"\x41", b"\x43", b"\x52\x07", b"\x45", b"\x60\0\1", b"\x71\0\0\0\1"]),
    st.sampled_from(
        [
            encode(value)
            for value in (
                Symbol("key"),
                Ulong(2**63),
                Timestamp(5),
                [1, "two", {"three": 4}],
                {Symbol("a"): "b"},
                b"bytes",
                2.5,
                Described(Ulong(1), "inside"),
                Array((1, 2), int),
            )
        ]
    ),
)
keys = st.one_of(
    names.map(symbol),
    names.map(lambda name: symbol(name, wide=True)),
    st.sampled_from([b"\xa1" + bytes((len(NAME),)) + NAME, encode(Ulong(9)), b"\x40"]),
)
pairs = st.lists(st.tuples(keys, values), max_size=4)


@st.composite
def sections(draw: st.DrawFn, code: int) -> bytes:
    """Annotations in any form, of a map or of something else."""
    items = [part for pair in draw(pairs) for part in pair]
    items += draw(st.sampled_from([[], [], [], [b"\x40"]]))
    value = draw(st.sampled_from([compound(items, is_map=True), compound(items, is_map=True, wide=True)]))
    value = draw(st.sampled_from([value, value, value, value, b"\x45", b"\x40", compound(items)]))
    return described(code, value, draw(st.sampled_from([0x53, 0x80, 0xA3])))


@st.composite
def payloads(draw: st.DrawFn) -> bytes:
    """A message with any of the sections before its body, one of whose bytes may be another."""
    parts = [
        draw(st.sampled_from([b"", b"", encode_message(Message(header=Header(durable=True)))])),
        draw(st.one_of(st.just(b""), sections(0x71))),
        draw(st.one_of(st.just(b""), sections(0x72))),
        draw(st.sampled_from([encode_message(Message(body=Data((b"body",)))), b"", b"\0\x53\x73\xc0\1\0"])),
    ]
    payload = b"".join(parts)
    if draw(st.booleans()) and payload:
        at = draw(st.integers(0, len(payload) - 1))
        payload = payload[:at] + draw(st.binary(max_size=2)) + payload[at + 1 :]
    return payload


def told_by(section: SectionCode, buffer: bytes, spans: list[int]) -> bytes | None:
    """What is found by the general decoder; raises MalformedValue."""
    position, end = spans[1:3] if section is DELIVERY else spans[2:]
    while position < end:
        code, at = section_at(buffer, position, end)
        if code > section:
            return None
        behind = skip(buffer, at, end)
        if code == section:
            return value_in_map(buffer, at, behind)
        position = behind
    return None


def section_at(buffer: bytes, position: int, end: int) -> tuple[int, int]:
    """The code of the section at the position, by number or by name, and where its value begins."""
    descriptor, at = read_descriptor(buffer, position, end)
    code = CODES.get(descriptor, -1) if isinstance(descriptor, str) else descriptor
    is_of_common_form = buffer[position + 1] in (0x53, 0x80, 0xA3)
    if not is_of_common_form or not 0x70 <= code <= 0xFF or at >= end:
        raise MalformedValue("no section")
    return code, at


def value_in_map(buffer: bytes, position: int, end: int) -> bytes | None:
    if buffer[position] not in (0xC1, 0xD1):
        raise MalformedValue("no map")
    count, at, stop = read_compound(buffer, position + 1, end, wide=buffer[position] == 0xD1)
    for _ in range(count // 2):
        value_at = skip(buffer, at, stop)
        behind = skip(buffer, value_at, stop)
        if string_at(buffer, at, value_at) == NAME:
            if buffer[value_at] == 0x40:
                return None
            found = string_at(buffer, value_at, behind)
            if found is None:
                raise MalformedValue("no string")
            return found
        at = behind
    return None


def string_at(buffer: bytes, position: int, behind: int) -> bytes | None:
    """The bytes of a string or symbol; None for any other value."""
    head = {0xA1: 2, 0xA3: 2, 0xB1: 5, 0xB3: 5}.get(buffer[position])
    return None if head is None else buffer[position + head : behind]


@example([b"\0\x53\x72\xd1\xff\xff\xff\xff\xff\xff\xff\xff"])
@example([b"\0\x53\x72\xd1\0\0\0\x04\x80\0\0\0"])
@example([b"\0\x53\x72\xc1\x05\x02\xb3\x80\0\0\0", b"\0\x80\0\0\0\0\0\0\0\x72\xc1"])
@given(st.lists(payloads(), min_size=1, max_size=4))
def test_what_is_found_is_what_the_general_decoder_finds(messages: list[bytes]) -> None:
    buffer = b"".join(messages)
    spans, start = array("q"), 0
    for message in messages:
        spans.extend(spans_of(buffer, start, start + len(message)))
        start += len(message)
    for section in SECTIONS:
        outcomes = []
        for form in FORMS:
            found = array("q", [-7]) * (2 * len(messages) + 1)
            told = form.find_annotations(buffer, spans, 0, len(messages), section, NAME, found)
            outcomes.append((told, found))
        assert outcomes[0] == outcomes[1]
        (there, unreadable), found = outcomes[0]
        assert found.pop() == -7
        assert there == sum(start >= 0 for start in found[::2])
        assert unreadable == found[::2].count(UNREADABLE)
        for number in range(len(messages)):
            start, end = found[2 * number : 2 * number + 2]
            fields = spans[SPAN_FIELDS * number :][:SPAN_FIELDS].tolist()
            if start == UNREADABLE:
                with pytest.raises(MalformedValue):
                    told_by(section, buffer, fields)
            else:
                assert told_by(section, buffer, fields) == (None if start == NONE else buffer[start:end])


@EACH
@pytest.mark.parametrize("key", [b"", b"k", "schlüssel".encode(), bytes(range(255)), b"x" * 256])
@pytest.mark.parametrize("is_wide", [False, True])
def test_a_key_of_any_length_is_found_behind_others(form: Any, key: bytes, is_wide: bool) -> None:
    value = b"\xb1" + len(key).to_bytes(4, "big") + key
    if len(key) < 256 and not is_wide:
        value = b"\xa1" + bytes((len(key),)) + key
    items = [symbol(b"x-opt-n"), encode(Ulong(7)), symbol(b"x-opt-l"), encode(["a", 1]), symbol(NAME), value]
    section = described(0x72, compound(items, is_map=True, wide=is_wide))
    buffer = encode_message(Message(header=Header())) + section + encode_message(Message(body=Data((b"b",))))
    found = array("q", bytes(16))
    spans = array("q", spans_of(buffer, 0, len(buffer)))
    assert form.find_annotations(buffer, spans, 0, 1, MESSAGE, NAME, found) == (1, 0)
    assert buffer[found[0] : found[1]] == key
    assert form.find_annotations(buffer, spans, 0, 1, DELIVERY, NAME, found) == (0, 0)


@given(st.lists(st.integers(-1, 5), max_size=12), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_sorting_keeps_the_order_within_a_partition(
    partitions: list[int], before: int, behind: int, more_rooms: int
) -> None:
    count, room = len(partitions), 6 + more_rooms
    spans = array("q", range(SPAN_FIELDS * (before + count + behind)))
    expected = sorted(
        (number for number in range(count) if partitions[number] >= 0), key=partitions.__getitem__
    )
    for form in FORMS:
        counts = array("q", bytes(8 * room))
        out, order = array("q", [-7]) * (SPAN_FIELDS * count + 1), array("q", [-7]) * (count + 1)
        total = form.sort_spans(spans, before, count, array("q", partitions), counts, out, order)
        assert total == len(expected)
        assert order[:total].tolist() == expected
        assert counts.tolist() == [partitions.count(number) for number in range(room)]
        for place, number in enumerate(expected):
            at = SPAN_FIELDS * (before + number)
            assert out[SPAN_FIELDS * place :][:SPAN_FIELDS].tolist() == list(range(at, at + SPAN_FIELDS))
        assert set(out[SPAN_FIELDS * total :]) | set(order[total:]) == {-7}


def test_a_partition_that_is_not_there_is_refused() -> None:
    def call(form: Any) -> int:
        room = array("q", bytes(64))
        found: int = form.sort_spans(
            array("q", bytes(32)), 0, 1, array("q", [2]), array("q", [0, 0]), room, room
        )
        return found

    assert same(call)[0] is ValueError


@pytest.mark.parametrize(("start", "end"), [(-1, 4), (3, 2), (0, 9)])
def test_spans_outside_of_the_buffer_are_refused(start: int, end: int) -> None:
    spans, found = array("q", [0, start, start, end]), array("q", bytes(16))
    outcome = same(lambda form: form.find_annotations(bytes(8), spans, 0, 1, MESSAGE, NAME, found))
    assert outcome[0] is ValueError
    for form in HASHES:
        with (
            pytest.raises(ValueError, match="is no span of a buffer")
            if start >= 0
            else pytest.raises(AssertionError)
        ):
            form.hash_spans(bytes(8), array("q", [start, end]), 1, 3, array("q", [-7]))
            raise AssertionError


@EACH
@pytest.mark.parametrize("count", [-1, 2])
def test_more_than_there_is_room_for_is_refused(form: Any, count: int) -> None:
    one = array("q", bytes(8 * SPAN_FIELDS))
    with pytest.raises(ValueError, match="is no span"):
        form.find_annotations(b"", one, 0, count, MESSAGE, NAME, one)
    with pytest.raises(ValueError, match="is no span"):
        form.sort_spans(one, 0, count, one, one, one, one)


@given(st.lists(st.one_of(st.none(), st.binary(max_size=9)), max_size=8), st.integers(1, 2**32))
def test_keys_are_hashed_where_they_stand(found: list[bytes | None], modulus: int) -> None:
    buffer, pairs = b"-", array("q")
    for key in found:
        pairs.extend((-1, -1) if key is None else (len(buffer), len(buffer) + len(key)))
        buffer += key or b""
    for form in HASHES:
        out = array("q", [-7]) * (len(found) + 1)
        form.hash_spans(buffer, pairs, len(found), modulus, out)
        expected = [-7 if key is None else mmh3.hash(key, 104_729, signed=False) % modulus for key in found]
        assert out.tolist() == [*expected, -7]

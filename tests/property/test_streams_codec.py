"""Every command comes back from its bytes, and any bytes are a command or a MalformedFrame."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import MalformedFrame
from headwater.streams import commands as c
from headwater.streams import field_types as f
from headwater.streams.codec import (
    CLIENT_DECODERS,
    SERVER_DECODERS,
    decode_request,
    decode_response,
    encode,
)
from headwater.streams.commands import OffsetSpecification, OffsetType
from headwater.streams.layouts import FROM_CLIENT, FROM_SERVER, Layout
from headwater.streams.publish import (
    decode_publish_confirm,
    encode_filtered_publish,
    encode_publish,
    publish_confirm,
    publish_error,
)

Decode = Callable[[bytes, int, int], c.Command]

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
U8, U16, U32, U64 = (st.integers(0, 2**bits - 1) for bits in (8, 16, 32, 64))
I64 = st.integers(-(2**63), 2**63 - 1)
PROPERTIES = st.dictionaries(TEXTS, TEXTS, max_size=4)
SPECIFICATIONS = st.one_of(
    st.sampled_from(OffsetType).filter(lambda kind: kind < OffsetType.OFFSET).map(OffsetSpecification),
    U64.map(lambda offset: OffsetSpecification(OffsetType.OFFSET, offset)),
    I64.map(lambda time: OffsetSpecification(OffsetType.TIMESTAMP, time)),
)
FIELDS: dict[object, st.SearchStrategy[object]] = {
    f.uint8: U8,
    f.uint16: U16,
    f.uint32: U32,
    f.uint64: U64,
    f.int64: I64,
    f.boolean: st.booleans(),
    f.string: TEXTS,
    f.nullable_string: st.none() | TEXTS,
    f.nullable_bytes: st.none() | st.binary(max_size=20),
    f.offset_specification: SPECIFICATIONS,
    f.padded_offset_specification: SPECIFICATIONS,
}


def lists(*fields: st.SearchStrategy[object], kind: type[msgspec.Struct]) -> st.SearchStrategy[object]:
    return st.lists(st.builds(kind, *fields), max_size=4).map(tuple)


NAMED: dict[str, st.SearchStrategy[object]] = {
    "properties": PROPERTIES,
    "arguments": PROPERTIES,
    "peer_properties": PROPERTIES,
    "connection_properties": PROPERTIES,
    "stats": st.dictionaries(TEXTS, I64, max_size=4),
    "commands": lists(U16, U16, U16, kind=c.CommandVersion),
    "brokers": lists(U16, TEXTS, U32, kind=c.Broker),
    "stream_metadata": lists(TEXTS, U16, U16, st.lists(U16, max_size=3).map(tuple), kind=c.StreamMetadata),
    "publishing_errors": lists(U64, U16, kind=c.PublishingError),
    "sasl_opaque_data": st.none() | st.binary(max_size=20),
}
STRINGS = st.lists(TEXTS, max_size=4).map(tuple)


def commands(layout: Layout) -> st.SearchStrategy[c.Command]:
    strategies = [
        FIELDS[field] if field in FIELDS else NAMED.get(name, STRINGS)
        for name, field in layout.fields.items()
    ]
    return st.builds(layout.kind, *strategies)


EITHER = [*((layout, decode_request) for layout in FROM_CLIENT)]
EITHER += [(layout, decode_response) for layout in FROM_SERVER]


@pytest.mark.clause("SP-1")
@pytest.mark.parametrize(
    ("layout", "decode"), EITHER, ids=lambda value: getattr(value, "kind", value).__name__
)
@given(data=st.data())
def test_a_command_comes_back_from_its_bytes(layout: Layout, decode: Decode, data: st.DataObject) -> None:
    command = data.draw(commands(layout))
    before, behind = data.draw(st.binary(max_size=3)), data.draw(st.binary(max_size=3))
    frame = encode(command)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert decode(before + frame + behind, len(before) + 4, len(before) + len(frame)) == command


@pytest.mark.clause("SP-19")
@pytest.mark.parametrize("decode", [decode_request, decode_response])
@given(
    key=st.sampled_from(sorted(CLIENT_DECODERS.keys() | SERVER_DECODERS.keys())) | U16,
    version=st.sampled_from([0, 1, 1, 1, 2, 3]),
    fields=st.binary(max_size=80),
)
def test_any_bytes_are_a_command_or_malformed(decode: Decode, key: int, version: int, fields: bytes) -> None:
    frame = key.to_bytes(2, "big") + version.to_bytes(2, "big") + fields
    try:
        command = decode(frame, 0, len(frame))
    except MalformedFrame:
        return
    if not isinstance(command, c.Publish | c.PublishConfirm | c.Deliver):
        # What was taken may have had a longer form, but it is the same command.
        again = encode(command)
        assert decode(again, 4, len(again)) == command


@pytest.mark.parametrize("decode", [decode_request, decode_response])
@given(fields=st.binary(max_size=40), key=U16)
def test_the_form_of_the_buffer_makes_no_difference(decode: Decode, fields: bytes, key: int) -> None:
    frame = (key & 0x801F).to_bytes(2, "big") + b"\0\1" + fields
    results: list[object] = []
    for buffer in (frame, bytearray(frame), memoryview(frame)):
        try:
            results.append(decode(buffer, 0, len(frame)))  # type: ignore[arg-type]
        except MalformedFrame as error:
            results.append(str(error))
    assert results[0] == results[1] == results[2]


@given(st.lists(st.tuples(U64, st.none() | TEXTS, st.binary(max_size=9)), max_size=5), U8)
def test_publishes_decode_to_the_span_of_their_messages(
    messages: list[tuple[int, str | None, bytes]], publisher_id: int
) -> None:
    plain = encode_publish(publisher_id, [(number, record) for number, _, record in messages])
    filtered = encode_filtered_publish(publisher_id, messages)
    for version, frame in ((1, plain), (2, filtered)):
        expected = c.Publish(publisher_id, version, len(messages), 13, len(frame))
        assert decode_request(frame, 4, len(frame)) == expected


@given(st.lists(U64, max_size=40), U8, st.one_of(st.just(0), st.integers(1, 200)))
def test_confirms_hold_every_id_once_in_frames_up_to_the_maximum(
    numbers: list[int], publisher_id: int, size_max: int
) -> None:
    ids = b"".join(number.to_bytes(8, "big") for number in numbers)
    confirmed, refused = b"", []
    for frame in frames(publish_confirm(publisher_id, ids, size_max), size_max):
        confirm = decode_publish_confirm(frame, 1, 8, len(frame))
        assert confirm.publisher_id == publisher_id
        assert confirm.count or not ids
        confirmed += frame[confirm.start : confirm.end]
    for frame in frames(publish_error(publisher_id, ids, c.ResponseCode.NO_OFFSET, size_max), size_max):
        error = decode_response(frame, 4, len(frame))
        assert isinstance(error, c.PublishError)
        assert {one.code for one in error.publishing_errors} == {c.ResponseCode.NO_OFFSET}
        refused += [one.publishing_id for one in error.publishing_errors]
    assert confirmed == ids
    assert refused == numbers


def frames(data: bytes, size_max: int) -> list[bytes]:
    found = []
    while data:
        size = 4 + int.from_bytes(data[:4], "big")
        one_id = 13 + (8 if data[5] == c.Key.PUBLISH_CONFIRM else 10)
        assert size <= max(size_max, one_id) or size_max == 0
        found.append(data[:size])
        data = data[size:]
    return found

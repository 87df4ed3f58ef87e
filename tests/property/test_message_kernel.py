"""One value is found in a message as decoding all of it finds it, by both forms of the kernel, whatever bytes come."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.encoding import _message_kernel as compiled
from headwater.encoding.amqp_decoder import decode
from headwater.encoding.amqp_message import AmqpValue, Header, Message, encode_message
from headwater.encoding.amqp_types import (
    Array,
    Byte,
    Char,
    Decimal64,
    Described,
    Float32,
    Int,
    Short,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
)
from tests.amqp_frames import described
from tests.kernel_forms import both_forms, same_in

FORMS = both_forms(compiled)
EACH = pytest.mark.parametrize("form", FORMS, ids=["compiled", "uncompiled"])
same = same_in(FORMS)
PROPERTIES, ANNOTATIONS = 0x74, 0x72
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
SIMPLE = st.one_of(
    st.none(),
    st.booleans(),
    TEXT,
    st.just("long " * 80),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.integers(0, 255).map(Ubyte),
    st.integers(0, 2**16 - 1).map(Ushort),
    st.integers(0, 2**32 - 1).map(Uint),
    st.integers(0, 2**64 - 1).map(Ulong),
    st.integers(-128, 127).map(Byte),
    st.integers(-(2**15), 2**15 - 1).map(Short),
    st.integers(-(2**31), 2**31 - 1).map(Int),
    st.integers(-(2**63), 2**63 - 1).map(Timestamp),
    st.floats(width=32, allow_nan=False).map(Float32),
    st.characters(exclude_categories=["Cs"]).map(Char),
    TEXT.filter(str.isascii).map(Symbol),
)
OTHERS = st.one_of(
    st.binary(max_size=3),
    st.uuids(),
    st.binary(min_size=8, max_size=8).map(Decimal64),
    st.lists(st.integers(0, 3), max_size=3),
    st.dictionaries(st.integers(0, 3), TEXT, max_size=2),
    st.builds(Described, TEXT.map(lambda text: Symbol(text.encode().hex())), TEXT),
    st.lists(TEXT, max_size=3).map(lambda items: Array(tuple(items), str)),
)


def test_both_forms_are_there() -> None:
    assert FORMS[0].COMPILED, "the kernel was not compiled: run `make ready`"
    assert not FORMS[1].COMPILED


@EACH
@given(
    properties=st.dictionaries(TEXT, st.one_of(SIMPLE, OTHERS), max_size=6),
    sought=TEXT,
    annotations=st.booleans(),
    is_memoryview=st.booleans(),
)
def test_a_property_is_what_decoding_gives(
    form: Any, properties: dict[str, Any], sought: str, annotations: bool, is_memoryview: bool
) -> None:
    message = Message(
        header=Header(durable=True),
        message_annotations={Symbol("k"): "v", Ulong(5): 1} if annotations else None,
        application_properties=properties,
        body=AmqpValue("body"),
    )
    data = b"??" + encode_message(message) + b"!"
    buffer: Any = memoryview(data) if is_memoryview else data
    for key in {*properties, sought}:
        expected = properties.get(key)
        found = form.map_value(buffer, 2, len(data) - 1, PROPERTIES, key.encode())
        if isinstance(expected, None | bool | int | float | str):
            assert found == expected
            assert isinstance(found, bool) == isinstance(expected, bool)
        else:
            assert found is form.OTHER
    assert form.map_value(buffer, 2, len(data) - 1, ANNOTATIONS, b"k") == ("v" if annotations else None)


@EACH
@pytest.mark.parametrize("descriptor_form", [0x53, 0x80, 0xA3])
@pytest.mark.parametrize("is_wide", [False, True])
@pytest.mark.parametrize("key", [b"\xa1\x01k", b"\xb1\0\0\0\x01k", b"\xa3\x01k", b"\xb3\0\0\0\x01k"])
def test_all_encodings_of_a_map_and_its_keys_are_read(
    form: Any, descriptor_form: int, is_wide: bool, key: bytes
) -> None:
    pairs = b"\xa1\x01j\x40" + key + b"\x54\xff"
    head = struct.pack(">BII", 0xD1, len(pairs) + 4, 4) if is_wide else bytes((0xC1, len(pairs) + 1, 4))
    data = described(0x74, head + pairs, descriptor_form)
    assert form.map_value(data, 0, len(data), PROPERTIES, b"k") == -1
    assert form.map_value(data, 0, len(data) - 1, PROPERTIES, b"k") is None


@EACH
@pytest.mark.parametrize("is_wide", [False, True])
def test_a_field_is_found_by_its_index(form: Any, is_wide: bool) -> None:
    fields = b"\x40" + b"\xa0\x02me" + b"\xa1\x04you!" + b"\x52\x07"
    head = struct.pack(">BII", 0xD0, len(fields) + 4, 4) if is_wide else bytes((0xC0, len(fields) + 1, 4))
    data = described(0x70, b"\x45") + described(0x73, head + fields)
    size = len(data)
    found = [form.list_value(data, 0, size, 0x73, index) for index in range(-1, 6)]
    assert found == [None, None, form.OTHER, "you!", 7, None, None]
    assert decode(data, form.list_position(data, 0, size, 0x73, 1), size)[0] == b"me"
    assert form.list_position(data, 0, size, 0x73, 4) == -1
    assert form.list_value(data, 0, size, 0x70, 0) is None


@EACH
@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        ("80ffffffffffffffff", 2**64 - 1),
        ("808000000000000000", 2**63),
        ("818000000000000000", -(2**63)),
        ("8100000000ffffffff", 2**32 - 1),
        ("81ffffffff80000000", -(2**31)),
        ("7080000000", 2**31),
        ("70ffffffff", 2**32 - 1),
        ("7180000000", -(2**31)),
        ("61ffff", -1),
        ("608000", 2**15),
        ("5601", True),
        ("5600", False),
        ("5602", None),
        ("43", 0),
        ("44", 0),
        ("45", ...),
        ("46", None),
        ("a102c328", None),
        ("7300110000", None),
        ("730000d800", None),
        ("730001f600", "\U0001f600"),
        ("00a10178a10179", ...),
        ("57ff", None),
    ],
)
def test_values_at_the_edges_of_their_types(form: Any, encoded: str, value: object) -> None:
    pair = b"\xa1\x01k" + bytes.fromhex(encoded)
    data = described(0x74, bytes((0xC1, len(pair) + 1, 2)) + pair)
    found = form.map_value(data, 0, len(data), PROPERTIES, b"k")
    assert found == value
    assert type(found) is type(value)


@EACH
def test_a_nan_stays_one(form: Any) -> None:
    data = encode_message(Message(application_properties={"k": math.nan}))
    assert math.isnan(form.map_value(data, 0, len(data), PROPERTIES, b"k"))


@given(data=st.data(), properties=st.dictionaries(TEXT, st.one_of(SIMPLE, OTHERS), max_size=4))
def test_both_forms_do_the_same_on_any_bytes(data: st.DataObject, properties: dict[str, Any]) -> None:
    whole = encode_message(Message(header=Header(), application_properties=properties))
    at = data.draw(st.integers(0, len(whole)))
    how = data.draw(st.sampled_from(["change", "extreme", "cut"]))
    if how == "change":
        whole = whole[:at] + data.draw(st.binary(max_size=3)) + whole[at + 1 :]
    elif how == "extreme":
        extreme = data.draw(st.sampled_from(["80000000", "ffffffff", "7fffffff", "00"]))
        whole = whole[:at] + bytes.fromhex(extreme) + whole[at + 4 :]
    else:
        whole = whole[:at]
    end = data.draw(st.integers(0, len(whole)))
    for key in (*properties, "x"):
        same(lambda form: repr(form.map_value(whole, 0, end, PROPERTIES, key.encode())))  # noqa: B023
    for index in range(5):
        same(lambda form: repr(form.list_value(whole, 0, end, 0x70, index)))  # noqa: B023


@given(data=st.binary(max_size=40), start=st.integers(-1, 41), end=st.integers(-1, 41))
def test_both_forms_refuse_spans_outside_of_the_buffer(data: bytes, start: int, end: int) -> None:
    outcome = same(lambda form: form.list_value(data, start, end, 0x70, 0))
    assert (outcome[0] is ValueError) == (not 0 <= start <= end <= len(data))

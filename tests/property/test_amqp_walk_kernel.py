"""The way through values and sections is that of the decoder, by both forms of the kernel, whatever bytes come."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.encoding import _amqp_walk_kernel as compiled
from headwater.encoding.amqp_decoder import decode, skip
from headwater.encoding.amqp_encoder import encode
from headwater.encoding.amqp_message import SectionCode
from headwater.encoding.amqp_types import Byte, Int, Short, Symbol, Timestamp, Ubyte, Uint, Ulong, Ushort
from headwater.errors import MalformedValue
from tests.amqp_frames import NAMES, compound, described
from tests.kernel_forms import both_forms, same_in

FORMS = both_forms(compiled)
EACH = pytest.mark.parametrize("form", FORMS, ids=["compiled", "uncompiled"])
same = same_in(FORMS)

integers = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-128, 127),
    st.integers(0, 255).map(Ubyte),
    st.integers(0, 2**16 - 1).map(Ushort),
    st.integers(0, 2**32 - 1).map(Uint),
    st.integers(0, 2**63 - 1).map(Ulong),
    st.integers(-128, 127).map(Byte),
    st.integers(-(2**15), 2**15 - 1).map(Short),
    st.integers(-(2**31), 2**31 - 1).map(Int),
    st.integers(-(2**63), 2**63 - 1).map(Timestamp),
    st.sampled_from([Uint(0x80000000), Uint(0xFFFFFFFF), Int(-(2**31))]),
)
values = st.one_of(
    integers,
    st.text(max_size=3),
    st.text(max_size=3).filter(str.isascii).map(Symbol),
    st.just("long" * 100),
    st.binary(max_size=3),
    st.none(),
    st.booleans(),
    st.floats(allow_nan=False),
    st.uuids(),
    st.lists(st.integers(0, 3), max_size=3),
    st.dictionaries(st.integers(0, 3), st.text(max_size=2), max_size=2),
)
anything = st.one_of(values.map(encode), st.binary(max_size=12))


def skipped(data: bytes, position: int) -> int:
    try:
        return skip(data, position, len(data))
    except MalformedValue:
        return -1


def test_both_forms_are_there() -> None:
    assert FORMS[0].COMPILED, "the kernel was not compiled: run `make ready`"
    assert not FORMS[1].COMPILED


@given(data=anything, before=st.binary(max_size=3))
def test_a_value_ends_where_the_decoder_says(data: bytes, before: bytes) -> None:
    buffer, position = before + data, len(before)
    assert same(lambda form: form.skip(buffer, position, len(buffer)))[1] == skipped(buffer, position)
    assert same(lambda form: form.skip(buffer, position, len(buffer) - 1))[1] == skipped(
        buffer[:-1], position
    )


@EACH
@given(number=integers)
def test_an_integer_is_the_one_that_was_written(form: Any, number: int) -> None:
    data = encode(number)
    assert form.integer(data, 0) == number
    assert form.is_integer(data[0]) == (not isinstance(number, Timestamp))


@EACH
@given(value=values)
def test_what_is_no_integer_is_told_apart(form: Any, value: object) -> None:
    data = encode(value)
    is_integer = isinstance(value, int) and not isinstance(value, bool | Timestamp)
    assert form.is_integer(data[0]) == is_integer
    start = form.text_start(data, 0)
    assert (start >= 0) == isinstance(value, str)
    assert not isinstance(value, str) or data[start:].decode() == value


@EACH
@given(items=st.lists(values.map(encode), max_size=4), wide=st.booleans(), index=st.integers(0, 5))
def test_an_item_of_a_list_is_found_by_its_index(
    form: Any, items: list[bytes], wide: bool, index: int
) -> None:
    data = compound(items, wide=wide)
    position = form.list_item(data, 0, len(data), index)
    if index >= len(items):
        assert position == -1
    else:
        assert decode(data, position, len(data))[1] - position == len(items[index])
    assert form.compound_end(data, 0, len(data), 0xC0) == len(data)
    assert form.compound_end(data, 0, len(data), 0xC1) == -1
    assert form.compound_end(data, 0, len(data) - 1, 0xC0) == -1


@given(data=anything, index=st.integers(0, 3))
def test_both_forms_find_the_same_items_whatever_bytes_come(data: bytes, index: int) -> None:
    for code in (0xC0, 0xC1):
        same(lambda form, code=code: form.compound_end(data, 0, len(data), code))  # type: ignore[misc]
    found = same(lambda form: form.list_item(data, 0, len(data), index))[1]
    assert -1 <= found < max(1, len(data))


@EACH
@pytest.mark.parametrize("code", sorted(NAMES.keys() & set(SectionCode)))
@pytest.mark.parametrize("descriptor", [0x53, 0x80, 0xA3])
def test_a_section_is_known_by_its_descriptor(form: Any, code: int, descriptor: int) -> None:
    data = described(code, b"\x40", descriptor)
    assert form.section_code(data, 0, len(data)) == code
    assert form.after_descriptor(data, 0) == len(data) - 1
    assert form.section_code(data, 0, len(data) - 1) == -1


@EACH
@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x80\x00\x00\x00\x00\x00\x00\x01\x73\x40",
        b"\x00\x80\x80\x00\x00\x00\x00\x00\x00\x73\x40",
        b"\x00\x80\xff\xff\xff\xff\xff\xff\xff\xff\x40",
        b"\x00\xa3\x03amp\x40",
        b"\x01\x53\x73\x40",
        b"\x00\x52\x73\x40",
    ],
)
def test_another_descriptor_is_that_of_no_section(form: Any, data: bytes) -> None:
    assert form.section_code(data, 0, len(data)) == -1


@EACH
@pytest.mark.parametrize("size", [b"\x80\x00\x00\x00", b"\xff\xff\xff\xff"])
@pytest.mark.parametrize("code", [0xB0, 0xB1, 0xD0, 0xD1, 0xF0])
def test_a_size_with_its_highest_bit_reaches_beyond_the_end(form: Any, code: int, size: bytes) -> None:
    data = bytes((code,)) + size + bytes(20)
    assert form.skip(data, 0, len(data)) == -1
    assert form.compound_end(data, 0, len(data), 0xC0) == -1

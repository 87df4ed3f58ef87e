"""AMQP values: what is written is read again, in whatever form; any bytes are a value or malformed."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.encoding.amqp_decoder import decode, skip
from headwater.encoding.amqp_encoder import encode
from headwater.errors import InvalidValue, MalformedValue
from tests.amqp_material import INTEGERS, VALUES, exact, long_form


@given(VALUES)
def test_a_value_is_read_as_it_was_written(value: Any) -> None:
    data = encode(value)
    found, behind = decode(data, 0, len(data))
    assert exact(found) == exact(value)
    assert behind == len(data) == skip(data, 0, len(data))


@pytest.mark.clause("AMQP 1.2", "AMQP 1.6")
@given(VALUES, st.randoms(use_true_random=False))
def test_a_value_is_read_in_any_form(value: Any, chance: random.Random) -> None:
    data = long_form(value, chance)
    found, behind = decode(data, 0, len(data))
    assert exact(found) == exact(value)
    assert behind == len(data) == skip(data, 0, len(data))
    assert len(encode(value)) <= len(data)


CODES = st.sampled_from(
    sorted({0, *b"\x40\x41\x42\x43\x44\x45\x50\x52\x53\x55\x56\x70\x73\x80\xa0\xa1\xa3\xb1"})
)
COMPOUNDS = st.sampled_from(sorted(b"\xc0\xc1\xd0\xd1\xe0\xf0"))
NEARLY = st.lists(CODES | COMPOUNDS | st.integers(0, 9), max_size=40).map(bytes)


@given(st.binary(max_size=60) | NEARLY)
def test_any_bytes_are_a_value_or_malformed(data: bytes) -> None:
    try:
        value, behind = decode(data, 0, len(data))
    except MalformedValue:
        return
    assert behind == skip(data, 0, len(data)) <= len(data)
    again = encode(value)
    assert exact(decode(again, 0, len(again))[0]) == exact(value)


@given(VALUES, st.integers(0, 10_000), st.integers(0, 255))
def test_a_changed_byte_makes_another_value_or_none(value: Any, at: int, byte: int) -> None:
    data = bytearray(encode(value))
    data[at % len(data)] = byte
    try:
        found, behind = decode(data, 0, len(data))
    except MalformedValue:
        return
    assert behind == skip(data, 0, len(data)) <= len(data)
    assert encode(found)


@given(st.integers(), st.sampled_from("BHIQbhiq"))
def test_an_integer_out_of_its_range_is_refused(number: int, layout: str) -> None:
    kind = {kind_layout: kind for kind, kind_layout in INTEGERS.items()}[layout]
    try:
        struct.pack(">" + layout, number)
    except struct.error:
        with pytest.raises(InvalidValue):
            encode(kind(number))
    else:
        data = encode(kind(number))
        assert decode(data, 0, len(data)) == (number, len(data))

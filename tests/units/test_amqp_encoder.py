"""Bytes out of values: the shortest form each time, and a refusal of what has none."""

from __future__ import annotations

import enum
from types import NoneType
from typing import Any
from uuid import UUID

import pytest

from headwater.encoding.amqp_encoder import encode
from headwater.encoding.amqp_types import (
    ZERO_WIDTH_ITEMS_MAX,
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
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
from headwater.errors import InvalidValue
from tests.amqp_material import compound

S = Symbol
SIXTEEN = "000102030405060708090a0b0c0d0e0f"


class Colour(enum.IntEnum):
    RED = 3


class Word(Symbol, enum.ReprEnum):
    YES = "yes"


COMPACT: list[tuple[Any, str]] = [
    (None, "40"),
    (True, "41"),
    (False, "42"),
    (Ubyte(0), "5000"),
    (Ushort(1), "600001"),
    (Uint(0), "43"),
    (Uint(255), "52ff"),
    (Uint(256), "7000000100"),
    (Ulong(0), "44"),
    (Ulong(255), "53ff"),
    (Ulong(256), "800000000000000100"),
    (Byte(-1), "51ff"),
    (Short(-1), "61ffff"),
    (Int(0), "5400"),
    (Int(-128), "5480"),
    (Int(127), "547f"),
    (Int(128), "7100000080"),
    (Int(-129), "71ffffff7f"),
    (0, "5500"),
    (-128, "5580"),
    (128, "810000000000000080"),
    (-(2**63), "818000000000000000"),
    (Float32(1.0), "723f800000"),
    (1.0, "823ff0000000000000"),
    (Decimal32(b"abcd"), "7461626364"),
    (Decimal64(b"abcdefgh"), "846162636465666768"),
    (Decimal128(bytes.fromhex(SIXTEEN)), f"94{SIXTEEN}"),
    (Char("😀"), "730001f600"),
    (Timestamp(0), "830000000000000000"),
    (UUID(SIXTEEN), f"98{SIXTEEN}"),
    (b"", "a000"),
    (bytes(255), "a0ff" + "00" * 255),
    (bytes(256), "b000000100" + "00" * 256),
    ("é", "a102c3a9"),
    ("é" * 128, "b100000100" + "c3a9" * 128),
    (S("a"), "a30161"),
    (S("a" * 256), "b300000100" + "61" * 256),
    ([], "45"),
    ([1, None], compound(0xC0, "5501", "40")),
    ([b"x" * 252], compound(0xC0, "a0fc" + "78" * 252)),
    ([b"x" * 253], compound(0xD0, "a0fd" + "78" * 253)),
    ([None] * 254, compound(0xC0, *["40"] * 254)),
    ([None] * 255, compound(0xD0, *["40"] * 255)),
    ({}, compound(0xC1)),
    ({S("a"): [None]}, compound(0xC1, "a30161", compound(0xC0, "40"))),
    (Described(Ulong(0x24), []), "00532445"),
    (Array((), S), compound(0xE0, "a3", count=0)),
    (Array((S("a"), S("")), S), compound(0xE0, "a3", "0161", "00", count=2)),
    (Array(("a", "b" * 256), str), compound(0xF0, "b1", "0000000161", "00000100", "62" * 256, count=2)),
    (Array((Uint(0), Uint(255)), Uint), compound(0xE0, "52", "00", "ff", count=2)),
    (Array((Uint(0), Uint(256)), Uint), compound(0xE0, "70", "00000000", "00000100", count=2)),
    (Array((-1, -128), int), compound(0xE0, "55", "ff", "80", count=2)),
    (Array((Ushort(1),), Ushort), compound(0xE0, "60", "0001", count=1)),
    (Array((True, False), bool), compound(0xE0, "56", "01", "00", count=2)),
    (Array((None, None), NoneType), compound(0xE0, "40", count=2)),
    (Array((Char("a"),), Char), compound(0xE0, "73", "00000061", count=1)),
    (Array(([], [None]), list), compound(0xE0, "c0", "0100", "020140", count=2)),
    (Array((Array((True,), bool),), Array), compound(0xE0, "e0", "03015601", count=1)),
    (
        Array((Described(S("d"), [1]),), Described(S("d"), list)),
        compound(0xE0, "00a30164", "c0", "03015501", count=1),
    ),
    (Array(tuple(Ubyte(1) for _ in range(256)), Ubyte), compound(0xF0, "50", *["01"] * 256, count=256)),
    (Colour.RED, "5503"),
    (Word.YES, "a303796573"),
]


@pytest.mark.clause("AMQP 1.6")
@pytest.mark.parametrize(("value", "data"), COMPACT)
def test_a_value_is_written_in_its_shortest_form(value: object, data: str) -> None:
    assert encode(value).hex() == bytes.fromhex(data).hex()


def cyclic() -> list[object]:
    value: list[object] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1, 2},
        Ubyte(256),
        Ubyte(-1),
        Uint(-1),
        Uint(2**32),
        Ulong(2**64),
        2**63,
        Byte(128),
        Timestamp(2**63),
        Float32(1e300),
        "\ud800",
        Char("ab"),
        Char(""),
        Char("\ud800"),
        S("é"),
        Decimal32(b"abc"),
        [object()],
        {object(): 1},
        Described(object(), 1),
        Array(("a",), S),
        Array((1,), "a"),
        Array((1, "a"), int),
        Array((object(),), object),
        Array((Described(1, 2),), Described),
        Array((Described(S("a"), 1), Described(S("b"), 1)), Described(S("a"), int)),
        Array((1,), Described(S("a"), int)),
        Array((None,) * (ZERO_WIDTH_ITEMS_MAX + 1), NoneType),
        Array((Uint(2**32),), Uint),
        cyclic(),
    ],
)
def test_a_value_without_a_form_is_refused(value: object) -> None:
    with pytest.raises(InvalidValue):
        encode(value)


def test_no_text_is_told_on() -> None:
    for value in ("secret\ud800", S("secreté")):
        with pytest.raises(InvalidValue) as raised:
            encode(value)
        assert raised.value.__suppress_context__
        assert "secret" not in str(raised.value)

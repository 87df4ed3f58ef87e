"""Values out of bytes: every format code of the specification, and everything that is none."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from types import NoneType
from typing import Any
from uuid import UUID

import pytest

from headwater.encoding.amqp_decoder import CHOSEN_HASH_KEYS_MAX, decode, skip
from headwater.encoding.amqp_types import (
    NESTING_DEPTH_MAX,
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
from headwater.errors import MalformedValue
from tests.amqp_material import compound, exact

S = Symbol
SIXTEEN = "000102030405060708090a0b0c0d0e0f"

ONE = Array((Uint(1),), Uint)
DESCRIBED_TEXTS = Array((Described(Ulong(5), "a"),), Described(Ulong(5), str))
TWICE_DESCRIBED_NULLS = Array(
    (Described(S("a"), Described(Ulong(5), None)),) * 2, Described(S("a"), Described(Ulong(5), NoneType))
)

ENCODINGS: list[tuple[str, Any]] = [
    ("40", None),
    ("41", True),
    ("42", False),
    ("5600", False),
    ("5601", True),
    ("50ff", Ubyte(255)),
    ("60ffff", Ushort(65535)),
    ("70ffffffff", Uint(2**32 - 1)),
    ("5280", Uint(128)),
    ("43", Uint(0)),
    ("80ffffffffffffffff", Ulong(2**64 - 1)),
    ("53ff", Ulong(255)),
    ("44", Ulong(0)),
    ("5180", Byte(-128)),
    ("618000", Short(-(2**15))),
    ("7180000000", Int(-(2**31))),
    ("54ff", Int(-1)),
    ("818000000000000000", -(2**63)),
    ("5580", -128),
    ("723f800000", Float32(1.0)),
    ("82bff0000000000000", -1.0),
    ("7412345678", Decimal32(bytes.fromhex("12345678"))),
    ("840102030405060708", Decimal64(bytes.fromhex("0102030405060708"))),
    (f"94{SIXTEEN}", Decimal128(bytes.fromhex(SIXTEEN))),
    ("730001f600", Char("😀")),
    ("83ffffffffffffffff", Timestamp(-1)),
    (f"98{SIXTEEN}", UUID(SIXTEEN)),
    ("a002 00ff", b"\x00\xff"),
    ("b000000002 00ff", b"\x00\xff"),
    ("a102 c3a9", "é"),
    ("b100000002 c3a9", "é"),
    ("a301 61", S("a")),
    ("b300000001 61", S("a")),
    ("45", []),
    (compound(0xC0), []),
    (compound(0xC0, "5501", "40"), [1, None]),
    (compound(0xD0, "5501", compound(0xD0, "41")), [1, [True]]),
    (compound(0xC1), {}),
    (compound(0xC1, "a30161", "45"), {S("a"): []}),
    (compound(0xD1, "a10161", "5501", "98" + SIXTEEN, "40"), {"a": 1, UUID(SIXTEEN): None}),
    (compound(0xE0, "56", "01", "00", count=2), Array((True, False), bool)),
    (compound(0xE0, "52", count=0), Array((), Uint)),
    (compound(0xE0, "70", "00000001", "00000002", count=2), Array((Uint(1), Uint(2)), Uint)),
    (compound(0xF0, "a3", "0161", "00", count=2), Array((S("a"), S("")), S)),
    (compound(0xF0, "b1", "0000000161", count=1), Array(("a",), str)),
    (compound(0xE0, "40", count=3), Array((None, None, None), NoneType)),
    (compound(0xE0, "42", count=2), Array((False, False), bool)),
    (compound(0xE0, "44", count=2), Array((Ulong(0), Ulong(0)), Ulong)),
    (compound(0xE0, "45", count=2), Array(([], []), list)),
    (compound(0xE0, "c0", "03015501", "0100", count=2), Array(([1], []), list)),
    (compound(0xE0, "e0", "03015201", "020060", count=2), Array((ONE, Array((), Ushort)), Array)),
    (compound(0xE0, "005305", "a1", "0161", count=1), DESCRIBED_TEXTS),
    (compound(0xE0, "00a30161 005305 40", count=2), TWICE_DESCRIBED_NULLS),
    ("00 53 24 45", Described(Ulong(0x24), [])),
    ("00 a30161 00 44 40", Described(S("a"), Described(Ulong(0), None))),
    ("00 00 a10161 40 43", Described(Described("a", None), Uint(0))),
]

MALFORMED = [
    "",
    *(f"{code:02x}" for code in (0x01, 0x30, 0x46, 0x57, 0x75, 0x99, 0xA2, 0xC2, 0xE1, 0xFF)),
    "5602",
    "56ff",
    "7300110000",
    "730000d800",
    "73ffffffff",
    "a101ff",
    "a102c3",
    "a103eda080",
    "a30180",
    "b0ffffffff",
    "b000000002 61",
    "c000",
    "c00001",
    "c00101",
    "c00201",
    "c0030141 41",
    "d0000000 03 00000000",
    "d0ffffffff 00000000",
    "d0000000 04 ffffffff",
    compound(0xC0, "5501", count=2),
    compound(0xC0, "5501", count=0),
    compound(0xC0, "8100"),
    compound(0xC1, "40"),
    compound(0xC1, "a30161", "40", "a30161", "41"),
    compound(0xC1, "41", "40", "5501", "41"),
    compound(0xC1, "45", "40"),
    compound(0xC1, "c10100", "40"),
    compound(0xC1, "00530145", "40"),
    compound(0xE0, count=0),
    compound(0xE0, "46", count=0),
    compound(0xE0, "00", count=0),
    compound(0xE0, "0053", count=0),
    compound(0xE0, "0040", count=0),
    compound(0xE0, "70", "000000", count=1),
    compound(0xE0, "70", "00000001", "00", count=1),
    compound(0xF0, "70", count=0xFFFFFFFF),
    "00",
    "0053",
    "005324",
    "0024 40",
]


@pytest.mark.clause("AMQP 1.2")
@pytest.mark.parametrize(("data", "value"), ENCODINGS)
def test_every_encoding_of_a_value_is_read(data: str, value: object) -> None:
    encoded = bytes.fromhex(data)
    for buffer in (encoded, bytearray(encoded), memoryview(encoded), b"." + encoded + b"."):
        start = len(buffer) // 2 - len(encoded) // 2 if buffer[:1] == b"." else 0
        found, behind = decode(buffer, start, start + len(encoded))
        assert exact(found) == exact(value)
        assert behind == start + len(encoded) == skip(buffer, start, start + len(encoded))


@pytest.mark.parametrize(("data", "value"), ENCODINGS)
def test_no_value_is_read_beyond_the_end(data: str, value: object) -> None:
    encoded = bytes.fromhex(data)
    for end in range(len(encoded)):
        with pytest.raises(MalformedValue):
            decode(encoded, 0, end)
        with pytest.raises(MalformedValue):
            skip(encoded, 0, end)


def test_every_format_code_of_the_specification_is_among_them() -> None:
    codes = {bytes.fromhex(data)[0] for data, _ in ENCODINGS}
    rest = set(range(256)) - codes
    for code in rest:
        with pytest.raises(MalformedValue, match="no format code"):
            decode(bytes((code,)) + bytes(40), 0, 41)
    assert len(codes) == 40


@pytest.mark.clause("AMQP 1.2")
@pytest.mark.parametrize("data", MALFORMED)
def test_bytes_that_are_no_value_are_malformed(data: str) -> None:
    encoded = bytes.fromhex(data)
    with pytest.raises(MalformedValue) as raised:
        decode(encoded, 0, len(encoded))
    assert raised.value.condition == "amqp:decode-error"


def test_a_nan_is_read() -> None:
    for data in (bytes.fromhex("727fc00000"), bytes.fromhex("827ff8000000000000")):
        assert math.isnan(decode(data, 0, len(data))[0])


NESTINGS: dict[str, Callable[[str], str]] = {
    "lists": lambda inner: compound(0xD0, inner),
    "maps": lambda inner: compound(0xD1, "40", inner),
    "arrays": lambda inner: compound(0xF0, inner, count=1),
    "described arrays": lambda inner: compound(0xF0, f"00{inner}40", count=0),
    "descriptors": lambda inner: f"00{inner}40",
    "described": lambda inner: f"0040{inner}",
}


def nested(kind: str, depth: int) -> bytes:
    data = compound(0xF0, "40", count=1) if kind == "arrays" else "40"
    for _ in range(depth - (kind == "arrays")):
        data = NESTINGS[kind](data)
    return bytes.fromhex(data)


@pytest.mark.clause("AMQP 1.2")
@pytest.mark.parametrize("kind", NESTINGS)
def test_nesting_has_a_limit(kind: str) -> None:
    data = nested(kind, NESTING_DEPTH_MAX if kind != "described arrays" else NESTING_DEPTH_MAX // 2)
    assert decode(data, 0, len(data))[1] == len(data)
    for depth in (NESTING_DEPTH_MAX + 1, 5 * NESTING_DEPTH_MAX if kind == "described arrays" else 2000):
        data = nested(kind, depth)
        with pytest.raises(MalformedValue, match="nested"):
            decode(data, 0, len(data))
        assert skip(data, 0, len(data)) == len(data)


def test_depth_counts_from_where_the_value_stands() -> None:
    data = nested("lists", 2)
    assert decode(data, 0, len(data), NESTING_DEPTH_MAX - 2)[0] == [[None]]
    with pytest.raises(MalformedValue, match="nested"):
        decode(data, 0, len(data), NESTING_DEPTH_MAX - 1)


@pytest.mark.parametrize("code", ["40", "41", "43", "44", "45", "005301 40"])
def test_an_array_of_items_without_bytes_has_a_limit(code: str) -> None:
    data = bytes.fromhex(compound(0xF0, code, count=ZERO_WIDTH_ITEMS_MAX))
    assert len(decode(data, 0, len(data))[0].items) == ZERO_WIDTH_ITEMS_MAX
    for count in (ZERO_WIDTH_ITEMS_MAX + 1, 1_000_000, 2**32 - 1):
        data = bytes.fromhex(compound(0xF0, code, count=count))
        with pytest.raises(MalformedValue, match="without bytes"):
            decode(data, 0, len(data))


@pytest.mark.parametrize("code", [0xB0, 0xB1, 0xB3, 0xD0, 0xD1, 0xF0])
def test_no_length_makes_memory_before_the_bytes_are_there(code: int) -> None:
    data = bytes((code,)) + b"\xff\xff\xff\xf0" * 2 + bytes(100)
    tracemalloc.start()
    try:
        for read in (decode, skip):
            with pytest.raises(MalformedValue):
                read(data, 0, len(data))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_no_text_of_a_peer_is_told_on() -> None:
    for data in (b"\xa1\x08secret\xff\xff", b"\xa3\x08secret\xff\xff"):
        with pytest.raises(MalformedValue) as raised:
            decode(data, 0, len(data))
        assert raised.value.__suppress_context__
        assert "secret" not in str(raised.value)


@pytest.mark.parametrize("described", [False, True])
def test_a_map_has_a_limit_for_keys_that_a_peer_can_make_collide(described: bool) -> None:
    def mapped(count: int) -> bytes:
        same_hash = [(number * (2**61 - 1)).to_bytes(16, "big").hex() for number in range(count)]
        keys = [("0040" if described else "") + "98" + each for each in same_hash]
        return bytes.fromhex(compound(0xD1, *(part for key in keys for part in (key, "40"))))

    data = mapped(CHOSEN_HASH_KEYS_MAX)
    assert len(decode(data, 0, len(data))[0]) == CHOSEN_HASH_KEYS_MAX
    with pytest.raises(MalformedValue, match="hold a UUID"):
        decode(data := mapped(CHOSEN_HASH_KEYS_MAX + 1), 0, len(data))

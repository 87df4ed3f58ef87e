"""Types of fields: what each takes in place of its plain form, and what it refuses."""

from __future__ import annotations

import enum
from typing import Any
from uuid import UUID

import pytest

from headwater.encoding.amqp_encoder import encoded
from headwater.encoding.amqp_fields import (
    Enumeration,
    FieldType,
    Map,
    annotation_map,
    anything,
    binary,
    boolean,
    capabilities,
    field_map,
    list_of_anything,
    message_id,
    string,
    symbol,
    symbols,
    timestamp,
    ubyte,
    uint,
    ulong,
    ushort,
)
from headwater.encoding.amqp_types import NESTING_DEPTH_MAX, Described, Symbol, Timestamp, Ulong
from headwater.errors import InvalidField, InvalidValue, MalformedValue
from tests.amqp_material import compound, exact

S = Symbol
SIXTEEN = "000102030405060708090a0b0c0d0e0f"


class Size(enum.IntEnum):
    SMALL = 0
    LARGE = 7


SIZE = Enumeration(Size, uint)
TAGS = Map(binary, (bytes,), uint)

WRITTEN: list[tuple[FieldType, Any, str]] = [
    (boolean, True, "41"),
    (ubyte, 255, "50ff"),
    (ushort, 65535, "60ffff"),
    (uint, 0, "43"),
    (uint, 255, "52ff"),
    (uint, 256, "7000000100"),
    (ulong, 0, "44"),
    (ulong, 255, "53ff"),
    (ulong, 2**64 - 1, "80ffffffffffffffff"),
    (timestamp, Timestamp(1), "830000000000000001"),
    (binary, b"a", "a00161"),
    (string, "a", "a10161"),
    (symbol, S("a"), "a30161"),
    (list_of_anything, [1], compound(0xC0, "5501")),
    (anything, Described(S("a"), None), "00a3016140"),
    (SIZE, Size.LARGE, "5207"),
    (SIZE, Size.SMALL, "43"),
    (symbols, (S("a"), S("b")), compound(0xE0, "a3", "0161", "0162", count=2)),
    (symbols, (S("a"),), compound(0xE0, "a3", "0161", count=1)),
    (capabilities, (S("aa"), S("b")), compound(0xE0, "a3", "026161", "0162", count=2)),
    (message_id, Ulong(1), "5301"),
    (message_id, UUID(SIXTEEN), f"98{SIXTEEN}"),
    (message_id, b"a", "a00161"),
    (message_id, "a", "a10161"),
    (field_map, {S("a"): 1, S("b"): None}, compound(0xC1, "a30161", "5501", "a30162", "40")),
    (field_map, {}, compound(0xC1)),
    (annotation_map, {S("a"): True, Ulong(1): []}, compound(0xC1, "a30161", "41", "5301", "45")),
    (TAGS, {b"a": 1, b"": None}, compound(0xC1, "a00161", "5201", "a000", "40")),
]


@pytest.mark.parametrize(("field", "value", "data"), WRITTEN)
def test_a_field_is_read_as_it_is_written(field: FieldType, value: object, data: str) -> None:
    encoded_value = bytes.fromhex(data)
    assert encoded(field.write, value).hex() == data
    found, behind = field.read(b"." + encoded_value + b".", 1, 1 + len(encoded_value), 0)
    assert exact(found) == exact(value)
    assert behind == 1 + len(encoded_value)


@pytest.mark.clause("AMQP 1.4", "AMQP encoding 3")
@pytest.mark.parametrize(
    ("field", "data", "value"),
    [
        (uint, "7000000001", 1),
        (ulong, "800000000000000001", 1),
        (boolean, "5601", True),
        (string, "b10000000161", "a"),
        (symbols, "a30161", (S("a"),)),
        (symbols, "b30000000161", (S("a"),)),
        (symbols, compound(0xC0, "a30161", "a30162"), (S("a"), S("b"))),
        (symbols, compound(0xF0, "b3", "0000000161", count=1), (S("a"),)),
        (symbols, compound(0xE0, "a3", count=0), ()),
        (symbols, "45", ()),
        (capabilities, "a306736861726564", (S("shared"),)),
        (capabilities, compound(0xE0, "a3", *(f"01{ord(c):x}" for c in "shared"), count=6), (S("shared"),)),
        (capabilities, compound(0xC0, *(f"a301{ord(c):x}" for c in "shared")), (S("shared"),)),
        (capabilities, compound(0xC0, "a30161"), (S("a"),)),
        (capabilities, compound(0xC0, "a30161", "a3026161"), (S("a"), S("aa"))),
        (field_map, compound(0xD1, "a10161", "5501"), {"a": 1}),
    ],
)
def test_other_forms_are_read_too(field: FieldType, data: str, value: object) -> None:
    encoded_value = bytes.fromhex(data)
    found, behind = field.read(encoded_value, 0, len(encoded_value), 0)
    assert exact(found) == exact(value)
    assert behind == len(encoded_value)


@pytest.mark.parametrize(
    ("field", "data"),
    [
        (boolean, "43"),
        (ubyte, "43"),
        (ushort, "5001"),
        (uint, "5301"),
        (uint, "5401"),
        (ulong, "5201"),
        (timestamp, "5501"),
        (binary, "a10161"),
        (string, "a30161"),
        (symbol, "a10161"),
        (list_of_anything, compound(0xC1)),
        (SIZE, "5201"),
        (SIZE, "5301"),
        (symbols, "a10161"),
        (symbols, compound(0xC0, "a10161")),
        (symbols, compound(0xE0, "a1", "0161", count=1)),
        (symbols, "41"),
        (message_id, "5201"),
        (message_id, "a30161"),
        (field_map, "45"),
        (field_map, compound(0xC1, "5301", "40")),
        (annotation_map, compound(0xC1, "5201", "40")),
        (TAGS, compound(0xC1, "a00161", "5301")),
    ],
)
def test_another_type_is_refused(field: FieldType, data: str) -> None:
    encoded_value = bytes.fromhex(data)
    with pytest.raises(InvalidField):
        field.read(encoded_value, 0, len(encoded_value), 0)


@pytest.mark.parametrize(
    ("field", "data"),
    [
        (uint, "52"),
        (uint, "70000000"),
        (ulong, "53"),
        (boolean, "56"),
        (boolean, "5602"),
        (symbols, "a302 61"),
        (TAGS, compound(0xC1, "a00161")),
        (TAGS, compound(0xC1, "a00161", "43", "a00161", "43")),
        (TAGS, compound(0xC1, "a00161", "43", count=4)),
        (TAGS, compound(0xC1, "a00161", "43", count=0)),
        (TAGS, compound(0xC1, "a00161", "43", count=1)),
        (TAGS, compound(0xC1, "a00161", "52")),
        (TAGS, "c1"),
        (TAGS, "c1ff00"),
    ],
)
def test_bytes_that_are_cut_off_or_do_not_add_up_are_malformed(field: FieldType, data: str) -> None:
    encoded_value = bytes.fromhex(data)
    with pytest.raises(MalformedValue):
        field.read(encoded_value, 0, len(encoded_value), 0)


def test_a_map_counts_as_a_level_of_nesting() -> None:
    data = bytes.fromhex(compound(0xC1, "a30161", "40"))
    assert field_map.read(data, 0, len(data), NESTING_DEPTH_MAX - 1)[0] == {"a": None}
    with pytest.raises(MalformedValue, match="nested"):
        field_map.read(data, 0, len(data), NESTING_DEPTH_MAX)


def test_what_is_no_array_of_symbols_is_null() -> None:
    assert encoded(symbols.write, ()) == b"\x40"


def test_a_plain_integer_is_a_message_id() -> None:
    assert encoded(message_id.write, 5) == bytes.fromhex("5305")


def test_a_field_out_of_its_range_is_refused() -> None:
    for field, value in ((uint, 2**32), (uint, -1), (ubyte, 256), (symbol, "é"), (message_id, -1)):
        with pytest.raises(InvalidValue):
            encoded(field.write, value)

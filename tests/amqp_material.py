"""AMQP values of every type, for hypothesis, and a comparison that tells their types apart."""

from __future__ import annotations

import random
import struct
from types import NoneType
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from headwater.encoding.amqp_encoder import encode
from headwater.encoding.amqp_types import (
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


def compound(code: int, *items: str, count: int | None = None) -> str:
    """A list, map or array of these items, in hex; its code says how wide size and count are."""
    contents = "".join(items).replace(" ", "")
    width = 2 if code & 0x10 == 0 else 8
    size = (len(contents) + width) // 2
    return f"{code:02x}{size:0{width}x}{len(items) if count is None else count:0{width}x}{contents}"


def laid_out(code: int, *fields: str) -> str:
    """A composite of these fields, in hex."""
    return f"0053{code:02x}{compound(0xC0, *fields)}"


def integers(low: int, high: int) -> st.SearchStrategy[int]:
    """Of a range, its ends and what fits into a byte more often."""
    return (
        st.sampled_from([low, high, 0, 1, 127])
        | st.integers(max(low, -130), min(high, 258))
        | (st.integers(low, high))
    )


TEXT = st.text(max_size=20) | st.integers(250, 260).map(lambda count: "é" * (count // 2) + "x" * (count % 2))
BYTES = st.binary(max_size=20) | st.integers(250, 260).map(bytes)
NAMES = st.text(st.characters(max_codepoint=127), max_size=20) | st.integers(250, 260).map(lambda n: "n" * n)
SYMBOLS = NAMES.map(Symbol)

SCALARS: dict[type, st.SearchStrategy[Any]] = {
    NoneType: st.none(),
    bool: st.booleans(),
    Ubyte: integers(0, 2**8 - 1).map(Ubyte),
    Ushort: integers(0, 2**16 - 1).map(Ushort),
    Uint: integers(0, 2**32 - 1).map(Uint),
    Ulong: integers(0, 2**64 - 1).map(Ulong),
    Byte: integers(-(2**7), 2**7 - 1).map(Byte),
    Short: integers(-(2**15), 2**15 - 1).map(Short),
    Int: integers(-(2**31), 2**31 - 1).map(Int),
    int: integers(-(2**63), 2**63 - 1),
    Float32: st.floats(width=32).map(Float32),
    float: st.floats(),
    Decimal32: st.binary(min_size=4, max_size=4).map(Decimal32),
    Decimal64: st.binary(min_size=8, max_size=8).map(Decimal64),
    Decimal128: st.binary(min_size=16, max_size=16).map(Decimal128),
    Char: st.characters(exclude_categories=["Cs"]).map(Char),
    Timestamp: integers(-(2**63), 2**63 - 1).map(Timestamp),
    UUID: st.uuids(),
    bytes: BYTES,
    str: TEXT,
    Symbol: SYMBOLS,
}
SCALAR = st.one_of(*SCALARS.values())
KEYS = st.one_of(TEXT, SYMBOLS, SCALARS[Ulong], BYTES)
DESCRIPTORS = SYMBOLS | SCALARS[Ulong]


def arrays(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Array]:
    """Arrays of one type of scalar, of lists, of maps, and of any of these described."""

    def of(kind: type, items: st.SearchStrategy[Any]) -> st.SearchStrategy[Array]:
        return st.lists(items, max_size=5).map(lambda found: Array(tuple(found), kind))

    def described(array: Array, descriptor: Any) -> Array:
        items = tuple(Described(descriptor, item) for item in array.items)
        return Array(items, Described(descriptor, array.constructor))

    plain = st.one_of(
        *(of(kind, items) for kind, items in SCALARS.items()),
        of(list, st.lists(inner, max_size=3)),
        of(dict, st.dictionaries(KEYS, inner, max_size=3)),
    )
    nested = of(Array, plain)
    return st.one_of(plain, nested, st.builds(described, plain, DESCRIPTORS))


VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALAR,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(KEYS, inner, max_size=4),
        st.builds(Described, DESCRIPTORS, inner),
        arrays(inner),
    ),
    max_leaves=12,
)


INTEGERS: dict[type, str] = {
    Ubyte: "B",
    Ushort: "H",
    Uint: "I",
    Ulong: "Q",
    Byte: "b",
    Short: "h",
    Int: "i",
    int: "q",
}
_WIDE_CODES = {
    Ubyte: 0x50,
    Ushort: 0x60,
    Uint: 0x70,
    Ulong: 0x80,
    Byte: 0x51,
    Short: 0x61,
    Int: 0x71,
    int: 0x81,
    bytes: 0xB0,
    str: 0xB1,
    Symbol: 0xB3,
    list: 0xD0,
    dict: 0xD1,
    Array: 0xF0,
    bool: 0x56,
}


def long_form(value: Any, chance: random.Random) -> bytes:
    """The bytes of a value in its longest form, or by chance in the shortest of the encoder."""
    kind = type(value)
    if chance.random() < 0.3:
        return encode(value)
    if kind is Described:
        return b"\0" + long_form(value.descriptor, chance) + long_form(value.value, chance)
    if kind not in _WIDE_CODES or (kind is Array and not _has_long_form(value)):
        return encode(value)
    return bytes((_WIDE_CODES[kind],)) + _wide(value, chance)


def _has_long_form(array: Array) -> bool:
    kind = array.constructor
    return kind in _WIDE_CODES and (kind is not Array or all(map(_has_long_form, array.items)))


def _wide(value: Any, chance: random.Random) -> bytes:
    """What stands behind the format code of a longest form."""
    match value:
        case bool():
            return bytes((value,))
        case int():
            return struct.pack(">" + INTEGERS[type(value)], value)
        case bytes() | str():
            data = value if isinstance(value, bytes) else value.encode()
            return struct.pack(">I", len(data)) + data
        case Array(items, constructor):
            contents = bytes((_WIDE_CODES[constructor],)) + b"".join(_wide(item, chance) for item in items)
            return struct.pack(">II", len(contents) + 4, len(items)) + contents
        case _:
            parts = [part for item in value.items() for part in item] if isinstance(value, dict) else value
            contents = b"".join(long_form(part, chance) for part in parts)
            return struct.pack(">II", len(contents) + 4, len(parts)) + contents


def exact(value: Any) -> Any:
    """A form in which values are equal only if they are of the same types, and a NaN is equal to itself."""
    match value:
        case Described(descriptor, inner):
            return ("described", exact(descriptor), exact(inner))
        case Array(items, constructor):
            return ("array", [exact(item) for item in items], exact(constructor))
        case list():
            return [exact(item) for item in value]
        case dict():
            return {"map": [(exact(key), exact(item)) for key, item in value.items()]}
        case float():
            return (type(value), struct.pack(">d", value))
        case _:
            return (type(value), value)

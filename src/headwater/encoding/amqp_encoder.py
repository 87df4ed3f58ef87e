"""AMQP 1.0 part 1, section 1.6: bytes out of values, in the most compact encoding (`amqp_types.py` draws them)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any, Protocol
from uuid import UUID

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

__all__ = ["append_compound", "encode", "encoded", "encoding_of", "write"]

_SMALL_MAX = 0xFF
_TO_LARGE = 0x10
"""From the format code with sizes of 1 byte to the one with sizes of 4."""
_TWO_SIZES = struct.Struct(">II")


def encode(value: Any) -> bytes:  # noqa: ANN401 - of any of the types
    """The bytes of a value; raises InvalidValue if it has none."""
    return encoded(write, value)


def encoded(write: Callable[[bytearray, Any], None], value: Any) -> bytes:  # noqa: ANN401
    """What a writer makes of a value; raises InvalidValue where it cannot."""
    out = bytearray()
    try:
        write(out, value)
    except (struct.error, OverflowError, UnicodeEncodeError, RecursionError) as error:
        # Without its cause, which may hold the value: that may be a secret.
        raise InvalidValue(_reason(error)) from None
    return bytes(out)


def write(out: bytearray, value: Any) -> None:  # noqa: ANN401
    """Append a value; raises InvalidValue, or what `encoded` makes one of, if it has no such form."""
    kind = type(value)
    (_ENCODINGS.get(kind) or encoding_of(kind)).write(out, value)


class Encoding(Protocol):
    """How values of one type are written."""

    def write(self, out: bytearray, value: Any) -> None:  # noqa: ANN401
        """Append a value with its format code."""
        ...

    def write_items(self, out: bytearray, items: Sequence[Any]) -> None:
        """Append a format code that suits all items, and the items without theirs."""
        ...


def encoding_of(kind: type) -> Encoding:
    """The encoding of a type, or else of the type that it extends."""
    for base in kind.__mro__:
        if base in _ENCODINGS:
            return _ENCODINGS[base]
    raise InvalidValue(f"there is no AMQP type for a {kind.__name__}")


def _reason(error: Exception) -> str:
    match error:
        case UnicodeEncodeError():
            return f"a text holds what {error.encoding} has no form for"
        case RecursionError():
            return "it is nested too deep"
        case _:
            return str(error)


class _Null:
    def write(self, out: bytearray, value: None) -> None:
        out.append(0x40)

    def write_items(self, out: bytearray, items: Sequence[None]) -> None:
        if len(items) > ZERO_WIDTH_ITEMS_MAX:
            raise InvalidValue(f"an array of {len(items)} nulls is above {ZERO_WIDTH_ITEMS_MAX}")
        out.append(0x40)


class _Boolean:
    def write(self, out: bytearray, value: bool) -> None:
        out.append(0x41 if value else 0x42)

    def write_items(self, out: bytearray, items: Sequence[bool]) -> None:
        out.append(0x56)
        out += bytes(items)


class _Number:
    """Of a fixed width, with a shorter form for what fits into one byte, and one without bytes for 0."""

    def __init__(self, code: int, layout: str, small: int | None = None, zero: int | None = None) -> None:
        self._layout = layout
        self._code = code
        self._pack = struct.Struct(">B" + layout).pack
        self._small = small
        self._small_min, self._small_max = (-128, 127) if layout.islower() else (0, 255)
        self._zero = zero

    def write(self, out: bytearray, value: int) -> None:
        if self._small is None or not self._small_min <= value <= self._small_max:
            out += self._pack(self._code, value)
        elif value == 0 and self._zero is not None:
            out.append(self._zero)
        else:
            out.append(self._small)
            out.append(value & 0xFF)

    def write_items(self, out: bytearray, items: Sequence[int]) -> None:
        low, high = self._small_min, self._small_max
        if self._small is not None and all(low <= item <= high for item in items):
            out.append(self._small)
            out += bytes(item & 0xFF for item in items)
        else:
            out += struct.pack(f">B{len(items)}{self._layout}", self._code, *items)


class _FixedBytes:
    def __init__(self, code: int, size: int, pack: Callable[[Any], bytes]) -> None:
        self._code = code
        self._size = size
        self._pack = pack

    def _packed(self, value: Any) -> bytes:  # noqa: ANN401
        data = self._pack(value)
        if len(data) != self._size:
            raise InvalidValue(f"a {type(value).__name__} takes {self._size} bytes, not {len(data)}")
        return data

    def write(self, out: bytearray, value: Any) -> None:  # noqa: ANN401
        out.append(self._code)
        out += self._packed(value)

    def write_items(self, out: bytearray, items: Sequence[Any]) -> None:
        out.append(self._code)
        for item in items:
            out += self._packed(item)


class _Sized:
    """Bytes behind their size, of 1 byte or 4."""

    def __init__(self, small: int, pack: Callable[[Any], bytes]) -> None:
        self._small = small
        self._pack = pack

    def write(self, out: bytearray, value: Any) -> None:  # noqa: ANN401
        data = self._pack(value)
        size = len(data)
        if size <= _SMALL_MAX:
            out.append(self._small)
            out.append(size)
        else:
            out.append(self._small + _TO_LARGE)
            out += struct.pack(">I", size)
        out += data

    def write_items(self, out: bytearray, items: Sequence[Any]) -> None:
        packed = [self._pack(item) for item in items]
        small = all(len(data) <= _SMALL_MAX for data in packed)
        out.append(self._small + (0 if small else _TO_LARGE))
        for data in packed:
            out += struct.pack(">B" if small else ">I", len(data))
            out += data


class _Compound:
    """A list, map or array: size and count, of 1 byte or 4 each, and contents."""

    def __init__(
        self, small: int, contents: Callable[[Any], tuple[int, bytearray]], empty: int | None = None
    ) -> None:
        self._small = small
        self._contents = contents
        self._empty = empty

    def write(self, out: bytearray, value: Any) -> None:  # noqa: ANN401
        count, contents = self._contents(value)
        if count == 0 and self._empty is not None:
            out.append(self._empty)
        else:
            append_compound(out, self._small, count, contents)

    def write_items(self, out: bytearray, items: Sequence[Any]) -> None:
        packed = [self._contents(item) for item in items]
        small = all(_is_small(count, contents) for count, contents in packed)
        out.append(self._small + (0 if small else _TO_LARGE))
        for count, contents in packed:
            _append(out, count, contents, small=small)


class _Description:
    def write(self, out: bytearray, value: Described) -> None:
        out.append(0)
        write(out, value.descriptor)
        write(out, value.value)

    def write_items(self, out: bytearray, items: Sequence[Described]) -> None:
        raise InvalidValue("the constructor of described items is a Described(descriptor, class)")


def append_compound(out: bytearray, code: int, count: int, contents: bytearray) -> None:
    """Append a list, map or array of these contents, `code` being the shorter of its two format codes."""
    small = _is_small(count, contents)
    out.append(code if small else code + _TO_LARGE)
    _append(out, count, contents, small=small)


def _is_small(count: int, contents: bytearray) -> bool:
    return count <= _SMALL_MAX and len(contents) < _SMALL_MAX


def _append(out: bytearray, count: int, contents: bytearray, *, small: bool) -> None:
    if small:
        out.append(len(contents) + 1)
        out.append(count)
    else:
        out += _TWO_SIZES.pack(len(contents) + 4, count)
    out += contents


def _list_contents(items: list[Any]) -> tuple[int, bytearray]:
    contents = bytearray()
    for item in items:
        write(contents, item)
    return len(items), contents


def _map_contents(items: dict[Any, Any]) -> tuple[int, bytearray]:
    contents = bytearray()
    for key, value in items.items():
        write(contents, key)
        write(contents, value)
    return 2 * len(items), contents


def _array_contents(array: Array) -> tuple[int, bytearray]:
    contents = bytearray()
    constructor, items = array.constructor, array.items
    while isinstance(constructor, Described):
        descriptor = constructor.descriptor
        contents.append(0)
        write(contents, descriptor)
        if not all(isinstance(item, Described) and _is_same(item.descriptor, descriptor) for item in items):
            raise InvalidValue("an array has items of another descriptor than its constructor's")
        constructor, items = constructor.value, tuple(item.value for item in items)
    if not isinstance(constructor, type) or not all(isinstance(item, constructor) for item in items):
        raise InvalidValue("an array has items of another type than its constructor's")
    encoding_of(constructor).write_items(contents, items)
    return len(items), contents


def _is_same(first: object, second: object) -> bool:
    # The items of an array that was read share one descriptor, which may be a NaN.
    return first is second or first == second


def _utf_32(value: Char) -> bytes:
    return value.encode("utf-32-be")


_ENCODINGS: dict[type, Encoding] = {
    NoneType: _Null(),
    bool: _Boolean(),
    Ubyte: _Number(0x50, "B"),
    Ushort: _Number(0x60, "H"),
    Uint: _Number(0x70, "I", 0x52, 0x43),
    Ulong: _Number(0x80, "Q", 0x53, 0x44),
    Byte: _Number(0x51, "b"),
    Short: _Number(0x61, "h"),
    Int: _Number(0x71, "i", 0x54),
    int: _Number(0x81, "q", 0x55),
    Float32: _Number(0x72, "f"),
    float: _Number(0x82, "d"),
    Timestamp: _Number(0x83, "q"),
    Char: _FixedBytes(0x73, 4, _utf_32),
    Decimal32: _FixedBytes(0x74, 4, bytes),
    Decimal64: _FixedBytes(0x84, 8, bytes),
    Decimal128: _FixedBytes(0x94, 16, bytes),
    UUID: _FixedBytes(0x98, 16, lambda value: value.bytes),
    bytes: _Sized(0xA0, bytes),
    str: _Sized(0xA1, str.encode),
    Symbol: _Sized(0xA3, lambda value: value.encode("ascii")),
    list: _Compound(0xC0, _list_contents, 0x45),
    dict: _Compound(0xC1, _map_contents),
    Array: _Compound(0xE0, _array_contents),
    Described: _Description(),
}

"""AMQP 1.0 part 1, section 1.2: values out of bytes, in any encoding (`amqp_types.py` draws them).

No length or count makes memory before the bytes are there, and any bytes give a value or MalformedValue.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import NoneType
from typing import Any, TypeAlias
from uuid import UUID

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
from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import MalformedValue

__all__ = ["check_depth", "cut_off", "decode", "read_compound", "skip"]

_Reader: TypeAlias = Callable[[ReadableBuffer, int, int, int], tuple[Any, int]]
"""Takes a buffer, the position behind a format code, where to end, and the depth; gives a value and what is behind."""

CHOSEN_HASH_KEYS_MAX = 64
"""Of UUIDs, and what may hold them, a peer can make any number with the same hash, and each is compared with all."""

_TWO_SIZES = struct.Struct(">II")
_SURROGATES = range(0xD800, 0xE000)
_FIXED_BYTES = {4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16}
_SIZE_BYTES = {0xA: 1, 0xB: 4, 0xC: 1, 0xD: 4, 0xE: 1, 0xF: 4}


def decode(buffer: ReadableBuffer, position: int, end: int, depth: int = 0) -> tuple[Any, int]:
    """The value at the position, `depth` levels inside of others, and the position behind it.

    Raises MalformedValue unless a whole one stands before `end`.
    """
    if position >= end:
        raise cut_off()
    return _READERS[buffer[position]](buffer, position + 1, end, depth)


def read_compound(buffer: ReadableBuffer, position: int, end: int, *, wide: bool) -> tuple[int, int, int]:
    """The count of a list, map or array whose size is at the position, and where its contents begin and end."""
    if wide:
        start = position + 8
        if start > end:
            raise cut_off()
        size, count = _TWO_SIZES.unpack_from(buffer, position)
        stop = position + 4 + size
    else:
        start = position + 2
        if start > end:
            raise cut_off()
        stop = position + 1 + buffer[position]
        count = buffer[position + 1]
    if not start <= stop <= end:
        raise MalformedValue("the size of a list, map or array cannot be")
    return count, start, stop


def skip(buffer: ReadableBuffer, position: int, end: int) -> int:
    """The position behind the value at the position, of which no more is read than its length."""
    values = 1
    while values:
        if position >= end:
            raise cut_off()
        code = buffer[position]
        if code == 0:
            values += 1
            position += 1
            continue
        position += 1 + _length(buffer, position, end)
        if position > end:
            raise cut_off()
        values -= 1
    return position


def cut_off() -> MalformedValue:
    """What is raised where a value reaches beyond the end."""
    return MalformedValue("a value reaches beyond the end")


def check_depth(depth: int) -> None:
    """Raises MalformedValue for what stands `depth` levels inside of others, if that is too deep."""
    if depth >= NESTING_DEPTH_MAX:
        raise MalformedValue(f"values are nested more than {NESTING_DEPTH_MAX} deep")


def _length(buffer: ReadableBuffer, position: int, end: int) -> int:
    """How many bytes stand behind the format code at the position."""
    kind = buffer[position] >> 4
    fixed = _FIXED_BYTES.get(kind)
    if fixed is not None:
        return fixed
    size_bytes = _SIZE_BYTES.get(kind)
    if size_bytes is None:
        raise _unknown(buffer[position])
    if position + 1 + size_bytes > end:
        raise cut_off()
    return size_bytes + int.from_bytes(buffer[position + 1 : position + 1 + size_bytes], "big")


def _unknown(code: int) -> MalformedValue:
    return MalformedValue(f"{code:#04x} is no format code")


# One reader for each format code.


def _constant(value: object) -> _Reader:
    return lambda _buffer, position, _end, _depth: (value, position)


def _number(code: str, kind: Callable[[Any], Any] | None = None) -> _Reader:
    layout = struct.Struct(">" + code)
    size, unpack = layout.size, layout.unpack_from

    def read(buffer: ReadableBuffer, position: int, end: int, depth: int) -> tuple[Any, int]:
        behind = position + size
        if behind > end:
            raise cut_off()
        (value,) = unpack(buffer, position)
        return value if kind is None else kind(value), behind

    return read


def _fixed_bytes(size: int, kind: Callable[[bytes], Any]) -> _Reader:
    def read(buffer: ReadableBuffer, position: int, end: int, depth: int) -> tuple[Any, int]:
        behind = position + size
        if behind > end:
            raise cut_off()
        return kind(bytes(buffer[position:behind])), behind

    return read


def _sized(size_bytes: int, kind: Callable[[ReadableBuffer], Any]) -> _Reader:
    def read(buffer: ReadableBuffer, position: int, end: int, depth: int) -> tuple[Any, int]:
        start = position + size_bytes
        if start > end:
            raise cut_off()
        behind = start + (
            buffer[position] if size_bytes == 1 else int.from_bytes(buffer[position:start], "big")
        )
        if behind > end:
            raise cut_off()
        return kind(buffer[start:behind]), behind

    return read


def _string(data: ReadableBuffer) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        # The cause would carry the bytes, and these may be a secret.
        raise MalformedValue("a string is no UTF-8") from None


def _symbol(data: ReadableBuffer) -> Symbol:
    try:
        return Symbol(data, "ascii")
    except UnicodeDecodeError:
        raise MalformedValue("a symbol is no ASCII") from None


def _boolean(value: int) -> bool:
    if value > 1:
        raise MalformedValue(f"a boolean of {value} cannot be")
    return value == 1


def _char(value: int) -> Char:
    if value > 0x10FFFF or value in _SURROGATES:
        raise MalformedValue(f"{value:#x} is no Unicode character")
    return Char(chr(value))


def _uuid(data: bytes) -> UUID:
    return UUID(bytes=data)


def _empty_list(_buffer: ReadableBuffer, position: int, _end: int, _depth: int) -> tuple[list[Any], int]:
    return [], position


def _described(buffer: ReadableBuffer, position: int, end: int, depth: int) -> tuple[Described, int]:
    check_depth(depth)
    descriptor, position = decode(buffer, position, end, depth + 1)
    value, position = decode(buffer, position, end, depth + 1)
    return Described(descriptor, value), position


def _list(*, wide: bool) -> _Reader:
    def read(buffer: ReadableBuffer, position: int, end: int, depth: int) -> tuple[list[Any], int]:
        check_depth(depth)
        count, position, stop = read_compound(buffer, position, end, wide=wide)
        depth += 1
        items = []
        for _ in range(count):
            if position >= stop:
                raise cut_off()
            item, position = _READERS[buffer[position]](buffer, position + 1, stop, depth)
            items.append(item)
        _check_filled(position, stop)
        return items, stop

    return read


def _map(*, wide: bool) -> _Reader:
    def read(buffer: ReadableBuffer, position: int, end: int, depth: int) -> tuple[dict[Any, Any], int]:
        check_depth(depth)
        count, position, stop = read_compound(buffer, position, end, wide=wide)
        if count & 1:
            raise MalformedValue(f"a map of {count} values lacks one")
        depth += 1
        items: dict[Any, Any] = {}
        chosen = 0
        for _ in range(count >> 1):
            key, position = decode(buffer, position, stop, depth)
            value, position = decode(buffer, position, stop, depth)
            try:
                items[key] = value
            except TypeError:
                raise MalformedValue(f"a {type(key).__name__} cannot be the key of a map here") from None
            if type(key) in _KEYS_OF_CHOSEN_HASH:
                chosen += 1
                if chosen > CHOSEN_HASH_KEYS_MAX:
                    raise MalformedValue(
                        f"a map has at most {CHOSEN_HASH_KEYS_MAX} keys that hold a UUID here"
                    )
        _check_filled(position, stop)
        if len(items) != count >> 1:
            raise MalformedValue("a map has a key twice")
        return items, stop

    return read


def _array(*, wide: bool) -> _Reader:
    def read(buffer: ReadableBuffer, position: int, end: int, depth: int) -> tuple[Array, int]:
        check_depth(depth)
        count, position, stop = read_compound(buffer, position, end, wide=wide)
        descriptors, code, position = _array_constructor(buffer, position, stop, depth + 1)
        depth += 1 + len(descriptors)
        items, position = _array_items(buffer, position, stop, depth, code, count)
        constructor: Any = _KINDS[code]
        for descriptor in reversed(descriptors):
            items = [Described(descriptor, item) for item in items]
            constructor = Described(descriptor, constructor)
        _check_filled(position, stop)
        return Array(tuple(items), constructor), stop

    return read


def _array_constructor(
    buffer: ReadableBuffer, position: int, end: int, depth: int
) -> tuple[list[Any], int, int]:
    """The descriptors of an array's items, outermost first, their format code, and the position behind it."""
    descriptors = []
    while True:
        if position >= end:
            raise cut_off()
        code = buffer[position]
        position += 1
        if code:
            break
        check_depth(depth)
        descriptor, position = decode(buffer, position, end, depth + 1)
        descriptors.append(descriptor)
        depth += 1
    if code not in _KINDS:
        raise _unknown(code)
    return descriptors, code, position


def _array_items(
    buffer: ReadableBuffer, position: int, end: int, depth: int, code: int, count: int
) -> tuple[list[Any], int]:
    read = _READERS[code]
    items: list[Any] = []
    if code >> 4 == 4:
        if count > ZERO_WIDTH_ITEMS_MAX:
            raise MalformedValue(f"an array of {count} items without bytes is above {ZERO_WIDTH_ITEMS_MAX}")
        return [read(buffer, position, end, depth)[0]] * count, position
    for _ in range(count):
        item, position = read(buffer, position, end, depth)
        items.append(item)
    return items, position


def _check_filled(position: int, stop: int) -> None:
    if position != stop:
        raise MalformedValue(f"a list, map or array has {stop - position} bytes too many")


def _no_reader(code: int) -> _Reader:
    def read(_buffer: ReadableBuffer, _position: int, _end: int, _depth: int) -> tuple[Any, int]:
        raise _unknown(code)

    return read


_TABLE: dict[int, tuple[type, _Reader]] = {
    0x40: (NoneType, _constant(None)),
    0x41: (bool, _constant(True)),
    0x42: (bool, _constant(False)),
    0x43: (Uint, _constant(Uint(0))),
    0x44: (Ulong, _constant(Ulong(0))),
    0x45: (list, _empty_list),
    0x50: (Ubyte, _number("B", Ubyte)),
    0x51: (Byte, _number("b", Byte)),
    0x52: (Uint, _number("B", Uint)),
    0x53: (Ulong, _number("B", Ulong)),
    0x54: (Int, _number("b", Int)),
    0x55: (int, _number("b")),
    0x56: (bool, _number("B", _boolean)),
    0x60: (Ushort, _number("H", Ushort)),
    0x61: (Short, _number("h", Short)),
    0x70: (Uint, _number("I", Uint)),
    0x71: (Int, _number("i", Int)),
    0x72: (Float32, _number("f", Float32)),
    0x73: (Char, _number("I", _char)),
    0x74: (Decimal32, _fixed_bytes(4, Decimal32)),
    0x80: (Ulong, _number("Q", Ulong)),
    0x81: (int, _number("q")),
    0x82: (float, _number("d")),
    0x83: (Timestamp, _number("q", Timestamp)),
    0x84: (Decimal64, _fixed_bytes(8, Decimal64)),
    0x94: (Decimal128, _fixed_bytes(16, Decimal128)),
    0x98: (UUID, _fixed_bytes(16, _uuid)),
    0xA0: (bytes, _sized(1, bytes)),
    0xA1: (str, _sized(1, _string)),
    0xA3: (Symbol, _sized(1, _symbol)),
    0xB0: (bytes, _sized(4, bytes)),
    0xB1: (str, _sized(4, _string)),
    0xB3: (Symbol, _sized(4, _symbol)),
    0xC0: (list, _list(wide=False)),
    0xC1: (dict, _map(wide=False)),
    0xD0: (list, _list(wide=True)),
    0xD1: (dict, _map(wide=True)),
    0xE0: (Array, _array(wide=False)),
    0xF0: (Array, _array(wide=True)),
}
_KEYS_OF_CHOSEN_HASH = frozenset((UUID, Described, Array))
_KINDS = {code: kind for code, (kind, _) in _TABLE.items()}
_READERS: tuple[_Reader, ...] = (
    _described,
    *(_TABLE[code][1] if code in _TABLE else _no_reader(code) for code in range(1, 256)),
)

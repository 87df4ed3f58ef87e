"""RabbitMQ Streams protocol, Types: how one field is read and written.

int8 to int64, uint8 to uint64    big endian
string     int16 length, UTF-8; -1 is null
bytes      int32 length, bytes; -1 is null
array      int32 length, then that many of one type
properties an array of key and value
OffsetSpecification    uint16 type, then uint64 (offset), int64 (timestamp) or nothing (all others)
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import MalformedFrame
from headwater.streams.commands import OffsetSpecification, OffsetType

__all__ = [
    "Array",
    "FieldType",
    "Integer",
    "OptionalLast",
    "Properties",
    "Record",
    "boolean",
    "int64",
    "nullable_bytes",
    "nullable_string",
    "offset_specification",
    "padded_offset_specification",
    "string",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

_STRING_BYTES_MAX = 0x7FFF
_BYTES_MAX = 0x7FFFFFFF
_PADDING_BYTES = 8
_UINT16 = struct.Struct(">H")
_INT32 = struct.Struct(">i")
_UINT64 = struct.Struct(">Q")
_INT64 = struct.Struct(">q")
_OFFSET_TYPES = tuple(OffsetType)
_OFFSET_VALUES = {OffsetType.OFFSET: _UINT64, OffsetType.TIMESTAMP: _INT64}

Value: TypeAlias = Any
"""Of a field: what type it has is known to the layout that names it."""


class FieldType(Protocol):
    """Reads a value, giving it and the position behind it, and writes one; `size_min` is what it takes at least."""

    size_min: int

    def read(self, buffer: ReadableBuffer, position: int, end: int) -> tuple[Any, int]:
        """Raises MalformedFrame unless a value stands between `position` and `end`."""
        ...

    def write(self, out: bytearray, value: Value) -> None:
        """Raises struct.error or ValueError for a value that has no such form."""
        ...


class Integer:
    """A fixed-width integer; layouts read and write several at once by `code`."""

    def __init__(self, code: str) -> None:
        self.code = code
        self._struct = struct.Struct(">" + code)
        self.size_min = self._struct.size

    def read(self, buffer: ReadableBuffer, position: int, end: int) -> tuple[int, int]:
        behind = position + self.size_min
        if behind > end:
            raise _cut_off()
        return self._struct.unpack_from(buffer, position)[0], behind

    def write(self, out: bytearray, value: int) -> None:
        out += self._struct.pack(value)


class _Boolean:
    size_min = 1

    def read(self, buffer: ReadableBuffer, position: int, end: int) -> tuple[bool, int]:
        if position >= end:
            raise _cut_off()
        if buffer[position] > 1:
            raise MalformedFrame(f"{buffer[position]} is neither 0 nor 1")
        return buffer[position] == 1, position + 1

    def write(self, out: bytearray, value: bool) -> None:
        out.append(1 if value else 0)


class _String:
    size_min = 2

    def read(self, buffer: ReadableBuffer, position: int, end: int) -> tuple[str, int]:
        start = position + 2
        if start > end:
            raise _cut_off()
        size = buffer[position] << 8 | buffer[position + 1]
        if size > _STRING_BYTES_MAX:
            raise MalformedFrame(f"a length of {size - 0x10000} bytes cannot be")
        behind = start + size
        if behind > end:
            raise _cut_off()
        try:
            return str(buffer[start:behind], "utf-8"), behind
        except UnicodeDecodeError:
            # The cause would carry the bytes, and these may be a secret.
            raise MalformedFrame("a string is no UTF-8") from None

    def write(self, out: bytearray, value: str) -> None:
        data = value.encode()
        if len(data) > _STRING_BYTES_MAX:
            raise ValueError(f"a string of {len(data)} bytes is above {_STRING_BYTES_MAX}")
        out += _UINT16.pack(len(data))
        out += data


class _NullableString(_String):
    def read(self, buffer: ReadableBuffer, position: int, end: int) -> tuple[Any, int]:
        if end - position >= 2 and buffer[position] == 0xFF and buffer[position + 1] == 0xFF:
            return None, position + 2
        return super().read(buffer, position, end)

    def write(self, out: bytearray, value: str | None) -> None:
        if value is None:
            out += b"\xff\xff"
        else:
            super().write(out, value)


class _NullableBytes:
    size_min = 4

    def read(self, buffer: ReadableBuffer, position: int, end: int) -> tuple[bytes | None, int]:
        start = position + 4
        if start > end:
            raise _cut_off()
        (size,) = _INT32.unpack_from(buffer, position)
        if size == -1:
            return None, start
        if size < 0 or size > end - start:
            raise MalformedFrame(f"a length of {size} bytes cannot be")
        return bytes(buffer[start : start + size]), start + size

    def write(self, out: bytearray, value: bytes | None) -> None:
        if value is None:
            out += b"\xff\xff\xff\xff"
        else:
            if len(value) > _BYTES_MAX:
                raise ValueError(f"{len(value)} bytes are above {_BYTES_MAX}")
            out += _INT32.pack(len(value))
            out += value


class Array:
    """Values of one type, as a tuple."""

    size_min = 4

    def __init__(self, item: FieldType) -> None:
        self._item = item

    def read(self, buffer: ReadableBuffer, position: int, end: int) -> tuple[tuple[Any, ...], int]:
        count = _read_count(buffer, position, end, self._item.size_min)
        position += 4
        read = self._item.read
        values = []
        for _ in range(count):
            value, position = read(buffer, position, end)
            values.append(value)
        return tuple(values), position

    def write(self, out: bytearray, value: Sequence[Any]) -> None:
        out += _INT32.pack(len(value))
        for item in value:
            self._item.write(out, item)


class Properties:
    """Keys and values, as a dict; of a key that comes twice the last counts."""

    size_min = 4

    def __init__(self, value: FieldType) -> None:
        self._value = value

    def read(self, buffer: ReadableBuffer, position: int, end: int) -> tuple[dict[str, Any], int]:
        count = _read_count(buffer, position, end, string.size_min + self._value.size_min)
        position += 4
        values = {}
        for _ in range(count):
            key, position = string.read(buffer, position, end)
            values[key], position = self._value.read(buffer, position, end)
        return values, position

    def write(self, out: bytearray, value: Mapping[str, Any]) -> None:
        out += _INT32.pack(len(value))
        for key, item in value.items():
            string.write(out, key)
            self._value.write(out, item)


class Record:
    """Fields one behind the other that make one value."""

    def __init__(self, kind: Callable[..., msgspec.Struct], *fields: tuple[str, FieldType]) -> None:
        self._kind = kind
        self._fields = fields
        self.size_min = sum(field.size_min for _, field in fields)

    def read(self, buffer: ReadableBuffer, position: int, end: int) -> tuple[msgspec.Struct, int]:
        values = []
        for _, field in self._fields:
            value, position = field.read(buffer, position, end)
            values.append(value)
        return self._kind(*values), position

    def write(self, out: bytearray, value: msgspec.Struct) -> None:
        for name, field in self._fields:
            field.write(out, getattr(value, name))


class OptionalLast:
    """A last field that may be absent; `absent` makes its value then, and a value equal to it is not written."""

    size_min = 0

    def __init__(self, present: FieldType, absent: Callable[[], Any]) -> None:
        self._present = present
        self._absent = absent

    def read(self, buffer: ReadableBuffer, position: int, end: int) -> tuple[Any, int]:
        if position == end:
            return self._absent(), position
        return self._present.read(buffer, position, end)

    def write(self, out: bytearray, value: Value) -> None:
        if value != self._absent():
            self._present.write(out, value)


class _OffsetSpecification:
    size_min = 2

    def read(self, buffer: ReadableBuffer, position: int, end: int) -> tuple[OffsetSpecification, int]:
        behind = position + 2
        if behind > end:
            raise _cut_off()
        (number,) = _UINT16.unpack_from(buffer, position)
        if number >= len(_OFFSET_TYPES):
            raise MalformedFrame(f"an offset type of {number} is unknown")
        kind = _OFFSET_TYPES[number]
        form = _OFFSET_VALUES.get(kind)
        if form is None:
            return OffsetSpecification(kind), behind
        if behind + form.size > end:
            raise _cut_off()
        return OffsetSpecification(kind, form.unpack_from(buffer, behind)[0]), behind + form.size

    def write(self, out: bytearray, value: OffsetSpecification) -> None:
        out += _UINT16.pack(value.type)
        form = _OFFSET_VALUES.get(value.type)
        if form is not None:
            out += form.pack(value.value)


class _PaddedOffsetSpecification(_OffsetSpecification):
    """As a last field: rstream sends 8 bytes of offset with every type, and those without a meaning are passed over."""

    def read(self, buffer: ReadableBuffer, position: int, end: int) -> tuple[OffsetSpecification, int]:
        value, behind = super().read(buffer, position, end)
        if value.type not in _OFFSET_VALUES and end - behind == _PADDING_BYTES:
            behind = end
        return value, behind


def _read_count(buffer: ReadableBuffer, position: int, end: int, item_size_min: int) -> int:
    """The length of an array, held against the bytes there are, so that no length makes memory."""
    if position + 4 > end:
        raise _cut_off()
    (count,) = _INT32.unpack_from(buffer, position)
    if not 0 <= count <= (end - position - 4) // item_size_min:
        raise MalformedFrame(f"an array of {count} cannot stand in {end - position - 4} bytes")
    return int(count)


def _cut_off() -> MalformedFrame:
    return MalformedFrame("a field reaches beyond the end")


uint8 = Integer("B")
uint16 = Integer("H")
uint32 = Integer("I")
uint64 = Integer("Q")
int64 = Integer("q")
boolean = _Boolean()
string = _String()
nullable_string = _NullableString()
nullable_bytes = _NullableBytes()
offset_specification = _OffsetSpecification()
padded_offset_specification = _PaddedOffsetSpecification()

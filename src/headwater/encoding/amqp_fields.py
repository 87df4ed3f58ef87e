"""AMQP 1.0 part 1, section 1.4: the types that fields of composites have, as values without a class of their own.

Only the layout that names a field knows its type, so that integers are plain here, and so is all that is not written
by its class. A field of `multiple` values is read from one value, an array or a list, and written as an array.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from headwater.encoding.amqp_decoder import check_depth, cut_off, decode, read_compound
from headwater.encoding.amqp_encoder import append_compound, encoding_of, write
from headwater.encoding.amqp_types import Array, Symbol, Timestamp, Ulong
from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import InvalidField, MalformedValue

__all__ = [
    "Enumeration",
    "FieldType",
    "Map",
    "annotation_map",
    "anything",
    "binary",
    "boolean",
    "capabilities",
    "field_map",
    "list_of_anything",
    "message_id",
    "string",
    "symbol",
    "symbols",
    "timestamp",
    "ubyte",
    "uint",
    "ulong",
    "ushort",
]

_NULL = 0x40
_Member = TypeVar("_Member", bound=enum.Enum)


class FieldType(Protocol):
    """Reads and writes the values of one type; null is dealt with by whoever calls."""

    def read(self, buffer: ReadableBuffer, position: int, end: int, depth: int) -> tuple[Any, int]:
        """The value at the position, which is before the end, and the position behind it.

        Raises InvalidField, without its name, if something else stands there.
        """
        ...

    def write(self, out: bytearray, value: Any) -> None:  # noqa: ANN401 - of the type that the field has
        """Append a value; raises InvalidValue, or what `encoded` makes one of, if it has no such form."""
        ...


class _Unsigned:
    """An unsigned integer, as a plain one."""

    def __init__(
        self, name: str, layout: str, wide: int, small: int | None = None, zero: int | None = None
    ) -> None:
        self._name = name
        self._wide = wide
        self._small = small
        self._zero = zero
        self._struct = struct.Struct(">" + layout)
        self._pack = struct.Struct(">B" + layout).pack

    def read(self, buffer: ReadableBuffer, position: int, end: int, _depth: int) -> tuple[int, int]:
        code = buffer[position]
        if code == self._small:
            behind = position + 2
            if behind > end:
                raise cut_off()
            return buffer[position + 1], behind
        if code == self._wide:
            behind = position + 1 + self._struct.size
            if behind > end:
                raise cut_off()
            return self._struct.unpack_from(buffer, position + 1)[0], behind
        if code == self._zero:
            return 0, position + 1
        raise _other(self._name, code)

    def write(self, out: bytearray, value: int) -> None:
        if self._small is None or not 0 <= value <= 0xFF:
            out += self._pack(self._wide, value)
        elif value == 0:
            out.append(self._zero or 0)
        else:
            out.append(self._small)
            out.append(value)


class _Scalar:
    """A value of a class that is one type; any other class is written as that type too."""

    def __init__(self, name: str, kind: type) -> None:
        self._name = name
        self._kind = kind
        self.write = encoding_of(kind).write

    def read(self, buffer: ReadableBuffer, position: int, end: int, depth: int) -> tuple[Any, int]:
        value, behind = decode(buffer, position, end, depth)
        if type(value) is not self._kind:
            raise _other(self._name, buffer[position])
        return value, behind


class _Anything:
    """A value of any type, whose class says which."""

    def read(self, buffer: ReadableBuffer, position: int, end: int, depth: int) -> tuple[Any, int]:
        return decode(buffer, position, end, depth)

    def write(self, out: bytearray, value: Any) -> None:  # noqa: ANN401
        write(out, value)


class Enumeration(Generic[_Member]):
    """One of the members of an enumeration, whose values are of a type below."""

    def __init__(self, kind: type[_Member], values: FieldType) -> None:
        self._name = kind.__name__
        self._members = {member.value: member for member in kind}
        self._values = values
        self.write = values.write

    def read(self, buffer: ReadableBuffer, position: int, end: int, depth: int) -> tuple[_Member, int]:
        value, behind = self._values.read(buffer, position, end, depth)
        member = self._members.get(value)
        if member is None:
            raise InvalidField("", f"is no {self._name}")
        return member, behind


class _Symbols:
    """Any number of symbols, as a tuple."""

    def read(
        self, buffer: ReadableBuffer, position: int, end: int, depth: int
    ) -> tuple[tuple[Symbol, ...], int]:
        value, behind = decode(buffer, position, end, depth)
        if type(value) is Symbol:
            return (value,), behind
        items = value.items if type(value) is Array else value
        if type(items) not in (tuple, list) or not all(type(item) is Symbol for item in items):
            raise InvalidField("", "is neither a symbol nor an array or a list of symbols")
        return tuple(items), behind

    def write(self, out: bytearray, value: tuple[Symbol, ...]) -> None:
        if value:
            write(out, Array(value, Symbol))
        else:
            out.append(_NULL)


class _Capabilities(_Symbols):
    """As symbols; a name spelled out letter by letter, as published examples have it, is read as that name."""

    def read(
        self, buffer: ReadableBuffer, position: int, end: int, depth: int
    ) -> tuple[tuple[Symbol, ...], int]:
        value, behind = super().read(buffer, position, end, depth)
        if len(value) > 1 and all(len(item) == 1 for item in value):
            value = (Symbol("".join(value)),)
        return value, behind


class Map:
    """A map whose keys are of a few classes and whose values are of one type, null always being one of them."""

    def __init__(self, keys: FieldType, key_kinds: tuple[type, ...], values: FieldType) -> None:
        self._keys = keys
        self._key_kinds = key_kinds
        self._values = values

    def read(self, buffer: ReadableBuffer, position: int, end: int, depth: int) -> tuple[dict[Any, Any], int]:
        code = buffer[position]
        if code not in (0xC1, 0xD1):
            raise _other("map", code)
        check_depth(depth)
        count, position, stop = read_compound(buffer, position + 1, end, wide=code == 0xD1)
        items: dict[Any, Any] = {}
        while position < stop:
            key, position = decode(buffer, position, stop, depth + 1)
            if not isinstance(key, self._key_kinds):
                raise InvalidField("", f"has a {type(key).__name__} for a key")
            if position >= stop:
                raise cut_off()
            if buffer[position] == _NULL:
                items[key], position = None, position + 1
            else:
                items[key], position = self._values.read(buffer, position, stop, depth + 1)
        if 2 * len(items) != count:
            raise MalformedValue("a map has another count than it has keys and values, or a key twice")
        return items, stop

    def write(self, out: bytearray, value: Mapping[Any, Any]) -> None:
        contents = bytearray()
        for key, item in value.items():
            self._keys.write(contents, key)
            if item is None:
                contents.append(_NULL)
            else:
                self._values.write(contents, item)
        append_compound(out, 0xC1, 2 * len(value), contents)


class _AnnotationKey(_Anything):
    """A symbol, or one of the reserved unsigned longs."""

    def write(self, out: bytearray, value: str | int) -> None:
        if isinstance(value, str):
            symbol.write(out, value)
        else:
            ulong.write(out, value)


class _MessageId(_Anything):
    """An unsigned long, a UUID, bytes or text; a plain integer is written as the first."""

    def read(self, buffer: ReadableBuffer, position: int, end: int, depth: int) -> tuple[Any, int]:
        value, behind = decode(buffer, position, end, depth)
        if type(value) not in (Ulong, UUID, bytes, str):
            raise _other("message id", buffer[position])
        return value, behind

    def write(self, out: bytearray, value: Any) -> None:  # noqa: ANN401
        write(out, Ulong(value) if isinstance(value, int) else value)


def _other(name: str, code: int) -> InvalidField:
    return InvalidField("", f"is no {name}, but has the format code {code:#04x}")


boolean = _Scalar("boolean", bool)
ubyte = _Unsigned("ubyte", "B", 0x50)
ushort = _Unsigned("ushort", "H", 0x60)
uint = _Unsigned("uint", "I", 0x70, 0x52, 0x43)
ulong = _Unsigned("ulong", "Q", 0x80, 0x53, 0x44)
timestamp = _Scalar("timestamp", Timestamp)
binary = _Scalar("binary", bytes)
string = _Scalar("string", str)
symbol = _Scalar("symbol", Symbol)
list_of_anything = _Scalar("list", list)
anything = _Anything()
symbols = _Symbols()
capabilities = _Capabilities()
message_id = _MessageId()
field_map = Map(symbol, (str,), anything)
"""Names and values (2.8.13); keys that come as strings are let pass."""
annotation_map = Map(_AnnotationKey(), (str, Ulong), anything)
"""Of a message (3.2.10), keys as those of `field_map`, or reserved numbers."""

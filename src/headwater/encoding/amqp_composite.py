"""AMQP 1.0 part 1, section 1.4: composite types, which are described lists of named fields.

    00   descriptor: a ulong (53, 80 or 44) or a symbol (a3, b3)   list (c0, d0, or 45 if it is empty)

A list that ends before its last field is read as if nulls stood there, and is never written so: there are clients that
know fields by their place alone.
"""

from __future__ import annotations

from types import NoneType
from typing import Any, Generic, TypeVar, get_args

import msgspec

from headwater.encoding.amqp_decoder import check_depth, cut_off, decode, read_compound
from headwater.encoding.amqp_encoder import append_compound, encoded, write
from headwater.encoding.amqp_fields import FieldType
from headwater.encoding.amqp_types import Described, Symbol, Ulong
from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import InvalidField, InvalidValue, MalformedValue

__all__ = ["Composite", "OneOf", "read_descriptor"]

_NULL = 0x40
_SMALL_ULONG = 0x53
_SMALL_ULONGS = tuple(map(Ulong, range(256)))

_Kind = TypeVar("_Kind", bound=msgspec.Struct)


def read_descriptor(buffer: ReadableBuffer, position: int, end: int, depth: int = 0) -> tuple[Any, int]:
    """The descriptor of the value at the position, and the position of the value that it describes."""
    if position + 2 < end and buffer[position] == 0 and buffer[position + 1] == _SMALL_ULONG:
        return _SMALL_ULONGS[buffer[position + 2]], position + 3
    if position >= end:
        raise cut_off()
    if buffer[position]:
        raise MalformedValue(f"a described value begins with 0x00, not {buffer[position]:#04x}")
    return decode(buffer, position + 1, end, depth + 1)


class Composite(Generic[_Kind]):
    """A type by its descriptor, the class of its values, and its fields in order, with their types.

    A field must be there if its class has no default for it, and no None among its types.
    """

    def __init__(self, code: int, name: str, kind: type[_Kind], /, **types: FieldType) -> None:
        self.code = code
        self.symbol = Symbol(f"amqp:{name}:list")
        self.name = name
        self.kind = kind
        found = msgspec.structs.fields(kind)
        self._names = tuple(types)
        assert self._names == tuple(field.name for field in found)
        self._head = bytes((0, _SMALL_ULONG, code))
        self._readers = tuple(field.read for field in types.values())
        self._writers = tuple(field.write for field in types.values())
        self._defaults = [None if field.required else field.default for field in found]
        self._mandatory = [
            index
            for index, field in enumerate(found)
            if field.required and NoneType not in get_args(field.type)
        ]

    def decode(self, buffer: ReadableBuffer, position: int, end: int) -> tuple[_Kind, int]:
        """The value whose list stands behind a descriptor, at the position, and the position behind it.

        Raises MalformedValue unless it is whole and right; for a field that is wrong InvalidField.
        """
        try:
            return self.read_list(buffer, position, end, 1)
        except InvalidField as error:
            raise InvalidField(f"{self.name}.{error.field}", error.reason) from None

    def encode(self, value: _Kind) -> bytes:
        """The bytes of a value; raises InvalidValue if a field has none."""
        return encoded(self.write, value)

    def read(self, buffer: ReadableBuffer, position: int, end: int, depth: int) -> tuple[_Kind, int]:
        """As the type of a field."""
        descriptor, position = read_descriptor(buffer, position, end, depth)
        if type(descriptor) not in (Ulong, Symbol) or descriptor not in (self.code, self.symbol):
            raise InvalidField("", f"is no {self.name}")
        return self.read_list(buffer, position, end, depth + 1)

    def read_list(self, buffer: ReadableBuffer, position: int, end: int, depth: int) -> tuple[_Kind, int]:
        """The value whose list stands at the position, `depth` levels inside of others."""
        count, position, stop = self._open_list(buffer, position, end, depth)
        depth += 1
        values: list[Any] = []
        readers, defaults = self._readers, self._defaults
        try:
            for index in range(count):
                if position >= stop:
                    raise cut_off()
                if buffer[position] == _NULL:
                    values.append(defaults[index])
                    position += 1
                else:
                    value, position = readers[index](buffer, position, stop, depth)
                    values.append(value)
        except InvalidField as error:
            path = f"{self._names[len(values)]}.{error.field}".rstrip(".")
            raise InvalidField(path, error.reason) from None
        if position != stop:
            raise MalformedValue(f"a {self.name} has {stop - position} bytes too many")
        values += defaults[count:]
        for index in self._mandatory:
            if values[index] is None:
                raise InvalidField(self._names[index], "is missing")
        return self.kind(*values), stop

    def write(self, out: bytearray, value: _Kind) -> None:
        """Append a value, descriptor and all."""
        out += self._head
        contents = bytearray()
        for write_field, item in zip(self._writers, msgspec.structs.astuple(value), strict=True):
            if item is None:
                contents.append(_NULL)
            else:
                write_field(contents, item)
        if contents:
            append_compound(out, 0xC0, len(self._names), contents)
        else:
            out.append(0x45)

    def _open_list(self, buffer: ReadableBuffer, position: int, end: int, depth: int) -> tuple[int, int, int]:
        if position >= end:
            raise cut_off()
        code = buffer[position]
        if code == 0x45:
            return 0, position + 1, position + 1
        if code not in (0xC0, 0xD0):
            raise MalformedValue(
                f"the fields of a {self.name} are no list, but have the format code {code:#04x}"
            )
        check_depth(depth)
        count, position, stop = read_compound(buffer, position + 1, end, wide=code == 0xD0)
        if count > len(self._names):
            raise MalformedValue(f"a {self.name} has {count} fields in place of {len(self._names)}")
        return count, position, stop


class OneOf:
    """A field that one of several composites stands in; another described value is kept as a Described."""

    def __init__(self, *composites: Composite[Any]) -> None:
        self._by_kind = {composite.kind: composite for composite in composites}
        self._by_descriptor: dict[int | str, Composite[Any]] = {
            descriptor: composite
            for composite in composites
            for descriptor in (composite.code, composite.symbol)
        }

    def find(self, descriptor: object) -> Composite[Any] | None:
        """The composite of this descriptor."""
        return self._by_descriptor.get(descriptor) if isinstance(descriptor, Ulong | Symbol) else None

    def read(self, buffer: ReadableBuffer, position: int, end: int, depth: int) -> tuple[Any, int]:
        if buffer[position]:
            raise InvalidField("", f"is no described value, but has the format code {buffer[position]:#04x}")
        descriptor, position = read_descriptor(buffer, position, end, depth)
        composite = self.find(descriptor)
        if composite is not None:
            return composite.read_list(buffer, position, end, depth + 1)
        value, position = decode(buffer, position, end, depth + 1)
        return Described(descriptor, value), position

    def write(self, out: bytearray, value: msgspec.Struct) -> None:
        composite = self._by_kind.get(type(value))
        if composite is not None:
            composite.write(out, value)
        elif isinstance(value, Described):
            write(out, value)
        else:
            raise InvalidValue(f"a {type(value).__name__} cannot stand where it is put")

"""AMQP 1.0 section 3.2.10: one annotation of a message, found without reading the others, in whatever form it has."""

from __future__ import annotations

from headwater.encoding.amqp_composite import read_descriptor
from headwater.encoding.amqp_decoder import decode, read_compound, skip
from headwater.encoding.amqp_message import SectionCode, section_code
from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import InvalidField, MalformedValue

__all__ = ["annotation_of"]

_STRINGS = {0xA1: 2, 0xA3: 2, 0xB1: 5, 0xB3: 5}
"""What stands before the bytes of a string or a symbol."""
_NULL = 0x40
_SHORT_MAP, _LONG_MAP = 0xC1, 0xD1


def annotation_of(
    buffer: ReadableBuffer, position: int, end: int, section: SectionCode, name: bytes
) -> bytes | None:
    """The bytes of a string or symbol in a section of the message at the position; None if it has none of the name.

    Raises MalformedValue if that cannot be told, or if it is a value of another type.
    """
    while position < end:
        descriptor, at = read_descriptor(buffer, position, end)
        code = section_code(descriptor)
        if code is None or code > section:
            return None
        if code is section:
            return _value_in_map(buffer, at, end, name)
        position = skip(buffer, at, end)
    return None


def _value_in_map(buffer: ReadableBuffer, position: int, end: int, name: bytes) -> bytes | None:
    if position >= end or buffer[position] not in (_SHORT_MAP, _LONG_MAP):
        raise MalformedValue("annotations are a map")
    is_wide = buffer[position] == _LONG_MAP
    count, at, stop = read_compound(buffer, position + 1, end, wide=is_wide)
    for _ in range(count // 2):
        value_at = skip(buffer, at, stop)
        behind = skip(buffer, value_at, stop)
        if _bytes_of(buffer, at, value_at) == name:
            if buffer[value_at] == _NULL:
                return None
            found = _bytes_of(buffer, value_at, behind)
            if found is None:
                value, _ = decode(buffer, value_at, behind)
                raise InvalidField(name.decode(), f"is {value!r:.100}; it is a string or a symbol")
            return found
        at = behind
    return None


def _bytes_of(buffer: ReadableBuffer, position: int, behind: int) -> bytes | None:
    """The bytes of the string or symbol at the position; None for any other value."""
    head = _STRINGS.get(buffer[position])
    return None if head is None else bytes(buffer[position + head : behind])

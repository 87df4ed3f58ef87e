"""AMQP 1.0 part 3, section 3.2: the body of a message, and no more of it than tools need that show or make one.

A section is 00, its descriptor, and a value; here the descriptor is 53 and a code. Of the sections before the body
nothing is read but how long they are, by part 1, section 1.2:

    format code   0x4.  5.  6.  7.  8.  9.   0xA.             0xB.              0xC., 0xE.     0xD., 0xF.
    value bytes     0   1   2   4   8   16   size 1, value    size 4, value     size 1, rest   size 4, rest
"""

from __future__ import annotations

__all__ = ["body_of", "data_section"]

_DATA = 0x75
_AMQP_VALUE = 0x77
_SECTIONS = range(0x70, 0x79)
_TEXT_OR_BYTES = (0xA0, 0xA1, 0xB0, 0xB1)
_FIXED_BYTES = {4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16}
_SIZE_BYTES = {0xA: 1, 0xB: 4, 0xC: 1, 0xD: 4, 0xE: 1, 0xF: 4}


def data_section(body: bytes) -> bytes:
    """A message of one data section."""
    if len(body) < 256:
        return b"\x00\x53\x75\xa0" + len(body).to_bytes(1, "big") + body
    return b"\x00\x53\x75\xb0" + len(body).to_bytes(4, "big") + body


def body_of(message: bytes) -> bytes | None:
    """The bytes of the data sections, or of a value that is text or bytes; None for all that is no such message."""
    position, parts = 0, []
    while position < len(message):
        if message[position : position + 2] != b"\x00\x53" or len(message) - position < 4:
            return None
        section, format_code = message[position + 2], message[position + 3]
        start, end = _value_span(message, position + 3)
        if section not in _SECTIONS or end > len(message):
            return None
        if (section == _DATA and format_code in (0xA0, 0xB0)) or (
            section == _AMQP_VALUE and format_code in _TEXT_OR_BYTES
        ):
            parts.append(message[start:end])
        elif section in (_DATA, 0x76, _AMQP_VALUE):
            return None
        position = end
    return b"".join(parts) if parts else None


def _value_span(message: bytes, position: int) -> tuple[int, int]:
    """Where the value begins and ends whose format code is at the position; the end may lie beyond the message."""
    kind = message[position] >> 4
    fixed = _FIXED_BYTES.get(kind)
    if fixed is not None:
        return position + 1, position + 1 + fixed
    size_bytes = _SIZE_BYTES.get(kind)
    if size_bytes is None or len(message) - position - 1 < size_bytes:
        return position, len(message) + 1
    start = position + 1 + size_bytes
    return start, start + int.from_bytes(message[position + 1 : start], "big")

"""AMQP 1.0 part 2, sections 2.2 and 2.3: protocol headers and frames; part 5, section 5.3.1: those of SASL.

protocol header, 8      frame
 0  4  "AMQP"            0  4  size, of the whole frame
 4  1  protocol id       4  1  data offset, in words of 4 bytes, at least 2
 5  1  major, 1          5  1  type: 0 AMQP, 1 SASL
 6  1  minor, 0          6  2  channel; in a SASL frame nothing
 7  1  revision, 0       8     extended header, ignored, up to the data offset
                               body: a performative and its payload, or none, which keeps a connection alive
"""

from __future__ import annotations

import enum
import struct

import msgspec

from headwater.amqp.errors import FrameTooLarge, FramingError, UnknownProtocol
from headwater.amqp.performatives import Performative, encode_performative
from headwater.amqp.sasl_frames import SaslBody, encode_sasl
from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import InvalidValue

__all__ = [
    "EMPTY_FRAME",
    "FRAME_HEADER",
    "FRAME_HEADER_BYTES",
    "PROTOCOL_HEADER_BYTES",
    "SASL_FRAME_SIZE_BYTES_MAX",
    "Frame",
    "FrameType",
    "ProtocolId",
    "encode_frame",
    "encode_sasl_frame",
    "frame_bytes_missing",
    "protocol_header",
    "read_frame",
    "read_protocol_header",
]

PROTOCOL_HEADER_BYTES = 8
FRAME_HEADER = struct.Struct(">IBBH")
"""Size, data offset, type, channel."""
FRAME_HEADER_BYTES = 8
SASL_FRAME_SIZE_BYTES_MAX = 512
"""5.3.1: what a SASL frame must fit into."""
EMPTY_FRAME = FRAME_HEADER.pack(8, 2, 0, 0)

_SIZE = struct.Struct(">I")
_WORD_BYTES = 4
_FRAME_BYTES_MAX = 0xFFFFFFFF


class ProtocolId(enum.IntEnum):
    """What follows a protocol header."""

    AMQP = 0
    TLS = 2
    SASL = 3


class FrameType(enum.IntEnum):
    """What a frame belongs to."""

    AMQP = 0
    SASL = 1


class Frame(msgspec.Struct, frozen=True, gc=False):
    """A whole frame in a buffer: its body stands at `position` to `end`, and the next frame begins at `end`."""

    type: FrameType
    channel: int
    position: int
    end: int


_TYPES = tuple(FrameType)


def protocol_header(protocol: ProtocolId) -> bytes:
    """The header that begins this protocol."""
    return b"AMQP" + bytes((protocol, 1, 0, 0))


_HEADERS = {protocol_header(protocol): protocol for protocol in ProtocolId}


def read_protocol_header(buffer: ReadableBuffer, position: int, end: int) -> ProtocolId | None:
    """What the header at the position begins, or None while it is not whole.

    Raises UnknownProtocol as soon as it cannot become one of ours.
    """
    header = bytes(buffer[position : min(position + PROTOCOL_HEADER_BYTES, end)])
    if header in _HEADERS:
        return _HEADERS[header]
    if any(known.startswith(header) for known in _HEADERS):
        return None
    raise UnknownProtocol(header)


def read_frame(buffer: ReadableBuffer, position: int, end: int, frame_size_bytes_max: int) -> Frame | None:
    """The frame at the position, or None while it is not whole.

    Raises FramingError or FrameTooLarge as soon as it cannot be one.
    """
    available = end - position
    if available < _SIZE.size:
        return None
    (size,) = _SIZE.unpack_from(buffer, position)
    if size < FRAME_HEADER_BYTES:
        raise FramingError(f"a size of {size} bytes is less than a frame header")
    if size > frame_size_bytes_max:
        raise FrameTooLarge(size, frame_size_bytes_max)
    if available < FRAME_HEADER_BYTES:
        return None
    _, data_offset, kind, channel = FRAME_HEADER.unpack_from(buffer, position)
    data_offset_bytes = data_offset * _WORD_BYTES
    if not FRAME_HEADER_BYTES <= data_offset_bytes <= size:
        raise FramingError(f"a data offset of {data_offset_bytes} bytes cannot be in {size} bytes")
    if kind >= len(_TYPES):
        raise FramingError(f"{kind} is no type of frame")
    if available < size:
        return None
    return Frame(_TYPES[kind], channel, position + data_offset_bytes, position + size)


def frame_bytes_missing(buffer: ReadableBuffer, position: int, end: int) -> int:
    """How many bytes must follow for the frame at the position to be whole; for its header while there is none.

    To be asked where `read_frame` gave None, which has held the size against its maximum.
    """
    available = end - position
    if available < FRAME_HEADER_BYTES:
        return FRAME_HEADER_BYTES - available
    (size,) = _SIZE.unpack_from(buffer, position)
    return int(size) - available


def encode_frame(channel: int, performative: Performative, payload: ReadableBuffer = b"") -> bytes:
    """A frame; raises InvalidValue if a field has no form, or the frame is too large for its size."""
    return _frame(FrameType.AMQP, channel, encode_performative(performative), payload)


def encode_sasl_frame(body: SaslBody) -> bytes:
    """A SASL frame; raises InvalidValue if a field has no form."""
    return _frame(FrameType.SASL, 0, encode_sasl(body), b"")


def _frame(kind: FrameType, channel: int, body: bytes, payload: ReadableBuffer) -> bytes:
    size = FRAME_HEADER_BYTES + len(body) + len(payload)
    if size > _FRAME_BYTES_MAX:
        raise InvalidValue(f"a frame of {size} bytes is above {_FRAME_BYTES_MAX}")
    return b"".join((FRAME_HEADER.pack(size, 2, kind, channel), body, payload))

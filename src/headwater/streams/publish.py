"""RabbitMQ Streams protocol, Publish, PublishConfirm and PublishError: hot frames, no value for each message.

    Publish               PublishConfirm        PublishError
    0  4  size             0  4  size            0  4  size
    4  2  key, 0x0002      4  2  key, 0x0003     4  2  key, 0x0004
    6  2  version, 1 or 2  6  2  version, 1      6  2  version, 1
    8  1  publisher id     8  1  publisher id    8  1  publisher id
    9  4  count            9  4  count           9  4  count
    13    messages        13    8 each: id      13    10 each: id 8, code 2

The messages of a Publish are drawn in `encoding/_kernel.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from headwater.encoding._kernel import join_published
from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import MalformedFrame
from headwater.streams.commands import Key, Publish, PublishConfirm, ResponseCode
from headwater.streams.errors import InvalidCommand, UnknownFrame

__all__ = [
    "PUBLISH_HEADER_BYTES",
    "decode_publish",
    "decode_publish_confirm",
    "encode_filtered_publish",
    "encode_publish",
    "joined",
    "publish_confirm",
    "publish_error",
    "publish_header",
]

PUBLISH_HEADER_BYTES = 13
ID_BYTES = 8
ERROR_BYTES = 10
_FILTERED = 2
_JOINED_BYTES_MAX = 1 << 16
_MESSAGE_BYTES_MIN = (0, 12, 14)
"""By version: an id, in version 2 a filter value, and the length of a record."""

_HEADER = struct.Struct(">IHHBI")
_ID_AND_COUNT = struct.Struct(">BI")
_MESSAGE = struct.Struct(">QI")
_ID = struct.Struct(">Q")
_CODE = struct.Struct(">H")


def decode_publish(buffer: ReadableBuffer, version: int, position: int, end: int) -> Publish:
    """The frame whose fields fill `position` to `end`; of the messages only their number is checked, and roughly."""
    if version not in (1, 2):
        raise UnknownFrame(Key.PUBLISH, version)
    start = position + _ID_AND_COUNT.size
    if start > end:
        raise MalformedFrame("a Publish is cut off")
    publisher_id, count = _ID_AND_COUNT.unpack_from(buffer, position)
    if count > (end - start) // _MESSAGE_BYTES_MIN[version] or (count == 0 and start != end):
        raise MalformedFrame(f"{count} messages cannot stand in {end - start} bytes")
    return Publish(publisher_id, version, count, start, end)


def joined(command: Publish, buffer: ReadableBuffer, position: int, end: int) -> tuple[Publish, int]:
    """The same with the messages of small frames that follow at `position`, and where these end.

    A client that sends one by one costs a call for each read then, not for each message. The messages are moved up in
    the buffer; one that cannot be written to is left alone.
    """
    if command.version != 1 or command.end - command.start > _JOINED_BYTES_MAX:
        return command, position
    if not isinstance(buffer, bytearray):
        return command, position
    id_ = command.publisher_id
    count, behind, position = join_published(buffer, command.start, position, end, command.count, id_)
    return Publish(id_, 1, count, command.start, behind), position


def decode_publish_confirm(buffer: ReadableBuffer, version: int, position: int, end: int) -> PublishConfirm:
    """The frame whose fields fill `position` to `end`, with the span of its ids."""
    if version != 1:
        raise UnknownFrame(Key.PUBLISH_CONFIRM, version)
    start = position + _ID_AND_COUNT.size
    if start > end:
        raise MalformedFrame("a PublishConfirm is cut off")
    publisher_id, count = _ID_AND_COUNT.unpack_from(buffer, position)
    if count * ID_BYTES != end - start:
        raise MalformedFrame(f"{count} ids cannot stand in {end - start} bytes")
    return PublishConfirm(publisher_id, count, start, end)


def publish_header(publisher_id: int, count: int, message_bytes: int, version: int = 1) -> bytes:
    """What goes before `count` messages of `message_bytes` in all."""
    size = PUBLISH_HEADER_BYTES - 4 + message_bytes
    return _HEADER.pack(size, Key.PUBLISH, version, publisher_id, count)


def encode_publish(publisher_id: int, messages: Iterable[tuple[int, bytes]]) -> bytes:
    """A Publish of records, each with its publishing id."""
    parts = [b""]
    for publishing_id, record in messages:
        parts += (_MESSAGE.pack(publishing_id, _record_bytes(record)), record)
    return _joined(parts, publisher_id, len(parts) // 2, 1)


def encode_filtered_publish(publisher_id: int, messages: Iterable[tuple[int, str | None, bytes]]) -> bytes:
    """A Publish of version 2: records, each with its publishing id and a filter value or None."""
    parts = [b""]
    for publishing_id, filter_value, record in messages:
        value = b"" if filter_value is None else filter_value.encode()
        if len(value) > 0x7FFF:
            raise InvalidCommand("Publish", f"a filter value of {len(value)} bytes is above {0x7FFF}")
        length = b"\xff\xff" if filter_value is None else _CODE.pack(len(value))
        head = _ID.pack(publishing_id) + length + value + struct.pack(">I", _record_bytes(record))
        parts += (head, record)
    return _joined(parts, publisher_id, len(parts) // 2, _FILTERED)


def publish_confirm(publisher_id: int, ids: ReadableBuffer, frame_size_bytes_max: int = 0) -> bytes:
    """The confirm of ids that stand one behind the other in 8 bytes each, in frames up to the maximum.

    A maximum of 0 is none; a frame holds one id at least.
    """
    assert len(ids) % ID_BYTES == 0
    step = _ids_per_frame(frame_size_bytes_max, ID_BYTES) * ID_BYTES
    if step == 0 or len(ids) <= step:
        return _confirm_header(publisher_id, len(ids)) + ids
    parts: list[ReadableBuffer] = []
    for at in range(0, len(ids), step):
        part = ids[at : at + step]
        parts += (_confirm_header(publisher_id, len(part)), part)
    return b"".join(parts)


def publish_error(
    publisher_id: int, ids: ReadableBuffer, code: ResponseCode, frame_size_bytes_max: int = 0
) -> bytes:
    """As `publish_confirm`, for ids that were refused with this code."""
    assert len(ids) % ID_BYTES == 0
    step = _ids_per_frame(frame_size_bytes_max, ERROR_BYTES) * ID_BYTES or max(len(ids), ID_BYTES)
    behind_id = _CODE.pack(code)
    parts = []
    for start in range(0, len(ids), step):
        part = ids[start : start + step]
        count = len(part) // ID_BYTES
        size = PUBLISH_HEADER_BYTES - 4 + count * ERROR_BYTES
        parts.append(_HEADER.pack(size, Key.PUBLISH_ERROR, 1, publisher_id, count))
        parts += [bytes(part[at : at + ID_BYTES]) + behind_id for at in range(0, len(part), ID_BYTES)]
    return b"".join(parts)


def _confirm_header(publisher_id: int, id_bytes: int) -> bytes:
    size = PUBLISH_HEADER_BYTES - 4 + id_bytes
    return _HEADER.pack(size, Key.PUBLISH_CONFIRM, 1, publisher_id, id_bytes // ID_BYTES)


def _ids_per_frame(frame_size_bytes_max: int, item_bytes: int) -> int:
    """How many ids one frame takes; 0 is as many as there are."""
    if frame_size_bytes_max == 0:
        return 0
    return max(1, (frame_size_bytes_max - PUBLISH_HEADER_BYTES) // item_bytes)


def _record_bytes(record: bytes) -> int:
    if len(record) > 0x7FFFFFFF:
        raise InvalidCommand("Publish", f"a record of {len(record)} bytes is above {0x7FFFFFFF}")
    return len(record)


def _joined(parts: list[bytes], publisher_id: int, count: int, version: int) -> bytes:
    parts[0] = publish_header(publisher_id, count, sum(map(len, parts)), version)
    return b"".join(parts)

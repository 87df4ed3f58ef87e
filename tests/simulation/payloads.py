"""Entries, Publish bodies and chunks as simulations and tests make and read them, apart from the code they check."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Message", "SeenChunk", "make_entry", "publish_body", "split_chunks", "split_entries"]

_HEADER = struct.Struct(">BBHIQQQIIII")


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a Publish body."""

    publishing_id: int
    entry: bytes
    filter_value: bytes | None = None


@dataclass(frozen=True, slots=True)
class SeenChunk:
    """Header and data of a chunk as a reader gave them."""

    kind: int
    entries: int
    records: int
    epoch: int
    first_offset: int
    data: bytes


def make_entry(identity: bytes, size: int, records: int = 1) -> bytes:
    """An entry that says who it is, filled up to about `size`; a sub-batch if it holds several records."""
    filler = (identity + b" ") * (size // (len(identity) + 1))
    if records == 1:
        record = identity + b" " + filler
        return len(record).to_bytes(4, "big") + record
    parts = [identity + b" %d " % number + filler for number in range(records)]
    packed = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return struct.pack(">BHII", 0x80, records, len(packed), len(packed)) + packed


def publish_body(messages: Sequence[Message], *, filtered: bool) -> bytes:
    """The messages of a Publish frame, version 2 if filtered."""
    parts = []
    for message in messages:
        parts.append(message.publishing_id.to_bytes(8, "big"))
        if filtered:
            value = message.filter_value
            size = -1 if value is None else len(value)
            parts.append(size.to_bytes(2, "big", signed=True) + (value or b""))
        parts.append(message.entry)
    return b"".join(parts)


def split_chunks(data: bytes | memoryview) -> Iterator[SeenChunk]:
    """The chunks of a run of headers with data; anything but whole chunks fails."""
    position = 0
    while position < len(data):
        fields = _HEADER.unpack_from(data, position)
        magic, kind, entries, records, _, epoch, first_offset, crc, data_bytes, _, _ = fields
        body = bytes(data[position + 48 : position + 48 + data_bytes])
        assert magic == 0x50, f"no chunk at {position}"
        assert len(body) == data_bytes, f"the chunk at offset {first_offset} is cut off"
        assert zlib.crc32(body) == crc, f"the data of the chunk at offset {first_offset} is damaged"
        yield SeenChunk(kind, entries, records, epoch, first_offset, body)
        position += 48 + data_bytes


def split_entries(chunk: SeenChunk) -> list[tuple[bytes, int]]:
    """The entries of a chunk with their numbers of records; they must fill it."""
    found, position = [], 0
    for _ in range(chunk.entries):
        if chunk.data[position] < 0x80:
            end = position + 4 + int.from_bytes(chunk.data[position : position + 4], "big")
            found.append((chunk.data[position:end], 1))
        else:
            end = position + 11 + int.from_bytes(chunk.data[position + 7 : position + 11], "big")
            found.append(
                (chunk.data[position:end], int.from_bytes(chunk.data[position + 1 : position + 3], "big"))
            )
        position = end
    assert position == len(chunk.data), "entries do not fill their chunk"
    assert sum(records for _, records in found) == chunk.records, "records are not those of the header"
    return found

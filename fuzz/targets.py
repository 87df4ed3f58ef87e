"""The parsers that read what peers send or disks hold, each with the one error it may raise and a few valid inputs.

A new parser registers here:

    @target("index footer", MalformedIndex, seeds=[...])
    def index_footer(data: bytes) -> None: ...

The function parses the bytes and, where it can, checks what must hold of the result.
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwater.encoding import chunk
from headwater.encoding._kernel import (
    SCAN_FIELDS,
    entry_spans,
    filter_values,
    gather_published,
    scan_chunks,
    walk_entries,
)
from headwater.encoding.chunk import ChunkType
from headwater.errors import MalformedChunk, MalformedFrame

__all__ = ["TARGETS", "Broken", "Target", "target"]


class Broken(Exception):
    """A parser gave a result that cannot be."""


@dataclass(frozen=True, slots=True)
class Target:
    """One parser: called with any bytes it returns, or raises `error`; all else is a finding."""

    name: str
    run: Callable[[bytes], object]
    error: type[Exception]
    seeds: tuple[bytes, ...]


TARGETS: dict[str, Target] = {}


def target(
    name: str, error: type[Exception], seeds: Sequence[bytes]
) -> Callable[[Callable[[bytes], object]], Callable[[bytes], object]]:
    """Register the function below as the target of this name."""

    def register(run: Callable[[bytes], object]) -> Callable[[bytes], object]:
        if name in TARGETS:
            raise ValueError(f"there are two fuzz targets named {name}")
        TARGETS[name] = Target(name, run, error, tuple(seeds))
        return run

    return register


def check(holds: bool, what: str) -> None:
    """Raises Broken unless it holds; an assert would be gone under -O."""
    if not holds:
        raise Broken(what)


# Inputs of the kernel's targets begin with a few bytes that choose the arguments; the bytes to parse follow.

RECORDS = b"".join(struct.pack(">I", size) + bytes(size) for size in (0, 1, 5, 100))
SUB_BATCH = struct.pack(">BHII", 0x90, 3, 30, 6) + b"packed"
EXTREMES = b"\x80\x00\x00\x00" + bytes(7) + b"\xff\xff\xff\xff"


def _published(filtered: bool) -> bytes:
    parts = []
    for number, entry in enumerate((b"\x00\x00\x00\x03abc", SUB_BATCH, b"\x00\x00\x00\x00", SUB_BATCH)):
        value = (b"\xff\xff", b"\x00\x02eu")[number % 2] if filtered else b""
        parts.append(struct.pack(">Q", number) + value + entry)
    return b"".join(parts)


_CANARY = b"\xa5" * 16


@target(
    "gather_published",
    MalformedFrame,
    seeds=[
        bytes([0, 4, 0, 255, 4]) + _published(False),
        bytes([1, 4, 1, 255, 4]) + _published(True),
        bytes([0, 2, 2, 20, 1]) + bytes(8) + EXTREMES,
    ],
)
def fuzz_gather_published(data: bytes) -> None:
    if len(data) < 5:
        return
    filtered, count, last, room, entries_room = data[0] & 1 == 1, data[1], data[2] - 2, data[3], data[4]
    body = data[5:]
    out, ids = _CANARY + bytes(room) + _CANARY, _CANARY + bytes(8 * count) + _CANARY
    out_buffer, ids_buffer = bytearray(out), bytearray(ids)
    try:
        position, taken, entries, records, out_position, _ = gather_published(
            body, 0, len(body), count, filtered, last, out_buffer, 16, 16 + room, entries_room, ids_buffer, 16
        )
        check(0 <= position <= len(body), "the position lies outside of the body")
        check(entries <= taken <= count and entries <= entries_room, "more was taken than there is")
        check(entries <= records, "an entry without records was taken")
        check(16 <= out_position <= 16 + room, "the position lies outside of the output")
        check(walk_entries(out_buffer, 16, out_position, entries) == (out_position, records), "other entries")
        check(out_buffer[out_position:] == out[out_position:], "bytes behind the entries were changed")
        check(ids_buffer[16 + 8 * taken :] == ids[16 + 8 * taken :], "bytes behind the ids were changed")
    finally:
        check(out_buffer[:16] == _CANARY and out_buffer[-16:] == _CANARY, "bytes outside were changed")
        check(ids_buffer[:16] == _CANARY and ids_buffer[-16:] == _CANARY, "bytes outside were changed")


@target("filter_values", MalformedFrame, seeds=[b"\x04" + _published(True)])
def fuzz_filter_values(data: bytes) -> None:
    if data:
        values = filter_values(data, 1, len(data), data[0])
        check(len(values) <= data[0], "there are more values than messages")


@target(
    "walk_entries", MalformedChunk, seeds=[b"\x04" + RECORDS, b"\x02" + SUB_BATCH * 2, b"\x02" + EXTREMES]
)
def fuzz_walk_entries(data: bytes) -> None:
    if data:
        position, records = walk_entries(data, 1, len(data), data[0])
        check(data[0] <= records, "an entry without records was walked")
        check(1 <= position <= len(data), "the position lies outside of the data")
        spans = entry_spans(data, 1, len(data), data[0])
        check(sum(span[2] for span in spans) == records, "spans and walk count different records")
        check(all(at + size <= position for at, size, _, _ in spans), "a span lies outside of the data")


def _sealed(kind: ChunkType, data: bytes, entries: int, first_offset: int) -> bytes:
    buffer = bytearray(chunk.CHUNK_HEADER_BYTES) + data
    chunk.seal_chunk(
        buffer,
        len(buffer),
        type=kind,
        entries=entries,
        records=entries,
        timestamp_ms=1,
        epoch=2,
        first_offset=first_offset,
        bloom=bytes(16) if entries else b"",
        publishers={b"publisher": 7},
        offsets={b"reader": 5, b"r": 6},
        synced_position=64,
        timestamp_ms_max=3,
    )
    return bytes(buffer)


SNAPSHOT = chunk.encode_snapshot({b"publisher": (7, 8), b"p": (0, 2**64 - 1)}, {b"reader": (9, 10)})
CHUNKS = (
    _sealed(ChunkType.USER, RECORDS, 4, 0),
    _sealed(ChunkType.DELTA, b"", 0, 4),
    _sealed(ChunkType.SNAPSHOT, SNAPSHOT, 0, 4),
)


@target("scan_chunks", MalformedChunk, seeds=[*CHUNKS, b"".join(CHUNKS), CHUNKS[1] + CHUNKS[0] * 2])
def fuzz_scan_chunks(data: bytes) -> None:
    positions = array("q", [-1]) * (SCAN_FIELDS * 4 + 1)
    first = struct.unpack_from(">Q", data, 24)[0] if len(data) >= 32 else 0
    found, consumed, _, _ = scan_chunks(data, 0, len(data), first & chunk.OFFSET_MAX, positions)
    check(found <= 4 and consumed <= len(data), "more was found than there is")
    check(set(positions[found * SCAN_FIELDS :]) == {-1}, "fields behind the chunks were changed")
    for at in range(0, found * SCAN_FIELDS, SCAN_FIELDS):
        header = chunk.read_header(data, positions[at])
        check(positions[at + 2] == header.total_bytes, "scan and reader see different lengths")


@target("read_chunk", MalformedChunk, seeds=CHUNKS)
def fuzz_read_chunk(data: bytes) -> None:
    with contextlib.suppress(MalformedChunk):
        chunk.read_chunk(data, 0)
    # Hardly a changed chunk passes its CRCs, so they are made to hold: what comes behind them must stand alone too.
    header = chunk.read_header(data, 0)
    end, total = chunk.CHUNK_HEADER_BYTES + header.data_bytes, header.total_bytes
    if total <= len(data):
        whole = bytearray(data[:total])
        struct.pack_into(">I", whole, 32, zlib.crc32(whole[chunk.CHUNK_HEADER_BYTES : end]))
        struct.pack_into(">I", whole, total - 4, zlib.crc32(whole[end:-4], zlib.crc32(whole[:48])))
        _, trailer = chunk.read_chunk(whole, 0)
        size = chunk.trailer_size(len(trailer.bloom), trailer.publishers, trailer.offsets)
        check(size == header.trailer_bytes, "the trailer has a length of its own")


@target("decode_snapshot", MalformedChunk, seeds=[SNAPSHOT, chunk.encode_snapshot({}, {})])
def fuzz_decode_snapshot(data: bytes) -> None:
    publishers, offsets = chunk.decode_snapshot(data)
    check(chunk.encode_snapshot(publishers, offsets) == data, "the snapshot does not encode to what it was")

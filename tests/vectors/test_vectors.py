"""Bytes that must never change: chunks as disks hold them, Publish bodies as they come, hashes as clients make them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.encoding import chunk
from headwater.encoding._hash_kernel import bloom_add, bloom_may_contain, murmur3_32
from headwater.encoding._kernel import (
    entry_spans,
    filter_values,
    gather_published,
)
from headwater.encoding.chunk import ChunkType
from headwater.encoding.murmur3 import partition_of

FOLDER = Path(__file__).parent / "chunk"
NOON = 1_700_000_000_000


def vector(name: str) -> bytes:
    """The bytes of a .hex file; from `#` to the end of a line it is words."""
    lines = (FOLDER / f"{name}.hex").read_text(encoding="utf-8").splitlines()
    return b"".join(bytes.fromhex(line.partition("#")[0]) for line in lines)


HEADERS: dict[str, tuple[ChunkType, int, int, int]] = {
    "user_two_records": (ChunkType.USER, 2, 2, 42),
    "user_sub_batch": (ChunkType.USER, 2, 4, 2**32),
    "user_full_trailer": (ChunkType.USER, 1, 1, 2**63 - 2),
    "delta": (ChunkType.DELTA, 0, 0, 43),
    "snapshot": (ChunkType.SNAPSHOT, 0, 0, 43),
}
TRAILERS: dict[str, dict[str, Any]] = {
    "user_two_records": {"synced_position": 64, "timestamp_ms_max": NOON + 1},
    "user_sub_batch": {"synced_position": 2**64 - 1, "timestamp_ms_max": 2**63},
    "user_full_trailer": {
        "bloom": bytes(range(16)),
        "publishers": {b"p": 255, b"pq": 2**64 - 1},
        "offsets": {b"c": 2**63},
        "synced_position": 4096,
        "timestamp_ms_max": NOON,
    },
    "delta": {"offsets": {b"reader": 42}, "synced_position": 64, "timestamp_ms_max": NOON},
    "snapshot": {"synced_position": 0, "timestamp_ms_max": NOON},
}
SALTS = {"user_full_trailer": 0xDEADBEEF}


def trailer_fields(name: str) -> dict[str, Any]:
    return {"bloom": b"", "publishers": {}, "offsets": {}, **TRAILERS[name]}


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_every_vector_says_where_it_comes_from(path: Path) -> None:
    assert path.suffix == ".hex"
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith(("# Written field by field from ", "# Computed with ", "# Captured from "))


@pytest.mark.parametrize("name", HEADERS)
def test_a_chunk_reads_as_it_was_written(name: str) -> None:
    data = vector(name)
    header, trailer = chunk.read_chunk(data, 0, SALTS.get(name, 0))
    assert (header.type, header.entries, header.records, header.first_offset) == HEADERS[name]
    assert (header.timestamp_ms, header.epoch, header.total_bytes) == (NOON, 3, len(data))
    assert trailer == chunk.Trailer(**trailer_fields(name))


@pytest.mark.parametrize("name", HEADERS)
def test_a_chunk_is_sealed_to_the_same_bytes(name: str) -> None:
    data = vector(name)
    header = chunk.read_header(data, 0)
    kind, entries, records, first_offset = HEADERS[name]
    end = chunk.CHUNK_HEADER_BYTES + header.data_bytes
    buffer = bytearray(chunk.CHUNK_HEADER_BYTES) + data[chunk.CHUNK_HEADER_BYTES : end]
    total = chunk.seal_chunk(
        buffer,
        end,
        type=kind,
        entries=entries,
        records=records,
        timestamp_ms=NOON,
        epoch=3,
        first_offset=first_offset,
        salt=SALTS.get(name, 0),
        **trailer_fields(name),
    )
    assert bytes(buffer) == data
    assert total == len(data)


def test_entries_of_a_user_chunk_lie_where_the_layout_says() -> None:
    data = vector("user_sub_batch")
    spans = entry_spans(data, 48, 48 + chunk.read_header(data, 0).data_bytes, 2)
    assert spans == [(59, 2, 3, 1), (65, 1, 1, -1)]
    assert [data[at : at + size] for at, size, _, _ in spans] == [b"zz", b"!"]


def test_a_snapshot_holds_values_and_times() -> None:
    data = vector("snapshot")
    snapshot = ({b"p": (255, NOON)}, {b"reader": (42, NOON + 1)})
    held = data[48 : 48 + chunk.read_header(data, 0).data_bytes]
    assert chunk.decode_snapshot(held) == snapshot
    assert chunk.encode_snapshot(*snapshot) == held


def test_a_publish_body_turns_into_chunk_data_and_ids() -> None:
    body, out, ids = vector("publish_v1"), bytearray(100), bytearray(24)
    result = gather_published(body, 0, len(body), 3, False, -1, out, 0, 100, 10, ids, 0)
    assert result == (len(body), 3, 3, 4, 28, -1)
    assert bytes(out[:28]) == body[8:15] * 2 + body[38:]
    assert bytes(ids) == body[:8] * 2 + b"\x80" + bytes(7)
    result = gather_published(body, 0, len(body), 3, False, 6, out, 0, 100, 10, ids, 0)
    assert result == (len(body), 3, 2, 3, 21, 2**63)
    assert bytes(out[:21]) == body[8:15] + body[38:]


def test_a_filtered_publish_body_turns_into_chunk_data_and_filter_values() -> None:
    body, out, ids = vector("publish_v2"), bytearray(100), bytearray(32)
    result = gather_published(body, 0, len(body), 4, True, 0, out, 0, 100, 10, ids, 0)
    assert result == (len(body), 4, 4, 4, 20, 4)
    assert bytes(out[:20]) == b"".join(b"\x00\x00\x00\x01" + letter for letter in (b"a", b"b", b"c", b"d"))
    assert filter_values(body, 0, len(body), 4) == [b"eu", None, b""]


@pytest.mark.parametrize(
    ("name", "values"),
    [("bloom_16", [b"eu", b"us", b""]), ("bloom_255", [b"value-%d" % number for number in range(20)])],
)
def test_a_bloom_filter_has_its_bits_where_they_always_were(name: str, values: list[bytes]) -> None:
    expected = vector(name)
    bloom = bytearray(len(expected))
    for value in values:
        bloom_add(bloom, value)
    assert bytes(bloom) == expected
    assert all(bloom_may_contain(expected, value) for value in values)
    assert not bloom_may_contain(expected, b"another")


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        # Published with MurmurHash3 by its users: zero bytes, tails of each length, and the largest seed.
        (b"", 0, 0),
        (b"", 1, 0x514E28B7),
        (b"", 0xFFFFFFFF, 0x81F16F39),
        (b"\xff\xff\xff\xff", 0, 0x76293B50),
        (b"\x21\x43\x65\x87", 0, 0xF55B516B),
        (b"\x21\x43\x65\x87", 0x5082EDEE, 0x2362F9DE),
        (b"\x21\x43\x65", 0, 0x7E4A8634),
        (b"\x21\x43", 0, 0xA0F7B07A),
        (b"\x21", 0, 0x72661CF4),
        (bytes(4), 0, 0x2362F9DE),
        (bytes(3), 0, 0x85F0B427),
        (bytes(2), 0, 0x30F4C306),
        (bytes(1), 0, 0x514E28B7),
        (b"Hello, world!", 0x9747B28C, 0x24884CBA),
    ],
)
def test_murmur3_gives_the_published_values(data: bytes, seed: int, expected: int) -> None:
    assert murmur3_32(data, seed) == expected


@pytest.mark.parametrize(
    ("key", "partition"),
    # What RabbitMQ's .NET stream client expects for `hello1` and so on in a super stream of three partitions.
    [(f"hello{number}", partition) for number, partition in enumerate([1, 0, 1, 2, 0, 2, 0, 1], 1)],
)
def test_keys_go_where_the_stream_clients_send_them(key: str, partition: int) -> None:
    assert partition_of(key.encode(), 3) == partition

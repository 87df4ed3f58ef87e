"""Sub-batches come back as they went, and nothing unpacks beyond what it says."""

from __future__ import annotations

import contextlib
import struct
import subprocess
import sys
from pathlib import Path

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.encoding._kernel import entry_spans
from headwater.encoding.compression import (
    SUB_BATCH_BYTES_MAX,
    Compression,
    pack_sub_batch,
    unpack,
    unpack_entry,
)
from headwater.errors import MalformedChunk, MalformedFrame, UnreadableSubBatch

PACKED = [each for each in Compression if each is not Compression.NONE]


def parts(entry: bytes) -> tuple[bytes, int]:
    """The packed bytes of an entry and their unpacked length."""
    ((start, size, _, _),) = entry_spans(entry, 0, len(entry), 1)
    return entry[start : start + size], int.from_bytes(entry[start - 8 : start - 4], "big")


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=20), st.sampled_from(Compression))
def test_records_come_back_as_they_went(records: list[bytes], compression: Compression) -> None:
    entry = pack_sub_batch(records, compression)
    ((_, _, count, code),) = entry_spans(entry, 0, len(entry), 1)
    assert (count, code) == (len(records), compression)
    plain = bytes(unpack(*_arguments(entry, compression)))
    assert [
        plain[start : start + size] for start, size, _, _ in entry_spans(plain, 0, len(plain), count)
    ] == records


def _arguments(entry: bytes, compression: Compression) -> tuple[bytes, int, int]:
    packed, size = parts(entry)
    return packed, compression, size


@pytest.mark.parametrize("count", [0, 65_536])
def test_a_sub_batch_holds_1_to_65_535_records(count: int) -> None:
    with pytest.raises(ValueError, match=r"1 to 65535 records"):
        pack_sub_batch([b""] * count, Compression.NONE)


# Memory of the library's own is seen by the system alone, and its highest mark for a whole process.
UNPACK_BOMB = """
import resource, sys
from headwater.encoding.compression import unpack
from headwater.errors import MalformedFrame
with open(sys.argv[1], "rb") as file:
    bomb = file.read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    unpack(bomb, int(sys.argv[2]), 1000)
except MalformedFrame:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("compression", PACKED)
def test_a_bomb_is_an_error_and_takes_far_less_memory_than_it_holds(
    compression: Compression, tmp_path: Path
) -> None:
    codec = getattr(cramjam, compression.name.lower())
    (tmp_path / "bomb").write_bytes(bytes(codec.compress(bytes(256 << 20))))
    command = [sys.executable, "-c", UNPACK_BOMB, str(tmp_path / "bomb"), str(int(compression))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    grown_kib = int(done.stdout)
    assert grown_kib < 32 << 10


@pytest.mark.parametrize("compression", Compression)
@pytest.mark.parametrize("off_by", [-1, 1])
def test_another_size_than_announced_is_an_error(compression: Compression, off_by: int) -> None:
    packed, size = parts(pack_sub_batch([b"abc", b"defg"], compression))
    with pytest.raises(MalformedFrame):
        unpack(packed, compression, size + off_by)


@given(st.binary(max_size=200), st.sampled_from(Compression), st.integers(0, 500))
def test_any_bytes_unpack_or_are_malformed(data: bytes, compression: Compression, size: int) -> None:
    with contextlib.suppress(MalformedFrame):
        assert len(unpack(data, compression, size)) == size


@given(st.data(), st.sampled_from(PACKED))
def test_damaged_bytes_unpack_or_are_malformed(data: st.DataObject, compression: Compression) -> None:
    packed, size = parts(pack_sub_batch([b"some record"] * 20, compression))
    at = data.draw(st.integers(0, len(packed) - 1))
    damaged = packed[:at] + bytes((packed[at] ^ data.draw(st.integers(1, 255)),)) + packed[at + 1 :]
    with contextlib.suppress(MalformedFrame):
        assert len(unpack(damaged, compression, size)) == size


def plain(*records: bytes) -> bytes:
    """Records as single entries of chunk data."""
    return b"".join(struct.pack(">I", len(record)) + record for record in records)


def packed_as(
    content: bytes, records: int, compression: Compression = Compression.ZSTD, *, off_by: int = 0
) -> bytes:
    """A sub-batch entry around whatever content, as any publisher may send one."""
    packed = content if compression is Compression.NONE else bytes(cramjam.zstd.compress(content))
    head = struct.pack(">BHII", 0x80 | compression << 4, records, len(content) + off_by, len(packed))
    return head + packed


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=20), st.sampled_from(Compression), st.booleans())
def test_a_stored_entry_unpacks_to_single_entries(
    records: list[bytes], compression: Compression, viewed: bool
) -> None:
    entry = pack_sub_batch(records, compression)
    data = plain(b"before") + entry + plain(b"behind")
    found, count = unpack_entry(memoryview(data) if viewed else data, 10, len(data))
    assert (bytes(found), count) == (plain(*records), len(records))


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (packed_as(plain(b"a", b"b"), 2, off_by=1), "11 bytes unpacks to 10"),
        (packed_as(plain(b"a", b"b"), 2, off_by=-1), "zstd does not unpack"),
        (packed_as(plain(b"a", b"b"), 1), "5 bytes stand behind its records"),
        (packed_as(plain(b"a", b"b") + bytes(6), 4), "entry 3: an entry reaches beyond the end"),
        (packed_as(plain(b"a") + packed_as(plain(b"b"), 1), 2), "entry 1: it is no single record"),
        (packed_as(plain(b"a") + b"\0\0\0\x09b", 2, Compression.NONE), "reaches beyond the end"),
        (struct.pack(">BHII", 0xC0, 3, 100, 7) + b"garbage", "zstd does not unpack"),
    ],
)
def test_a_stored_entry_that_cannot_be_read_tells_how_many_offsets_it_takes(
    entry: bytes, reason: str
) -> None:
    with pytest.raises(UnreadableSubBatch, match=reason) as caught:
        unpack_entry(entry, 0, len(entry))
    assert caught.value.records == int.from_bytes(entry[1:3], "big")


@given(st.binary(max_size=60), st.integers(1, 5), st.sampled_from(Compression), st.integers(20, 90))
def test_whatever_is_stored_as_a_sub_batch_is_read_or_told_unreadable(
    content: bytes, records: int, compression: Compression, unpacked_bytes: int
) -> None:
    head = struct.pack(">BHII", 0x80 | compression << 4, records, unpacked_bytes, len(content))
    with contextlib.suppress(UnreadableSubBatch):
        found, count = unpack_entry(head + content, 0, 11 + len(content))
        assert (len(found), count) == (unpacked_bytes, records)


def test_an_entry_above_64_mib_is_refused_before_anything_is_unpacked() -> None:
    entry = struct.pack(">BHII", 0xC0, 1, SUB_BATCH_BYTES_MAX + 1, 1) + b"z"
    with pytest.raises(MalformedChunk, match="above 64 MiB"):
        unpack_entry(entry, 0, len(entry))

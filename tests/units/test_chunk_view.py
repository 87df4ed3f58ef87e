"""A chunk as a consumer gets it: its messages, whatever they were packed with, or an error of ours."""

from __future__ import annotations

import contextlib
import struct
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.client.chunk_view import Chunk
from headwater.client.errors import DamagedChunk, UnpackedTooLarge
from headwater.encoding.compression import Compression, pack_sub_batch
from headwater.errors import PeerError


def single(record: bytes) -> bytes:
    return struct.pack(">I", len(record)) + record


def made(
    *entries: bytes,
    records: int,
    first_offset: int = 100,
    from_offset: int = 0,
    unpacked_bytes_max: int = 1 << 20,
) -> Chunk:
    data = b"".join(entries)
    return Chunk(
        "s",
        first_offset,
        records,
        len(entries),
        5,
        None,
        crc32(data),
        data,
        from_offset,
        unpacked_bytes_max,
    )


BATCHES = st.lists(
    st.tuples(
        st.sampled_from((None, *Compression)), st.lists(st.binary(max_size=20), min_size=1, max_size=5)
    ),
    min_size=1,
    max_size=8,
)


@given(BATCHES, st.integers(0, 50))
def test_messages_have_their_offsets_whatever_they_were_packed_with(
    batches: list[tuple[Compression | None, list[bytes]]], skipped: int
) -> None:
    entries, sent = [], []
    for compression, records in batches:
        sent += records
        entries += (
            [single(record) for record in records]
            if compression is None
            else [pack_sub_batch(records, compression)]
        )
    chunk = made(*entries, records=len(sent), from_offset=100 + skipped)
    chunk.check()
    assert list(chunk.messages()) == list(enumerate(sent, 100))[skipped:]
    assert sum(count for _, count, _, _ in chunk.runs()) == len(sent)


def test_what_was_not_asked_for_is_not_unpacked() -> None:
    damaged = struct.pack(">BHII", 0x90, 2, 100, 3) + b"???"
    chunk = made(single(b"a"), damaged, single(b"b"), records=4, from_offset=100)
    with pytest.raises(DamagedChunk):
        list(chunk.messages())
    messages = made(single(b"a"), damaged, records=3).messages()
    assert next(messages) == (100, b"a")


def test_a_sub_batch_that_says_it_is_too_large_is_not_unpacked() -> None:
    entry = pack_sub_batch([bytes(5000)], Compression.ZSTD)
    assert list(made(entry, records=1, unpacked_bytes_max=5004).messages()) == [(100, bytes(5000))]
    with pytest.raises(
        UnpackedTooLarge, match="offset 107 of s says it unpacks to 5004 bytes, the maximum is 5003"
    ):
        list(made(entry, records=1, first_offset=107, unpacked_bytes_max=5003).messages())


@pytest.mark.parametrize(
    ("entries", "records", "reason"),
    [
        ([single(b"a")], 2, "not as many records"),
        ([struct.pack(">I", 9) + b"a"], 1, "beyond the end"),
        ([pack_sub_batch([b"a"], Compression.NONE)], 2, "not as many records"),
        (
            [struct.pack(">BHII", 0x80, 2, 15, 15) + pack_sub_batch([b""], Compression.NONE)],
            2,
            "beyond the end",
        ),
        (
            [struct.pack(">BHII", 0x80, 1, 15, 15) + pack_sub_batch([b""], Compression.NONE)],
            1,
            "holds another one",
        ),
    ],
)
def test_a_chunk_that_contradicts_itself_is_damaged(entries: list[bytes], records: int, reason: str) -> None:
    with pytest.raises(DamagedChunk, match=reason):
        list(made(*entries, records=records).messages())


def test_a_crc_that_does_not_hold_is_said() -> None:
    chunk = made(single(b"a"), records=1)
    other = Chunk("s", 0, 1, 1, 5, None, chunk.data_crc ^ 1, chunk.data)
    with pytest.raises(DamagedChunk, match="CRC"):
        other.check()


@given(st.binary(max_size=120), st.integers(0, 6), st.integers(0, 12))
def test_any_data_gives_messages_or_an_error_of_ours(data: bytes, entries: int, records: int) -> None:
    chunk = Chunk("s", 100, records, entries, 5, None, 0, data, 0, 1 << 16)
    with contextlib.suppress(PeerError):
        assert len(list(chunk.messages())) == records

"""Chunks for a client that reads one sub-batch in each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.encoding._kernel import entry_spans
from headwater.encoding.chunk import CHUNK_HEADER_BYTES, ChunkType, check_data, read_header, seal_chunk
from headwater.encoding.compression import Compression, pack_sub_batch
from headwater.server.streams.sub_batches import split_at_sub_batches

SINGLE = st.binary(max_size=20).map(lambda body: (len(body).to_bytes(4, "big") + body, 1))
SUB_BATCH = st.tuples(
    st.lists(st.binary(max_size=5), min_size=1, max_size=4), st.sampled_from(Compression)
).map(lambda made: (pack_sub_batch(*made), len(made[0])))


def chunk_of(entries: list[tuple[bytes, int]], first_offset: int = 1000) -> memoryview:
    """As Deliver carries it: header and data."""
    buffer = bytearray(CHUNK_HEADER_BYTES) + b"".join(entry for entry, _ in entries)
    end = len(buffer)
    seal_chunk(
        buffer,
        end,
        type=ChunkType.USER,
        entries=len(entries),
        records=sum(records for _, records in entries),
        timestamp_ms=5,
        epoch=3,
        first_offset=first_offset,
        bloom=bytes(16),
        publishers={},
        offsets={},
        synced_position=0,
        timestamp_ms_max=5,
    )
    return memoryview(buffer)[:end]


@given(st.lists(SINGLE | SUB_BATCH, min_size=1, max_size=12))
def test_pieces_hold_all_entries_at_their_offsets_and_one_sub_batch_at_most(
    entries: list[tuple[bytes, int]],
) -> None:
    chunk = chunk_of(entries)
    whole = read_header(chunk, 0)
    offset, data = whole.first_offset, b""
    for piece in split_at_sub_batches([chunk]):
        header = read_header(piece, 0)
        check_data(piece, 0, header)
        assert len(piece) == CHUNK_HEADER_BYTES + header.data_bytes
        assert header.first_offset == offset
        assert (header.type, header.epoch, header.timestamp_ms) == (
            whole.type,
            whole.epoch,
            whole.timestamp_ms,
        )
        spans = entry_spans(piece, CHUNK_HEADER_BYTES, len(piece), header.entries)
        assert header.records == sum(span[2] for span in spans)
        assert header.entries == 1 or all(span[3] == -1 for span in spans)
        offset += header.records
        data += bytes(piece[CHUNK_HEADER_BYTES:])
    assert offset == whole.first_offset + whole.records
    assert data == bytes(chunk[CHUNK_HEADER_BYTES:])


def test_records_alone_and_one_sub_batch_alone_are_not_copied() -> None:
    for entries in ([(b"\0\0\0\1a", 1)] * 3, [(pack_sub_batch([b"a"], Compression.GZIP), 1)]):
        chunk = chunk_of(entries)
        (piece,) = split_at_sub_batches([chunk])
        assert piece is chunk


def test_damaged_entries_go_out_as_they_are_for_the_crc_tells() -> None:
    chunk = chunk_of([(b"\0\0\0\1a", 1)] * 3)
    chunk[CHUNK_HEADER_BYTES] = 0x7F
    (piece,) = split_at_sub_batches([chunk])
    assert piece is chunk

"""Gatherings, stored offsets and snapshots become chunks that lie one behind the other."""

from __future__ import annotations

from pathlib import Path

from headwater.encoding._hash_kernel import bloom_may_contain
from headwater.encoding.chunk import ChunkType, decode_snapshot, read_chunk
from headwater.log.chunk_writer import ChunkWriter
from headwater.log.intake import Gathering, Intake
from headwater.log.segment import SEGMENT_HEADER_BYTES, SegmentHeader, decode_segment_header
from headwater.log.settings import LogSettings
from tests.log_material import entry


def gathering_of(*records: bytes, first_offset: int = 0) -> Gathering:
    intake = Intake(LogSettings())
    intake.next_offset = first_offset
    for record in records:
        intake.add(entry(record), 1, 1, None, 0)
    (gathering,) = intake.take()
    return gathering


def test_a_new_segment_starts_with_its_header_and_a_salt_of_its_own() -> None:
    writers = [ChunkWriter(7, 1000, 2000, 16) for _ in range(2)]
    salts = [writer.start_segment(3, 4, 5) for writer in writers]
    assert salts[0] != salts[1]
    header = decode_segment_header(bytes(writers[0].buffers[0]), Path())
    assert header == SegmentHeader(3, 4, 5, 1000, 7, salts[0])
    assert writers[0].position == SEGMENT_HEADER_BYTES


def test_chunks_lie_one_behind_the_other_and_say_what_was_durable_before() -> None:
    writer = ChunkWriter(7, 1000, 2000, 16)
    writer.continue_segment(500, 99, 400)
    writer.add_snapshot(10, {b"p": (1, 2)}, {b"o": (3, 4)})
    writer.add_gathered(gathering_of(b"a", b"b", first_offset=10), {b"o": 9})
    writer.add_delta(12, {b"q": 5})
    data = b"".join(bytes(buffer) for buffer in writer.buffers)
    assert writer.position == 500 + len(data)
    kinds = []
    for chunk in writer.chunks:
        header, trailer = read_chunk(data, chunk.position - 500, 99)
        kinds.append(header.type)
        assert (header.epoch, header.timestamp_ms) == (7, 1000)
        assert (trailer.synced_position, trailer.timestamp_ms_max) == (400, 2000)
        assert (header.first_offset, header.records) == (chunk.first_offset, chunk.records)
        assert trailer.offsets == chunk.offsets
        assert (
            bytes(chunk.whole[: chunk.deliver_bytes])
            == data[chunk.position - 500 :][: 48 + header.data_bytes]
        )
        assert len(chunk.whole) == header.total_bytes
    assert kinds == [ChunkType.SNAPSHOT, ChunkType.USER, ChunkType.DELTA]
    assert decode_snapshot(writer.chunks[0].whole[48 : writer.chunks[0].deliver_bytes]) == (
        {b"p": (1, 2)},
        {b"o": (3, 4)},
    )


def test_a_chunk_with_filter_values_gets_a_bloom_filter_of_the_size_that_was_set() -> None:
    gathering = gathering_of(b"a")
    gathering.filter_values = {b"eu", b""}
    writer = ChunkWriter(1, 1, 1, 40)
    writer.continue_segment(64, 0, 0)
    writer.add_gathered(gathering, {})
    writer.add_gathered(gathering_of(b"b", first_offset=1), {})
    header, trailer = read_chunk(bytes(writer.buffers[0]), 0)
    assert header.bloom_bytes == len(trailer.bloom) == 40
    assert bloom_may_contain(trailer.bloom, b"eu")
    assert bloom_may_contain(trailer.bloom, b"")
    assert not bloom_may_contain(trailer.bloom, b"us")
    assert read_chunk(bytes(writer.buffers[1]), 0)[0].bloom_bytes == 0


def test_what_the_tail_may_keep_is_no_larger_than_the_chunk() -> None:
    writer = ChunkWriter(1, 1, 1, 16)
    writer.continue_segment(64, 0, 0)
    writer.add_gathered(gathering_of(b"a"), {})
    assert memoryview(writer.chunks[0].whole.obj).nbytes == len(writer.chunks[0].whole)

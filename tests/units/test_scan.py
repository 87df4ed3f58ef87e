"""Reading a segment chunk by chunk: damage is told with its place, and what lies behind it is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.encoding.chunk import ChunkType
from headwater.errors import LogCorrupt, MalformedChunk
from headwater.log.scan import SegmentScan
from headwater.log.segment import decode_segment_header
from tests.log_material import Machine, append, chunks_on_disk

COUNT = 5


class Made:
    """A segment of a snapshot and five chunks, each of which says that those before it are durable."""

    def __init__(self) -> None:
        self.machine = Machine()
        partition = self.machine.log()
        for number in range(COUNT):
            append(partition, b"%d" % number * 40)
            self.machine.store.flush()
        self.path = partition.segments[0].path
        found = chunks_on_disk(self.machine.store, partition, ChunkType.USER)
        self.positions = [chunk.position for chunk in found]
        self.size = self.machine.files.size_of(self.path)
        self.salt = decode_segment_header(self.machine.files.read_file(self.path), self.path).salt

    def scan(self, salt: int | None = None, size: int | None = None) -> SegmentScan:
        files = self.machine.files
        used = self.salt if salt is None else salt
        return SegmentScan(files, files.open(self.path), self.size if size is None else size, used)


@pytest.fixture
def made() -> Made:
    return Made()


def test_all_chunks_come_in_order_with_data_and_index_entries(made: Made) -> None:
    chunks = list(made.scan().chunks(64, made.path, 0))
    assert [chunk.header.type for chunk in chunks] == [ChunkType.SNAPSHOT] + [ChunkType.USER] * COUNT
    assert [chunk.position for chunk in chunks[1:]] == made.positions
    assert chunks[-1].end == made.size
    assert [bytes(chunk.data[4:]) for chunk in chunks[1:]] == [b"%d" % number * 40 for number in range(COUNT)]
    assert [chunk.end_offset for chunk in chunks] == list(range(COUNT + 1))
    entry = chunks[3].index_entry()
    assert (entry.first_offset, entry.position, entry.epoch, entry.type) == (2, made.positions[2], 1, 0)


@pytest.mark.parametrize("distance", [0, 10, 36, 40, 50, 80, 100, 110, 119])
def test_damage_ends_the_scan_at_the_start_of_its_chunk(made: Made, distance: int) -> None:
    made.machine.files.damage(made.path, made.positions[2] + distance, 0x20)
    found = []
    with pytest.raises(LogCorrupt) as caught:
        found += list(made.scan().chunks(64, Path("x"), 0))
    assert caught.value.position == made.positions[2]
    assert made.scan().synced_position_behind(made.positions[2] + 1) == made.positions[4]


def test_an_offset_that_is_not_due_is_damage(made: Made) -> None:
    with pytest.raises(LogCorrupt, match="offset 1 where 2 is due"):
        list(made.scan().chunks(made.positions[1], made.path, 2))


def test_a_chunk_that_is_cut_off_is_none(made: Made) -> None:
    scan = made.scan(size=made.size - 1)
    with pytest.raises(MalformedChunk, match="beyond the end of the segment"):
        scan.chunk(made.positions[4])
    with pytest.raises(MalformedChunk, match="fewer than 48 bytes"):
        made.scan().chunk(made.size - 10)
    with pytest.raises(MalformedChunk, match="fewer than 48 bytes"):
        made.scan().chunk(made.size)


def test_chunks_of_a_segment_with_another_salt_are_none(made: Made) -> None:
    scan = made.scan(salt=made.salt ^ 1)
    with pytest.raises(MalformedChunk, match="CRC of header and trailer"):
        scan.chunk(64)
    assert scan.synced_position_behind(0) == 0


def test_behind_the_last_chunk_nothing_is_found(made: Made) -> None:
    assert made.scan().synced_position_behind(made.positions[4] + 1) == 0
    assert made.scan().synced_position_behind(made.size) == 0


def test_without_a_salt_chunks_with_data_still_tell_what_was_durable(made: Made) -> None:
    files = made.machine.files
    scan = SegmentScan(files, files.open(made.path), made.size, None)
    assert scan.synced_position_behind(0) == made.positions[4]


def test_bytes_that_look_like_a_chunk_in_an_event_are_none(made: Made) -> None:
    machine = Machine()
    partition = machine.log()
    stolen = made.machine.files.read_file(made.path)[64:]
    append(partition, stolen)
    machine.store.flush()
    path = partition.segments[0].path
    (chunk,) = chunks_on_disk(machine.store, partition, ChunkType.USER)
    fd, size = machine.files.open(path), machine.files.size_of(path)
    salt = decode_segment_header(machine.files.read_file(path), path).salt
    assert SegmentScan(machine.files, fd, size, salt).synced_position_behind(chunk.position + 1) == 0

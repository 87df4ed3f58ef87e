"""Opening a partition: tails are cut and told, corruption is never cut, indexes are rebuilt, removals finished."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from headwater.errors import ForeignFile, LogCorrupt, NewerFormat, PartitionReadOnly
from headwater.log.check import check_folder
from headwater.log.partition import Partition, PartitionState
from headwater.log.reader import Reader
from headwater.log.segment import encode_segment_header, read_segment_header, segment_path
from tests.log_material import DATA, Answers, Machine, append, publish, read_all, read_records
from tests.simulation.faulty_files import FaultyFiles


def put(files: FaultyFiles, path: Path, data: bytes, position: int = 0) -> None:
    """Write bytes, which are durable then; at position 0 they are all that the file holds."""
    fd = files.open(path, write=True) if files.exists(path) else files.open(path, create=True)
    if not position:
        files.truncate(fd, 0)
    files.write_and_sync(fd, position, [data], sync=True)
    files.close(fd)


@pytest.fixture
def machine() -> Machine:
    return Machine(tail_bytes_max=1)


def filled(machine: Machine, count: int = 4, **settings: Any) -> Partition:
    partition = machine.log(**settings)
    for number in range(count):
        append(partition, b"%02d " % number + bytes(400))
        machine.store.flush()
    return partition


def positions_of(machine: Machine, partition: Partition) -> list[int]:
    segment = partition.segments[-1]
    entries = machine.store.indexes.entries(segment)
    return [int.from_bytes(entries[at + 24 : at + 28], "big") for at in range(0, len(entries), 29)]


@pytest.mark.parametrize("tail", [b"\0", b"P\0", bytes(100), b"junk" * 500])
def test_bytes_behind_the_last_chunk_are_cut_off_and_told(machine: Machine, tail: bytes) -> None:
    partition = filled(machine)
    path, size = partition.segments[0].path, partition.segments[0].size
    put(machine.files, path, tail, size)
    machine.crash()
    partition = machine.log()
    assert machine.files.size_of(path) == size
    assert machine.store.notices == [f"log: {len(tail)} bytes that were never confirmed were cut off its end"]
    assert machine.store.damaged == []
    append(partition, b"04")
    machine.store.flush()
    assert read_records(partition) == [b"%02d" % number for number in range(5)]


@pytest.mark.parametrize("distance", [0, 40, 48, 200, 470])
def test_damage_in_the_last_chunk_is_tail_as_nothing_says_it_was_durable(
    machine: Machine, distance: int
) -> None:
    partition = filled(machine)
    position = positions_of(machine, partition)[-1]
    machine.files.damage(partition.segments[0].path, position + distance, 1)
    machine.crash()
    assert machine.store.damaged == []
    assert read_records(machine.log()) == [b"00", b"01", b"02"]
    assert len(machine.store.notices) == 1


@pytest.mark.parametrize("distance", [0, 8, 40, 48, 200, 470])
def test_damage_below_the_synced_position_is_corruption_and_nothing_is_cut(
    machine: Machine, distance: int
) -> None:
    partition = filled(machine)
    path, position = partition.segments[0].path, positions_of(machine, partition)[2]
    machine.files.damage(path, position + distance, 1)
    before = machine.files.read_file(path)
    for _ in range(2):
        machine.crash()
        partition = machine.log()
        assert partition.state is PartitionState.DAMAGED
        assert machine.files.read_file(path) == before
        with pytest.raises(LogCorrupt, match=f"is corrupt at byte {position}: ") as caught:
            read_all(partition)
        assert machine.store.damaged == [f"log: {caught.value}"]
        with pytest.raises(PartitionReadOnly):
            append(partition, b"x")
        with pytest.raises(PartitionReadOnly):
            publish(partition, [1])
        with pytest.raises(PartitionReadOnly):
            partition.store_offset(b"r", 1)
        with pytest.raises(PartitionReadOnly):
            partition.truncate(0, Answers())
        assert partition.committed_offset == 1
    machine.store.close()
    assert machine.files.read_file(path) == before


def test_reads_go_on_to_just_before_the_corruption(machine: Machine) -> None:
    partition = filled(machine)
    machine.files.damage(partition.segments[0].path, positions_of(machine, partition)[3] + 5, 1)
    machine.crash()
    with pytest.raises(LogCorrupt):
        read_all(machine.log(), 1)
    partition = machine.log()
    assert partition.committed_offset == 2


def test_a_broken_segment_header_is_corruption_when_something_was_durable(machine: Machine) -> None:
    partition = filled(machine)
    path = partition.segments[0].path
    machine.files.damage(path, 20, 1)
    machine.crash()
    assert machine.log().state is PartitionState.DAMAGED
    assert "is corrupt at byte 0: CRC of the segment header" in machine.store.damaged[0]
    assert machine.files.size_of(path) > 64


@pytest.mark.parametrize("size", [0, 10, 64, 100])
def test_a_newest_segment_in_which_nothing_was_confirmed_goes_away(machine: Machine, size: int) -> None:
    partition = filled(machine)
    old = partition.segments[0].path
    data = machine.files.read_file(old)
    header = read_segment_header(machine.files, machine.files.open(old), old)
    cut = encode_segment_header(type(header)(1, 0, 4, 0, 1, 5)) + data[64:]
    put(machine.files, segment_path(partition.folder, 4), cut[:size])
    machine.files.sync_folder(partition.folder)
    machine.crash()
    partition = machine.log()
    assert machine.names(partition, ".segment") == [old.name]
    assert machine.store.damaged == []
    append(partition, b"04")
    machine.store.flush()
    assert read_records(partition) == [b"%02d" % number for number in range(5)]


@pytest.mark.parametrize("data", [b"x", b"notes of mine\n" * 20, b"HDWTRSTG" + bytes(100)])
def test_a_foreign_file_with_the_name_of_a_segment_is_set_aside_and_told(
    machine: Machine, data: bytes
) -> None:
    partition = filled(machine)
    path = segment_path(partition.folder, 4)
    aside = path.with_name(path.name + ".foreign")
    put(machine.files, path, data)
    machine.store.close()
    (finding,) = check_folder(DATA, files=machine.files).findings
    assert (finding.severity, finding.path) == ("foreign", str(path))
    machine.open()
    for _ in range(2):
        assert machine.store.notices == [f"{aside}: not a file of headwater, left alone"]
        assert machine.store.damaged == []
        assert machine.files.read_file(aside) == data
        machine.reopen()
    partition = machine.log()
    append(partition, b"04")
    machine.store.flush()
    assert read_records(partition) == [b"%02d" % number for number in range(5)]


def test_opening_after_closing_in_order_reads_almost_nothing(machine: Machine) -> None:
    partition = filled(machine, 40)
    machine.store.close()
    machine.files.count_reads = True
    machine.files.trace = []
    machine.open()
    reads = [line for line in machine.files.trace if " read " in line and "/1/0/" in line]
    assert len(reads) < 8
    assert not [line for line in machine.files.trace if " write " in line and "/1/0/" in line]
    assert len(read_all(machine.log())) == partition.committed_offset == 40


@pytest.mark.parametrize("fate", ["missing", "empty", "truncated", "flipped", "other", "longer"])
def test_an_index_that_disagrees_is_rebuilt(machine: Machine, fate: str) -> None:
    partition = filled(machine, 12, segment_bytes=1024)
    segments = [segment.path for segment in partition.segments]
    machine.store.close()
    for path, other in zip(segments, segments[1:] + segments[:1], strict=True):
        index, data = path.with_suffix(".index"), machine.files.read_file(path.with_suffix(".index"))
        if fate == "missing":
            machine.files.remove(index)
        elif fate == "flipped":
            put(machine.files, index, data[:30] + bytes([data[30] ^ 1]) + data[31:])
        else:
            kept = {
                "empty": b"",
                "truncated": data[:-50],
                "longer": data + data,
                "other": machine.files.read_file(other.with_suffix(".index")),
            }[fate]
            put(machine.files, index, kept)
    machine.open()
    partition = machine.log()
    for offset in range(11, -1, -1):
        assert [at for at, _ in read_all(partition, offset)] == list(range(offset, 12))
    assert partition.state is PartitionState.OPEN
    for path in segments[:-1]:
        assert machine.files.size_of(path.with_suffix(".index")) == 29 * 3 + 40


def test_an_index_that_cannot_be_written_again_does_not_hinder_reading(machine: Machine) -> None:
    partition = filled(machine, 12, segment_bytes=1024)
    path = partition.segments[0].path.with_suffix(".index")
    machine.store.close()
    machine.files.remove(path)
    machine.open()
    machine.files.capacity_bytes = 0
    assert [offset for offset, _ in read_all(machine.log())] == list(range(12))


def test_removals_that_a_crash_interrupted_are_finished(machine: Machine) -> None:
    partition = filled(machine, 12, segment_bytes=1024)
    removed = partition.segments[2].path
    machine.store.close()
    machine.files.rename(removed, removed.with_name(removed.name + ".removed"))
    machine.open()
    partition = machine.log()
    assert partition.first_offset == 6
    assert machine.names(partition, ".removed") == []
    assert len(machine.names(partition, ".index")) == len(machine.names(partition, ".segment")) == 3


def test_foreign_files_among_the_segments_are_left_alone_and_told(machine: Machine) -> None:
    partition = filled(machine)
    note = partition.folder / "note.txt"
    machine.store.close()
    put(machine.files, note, b"by hand")
    machine.open()
    assert machine.store.notices == [f"{note}: not a file of headwater, left alone"]
    assert machine.files.read_file(note) == b"by hand"
    assert len(read_all(machine.log())) == 4


def test_a_segment_of_another_log_is_never_taken_for_ones_own(machine: Machine) -> None:
    paths = []
    for name in ("log", "other"):
        append(machine.log(name), name.encode())
        machine.store.flush()
        paths.append(machine.log(name).segments[0].path)
    machine.store.close()
    put(machine.files, paths[0], machine.files.read_file(paths[1]))
    machine.open()
    assert "is corrupt at byte 0: it belongs to partition 2/0 at offset 0" in machine.store.damaged[0]
    with pytest.raises(LogCorrupt):
        read_all(machine.log())
    assert read_records(machine.log("other")) == [b"other"]


def test_a_folder_with_the_name_of_a_segment_is_refused_by_its_name(machine: Machine) -> None:
    partition = filled(machine)
    machine.store.close()
    path = segment_path(partition.folder, 9)
    machine.files.make_folder(path)
    with pytest.raises(ForeignFile, match="was not written by headwater; move it away") as caught:
        machine.open()
    assert caught.value.path == str(path)


@pytest.mark.parametrize("number", [0, -1])
def test_a_segment_of_a_newer_format_stops_opening(machine: Machine, number: int) -> None:
    partition = filled(machine, 4, segment_bytes=1024)
    path = partition.segments[number].path
    machine.store.close()
    data = machine.files.read_file(path)
    header = bytearray(data[:60])
    header[8:10] = b"\0\2"
    put(machine.files, path, bytes(header) + crc32(header).to_bytes(4, "big") + data[64:])
    before = machine.files.read_file(path)
    with pytest.raises(NewerFormat, match="has format 2, this version reads up to 1") as caught:
        machine.open()
    assert caught.value.path == str(path)
    assert machine.files.read_file(path) == before
    assert machine.files.open_descriptors() == []


def test_a_lone_segment_that_is_cut_to_nothing_is_not_forgotten(machine: Machine) -> None:
    partition = filled(machine, 6, segment_bytes=1024)
    partition.truncate(4, Answers())
    machine.store.flush()
    path = partition.segments[0].path
    machine.store.close()
    put(machine.files, path, bytes(64))
    machine.open()
    assert machine.log().state is PartitionState.DAMAGED
    assert machine.log().committed_offset == 4
    assert DATA in path.parents


def test_damaged_state_is_reported_and_the_logs_are_served_all_the_same(machine: Machine) -> None:
    filled(machine, 3)
    for number in range(3):
        machine.store.state.put(b"key", b"%d" % number, lambda error: None)
        machine.store.flush()
    (path,) = [segment.path for segment in machine.store.state.partition.segments]
    machine.store.close()
    place = machine.files.read_file(path).index(b"key\x011") + 4
    put(machine.files, path, b"9", place)
    machine.open()
    assert machine.store.state.get(b"key") == b"0"
    assert [line for line in machine.store.damaged if "$state" in line]
    with pytest.raises(PartitionReadOnly):
        machine.store.state.put(b"key", b"3", lambda error: None)
    assert len(read_records(machine.log())) == 3


def test_a_verifying_reader_serves_what_lies_before_damage_in_the_same_stretch(machine: Machine) -> None:
    partition = filled(machine, 4)
    damaged = positions_of(machine, partition)[3] + 60
    put(machine.files, partition.segments[0].path, b"!", damaged)
    with Reader(partition, 0, verify=True) as reader:
        run = reader.read()
        assert run is not None
        assert sum(chunk.records for chunk in run.chunks) == 2
        with pytest.raises(LogCorrupt):
            reader.read()


def test_recovery_after_recovery_reads_no_more_than_the_first(machine: Machine) -> None:
    filled(machine, 200, snapshot_interval_bytes=2048)
    counts = []
    for _ in range(4):
        machine.crash()
        counts.append(machine.log().segments[-1].index.written)
        assert len(read_records(machine.log())) == 200
    assert counts[0] > 0
    assert counts == [counts[0]] * 4

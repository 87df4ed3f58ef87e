"""Reading forward: memory and disk give the same bytes, nothing is passed over, damage is told with its place."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from headwater.errors import LogCorrupt, PartitionReadOnly, ReadFailed
from headwater.log.partition import Partition, PartitionState
from headwater.log.reader import SPAN_BYTES_MIN, Reader, find_timestamp, locate
from tests.log_material import Answers, Machine, append, pinned_bytes, publish, read_all, read_records


def filled(machine: Machine, count: int = 12, size: int = 400, **settings: Any) -> Partition:
    partition = machine.log(**settings)
    for number in range(count):
        append(partition, b"%02d " % number + bytes(size))
        machine.store.flush()
    return partition


@pytest.fixture
def machine() -> Machine:
    """A machine that keeps nothing but the newest chunk in memory."""
    return Machine(tail_bytes_max=1)


def deliveries(partition: Partition, offset: int) -> list[bytes]:
    found = []
    with Reader(partition, offset, buffer=bytearray(2000)) as reader:
        while (run := reader.read()) is not None:
            found += [bytes(delivery) for delivery in run.deliveries]
    return found


def test_memory_and_disk_give_the_same_bytes() -> None:
    machine = Machine()
    partition = filled(machine, segment_bytes=2048)
    publish(partition, [1, 2], values=[b"eu", None])
    machine.store.flush()
    assert len(partition.tail) == 13
    from_memory = [deliveries(partition, offset) for offset in range(14)]
    partition.tail.clear()
    assert [deliveries(partition, offset) for offset in range(14)] == from_memory
    assert len(from_memory[0]) == 13


def test_the_tail_holds_no_more_bytes_than_were_set_for_all_partitions() -> None:
    machine = Machine(tail_bytes_max=3000)
    partitions = [machine.log(f"log{number}") for number in range(3)]
    for _ in range(10):
        for partition in partitions:
            append(partition, bytes(300))
        machine.store.flush()
        pinned = sum(map(pinned_bytes, partitions))
        assert 0 < pinned <= 3000
    assert [len(read_all(partition)) for partition in partitions] == [10, 10, 10]


def test_small_chunks_in_the_tail_hold_no_large_buffers() -> None:
    machine = Machine(tail_bytes_max=50_000)
    partition = machine.log()
    for size in (20_000, 1, 1, 1, 30_000, 1):
        append(partition, bytes(size))
        machine.store.flush()
    assert pinned_bytes(partition) <= 50_000


def test_every_offset_is_found_across_many_segments(machine: Machine) -> None:
    partition = filled(machine, segment_bytes=1024)
    assert len(partition.segments) == 6
    for offset in range(12):
        assert [at for at, _ in read_all(partition, offset)] == list(range(offset, 12))


def test_a_reader_begins_with_the_chunk_that_holds_its_offset(machine: Machine) -> None:
    partition = machine.log()
    append(partition, b"a", b"b", b"c")
    machine.store.flush()
    append(partition, b"d")
    machine.store.flush()
    for offset, first in ((0, 0), (1, 0), (2, 0), (3, 3)):
        with Reader(partition, offset) as reader:
            run = reader.read()
            assert run is not None
            assert next(iter(run.chunks)).first_offset == first
        segment, _, chunk_offset = locate(partition, offset)
        assert (segment, chunk_offset) == (partition.segments[0], first)


@pytest.mark.parametrize("buffer_bytes", [1, 10, 47, 48, 64, 500, 100_000])
def test_a_chunk_may_be_larger_than_the_buffer(machine: Machine, buffer_bytes: int) -> None:
    partition = machine.log()
    for size in (10, 5000, 20, 30_000, 1):
        append(partition, bytes(size))
        machine.store.flush()
    found = read_all(partition, buffer_bytes=buffer_bytes)
    assert [len(data) - 4 for _, data in found] == [10, 5000, 20, 30_000, 1]


def test_a_reader_at_the_end_gives_none_holds_no_file_and_goes_on_later(machine: Machine) -> None:
    partition = filled(machine, 3)
    with Reader(partition, 0) as reader:
        while reader.read() is not None:
            pass
        assert reader.offset == 3
        machine.store.open_files.forget(partition.segments[0].path)
        assert partition.segments[0].path not in machine.files.open_descriptors()
        assert reader.read() is None
        append(partition, b"03", b"04")
        machine.store.flush()
        run = reader.read()
        assert run is not None
        assert reader.offset == 5


def test_what_is_not_committed_is_not_read(machine: Machine) -> None:
    partition = filled(machine, 3)
    with machine.held_back(partition, b"not yet"):
        assert len(read_all(partition)) == 3
    assert len(read_all(partition)) == 4


def test_deltas_and_snapshots_between_events_are_passed_over(machine: Machine) -> None:
    partition = machine.log(segment_bytes=1024)
    for number in range(8):
        append(partition, b"%02d " % number + bytes(300))
        machine.store.flush()
        partition.store_offset(b"reader", number)
        machine.store.flush()
    assert read_records(partition) == [b"%02d" % number for number in range(8)]


def test_without_waiting_a_cold_page_raises_and_waiting_reads_it(machine: Machine) -> None:
    partition = filled(machine)
    machine.files.cold_read_chance = 1.0
    with Reader(partition, 0) as reader:
        for _ in range(3):
            with pytest.raises(BlockingIOError):
                reader.read(wait=False)
            assert reader.offset == 0
        run = reader.read()
        assert run is not None
        machine.files.cold_read_chance = 0.0
        while reader.read(wait=False) is not None:
            pass
        assert reader.offset == 12


def test_the_tail_is_read_without_waiting_for_a_disk() -> None:
    machine = Machine()
    partition = filled(machine)
    machine.files.cold_read_chance = 1.0
    with Reader(partition, 0) as reader:
        for _ in range(12):
            assert reader.read(wait=False) is not None
        assert reader.read(wait=False) is None


@pytest.mark.parametrize("segments_removed", [1, 2, 4])
@pytest.mark.parametrize("buffer_bytes", [600, 100_000])
def test_a_reader_in_a_removed_segment_goes_on_at_the_first_offset_that_is_left(
    machine: Machine, segments_removed: int, buffer_bytes: int
) -> None:
    partition = filled(machine, segment_bytes=1024)
    with Reader(partition, 0, buffer=bytearray(buffer_bytes)) as reader:
        assert reader.read() is not None
        partition.truncate(partition.segments[segments_removed].first_offset, Answers())
        machine.store.flush()
        offsets = []
        while (run := reader.read()) is not None:
            offsets += [chunk.first_offset for chunk in run.chunks]
    assert offsets[-1] == 11
    assert [offset for offset in offsets if offset >= 2 * segments_removed] == list(
        range(max(2 * segments_removed, offsets[0]), 12)
    )
    assert partition.state is PartitionState.OPEN


def test_a_file_that_was_removed_is_closed_when_its_reader_left_it(machine: Machine) -> None:
    partition = filled(machine, segment_bytes=1024)
    path = partition.segments[0].path
    with Reader(partition, 0, buffer=bytearray(600)) as reader:
        assert reader.read() is not None
        partition.truncate(6, Answers())
        machine.store.flush()
        assert path in machine.files.open_descriptors()
        while reader.read() is not None:
            pass
    assert path not in machine.files.open_descriptors()


def test_verifying_finds_flipped_data_that_reading_alone_passes_on(machine: Machine) -> None:
    partition = filled(machine, 3)
    _, position, _ = locate(partition, 1)
    machine.files.damage(partition.segments[0].path, position + 60, 1)
    with pytest.raises(LogCorrupt, match=f"is corrupt at byte {position}: the CRC of the data does not hold"):
        read_all(partition, verify=True)
    assert partition.state is PartitionState.DAMAGED
    with pytest.raises(PartitionReadOnly):
        append(partition, b"x")


@pytest.mark.parametrize("place", [0, 1, 24, 36])
def test_a_damaged_header_ends_reading_with_its_place(machine: Machine, place: int) -> None:
    partition = filled(machine, 4)
    _, position, _ = locate(partition, 2)
    machine.files.damage(partition.segments[0].path, position + place, 0x40)
    with pytest.raises(LogCorrupt) as caught:
        read_all(partition, buffer_bytes=600)
    assert (caught.value.path, caught.value.position) == (str(partition.segments[0].path), position)
    assert partition.read_only


def test_a_damaged_length_makes_no_reader_ask_for_memory(machine: Machine) -> None:
    partition = filled(machine, 4)
    segment, position, _ = locate(partition, 1)
    fd = machine.files.open(segment.path, write=True)
    machine.files.write(fd, position + 36, (1 << 30).to_bytes(4, "big"))
    with Reader(partition, 0, buffer=bytearray(600)) as reader:
        assert reader.read() is not None
        with pytest.raises(LogCorrupt, match="beyond the end of its segment"):
            reader.read()
    assert reader._buffer is not None
    assert len(reader._buffer) < 100_000


def test_a_file_that_became_shorter_is_damage(machine: Machine) -> None:
    partition = filled(machine, 4)
    segment = partition.segments[0]
    fd = machine.files.open(segment.path, write=True)
    machine.files.truncate(fd, segment.size - 600)
    with pytest.raises(LogCorrupt, match="the file is shorter than it was"):
        read_all(partition)


def test_a_segment_that_is_missing_between_others_is_damage(machine: Machine) -> None:
    partition = filled(machine, segment_bytes=1024)
    del partition.segments[2]
    with pytest.raises(LogCorrupt, match="no segment goes on at offset 4"):
        read_all(partition)


def test_a_read_that_fails_is_told_and_tried_again(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = filled(machine, 3)

    def fails(*_: object, **__: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(machine.files, "read_into", fails)
        with pytest.raises(ReadFailed, match="Input/output error"):
            read_all(partition)
    assert len(read_all(partition)) == 3


def test_times_are_found_at_the_first_chunk_that_reaches_them(machine: Machine) -> None:
    partition = machine.log(segment_bytes=1024)
    start = machine.clock.now_ms
    for number in range(12):
        machine.clock.now_ms = start + 10 * number
        append(partition, bytes(400))
        machine.store.flush()
    assert len(partition.segments) == 6
    for number in range(12):
        assert find_timestamp(partition, start + 10 * number) == number
        assert find_timestamp(partition, start + 10 * number - 9) == number
    assert find_timestamp(partition, 0) == 0
    assert find_timestamp(partition, start + 111) == 12


@pytest.mark.parametrize("way", [None, "reopen", "crash"])
def test_a_clock_that_steps_back_never_hides_an_event(machine: Machine, way: str | None) -> None:
    partition = machine.log(segment_bytes=1024)
    start = machine.clock.now_ms
    for number, step in enumerate((0, 10, 20, -500, -490, 5, 30, 40)):
        machine.clock.now_ms = start + step
        append(partition, b"%02d" % number + bytes(400))
        machine.store.flush()
    if way is not None:
        getattr(machine, way)()
        partition = machine.log()
    found = [find_timestamp(partition, start + step) for step in (-500, 0, 10, 20, 21, 30, 40, 41)]
    assert found == [0, 0, 1, 2, 6, 6, 7, 8]


def test_a_time_in_a_partition_without_events_is_its_end(machine: Machine) -> None:
    assert find_timestamp(machine.log(), 5) == 0


def spans(machine: Machine, partition: Partition, offset: int) -> list[bytes]:
    found = []
    with Reader(partition, offset, keeps_runs=True) as reader:
        while (span := reader.next_span()) is not None:
            found.append(machine.files.read(span.fd, span.position, span.byte_count))
            span.release()
    return found


def test_large_chunks_on_disk_are_found_where_they_lie(machine: Machine) -> None:
    partition = filled(machine, size=SPAN_BYTES_MIN, segment_bytes=4 * SPAN_BYTES_MIN)
    behind = deliveries(partition, 0)
    in_first_segment = spans(machine, partition, 0)
    assert in_first_segment == behind[: len(in_first_segment)]
    assert len(in_first_segment) > 1
    with Reader(partition, 0, keeps_runs=True) as reader:
        got: list[bytes] = []
        while reader.offset < partition.committed_offset:
            span = reader.next_span()
            if span is not None:
                got.append(machine.files.read(span.fd, span.position, span.byte_count))
                span.release()
            elif (run := reader.read()) is not None:
                got += [bytes(delivery) for delivery in run.deliveries]
    assert got == behind
    machine.store.close()
    assert machine.files.open_descriptors() == []


def test_small_chunks_and_those_in_memory_are_read(machine: Machine) -> None:
    assert spans(machine, filled(machine, size=100), 0) == []
    large = Machine()
    assert spans(large, filled(large, 3, size=SPAN_BYTES_MIN), 0) == []


def test_a_large_chunk_whose_end_is_not_in_memory_is_waited_for(machine: Machine) -> None:
    partition = filled(machine, 3, size=SPAN_BYTES_MIN)
    machine.files.cold_read_chance = 1.0
    with Reader(partition, 0, keeps_runs=True) as reader:
        with pytest.raises(BlockingIOError):
            reader.next_span()
        assert reader.offset == 0
        machine.files.cold_read_chance = 0.0
        span = reader.next_span()
        assert span is not None
        assert reader.offset == 1
        span.release()


def test_a_large_chunk_with_a_broken_header_is_damage_that_reading_tells(machine: Machine) -> None:
    partition = filled(machine, 3, size=SPAN_BYTES_MIN)
    with Reader(partition, 0, keeps_runs=True) as reader:
        span = reader.next_span()
        assert span is not None
        span.release()
        position = span.position + span.header.total_bytes
        fd = machine.files.open(partition.segments[0].path, write=True)
        machine.files.write(fd, position, b"XXXX")
        machine.files.close(fd)
        assert reader.next_span() is None
        with pytest.raises(LogCorrupt):
            reader.read()


def test_a_reader_that_waits_at_the_end_holds_no_buffer(machine: Machine) -> None:
    partition = filled(machine, 3)
    with Reader(partition, 0, keeps_runs=True) as reader:
        while reader.read() is not None:
            pass
        assert reader._buffer is None
        append(partition, b"more")
        machine.store.flush()
        assert reader.read() is not None

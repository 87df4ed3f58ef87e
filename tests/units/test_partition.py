"""One partition: duplicates, confirms, bounds, offsets that are stored, filters, truncation and deletion."""

from __future__ import annotations

from itertools import pairwise

import pytest

from headwater.encoding._hash_kernel import bloom_may_contain
from headwater.encoding.chunk import ChunkType, decode_snapshot
from headwater.errors import (
    LogBusy,
    LogCorrupt,
    OffsetBeyondEnd,
    PartitionDeleted,
    PartitionReadOnly,
    ReferenceTooLong,
    WriteFailed,
)
from headwater.log.partition import Partition, PartitionState
from tests.log_material import (
    Answers,
    Machine,
    append,
    chunks_on_disk,
    entry,
    publish,
    read_all,
    read_records,
    spread,
    sub_batch,
)


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def partition(machine: Machine) -> Partition:
    return machine.log()


def grown(machine: Machine, count: int = 12) -> Partition:
    """A partition of several segments."""
    partition = machine.log(segment_bytes=1024)
    for number in range(count):
        append(partition, b"%02d " % number + bytes(400))
        machine.store.flush()
    assert len(partition.segments) == count // 2
    return partition


def test_ids_may_have_gaps_and_start_anywhere(machine: Machine, partition: Partition) -> None:
    assert publish(partition, [5, 9, 100]) == []
    assert partition.sequence(b"publisher") is None
    machine.store.flush()
    assert publish(partition, [2**32, 2**63, 2**64 - 2]) == []
    machine.store.flush()
    assert partition.sequence(b"publisher") == 2**64 - 2
    assert partition.committed_offset == 6


def test_the_first_id_may_be_0_and_is_stored_once(machine: Machine, partition: Partition) -> None:
    publish(partition, [0])
    publish(partition, [0])
    machine.store.flush()
    assert partition.sequence(b"publisher") == 0
    publish(partition, [0, 1])
    machine.store.flush()
    assert read_records(partition) == [b"id0", b"id1"]


def test_the_largest_id_is_the_last_one(machine: Machine, partition: Partition) -> None:
    top = 2**64 - 1
    publish(partition, [top - 1, top, top, top - 1])
    machine.store.flush()
    machine.reopen()
    partition = machine.log()
    assert partition.sequence(b"publisher") == top
    assert publish(partition, [top]) == [None]
    publish(partition, [0])
    machine.store.flush()
    assert read_records(partition) == [b"id%d" % (top - 1), b"id%d" % top]


def test_duplicates_inside_a_batch_are_stored_once(machine: Machine, partition: Partition) -> None:
    answers = publish(partition, [1, 2, 2, 1, 3])
    machine.store.flush()
    assert answers == [None]
    assert read_records(partition) == [b"id1", b"id2", b"id3"]


def test_references_do_not_know_of_each_other_and_without_one_all_is_stored(
    machine: Machine, partition: Partition
) -> None:
    for reference in (b"a", b"b", None, None):
        publish(partition, [1], reference)
    machine.store.flush()
    assert partition.committed_offset == 4


@pytest.mark.parametrize("way", ["reopen", "crash"])
def test_sequences_are_known_after_opening_again(machine: Machine, partition: Partition, way: str) -> None:
    publish(partition, [1, 7])
    machine.store.flush()
    getattr(machine, way)()
    partition = machine.log()
    assert partition.sequence(b"publisher") == 7
    assert publish(partition, [6, 7]) == [None]
    publish(partition, [8])
    machine.store.flush()
    assert read_records(partition) == [b"id1", b"id7", b"id8"]


def test_a_duplicate_of_what_is_in_flight_is_confirmed_behind_it(
    machine: Machine, partition: Partition
) -> None:
    publish(partition, [1])
    machine.store.dispatch()
    duplicate = publish(partition, [1])
    machine.store.dispatch()
    machine.store.collect()
    assert duplicate == []
    machine.store.flush()
    assert duplicate == [None]
    assert read_records(partition) == [b"id1"]


def test_a_refused_batch_is_no_duplicate_when_it_is_sent_again(
    machine: Machine, partition: Partition
) -> None:
    publish(partition, [1])
    machine.store.flush()
    machine.files.fail_write("*.segment")
    refused = publish(partition, [2, 3])
    machine.store.dispatch()
    behind = publish(partition, [3])
    machine.store.flush()
    assert len(refused) == len(behind) == 1
    assert refused[0] is behind[0] is not None
    assert partition.sequence(b"publisher") == 1
    assert publish(partition, [2, 3]) == []
    machine.store.flush()
    assert read_records(partition) == [b"id1", b"id2", b"id3"]


def test_a_ready_entry_with_a_sequence_is_stored_once(machine: Machine, partition: Partition) -> None:
    answers = Answers()
    for sequence in (0, 0, 5, 4, 2**64 - 1):
        partition.append(entry(b"%d" % sequence), 1, 1, answers, reference=b"p", sequence=sequence)
    machine.store.flush()
    assert read_records(partition) == [b"0", b"5", b"%d" % (2**64 - 1)]
    assert answers == [None] * 5


def test_sub_batches_take_an_offset_for_each_record(machine: Machine, partition: Partition) -> None:
    answers = Answers()
    partition.append(sub_batch(b"x", 5), 1, 5, answers)
    append(partition, b"y")
    machine.store.flush()
    assert [offset for offset, _ in read_all(partition)] == [0, 5]
    assert partition.committed_offset == 6


def test_records_from_spans_of_a_buffer_are_settled_chunk_by_chunk(machine: Machine) -> None:
    partition = machine.log(chunk_data_bytes_max=64, commit_bytes_max=1)
    buffer, spans = spread([(b"head ", b"cut", bytes(20)), (b"", b"", bytes(26)), (b"next", b"", b"")])
    first, second = Answers(), Answers()
    assert partition.append_some_spans(buffer, spans, 0, 3) == 2
    partition.when_settled(first)
    assert partition.append_some_spans(buffer, spans, 2, 1) == 1
    partition.when_settled(second)
    assert machine.store.uncommitted_bytes == partition.uncommitted_bytes == 67
    machine.store.flush()
    assert (first, second) == ([None], [None])
    stored = [entry(b"head " + bytes(20)), entry(bytes(26)), entry(b"next")]
    assert read_all(partition) == list(enumerate(stored))
    assert len(chunks_on_disk(machine.store, partition, ChunkType.USER)) == 2


def test_spans_are_refused_where_appends_are() -> None:
    machine = Machine(partition_uncommitted_bytes_max=100)
    partition = machine.log()
    buffer, spans = spread([(b"", b"", bytes(96)), (b"", b"", b"")])
    assert partition.append_some_spans(buffer, spans, 0, 1) == 1
    with pytest.raises(LogBusy):
        partition.append_some_spans(buffer, spans, 1, 1)
    machine.store.flush()
    assert partition.append_some_spans(buffer, spans, 1, 1) == 1
    machine.store.flush()
    machine.store.delete_log("log")
    with pytest.raises(PartitionDeleted):
        partition.append_some_spans(buffer, spans, 0, 1)


def test_a_reference_that_is_too_long_is_refused_and_nothing_is_stored(
    machine: Machine, partition: Partition
) -> None:
    with pytest.raises(ReferenceTooLong):
        publish(partition, [1], b"r" * 256)
    with pytest.raises(ReferenceTooLong):
        partition.store_offset(b"", 1)
    publish(partition, [1], b"r" * 255)
    machine.store.flush()
    assert partition.committed_offset == 1


def test_beyond_the_bound_of_one_partition_appends_are_refused_until_it_has_committed() -> None:
    machine = Machine(partition_uncommitted_bytes_max=100)
    partition, other = machine.log(), machine.log("other")
    append(partition, bytes(60), bytes(60))
    with pytest.raises(LogBusy, match="128 bytes wait to be committed, the bound is 100; wait for confirms"):
        append(partition, b"")
    append(other, b"has room")
    seen = [partition.has_room]
    machine.store.dispatch()
    seen.append(partition.has_room)
    machine.store.flush()
    seen.append(partition.has_room)
    assert seen == [False, False, True]  # what is in flight is not committed
    append(partition, b"x")


def test_beyond_the_bound_of_all_partitions_appends_are_refused_everywhere() -> None:
    machine = Machine(uncommitted_bytes_max=100)
    partition, other = machine.log(), machine.log("other")
    append(partition, bytes(120))
    for full in (partition, other):
        assert not full.has_room
        with pytest.raises(LogBusy):
            append(full, b"x")
        with pytest.raises(LogBusy):
            publish(full, [1])
    machine.store.flush()
    assert machine.store.uncommitted_bytes == 0
    append(other, b"x")
    machine.store.flush()
    assert other.committed_offset == 1


def test_uncommitted_bytes_come_back_to_zero_after_success_and_failure(
    machine: Machine, partition: Partition
) -> None:
    for fails in (False, True, False):
        if fails:
            machine.files.fail_write("*.segment")
        append(partition, b"abc")
        machine.store.dispatch()
        append(partition, b"behind")
        assert machine.store.uncommitted_bytes > 0
        machine.store.flush()
        assert machine.store.uncommitted_bytes == partition.uncommitted_bytes == 0


def test_stored_offsets_are_there_after_opening_again(machine: Machine, partition: Partition) -> None:
    partition.store_offset(b"reader", 5)
    partition.store_offset(b"reader", 3)
    append(partition, b"a")
    machine.store.flush()
    for way in (machine.crash, machine.reopen, machine.reopen):
        way()
        assert machine.log().stored_offset(b"reader") == 3


def test_an_offset_stored_while_nobody_publishes_is_a_delta(machine: Machine, partition: Partition) -> None:
    append(partition, b"a")
    machine.store.flush()
    partition.store_offset(b"reader", 1)
    machine.store.flush()
    (delta,) = chunks_on_disk(machine.store, partition, ChunkType.DELTA)
    assert (delta.header.first_offset, delta.header.records) == (1, 0)
    assert delta.trailer.offsets == {b"reader": 1}
    machine.crash()
    partition = machine.log()
    assert partition.stored_offset(b"reader") == 1
    append(partition, b"b")
    machine.store.flush()
    assert read_records(partition) == [b"a", b"b"]


def test_every_segment_starts_with_a_snapshot_so_that_older_ones_may_go(machine: Machine) -> None:
    partition = machine.log(segment_bytes=1024)
    publish(partition, [7])
    partition.store_offset(b"reader", 3)
    for _ in range(6):
        append(partition, bytes(600))
        machine.store.flush()
    assert len(partition.segments) > 2
    snapshots = chunks_on_disk(machine.store, partition, ChunkType.SNAPSHOT)
    assert [chunk.position for chunk in snapshots] == [64] * len(partition.segments)
    publishers, offsets = decode_snapshot(snapshots[-1].data)
    assert {name: value for name, (value, _) in publishers.items()} == {b"publisher": 7}
    assert {name: value for name, (value, _) in offsets.items()} == {b"reader": 3}
    partition.truncate(partition.segments[-1].first_offset, Answers())
    machine.store.flush()
    machine.crash()
    assert machine.log().sequence(b"publisher") == 7
    assert machine.log().stored_offset(b"reader") == 3


def test_references_beyond_the_maximum_are_forgotten_longest_unused_first() -> None:
    machine = Machine(tracking_entries_max=10)
    partition = machine.log()
    for number in range(40):
        machine.clock.now_ms += 1
        publish(partition, [1], b"p%02d" % number)
        partition.store_offset(b"o%02d" % number, number)
        machine.store.flush()
    machine.reopen()
    partition = machine.log()
    assert [n for n in range(40) if partition.sequence(b"p%02d" % n)] == list(range(30, 40))
    assert [n for n in range(1, 40) if partition.stored_offset(b"o%02d" % n)] == list(range(30, 40))


def test_references_unused_for_long_are_forgotten() -> None:
    machine = Machine(tracking_expiry_ms=1000)
    partition = machine.log()
    publish(partition, [1], b"old")
    partition.store_offset(b"old", 1)
    machine.store.flush()
    machine.clock.now_ms += 1000
    publish(partition, [1], b"new")
    partition.roll()
    machine.store.flush()
    machine.reopen()
    partition = machine.log()
    assert (partition.sequence(b"old"), partition.sequence(b"new")) == (None, 1)
    assert partition.stored_offset(b"old") is None


def test_a_snapshot_comes_after_an_interval_so_that_recovery_reads_little(machine: Machine) -> None:
    partition = machine.log(snapshot_interval_bytes=1024)
    for number in range(10):
        publish(partition, [number], size=400)
        machine.store.flush()
    snapshots = chunks_on_disk(machine.store, partition, ChunkType.SNAPSHOT)
    positions = [chunk.position for chunk in snapshots]
    assert len(partition.segments) == 1
    assert len(positions) > 3
    assert all(1024 <= after - before < 2048 for before, after in pairwise(positions))


def test_a_chunk_of_filtered_messages_has_a_filter_and_others_have_none(
    machine: Machine, partition: Partition
) -> None:
    publish(partition, [1, 2], values=[b"eu", b"us"])
    machine.store.flush()
    publish(partition, [3, 4], values=[b"eu", None])
    machine.store.flush()
    publish(partition, [5])
    machine.store.flush()
    blooms = [chunk.trailer.bloom for chunk in chunks_on_disk(machine.store, partition, ChunkType.USER)]
    assert [len(bloom) for bloom in blooms] == [16, 16, 0]
    held = [[bloom_may_contain(bloom, value) for value in (b"eu", b"us", b"")] for bloom in blooms[:2]]
    assert held == [[True, True, False], [True, False, True]]


def test_truncating_in_the_middle_removes_whole_segments_before_it(machine: Machine) -> None:
    partition = grown(machine)
    answers = Answers()
    partition.truncate(5, answers)
    machine.store.flush()
    assert answers == [None]
    assert partition.first_offset == 4
    assert machine.names(partition, ".removed") == []
    assert len(machine.names(partition, ".segment")) == 4
    machine.reopen()
    assert [offset for offset, _ in read_all(machine.log())] == list(range(4, 12))


def test_truncating_at_the_end_removes_all_events_and_offsets_go_on(machine: Machine) -> None:
    partition = grown(machine)
    answers = Answers()
    partition.truncate(12, answers)
    machine.store.flush()
    assert answers == [None]
    assert (partition.first_offset, partition.committed_offset) == (12, 12)
    assert read_all(partition) == []
    machine.reopen()
    partition = machine.log()
    append(partition, b"next")
    machine.store.flush()
    assert [offset for offset, _ in read_all(partition)] == [12]


def test_truncating_beyond_the_end_is_refused(machine: Machine) -> None:
    partition = grown(machine)
    with pytest.raises(OffsetBeyondEnd, match="partition log ends at 12, there is no 13 yet"):
        partition.truncate(13, Answers())
    assert partition.first_offset == 0


def test_truncating_at_the_start_or_an_empty_partition_changes_nothing(machine: Machine) -> None:
    empty, partition, answers = machine.log("empty"), grown(machine), Answers()
    empty.truncate(0, answers)
    partition.truncate(0, answers)
    machine.store.flush()
    assert answers == [None, None]
    assert partition.first_offset == 0
    assert empty.segments == []


def test_a_truncation_that_fails_tells_so(machine: Machine) -> None:
    partition, answers = grown(machine), Answers()
    machine.files.fail("rename", "*", 5)
    partition.truncate(6, answers)
    machine.store.flush()
    assert [type(answer).__name__ for answer in answers] == ["WriteFailed"]


def test_a_deleted_partition_takes_nothing_and_gives_nothing(machine: Machine) -> None:
    partition = grown(machine)
    waiting = append(partition, b"waits")
    machine.store.delete_log("log")
    machine.store.flush()
    assert partition.state is PartitionState.DELETED
    assert [type(answer) for answer in waiting] == [PartitionDeleted]
    for refused in (
        lambda: append(partition, b"x"),
        lambda: partition.store_offset(b"r", 1),
        lambda: read_all(partition),
    ):
        with pytest.raises(PartitionDeleted, match="partition log was deleted; detach from it"):
            refused()
    assert machine.files.names(partition.folder.parent) == []


def test_deleting_while_the_first_commit_is_under_way_answers_that_it_was_deleted(machine: Machine) -> None:
    partition = machine.log()
    with machine.held_back(partition, b"a") as answers:
        machine.store.delete_log("log")
    assert [type(answer) for answer in answers] == [PartitionDeleted]


def test_a_damaged_partition_serves_what_is_before_the_damage_and_refuses_writes(machine: Machine) -> None:
    partition = machine.log()
    for number in range(4):
        append(partition, b"%d" % number)
        machine.store.flush()
    path = partition.segments[0].path
    position = chunks_on_disk(machine.store, partition, ChunkType.USER)[2].position
    machine.files.damage(path, position + 50, 1)
    size = machine.files.size_of(path)
    machine.crash()
    partition = machine.log()
    assert partition.state is PartitionState.DAMAGED
    assert machine.files.size_of(path) == size
    assert partition.committed_offset == 2
    with pytest.raises(LogCorrupt) as caught:
        read_all(partition)
    assert (caught.value.path, caught.value.position) == (str(path), position)
    with pytest.raises(PartitionReadOnly, match=r"takes no writes: .* is corrupt at byte"):
        append(partition, b"x")
    assert machine.store.damaged == [f"log: {caught.value}"]


def test_those_that_wait_at_the_end_are_called_after_each_commit(
    machine: Machine, partition: Partition
) -> None:
    calls: list[int] = []
    partition.on_committed.add(lambda: calls.append(partition.committed_offset))
    append(partition, b"a", b"b")
    assert calls == []
    machine.store.flush()
    append(partition, b"c")
    machine.store.flush()
    assert calls == [2, 3]


def test_in_memory_mode_only_new_segments_are_synced() -> None:
    machine = Machine()
    partition = machine.log(durability="memory", segment_bytes=2048)
    append(partition, b"first")
    machine.store.flush()
    machine.files.trace = []
    assert append(partition, b"second") == []
    answers = append(partition, b"third")
    machine.store.flush()
    assert answers == [None]
    assert not [line for line in machine.files.trace if " sync" in line]
    while len(partition.segments) == 1:
        append(partition, bytes(900))
        machine.store.flush()
    assert [line for line in machine.files.trace if " sync " in line and "0.segment" in line]
    machine.reopen()
    assert read_records(machine.log())[:3] == [b"first", b"second", b"third"]


def test_who_asks_when_all_is_settled_is_told_at_once_or_with_what_was_appended_before(
    machine: Machine,
) -> None:
    partition, told = machine.log(), Answers()
    partition.when_settled(told)
    assert told == [None]
    with machine.held_back(partition, b"in flight"):
        partition.when_settled(told)
        append(partition, b"gathered")
        partition.when_settled(told)
        assert told == [None]
    assert told == [None] * 3


def test_what_is_refused_is_settled_too(machine: Machine) -> None:
    partition, told = machine.log(), Answers()
    publish(partition, [1])
    machine.store.flush()
    machine.files.fail_write("*.segment")
    publish(partition, [2])
    partition.when_settled(told)
    machine.store.flush()
    assert [type(answer) for answer in told] == [WriteFailed]
    assert partition.sequence(b"publisher") == 1


def test_a_stored_offset_is_told_when_it_is_on_disk(machine: Machine) -> None:
    partition, told = machine.log(), Answers()
    partition.store_offset(b"reader", 1)
    machine.store.flush()
    with machine.held_back(partition, b"in flight"):
        partition.store_offset(b"reader", 2)
        partition.when_settled(told)
        assert (told, partition.stored_offset(b"reader")) == ([], 1)
    assert (told, partition.stored_offset(b"reader")) == ([None], 2)
    partition.when_settled(told)
    assert told == [None, None]


def test_who_waits_for_a_stored_offset_hears_that_it_was_refused(machine: Machine) -> None:
    partition, told = machine.log(), Answers()
    append(partition, b"a")
    machine.store.flush()
    machine.files.fail_write("*.segment")
    partition.store_offset(b"reader", 1)
    partition.when_settled(told)
    machine.store.flush()
    assert [type(answer) for answer in told] == [WriteFailed]
    partition.when_settled(told)
    assert (told[1:], partition.stored_offset(b"reader")) == ([None], None)
    partition.store_offset(b"reader", 2)
    partition.when_settled(told)
    partition.stop(PartitionReadOnly("log", "stopped"), PartitionState.READ_ONLY)
    assert isinstance(told[2], PartitionReadOnly)

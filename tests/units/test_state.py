"""`$state`: a map whose changes are durable when they are answered, and whose log is written anew when it grows."""

from __future__ import annotations

import errno

import pytest

from headwater.errors import DiskFull, EntryTooLarge, LogBusy, MalformedChunk
from headwater.log.partition import Partition
from headwater.log.state import KEY_BYTES_MAX, StateStore, decode_record, encode_record
from tests.log_material import Answers, Machine, append


@pytest.fixture
def machine() -> Machine:
    return Machine(state_compact_bytes=8000)


@pytest.mark.parametrize("value", [None, b"", b"v", bytes(70_000)])
@pytest.mark.parametrize("key", [b"k", b"\0" * 1024])
def test_a_record_reads_as_it_was_written(key: bytes, value: bytes | None) -> None:
    assert decode_record(encode_record(key, value)) == (key, value)


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\0\1k", b"\0\2k", b"\0\1k\2", b"\0\1k\0more", b"\xff\xff" + bytes(9)]
)
def test_anything_else_is_no_record(data: bytes) -> None:
    with pytest.raises(MalformedChunk, match="no record of state"):
        decode_record(data)


def test_a_change_is_seen_at_once_and_answered_when_it_is_durable(machine: Machine) -> None:
    state, answers = machine.store.state, Answers()
    state.put(b"b", b"1", answers)
    state.put(b"a", b"2", answers)
    state.put(b"other", b"3", answers)
    assert (state.get(b"b"), answers) == (b"1", [])
    machine.store.flush()
    assert answers == [None] * 3
    assert list(state.items()) == [(b"a", b"2"), (b"b", b"1"), (b"other", b"3")]
    assert list(state.items(b"o")) == [(b"other", b"3")]


@pytest.mark.parametrize("way", ["reopen", "crash"])
def test_the_later_record_of_a_key_wins_after_opening_again(machine: Machine, way: str) -> None:
    state, answers = machine.store.state, Answers()
    for value in (b"1", b"2"):
        state.put(b"kept", value, answers)
        state.put(b"gone", value, answers)
        machine.store.flush()
    state.delete(b"gone", answers)
    state.delete(b"never there", answers)
    machine.store.flush()
    getattr(machine, way)()
    assert list(machine.store.state.items()) == [(b"kept", b"2")]
    assert machine.store.state.get(b"gone") is None


def test_a_change_that_fails_is_taken_back(machine: Machine) -> None:
    state, answers = machine.store.state, Answers()
    state.put(b"k", b"durable", answers)
    machine.store.flush()
    machine.files.fail_write("/data/logs/0/*", errno.ENOSPC)
    state.put(b"k", b"refused", answers)
    state.put(b"new", b"refused", answers)
    machine.store.flush()
    assert [type(answer) for answer in answers] == [type(None), DiskFull, DiskFull]
    assert list(state.items()) == [(b"k", b"durable")]


@pytest.mark.parametrize("size", [0, KEY_BYTES_MAX + 1])
def test_a_key_has_1_to_1024_bytes(machine: Machine, size: int) -> None:
    with pytest.raises(EntryTooLarge, match=f"of {size} bytes is above the maximum of 1024"):
        machine.store.state.put(b"k" * size, b"", Answers())
    machine.store.state.put(b"k" * KEY_BYTES_MAX, b"", Answers())
    machine.store.flush()


def test_a_value_that_no_entry_takes_is_refused_and_changes_nothing(machine: Machine) -> None:
    with pytest.raises(EntryTooLarge):
        machine.store.state.put(b"k", bytes(1 << 20), Answers())
    assert machine.store.state.get(b"k") is None


def small(machine: Machine) -> tuple[StateStore, Partition]:
    partition = machine.log("small", segment_bytes=1024)
    return StateStore(partition), partition


def test_what_was_overwritten_goes_when_the_log_has_grown(machine: Machine) -> None:
    state, partition = small(machine)
    for number in range(400):
        state.put(b"k%d" % (number % 5), b"%d" % number, Answers())
        if number == 10:
            state.delete(b"k4", Answers())
        machine.store.flush()
        assert partition.size_bytes < 12_000
    values = dict(state.items())
    machine.reopen()
    again = StateStore(machine.log("small"))
    again.load()
    assert dict(again.items()) == values == {b"k%d" % (n % 5): b"%d" % n for n in range(395, 400)}


def test_changes_during_a_compaction_are_not_lost(machine: Machine) -> None:
    state, partition = small(machine)
    for number in range(300):
        state.put(b"k%d" % (number % 7), b"%d" % number, Answers())
        machine.store.dispatch()
        if number % 3 == 0:
            machine.committer.run_one()
            machine.store.collect()
    machine.store.flush()
    assert partition.first_offset > 0
    machine.crash()
    again = StateStore(machine.log("small"))
    again.load()
    assert dict(again.items()) == {b"k%d" % (n % 7): b"%d" % n for n in range(293, 300)}


def test_compaction_waits_when_there_is_no_room() -> None:
    machine = Machine(uncommitted_bytes_max=3000, state_compact_bytes=8000)
    state, partition = small(machine)
    answers = Answers()
    while partition.size_bytes < 7900:
        state.put(b"k", bytes(100), answers)
        machine.store.flush()
    state.put(b"k", bytes(200), answers)
    machine.store.dispatch()
    (commit,) = machine.committer.queued
    append(machine.log("other"), bytes(4000))
    machine.committer.run_one()
    machine.store.collect()
    assert answers == [None] * len(answers)
    with pytest.raises(LogBusy):
        state.put(b"k", b"no room", Answers())
    machine.store.flush()
    state.put(b"k", b"last", answers)
    machine.store.flush()
    assert answers == [None] * len(answers)
    assert partition.first_offset > 0
    assert state.get(b"k") == b"last"
    assert commit is not None

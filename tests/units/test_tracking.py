"""Publisher sequences and stored offsets: what was gathered, what is committed, and how many are kept for how long."""

from __future__ import annotations

import pytest

from headwater.errors import ReferenceTooLong, TooManyOffsets
from headwater.log.tracking import KEY_PREFIX, REFERENCE_BYTES_MAX, Tracking

NOW = 1_000_000


@pytest.fixture
def tracking() -> Tracking:
    return Tracking(entries_max=4, expiry_ms=1000)


@pytest.mark.parametrize("reference", [b"", b"r" * 256])
def test_a_reference_has_1_to_255_bytes(tracking: Tracking, reference: bytes) -> None:
    for refused in (tracking.publisher, lambda name: tracking.store_offset(name, 1)):
        with pytest.raises(ReferenceTooLong, match=f"a reference of {len(reference)} bytes cannot be kept"):
            refused(reference)
    assert not tracking.unwritten
    assert tracking.publisher(b"r" * REFERENCE_BYTES_MAX).sequence == -1


def test_only_so_many_offsets_wait_to_be_written_and_each_may_still_rise(tracking: Tracking) -> None:
    for number in range(4):
        tracking.store_offset(b"%d" % number, 1)
    with pytest.raises(TooManyOffsets, match="4 stored offsets wait"):
        tracking.store_offset(b"one more", 1)
    tracking.store_offset(b"3", 2)
    assert tracking.unwritten == {b"0": 1, b"1": 1, b"2": 1, b"3": 2}


def test_a_sequence_is_told_when_it_is_committed(tracking: Tracking) -> None:
    tracking.publisher(b"p").sequence = 7
    assert tracking.sequence(b"p") is None
    tracking.committed({b"p": 7}, {}, NOW)
    assert tracking.sequence(b"p") == 7
    assert tracking.sequence(b"q") is None


def test_sequence_zero_is_a_sequence(tracking: Tracking) -> None:
    tracking.committed({b"p": 0}, {}, NOW)
    assert tracking.sequence(b"p") == 0


def test_what_was_gathered_behind_a_commit_stays(tracking: Tracking) -> None:
    tracking.publisher(b"p").sequence = 9
    tracking.committed({b"p": 7}, {}, NOW)
    assert tracking.publisher(b"p").sequence == 9
    tracking.roll_back()
    assert tracking.publisher(b"p").sequence == 7


def test_publishers_of_whom_nothing_was_committed_are_forgotten_with_what_they_sent(
    tracking: Tracking,
) -> None:
    for number in range(100):
        tracking.publisher(b"%d" % number).sequence = number
    assert tracking.crowded
    tracking.roll_back()
    assert not tracking.crowded


def test_offsets_of_a_failed_commit_wait_again_unless_newer_ones_came(tracking: Tracking) -> None:
    tracking.store_offset(b"a", 5)
    tracking.store_offset(b"b", 6)
    failed, tracking.unwritten = tracking.unwritten, {}
    tracking.store_offset(b"a", 7)
    tracking.give_back([failed])
    assert tracking.unwritten == {b"a": 7, b"b": 6}
    assert tracking.stored_offset(b"b") is None


def test_an_offset_may_go_back(tracking: Tracking) -> None:
    tracking.committed({}, {b"a": 9}, NOW)
    tracking.store_offset(b"a", 3)
    assert tracking.stored_offset(b"a") == 9
    tracking.committed({}, tracking.unwritten, NOW)
    assert tracking.stored_offset(b"a") == 3
    assert tracking.stored_offset(b"b") is None


def test_a_snapshot_holds_what_is_committed_and_restores_it(tracking: Tracking) -> None:
    tracking.committed({b"p": 7}, {b"a": 5}, NOW)
    tracking.publisher(b"gathered only").sequence = 1
    tracking.store_offset(b"gathered too", 1)
    snapshot = tracking.snapshot(NOW + 1)
    assert snapshot == ({b"p": (7, NOW)}, {b"a": (5, NOW)})
    restored = Tracking(4, 1000)
    restored.restore(*snapshot)
    assert (restored.sequence(b"p"), restored.stored_offset(b"a")) == (7, 5)
    assert restored.publisher(b"p").sequence == 7
    assert restored.snapshot(NOW + 1) == snapshot


def test_a_snapshot_replaces_an_older_value_and_a_replay_that_of_the_snapshot(tracking: Tracking) -> None:
    tracking.restore({b"p": (1, NOW)}, {b"a": (1, NOW)})
    tracking.restore({b"p": (2, NOW)}, {b"a": (2, NOW)})
    assert (tracking.sequence(b"p"), tracking.stored_offset(b"a")) == (2, 2)
    tracking.replay({b"p": 3}, {b"a": 1}, NOW + 1)
    assert (tracking.sequence(b"p"), tracking.stored_offset(b"a")) == (3, 1)


def test_what_was_not_used_for_long_is_forgotten(tracking: Tracking) -> None:
    tracking.committed({b"old": 1, b"kept": 1}, {b"old": 1, b"kept": 1}, NOW)
    tracking.committed({b"kept": 2}, {b"kept": 2}, NOW + 1)
    publishers, offsets = tracking.snapshot(NOW + 1000)
    assert publishers == {b"kept": (2, NOW + 1)}
    assert offsets == {b"kept": (2, NOW + 1)}
    assert tracking.sequence(b"old") is None
    assert tracking.stored_offset(b"old") is None


def test_a_publisher_that_expired_keeps_its_sequence_while_it_has_something_gathered(
    tracking: Tracking,
) -> None:
    tracking.committed({b"p": 1}, {b"a": 1}, NOW)
    tracking.publisher(b"p").sequence = 2
    tracking.store_offset(b"a", 9)
    assert tracking.snapshot(NOW + 5000) == ({}, {})
    assert tracking.publisher(b"p").sequence == 2
    assert tracking.unwritten == {b"a": 9}


def test_of_too_many_the_longest_unused_are_forgotten(tracking: Tracking) -> None:
    for number in range(10):
        tracking.committed({b"p%d" % number: 1}, {b"o%d" % number: 1}, NOW + number)
    publishers, offsets = tracking.snapshot(NOW + 10)
    assert set(publishers) == {b"p6", b"p7", b"p8", b"p9"}
    assert set(offsets) == {b"o6", b"o7", b"o8", b"o9"}
    assert tracking.sequence(b"p5") is None
    assert tracking.stored_offset(b"o5") is None


@pytest.mark.parametrize("kind", ["publishers", "offsets"])
def test_far_more_references_than_may_be_kept_make_a_snapshot_due(tracking: Tracking, kind: str) -> None:
    for number in range(4 * 5 // 4 + 16):
        if kind == "publishers":
            tracking.committed({b"%d" % number: 1}, {}, NOW)
        elif number < 4:
            tracking.store_offset(b"%d" % number, 1)
        else:
            tracking.committed({}, {b"%d" % number: 1}, NOW)
    assert not tracking.crowded
    tracking.committed({b"one more": 1}, {b"one more": 1}, NOW)
    assert tracking.crowded


def test_keys_have_bounds_of_their_own_and_take_no_room_of_publishers() -> None:
    tracking = Tracking(entries_max=4, expiry_ms=1000, keys_max=3, keys_expiry_ms=100)
    tracking.committed({b"p%d" % number: 1 for number in range(4)}, {}, NOW)
    for number in range(10):
        tracking.committed({KEY_PREFIX + b"%d" % number: number}, {}, NOW + number)
    publishers, _ = tracking.snapshot(NOW + 20)
    assert set(publishers) == {b"p0", b"p1", b"p2", b"p3", *(KEY_PREFIX + b"%d" % each for each in (7, 8, 9))}
    assert tracking.gathered_sequence(KEY_PREFIX + b"9") == 9
    assert tracking.gathered_sequence(KEY_PREFIX + b"0") is None
    publishers, _ = tracking.snapshot(NOW + 500)
    assert set(publishers) == {b"p0", b"p1", b"p2", b"p3"}


def test_keys_of_what_was_refused_are_free_again() -> None:
    tracking = Tracking(entries_max=4, expiry_ms=1000)
    tracking.publisher(KEY_PREFIX + b"k").sequence = 7
    assert tracking.gathered_sequence(KEY_PREFIX + b"k") == 7
    assert tracking.sequence(KEY_PREFIX + b"k") is None
    tracking.roll_back()
    assert tracking.gathered_sequence(KEY_PREFIX + b"k") is None


def test_more_keys_than_are_kept_ask_for_a_snapshot() -> None:
    tracking = Tracking(entries_max=1000, expiry_ms=1000, keys_max=4)
    for number in range(21):
        tracking.committed({KEY_PREFIX + b"%d" % number: 1}, {}, NOW)
    assert not tracking.crowded
    for number in range(21, 23):
        tracking.committed({KEY_PREFIX + b"%d" % number: 1}, {}, NOW)
    assert tracking.crowded

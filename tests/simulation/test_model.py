"""The model of what is owed to clients raises where a promise is broken, and only there."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

import pytest

from headwater.errors import SyncFailed
from tests.simulation.model import Entry, Opening, PartitionModel, Seen, Values, Violation
from tests.simulation.payloads import Message, make_entry, publish_body, split_chunks

CRASH = Opening(machine_crash=True, clean=False)
CLEAN = Opening(machine_crash=False, clean=True)
A, B, C, D = (make_entry(name, 0) for name in (b"a", b"b", b"c", b"d"))


def model_with_two_confirmed_and_two_pending() -> PartitionModel:
    model = PartitionModel("log/0", durable=True)
    model.append(0, [Entry(A, 1), Entry(B, 1)]).answer(None)
    model.append(2, [Entry(C, 1), Entry(D, 1)])
    return model


@pytest.mark.parametrize("shown", [(A, B), (A, B, C), (A, B, C, D)])
def test_what_is_pending_may_be_there_or_not(shown: tuple[bytes, ...]) -> None:
    model = model_with_two_confirmed_and_two_pending()
    model.adopt([(i, data, 1) for i, data in enumerate(shown)], 0, len(shown), CRASH)
    assert model.confirmed_end == len(shown)


@pytest.mark.parametrize(
    ("seen", "end", "reason"),
    [
        ([(0, A, 1)], 1, "lost"),
        ([(0, B, 1), (1, A, 1)], 2, "holds"),
        ([(0, A, 1), (1, B, 1), (2, D, 1), (3, C, 1)], 4, "out of order"),
        ([(0, A, 1), (1, B, 1), (2, C, 1), (3, C, 1)], 4, "twice"),
        ([(0, A, 1), (1, B, 1), (3, C, 1)], 4, "belongs"),
        ([(0, A, 1), (1, B, 1), (2, make_entry(b"x", 0), 1)], 3, "nobody"),
        ([(0, A, 1), (1, B, 1)], 3, "ends at"),
    ],
)
def test_what_was_confirmed_must_be_there_and_nothing_else(seen: Seen, end: int, reason: str) -> None:
    model = model_with_two_confirmed_and_two_pending()
    with pytest.raises(Violation, match=reason):
        model.adopt(seen, 0, end, CRASH)


def test_what_an_opening_did_not_show_must_not_come_back() -> None:
    model = model_with_two_confirmed_and_two_pending()
    model.adopt([(0, A, 1), (1, B, 1)], 0, 2, CRASH)
    with pytest.raises(Violation, match="nobody"):
        model.adopt([(0, A, 1), (1, B, 1), (2, C, 1)], 0, 3, CRASH)


def test_what_was_refused_may_come_back_by_a_crash_but_not_by_a_clean_opening() -> None:
    for opening, allowed in ((CRASH, True), (CLEAN, False)):
        model = PartitionModel("log/0", durable=True)
        model.append(0, [Entry(A, 1)]).answer(SyncFailed("segment"))
        if allowed:
            model.adopt([(0, A, 1)], 0, 1, opening)
        else:
            with pytest.raises(Violation, match="refused"):
                model.adopt([(0, A, 1)], 0, 1, opening)


def test_events_go_only_as_far_as_truncation_was_asked_for() -> None:
    model = model_with_two_confirmed_and_two_pending()
    model.drop_limit = 1
    model.removed_before(1)
    with pytest.raises(Violation, match="may go"):
        model.check_first(2)
    with pytest.raises(Violation, match="starts at 0"):
        model.check_first(0)


def test_duplicates_and_appends_are_confirmed_in_order() -> None:
    model = PartitionModel("log/0", durable=True)
    first = model.append(0, [Entry(A, 1, b"p", 1)])
    duplicate = model.append(1, [])
    duplicate.duplicates = [(b"p", 1)]
    second = model.append(1, [Entry(B, 1, b"p", 2)])
    for early, reason in ((duplicate, "before its original"), (second, "out of order")):
        with pytest.raises(Violation, match=reason):
            early.answer(None)
        early.answered = False
    first.answer(None)
    duplicate.answer(None)
    with pytest.raises(Violation, match="twice"):
        first.answer(None)


def test_one_offset_is_not_confirmed_for_two_entries() -> None:
    model = PartitionModel("log/0", durable=True)
    model.append(0, [Entry(A, 1)]).answer(None)
    with pytest.raises(Violation, match="two entries"):
        model.append(0, [Entry(B, 1)]).answer(None)


def test_a_value_may_be_newer_than_the_last_durable_one_but_not_older() -> None:
    def put_three() -> Values:
        values = Values()
        values.put(1)
        values.is_durable(values.put(2))
        values.put(3)
        return values

    put_three().adopt("x", 2)
    put_three().adopt("x", 3)
    for value in (1, None, 4):
        with pytest.raises(Violation, match="after opening"):
            put_three().adopt("x", value)


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-1], lambda data: data + b"x", lambda data: data[:-1] + b"?", lambda data: data[1:]],
)
def test_the_reader_of_chunks_takes_whole_ones_only(damage: Callable[[bytes], bytes]) -> None:
    body = make_entry(b"one", 30)
    fields = (0x50, 0, 1, 1, 0, 1, 0, zlib.crc32(body), len(body), 0, 0)
    whole = struct.pack(">BBHIQQQIIII", *fields) + body
    assert [chunk.data for chunk in split_chunks(whole)] == [body]
    with pytest.raises((AssertionError, struct.error)):
        list(split_chunks(damage(whole)))


def test_publish_bodies_have_the_layout_of_the_protocol() -> None:
    plain = publish_body([Message(7, A)], filtered=False)
    assert plain == (7).to_bytes(8, "big") + A
    filtered = publish_body([Message(7, A, b"eu"), Message(8, B)], filtered=True)
    assert filtered == (7).to_bytes(8, "big") + b"\0\2eu" + A + (8).to_bytes(8, "big") + b"\xff\xff" + B

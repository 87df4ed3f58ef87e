"""What was appended gathers into future chunks: bounds, splits, duplicates, filter values, and who waits for what."""

from __future__ import annotations

import pytest

from headwater.encoding.chunk import ENTRIES_MAX
from headwater.errors import EntryTooLarge, InvalidEntries, MalformedFrame
from headwater.log.intake import MIXED_ENTRIES_MAX, Intake
from headwater.log.settings import LogSettings
from headwater.log.tracking import Publisher
from tests.log_material import Answers, entry, spread, sub_batch
from tests.simulation.payloads import Message, publish_body


@pytest.fixture
def intake() -> Intake:
    return Intake(LogSettings(chunk_data_bytes_max=64, entry_bytes_max=100))


def published(intake: Intake, messages: list[Message], publisher: Publisher | None = None) -> None:
    filtered = any(message.filter_value is not None for message in messages)
    body = publish_body(messages, filtered=filtered)
    ids = bytearray(8 * len(messages))
    end = intake.add_published(body, 0, len(body), len(messages), publisher, ids, 0, filtered=filtered)
    assert end == len(body)


def test_an_empty_intake_has_nothing_to_take_or_to_wait_for(intake: Intake) -> None:
    assert not intake
    assert intake.take() == []
    assert not intake.wait(Answers())


def test_appends_gather_in_one_chunk_until_it_is_full(intake: Intake) -> None:
    for number in range(4):
        intake.add(entry(bytes([number]) * 16), 1, 1, None, 0)
    first, second = intake.take()
    assert (first.entries, first.data_bytes, first.first_offset) == (3, 60, 0)
    assert (second.entries, second.data_bytes, second.first_offset) == (1, 20, 3)
    assert first.buffer[48 : first.end] == b"".join(entry(bytes([number]) * 16) for number in range(3))
    assert (intake.byte_count, intake.next_offset) == (0, 4)
    assert not intake


def test_a_publish_body_larger_than_a_chunk_splits(intake: Intake) -> None:
    published(intake, [Message(number, entry(b"%02d" % number)) for number in range(25)])
    taken = intake.take()
    assert [gathering.entries for gathering in taken] == [10, 10, 5]
    assert [gathering.first_offset for gathering in taken] == [0, 10, 20]
    data = b"".join(gathering.buffer[48 : gathering.end] for gathering in taken)
    assert data == b"".join(entry(b"%02d" % number) for number in range(25))


def test_a_chunk_has_at_most_65535_entries() -> None:
    intake = Intake(LogSettings())
    count = ENTRIES_MAX + 10
    body = b"".join(number.to_bytes(8, "big") + bytes(4) for number in range(count))
    intake.add_published(body, 0, len(body), count, None, bytearray(8 * count), 0, filtered=False)
    assert [gathering.entries for gathering in intake.take()] == [ENTRIES_MAX, 10]
    intake.add(bytes(4 * ENTRIES_MAX), ENTRIES_MAX, ENTRIES_MAX, None, 0)
    intake.add(bytes(4), 1, 1, None, 0)
    assert [gathering.entries for gathering in intake.take()] == [ENTRIES_MAX, 1]


@pytest.mark.parametrize(("count", "records"), [(0, 0), (-1, 1), (2, 1), (65_536, 65_536), (70_000, 70_000)])
def test_counts_that_no_chunk_can_have_are_refused(intake: Intake, count: int, records: int) -> None:
    with pytest.raises(InvalidEntries, match="append 1 to 65535 entries"):
        intake.add(bytes(8), count, records, None, 0)
    assert not intake
    assert intake.next_offset == 0


def test_sub_batches_count_their_records(intake: Intake) -> None:
    intake.add(sub_batch(b"x", 5), 1, 5, None, 0)
    published(intake, [Message(1, sub_batch(b"y", 3)), Message(2, entry(b"z"))])
    assert intake.next_offset == 9
    assert sum(gathering.records for gathering in intake.take()) == 9


def test_an_entry_above_the_maximum_is_refused_and_nothing_is_taken(intake: Intake) -> None:
    for size in (97, 1000):
        with pytest.raises(EntryTooLarge, match=f"an entry of {size + 4} bytes is above the maximum of 100"):
            intake.add(entry(bytes(size)), 1, 1, None, 0)
        with pytest.raises(EntryTooLarge):
            published(intake, [Message(1, entry(b"fits")), Message(2, entry(bytes(size)))])
        with pytest.raises(EntryTooLarge):
            published(intake, [Message(1, entry(b"fits"), b"eu"), Message(2, entry(bytes(size)))])
    assert not intake
    assert intake.byte_count == 0


def test_an_entry_above_a_chunk_gets_one_of_its_own_where_the_maximum_allows(intake: Intake) -> None:
    intake.add(entry(b"before"), 1, 1, None, 0)
    intake.add(entry(bytes(96)), 1, 1, None, 0)
    published(intake, [Message(1, entry(b"a")), Message(2, entry(bytes(96))), Message(3, entry(b"b"))])
    assert [gathering.data_bytes for gathering in intake.take()] == [10, 100, 5, 100, 5]


def test_a_maximum_below_that_of_a_chunk_holds_too() -> None:
    intake = Intake(LogSettings(entry_bytes_max=64))
    intake.add(entry(bytes(60)), 1, 1, None, 0)
    with pytest.raises(EntryTooLarge):
        intake.add(entry(bytes(61)), 1, 1, None, 0)
    with pytest.raises(EntryTooLarge):
        published(intake, [Message(1, entry(bytes(61)))])
    published(intake, [Message(number, entry(bytes(60))) for number in range(3)])
    assert intake.next_offset == 4


def spans_taken(intake: Intake, records: list[bytes]) -> list[int]:
    """How many of the records each call takes."""
    buffer, spans = spread([(record[:2], b"cut out", record[2:]) for record in records])
    taken: list[int] = []
    while sum(taken) < len(records):
        taken.append(intake.add_some_spans(buffer, spans, sum(taken), len(records) - sum(taken)))
    return taken


def test_records_from_spans_are_taken_chunk_by_chunk(intake: Intake) -> None:
    records = [b"%02d" % number for number in range(25)]
    assert spans_taken(intake, records) == [10, 10, 5]
    assert spans_taken(intake, [b"one more"]) == [1]
    taken = intake.take()
    assert [gathering.entries for gathering in taken] == [10, 10, 6]
    assert [gathering.first_offset for gathering in taken] == [0, 10, 20]
    data = b"".join(gathering.buffer[48 : gathering.end] for gathering in taken)
    assert data == b"".join(entry(record) for record in [*records, b"one more"])
    assert (intake.byte_count, intake.next_offset) == (0, 26)


def test_none_of_no_spans_are_taken(intake: Intake) -> None:
    assert intake.add_some_spans(b"", spread([])[1], 0, 0) == 0
    assert not intake


def test_a_record_from_spans_that_is_too_large_is_refused_when_it_comes_first(intake: Intake) -> None:
    buffer, spans = spread([(b"", b"", b"fits"), (b"x" * 50, b"-", b"y" * 47), (b"", b"", b"fits too")])
    assert intake.add_some_spans(buffer, spans, 0, 3) == 1
    with pytest.raises(EntryTooLarge, match="an entry of 101 bytes is above the maximum of 100"):
        intake.add_some_spans(buffer, spans, 1, 2)
    assert intake.add_some_spans(buffer, spans, 2, 1) == 1
    (gathering,) = intake.take()
    assert gathering.buffer[48 : gathering.end] == entry(b"fits") + entry(b"fits too")


def test_a_record_from_spans_above_a_chunk_gets_one_of_its_own_where_the_maximum_allows(
    intake: Intake,
) -> None:
    assert spans_taken(intake, [b"before", bytes(96), b"behind"]) == [1, 1, 1]
    assert [gathering.data_bytes for gathering in intake.take()] == [10, 100, 10]


def test_records_from_spans_fill_a_chunk_up_to_65535_entries() -> None:
    intake = Intake(LogSettings())
    intake.add(bytes(4 * (ENTRIES_MAX - 2)), ENTRIES_MAX - 2, ENTRIES_MAX - 2, None, 0)
    assert spans_taken(intake, [b"a", b"b", b"c"]) == [2, 1]


def test_records_from_spans_have_no_filter_values() -> None:
    intake = Intake(LogSettings())
    published(intake, [Message(1, entry(b"a"), b"eu")])
    assert spans_taken(intake, [b"b"]) == [1]
    published(intake, [Message(number, entry(b"x"), b"eu") for number in range(MIXED_ENTRIES_MAX)])
    assert spans_taken(intake, [b"c"]) == [1]
    mixed, unfiltered = intake.take()
    assert mixed.filter_values == {b"eu", b""}
    assert (unfiltered.entries, unfiltered.filter_values) == (1, None)


def test_duplicates_inside_a_body_are_passed_over(intake: Intake) -> None:
    publisher = Publisher(b"p")
    published(intake, [Message(number, entry(b"%d" % number)) for number in (0, 0, 3, 2, 3, 9)], publisher)
    (gathering,) = intake.take()
    assert gathering.buffer[48 : gathering.end] == entry(b"0") + entry(b"3") + entry(b"9")
    assert gathering.publishers == {b"p": 9}
    assert publisher.sequence == 9


def test_each_chunk_tells_the_last_sequence_that_is_in_it(intake: Intake) -> None:
    publisher = Publisher(b"p")
    published(intake, [Message(number, entry(bytes(28))) for number in range(3)], publisher)
    assert [gathering.publishers for gathering in intake.take()] == [{b"p": 1}, {b"p": 2}]


def test_a_malformed_message_is_refused_and_those_before_it_stay_counted(intake: Intake) -> None:
    body = publish_body([Message(1, entry(b"good"))], filtered=False) + b"\0\0\0"
    with pytest.raises(MalformedFrame):
        intake.add_published(body, 0, len(body), 2, None, bytearray(16), 0, filtered=False)
    assert intake.byte_count == sum(gathering.data_bytes for gathering in intake.take())


def test_filter_values_are_noted_with_an_empty_one_for_entries_without(intake: Intake) -> None:
    published(intake, [Message(1, entry(b"a"))])
    published(intake, [Message(2, entry(b"b"), b"eu"), Message(3, entry(b"c"), b"us")])
    (mixed,) = intake.take()
    assert mixed.filter_values == {b"", b"eu", b"us"}
    published(intake, [Message(4, entry(b"d"), b"eu"), Message(5, entry(b"e"), None)])
    (second,) = intake.take()
    assert second.filter_values == {b"eu", b""}
    published(intake, [Message(6, entry(b"f"), b"eu")])
    (filtered,) = intake.take()
    assert filtered.filter_values == {b"eu"}
    published(intake, [Message(7, entry(b"g"))])
    (without,) = intake.take()
    assert without.filter_values is None


def test_entries_without_values_behind_filtered_ones_are_noted(intake: Intake) -> None:
    published(intake, [Message(1, entry(b"a"), b"eu")])
    intake.add(entry(b"b"), 1, 1, None, 0)
    (gathering,) = intake.take()
    assert gathering.filter_values == {b"eu", b""}


def test_the_oldest_are_taken_up_to_a_bound_but_at_least_one(intake: Intake) -> None:
    for _ in range(5):
        intake.add(entry(bytes(46)), 1, 1, None, 0)
    assert [gathering.first_offset for gathering in intake.take(1)] == [0]
    assert [gathering.first_offset for gathering in intake.take(100)] == [1, 2]
    assert intake.byte_count == 100
    assert intake
    assert [gathering.first_offset for gathering in intake.take(149)] == [3, 4][:2]
    assert not intake


def test_a_waiter_belongs_to_the_newest_gathering(intake: Intake) -> None:
    early, late = Answers(), Answers()
    intake.add(entry(bytes(46)), 1, 1, None, 0)
    assert intake.wait(early)
    intake.add(entry(bytes(46)), 1, 1, None, 0)
    assert intake.wait(late)
    assert [gathering.waiting for gathering in intake.take(50)] == [[early]]
    later = Answers()
    assert intake.wait(later)
    assert [gathering.waiting for gathering in intake.take()] == [[late, later]]


def test_filtered_and_unfiltered_messages_share_small_chunks_alone() -> None:
    def chunks(*runs: tuple[int, bytes | None]) -> list[int]:
        intake = Intake(LogSettings())
        for count, value in runs:
            published(intake, [Message(number, entry(b"x"), value) for number in range(count)])
        return [gathering.entries for gathering in intake.take()]

    few, many = MIXED_ENTRIES_MAX, MIXED_ENTRIES_MAX + 1
    assert chunks((many, b"eu"), (5, None)) == [many, 5]
    assert chunks((many, None), (5, b"eu")) == [many, 5]
    assert chunks((few, b"eu"), (5, None)) == [few + 5]
    assert chunks((few, None), (5, b"eu")) == [few + 5]
    assert chunks((many, b"eu"), (many, b"us"), (many, b"eu")) == [3 * many]
    assert chunks((many, None), (many, None)) == [2 * many]


def test_a_message_that_may_have_a_filter_value_and_has_none_is_unfiltered() -> None:
    intake = Intake(LogSettings())
    count = MIXED_ENTRIES_MAX + 1
    body = publish_body([Message(number, entry(b"x"), None) for number in range(count)], filtered=True)
    for _ in range(2):
        intake.add_published(body, 0, len(body), count, None, bytearray(8 * count), 0, filtered=True)
    intake.add(entry(b"x"), 1, 1, None, 0)
    assert [gathering.entries for gathering in intake.take()] == [2 * count + 1]

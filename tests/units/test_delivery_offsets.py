"""Offsets of deliveries, held against a dictionary of every delivery."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headwater.server.amqp.delivery_offsets import TIDY_RUNS_MIN, DeliveryOffsets, PartitionRange

PARTITIONS = st.integers(0, 3)


def everything(offsets: DeliveryOffsets, first: int, end: int) -> list[tuple[int, int]]:
    """Partition and offset of each delivery that is known."""
    return [(run.partition, offset) for run in offsets.of(first, end) for offset in range(run.first, run.end)]


def all_unsettled(first: int, end: int) -> bool:
    return True


class Deliveries(RuleBasedStateMachine):
    """Deliveries go out, are settled, and partitions are forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self.offsets = DeliveryOffsets()
        self.known: dict[int, tuple[int, int]] = {}
        self.unsettled: set[int] = set()
        self.next_id = 0
        self.ends = dict.fromkeys(range(4), 0)

    def has_unsettled(self, first: int, end: int) -> bool:
        return any(first <= each < end for each in self.unsettled)

    @rule(
        partition=PARTITIONS,
        count=st.integers(1, 5),
        between=st.sampled_from([0, 0, 1, 3]),
        back=st.sampled_from([0, 0, 0, 1, 4]),
    )
    def note(self, partition: int, count: int, between: int, back: int) -> None:
        """Deliveries of other links may lie between; offsets go back when something comes again."""
        self.next_id += between
        first = max(self.ends[partition] - back, 0)
        self.offsets.note(self.next_id, partition, first, first + count, self.has_unsettled)
        for number in range(count):
            self.known[self.next_id + number] = (partition, first + number)
            self.unsettled.add(self.next_id + number)
        self.next_id += count
        self.ends[partition] = first + count

    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        first = data.draw(st.integers(0, self.next_id))
        for each in range(first, data.draw(st.integers(first, self.next_id))):
            self.unsettled.discard(each)

    @rule(partition=PARTITIONS)
    def forget(self, partition: int) -> None:
        self.offsets.forget(partition)
        for id_ in [id_ for id_, (number, _) in self.known.items() if number == partition]:
            del self.known[id_]
            self.unsettled.discard(id_)

    @rule(data=st.data())
    def look(self, data: st.DataObject) -> None:
        first = data.draw(st.integers(0, self.next_id + 2))
        end = data.draw(st.integers(first, self.next_id + 2))
        each = [everything(self.offsets, id_, id_ + 1) for id_ in range(first, end)]
        assert everything(self.offsets, first, end) == [place for found in each for place in found]
        lost = [id_ for one, other in self.offsets.missing(first, end) for id_ in range(one, other)]
        assert lost == [id_ for id_, found in zip(range(first, end), each, strict=True) if not found]
        for id_, found in zip(range(first, end), each, strict=True):
            wanted = [self.known[id_]] if id_ in self.known else []
            assert found == wanted or (not found and id_ not in self.unsettled)

    @invariant()
    def there_are_not_many_more_runs_than_needed(self) -> None:
        assert len(self.offsets) <= max(TIDY_RUNS_MIN, 2 * len(self.unsettled) + 1)


TestDeliveries = Deliveries.TestCase
TestDeliveries.settings = settings(max_examples=40, stateful_step_count=100, deadline=None)


def test_deliveries_in_a_row_of_messages_in_a_row_are_one_run() -> None:
    offsets = DeliveryOffsets()
    for number in range(1000):
        offsets.note(number, 7, 50 + number, 51 + number, all_unsettled)
    assert len(offsets) == 1
    assert offsets.of(10, 20) == [PartitionRange(7, 60, 70)]
    assert offsets.of(990, 5000) == [PartitionRange(7, 1040, 1050)]
    assert offsets.of(1000, 5000) == []


def test_runs_that_are_settled_go_and_what_is_left_is_found() -> None:
    offsets = DeliveryOffsets()
    for number in range(10_000):
        offsets.note(number, number % 2, number, number + 1, lambda first, end: first <= 17 < end)
    assert len(offsets) <= TIDY_RUNS_MIN
    assert offsets.of(17, 18) == [PartitionRange(1, 17, 18)]


def test_a_forgotten_partition_leaves_the_others() -> None:
    offsets = DeliveryOffsets()
    offsets.note(0, 0, 0, 5, all_unsettled)
    offsets.note(5, 1, 0, 5, all_unsettled)
    offsets.note(10, 0, 5, 9, all_unsettled)
    offsets.forget(0)
    assert offsets.of(0, 100) == [PartitionRange(1, 0, 5)]
    offsets.note(14, 0, 9, 10, all_unsettled)
    assert offsets.of(0, 100) == [PartitionRange(1, 0, 5), PartitionRange(0, 9, 10)]

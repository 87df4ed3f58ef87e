"""What links bring to logs: appends, and what becomes of them, told when it is known."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from headwater.amqp.definitions import Condition, ErrorValue
from headwater.amqp.events import Deliveries
from headwater.amqp.messaging import Accepted, Rejected
from headwater.amqp.receiver_link import ReceiverLink
from headwater.encoding.ranges import IdRange, IdRanges
from headwater.errors import (
    DiskFull,
    EntryTooLarge,
    InvalidCloudEvent,
    LogBusy,
    PartitionDeleted,
    PartitionReadOnly,
    StorageError,
)
from headwater.log.partition import Partition
from headwater.server.amqp.link_owner import LinkOwner
from headwater.server.amqp.routing import Share, SortedRun

__all__ = ["Intake", "error_of"]

ACCEPTED = Accepted()


class _Outcome:
    """What becomes of a run that went to several partitions."""

    __slots__ = ("first_id", "is_settled", "parts_left", "refused", "run")

    def __init__(self, first_id: int, run: SortedRun, *, is_settled: bool) -> None:
        self.first_id = first_id
        self.run = run
        self.is_settled = is_settled
        self.parts_left = 1
        """Of which it is not known; the first one is that all are there."""
        self.refused = list(run.refused)
        """Numbers of messages in the run, in ascending order, and why."""


class Intake:
    """Appends the messages of a link, and tells what became of them."""

    def __init__(self, link: ReceiverLink, owner: LinkOwner) -> None:
        self._link = link
        self._owner = owner
        self.in_flight = 0
        """Appends of which it is not known yet what became of them."""
        self.published_count = 0
        self.refused_count = 0
        self._when_idle: list[Callable[[], None]] = []

    def append(self, event: Deliveries, index: int, end: int, partition: Partition) -> int:
        """Append messages of an event, as many as are stored as one; gives the number of the next one.

        That is the first one if it is to come again when there is room.
        """
        try:
            taken = partition.append_some_spans(event.buffer, event.spans, index, end - index)
        except EntryTooLarge as error:
            self.refuse(event, index, 1, ErrorValue(Condition.LINK_MESSAGE_SIZE_EXCEEDED, str(error)))
            return index + 1
        except InvalidCloudEvent as error:
            self.refuse(event, index, 1, _no_event(error))
            return index + 1
        except LogBusy:
            return index
        except StorageError as error:
            self._failed(partition, error)
            self.refuse(event, index, end - index, error_of(error))
            return end
        self.in_flight += 1
        self.published_count += taken
        partition.when_settled(
            partial(self._settled, event.first_id + index, taken, event.is_settled, partition)
        )
        return index + taken

    def append_sorted(
        self, event: Deliveries, index: int, run: SortedRun, partitions: Sequence[Partition]
    ) -> None:
        """Append the messages of an event from a number on to several partitions, which have room as the caller knows.

        What became of its messages is told when it is known of all of them.
        """
        outcome = _Outcome(event.first_id + index, run, is_settled=event.is_settled)
        self.in_flight += 1
        for share in run.shares:
            self._append_share(event, outcome, share, partitions[share.partition])
        self._part_is_known(outcome)

    def when_settled(self, call: Callable[[], None]) -> bool:
        """Call back when it is known of all appends what became of them; False if it is already."""
        if self.in_flight:
            self._when_idle.append(call)
        return self.in_flight > 0

    def refuses_format(self, event: Deliveries, index: int) -> bool:
        """Whether these messages are of a format that is unknown; then they are refused from a number on."""
        if not event.message_format:
            return False
        error = ErrorValue(Condition.NOT_IMPLEMENTED, f"message format {event.message_format:#x} is unknown")
        self.refuse(event, index, event.count - index, error)
        return True

    def refuse(self, event: Deliveries, index: int, count: int, error: ErrorValue) -> None:
        """These messages are not stored, and their sender is told why."""
        self._rejected(event.first_id + index, count, event.is_settled, error)

    def _settled(
        self, first: int, count: int, is_settled: bool, partition: Partition, error: StorageError | None
    ) -> None:
        if error is None:
            self._link.settle(first, first + count, ACCEPTED)
        else:
            self._failed(partition, error)
            self._rejected(first, count, is_settled, error_of(error))
        self._one_less()

    def _append_share(self, event: Deliveries, outcome: _Outcome, share: Share, partition: Partition) -> None:
        run, (_, first, end) = outcome.run, share
        while first < end:
            try:
                taken = partition.append_some_spans(event.buffer, run.spans, first, end - first, goes_on=True)
            except EntryTooLarge as error:
                words = ErrorValue(Condition.LINK_MESSAGE_SIZE_EXCEEDED, str(error))
                outcome.refused.append((run.numbers[first : first + 1], words))
                first += 1
                continue
            except InvalidCloudEvent as error:
                outcome.refused.append((run.numbers[first : first + 1], _no_event(error)))
                first += 1
                continue
            except StorageError as error:
                self._failed(partition, error)
                outcome.refused.append((run.numbers[first:end], error_of(error)))
                return
            outcome.parts_left += 1
            self.published_count += taken
            part = run.numbers[first : first + taken]
            partition.when_settled(partial(self._part_settled, outcome, partition, part))
            first += taken

    def _part_settled(
        self, outcome: _Outcome, partition: Partition, part: array[int], error: StorageError | None
    ) -> None:
        if error is not None:
            self._failed(partition, error)
            outcome.refused.append((part, error_of(error)))
        self._part_is_known(outcome)

    def _part_is_known(self, outcome: _Outcome) -> None:
        outcome.parts_left -= 1
        if not outcome.parts_left:
            self._tell(outcome)
            self._one_less()

    def _tell(self, outcome: _Outcome) -> None:
        first = outcome.first_id
        accepted = IdRanges()
        accepted.add(first, first + outcome.run.count)
        for numbers, error in outcome.refused:
            for start, end in _ranges(numbers):
                accepted.take(first + start, first + end)
                self._rejected(first + start, end - start, outcome.is_settled, error)
        for ids in accepted:
            self._link.settle(*ids, ACCEPTED)

    def _one_less(self) -> None:
        self.in_flight -= 1
        self._owner.answered()
        if not self.in_flight:
            calls, self._when_idle = self._when_idle, []
            for call in calls:
                call()

    def _rejected(self, first: int, count: int, is_settled: bool, error: ErrorValue) -> None:
        self.refused_count += count
        if is_settled:
            # Nobody waits for an outcome, so the link is how its sender hears of it.
            self._owner.break_link(self._link, error)
        else:
            self._link.settle(first, first + count, Rejected(error))

    def _failed(self, partition: Partition, error: StorageError) -> None:
        self._owner.note_failure(partition, error)


def error_of(error: StorageError) -> ErrorValue:
    """What a peer is told of a failure of ours."""
    condition = Condition.INTERNAL_ERROR
    if isinstance(error, DiskFull):
        condition = Condition.RESOURCE_LIMIT_EXCEEDED
    elif isinstance(error, PartitionDeleted):
        condition = Condition.RESOURCE_DELETED
    elif isinstance(error, PartitionReadOnly):
        condition = Condition.RESOURCE_LOCKED
    return ErrorValue(condition, str(error))


def _no_event(error: InvalidCloudEvent) -> ErrorValue:
    """What a sender is told whose message is none that a log of CloudEvents takes."""
    return ErrorValue(Condition.INVALID_FIELD, str(error))


def _ranges(numbers: Sequence[int]) -> Iterator[IdRange]:
    """Ascending numbers as ranges."""
    start = end = -1
    for number in numbers:
        if number != end:
            if start >= 0:
                yield start, end
            start = number
        end = number + 1
    if start >= 0:
        yield start, end

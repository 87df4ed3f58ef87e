"""What links bring to logs: appends, and what becomes of them, told when it is known."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headwater.amqp.definitions import Condition, ErrorValue
from headwater.amqp.events import Deliveries
from headwater.amqp.messaging import Accepted, Rejected
from headwater.amqp.receiver_link import ReceiverLink
from headwater.errors import (
    DiskFull,
    EntryTooLarge,
    LogBusy,
    PartitionDeleted,
    PartitionReadOnly,
    StorageError,
)
from headwater.log.partition import Partition
from headwater.server.amqp.link_owner import LinkOwner

__all__ = ["Intake", "error_of"]

ACCEPTED = Accepted()


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
        self.in_flight -= 1
        if error is None:
            self._link.settle(first, first + count, ACCEPTED)
        else:
            self._failed(partition, error)
            self._rejected(first, count, is_settled, error_of(error))
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

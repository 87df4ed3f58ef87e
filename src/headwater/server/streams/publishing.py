"""RabbitMQ Streams protocol, DeclarePublisher and Publish: the publishers of a connection, and gathered confirms."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Protocol

from headwater.errors import (
    EntryTooLarge,
    InvalidCloudEvent,
    LogBusy,
    MalformedFrame,
    MalformedSubBatch,
    PartitionDeleted,
    StorageError,
)
from headwater.log.partition import Partition
from headwater.streams.commands import Publish, ResponseCode
from headwater.streams.server_connection import ServerConnection

__all__ = ["Owner", "Publisher", "Publishers"]

ID_BYTES = 8
PUBLISH_S_MAX = 0.01
"""So long a frame may take before others have their turn, where messages are looked at and sub-batches unpacked."""
_FILTERED_VERSION = 2
_SUB_BATCH_LENGTH_AT = 7


class Publisher:
    """A publisher id of a connection: where its messages go, and under which reference."""

    __slots__ = (
        "confirmed",
        "confirmed_count",
        "id",
        "partition",
        "published_count",
        "reference",
        "refused_count",
    )

    def __init__(self, id_: int, partition: Partition, reference: bytes | None) -> None:
        self.id = id_
        self.partition = partition
        self.reference = reference
        self.confirmed: list[bytearray] = []
        """Ids that are on disk, and not told yet."""
        self.published_count = 0
        self.confirmed_count = 0
        self.refused_count = 0


class Owner(Protocol):
    """Whose publishers these are: a session."""

    def answered(self) -> None:
        """There is something to send."""

    def may_publish(self, partition: Partition) -> bool:
        """Whether the user may write at this moment."""
        ...

    def publishing_failed(self, partition: Partition, error: StorageError) -> None:
        """A partition took no messages."""

    def event_refused(self, partition: Partition, error: InvalidCloudEvent) -> None:
        """A message is none that a log of CloudEvents takes; its publisher is told no more than that."""


class Publishers:
    """Takes Publish frames to their partitions and tells what became of the messages, once for a turn of the loop."""

    def __init__(self, machine: ServerConnection, owner: Owner) -> None:
        self._machine = machine
        self._owner = owner
        self._publishers: dict[int, Publisher] = {}
        self._dirty: dict[Publisher, None] = {}
        self.is_out_of_time = False
        """Whether the frame that was given back last may come again at once, after others had their turn."""
        self.unanswered = 0
        """Frames of which it is not known yet what became of them."""

    def declare(self, id_: int, partition: Partition, reference: str | None) -> ResponseCode:
        """Make a publisher; neither its id nor its reference on this stream may be taken on this connection."""
        encoded = reference.encode() if reference else None
        if encoded is not None and len(encoded) > 255:
            return ResponseCode.PRECONDITION_FAILED
        for other in self._publishers.values():
            same_reference = (
                encoded is not None and other.reference == encoded and other.partition is partition
            )
            if other.id == id_ or same_reference:
                return ResponseCode.PRECONDITION_FAILED
        self._publishers[id_] = Publisher(id_, partition, encoded)
        return ResponseCode.OK

    def __iter__(self) -> Iterator[Publisher]:
        return iter(self._publishers.values())

    def delete(self, id_: int) -> ResponseCode:
        """Forget a publisher; what it sent is confirmed all the same, unless another one has its id by then."""
        found = self._publishers.pop(id_, None)
        return ResponseCode.PUBLISHER_DOES_NOT_EXIST if found is None else ResponseCode.OK

    def drop(self, partition: Partition) -> bool:
        """Forget the publishers of a stream that is gone; whether there were any."""
        dropped = [id_ for id_, publisher in self._publishers.items() if publisher.partition is partition]
        for id_ in dropped:
            del self._publishers[id_]
        return bool(dropped)

    def publish(self, command: Publish, buffer: bytearray | memoryview) -> Publish | None:
        """Append the messages of a frame; gives back what is to come again, when there is room or `is_out_of_time`.

        Raises `MalformedFrame`. A sub-batch that contradicts itself is refused with all that stands behind it, so that
        a publisher which sends these again keeps their order; what stands before it is taken.
        """
        self.is_out_of_time = False
        publisher = self._publishers.get(command.publisher_id)
        if publisher is None:
            ids = _ids_of(command, buffer)
            self._machine.refuse_messages(command.publisher_id, ids, ResponseCode.PUBLISHER_DOES_NOT_EXIST)
            return None
        code = ResponseCode.ACCESS_REFUSED
        if self._owner.may_publish(publisher.partition):
            try:
                turn_end = _turn_end(publisher.partition)
                while command.count:
                    try:
                        command = self._append_some(command, buffer, publisher)
                    except InvalidCloudEvent as error:
                        self._owner.event_refused(publisher.partition, error)
                        command = self._refuse_first(command, buffer, publisher)
                    if turn_end is not None and command.count and time.monotonic() > turn_end:
                        self.is_out_of_time = True
                        return command
                if command.start != command.end:
                    surplus = command.end - command.start
                    raise MalformedFrame(f"{surplus} bytes stand behind the messages of a Publish")
                return None
            except (MalformedSubBatch, EntryTooLarge):
                code = ResponseCode.PRECONDITION_FAILED
            except LogBusy:
                return command
            except StorageError as error:
                self._owner.publishing_failed(publisher.partition, error)
                code = _code_of(error)
        ids = _ids_of(command, buffer)
        publisher.published_count += command.count
        publisher.refused_count += command.count
        self._machine.refuse_messages(publisher.id, ids, code)
        return None

    def write_confirms(self) -> None:
        """Queue what was confirmed since the last call, one frame for a publisher."""
        dirty, self._dirty = self._dirty, {}
        for publisher in dirty:
            confirmed, publisher.confirmed = publisher.confirmed, []
            ids = confirmed[0] if len(confirmed) == 1 else b"".join(confirmed)
            if self._is_known(publisher):
                self._machine.confirm(publisher.id, ids)

    def _append_some(self, command: Publish, buffer: bytearray | memoryview, publisher: Publisher) -> Publish:
        """Append the messages that are stored or refused as one; gives the frame without them."""
        ids = bytearray(ID_BYTES * command.count)
        position, taken = publisher.partition.append_some_published(
            buffer,
            command.start,
            command.end,
            command.count,
            publisher.reference,
            ids,
            filtered=command.version == _FILTERED_VERSION,
        )
        del ids[ID_BYTES * taken :]
        publisher.published_count += taken
        self.unanswered += 1
        publisher.partition.when_settled(partial(self._settled, publisher, ids))
        return Publish(command.publisher_id, command.version, command.count - taken, position, command.end)

    def _refuse_first(
        self, command: Publish, buffer: bytearray | memoryview, publisher: Publisher
    ) -> Publish:
        """Refuse the first message alone; gives the frame without it."""
        filtered = command.version == _FILTERED_VERSION
        behind = _after_message(buffer, command.start + ID_BYTES, command.end, filtered)
        publisher.published_count += 1
        publisher.refused_count += 1
        ids = buffer[command.start : command.start + ID_BYTES]
        self._machine.refuse_messages(publisher.id, bytes(ids), ResponseCode.PRECONDITION_FAILED)
        return Publish(command.publisher_id, command.version, command.count - 1, behind, command.end)

    def _settled(self, publisher: Publisher, ids: bytearray, error: StorageError | None) -> None:
        self.unanswered -= 1
        if error is None:
            publisher.confirmed.append(ids)
            publisher.confirmed_count += len(ids) // ID_BYTES
            self._dirty[publisher] = None
        else:
            publisher.refused_count += len(ids) // ID_BYTES
            self._owner.publishing_failed(publisher.partition, error)
            if self._is_known(publisher):
                self._machine.refuse_messages(publisher.id, ids, _code_of(error))
        self._owner.answered()

    def _is_known(self, publisher: Publisher) -> bool:
        """Whether the client takes its id for this publisher: not if it has declared another one since."""
        return self._publishers.get(publisher.id, publisher) is publisher


def _turn_end(partition: Partition) -> float | None:
    """When others have their turn; None if nothing is looked at, so that a frame takes no time to speak of."""
    return None if partition.intake.admission is None else time.monotonic() + PUBLISH_S_MAX


def _code_of(error: StorageError) -> ResponseCode:
    if isinstance(error, PartitionDeleted):
        return ResponseCode.STREAM_DOES_NOT_EXIST
    return ResponseCode.STREAM_NOT_AVAILABLE


def _ids_of(command: Publish, buffer: bytearray | memoryview) -> bytearray:
    """The ids of a frame's messages, of which nothing else is wanted; lengths that do not hold are malformed."""
    ids = bytearray()
    position, end = command.start, command.end
    for _ in range(command.count):
        ids += buffer[position : position + ID_BYTES]
        position = _after_message(buffer, position + ID_BYTES, end, command.version == _FILTERED_VERSION)
    if position != end:
        raise MalformedFrame(f"{end - position} bytes stand behind the messages of a Publish")
    return ids


def _after_message(buffer: bytearray | memoryview, position: int, end: int, filtered: bool) -> int:
    """The position behind the filter value and the entry at a position, whatever a sub-batch says of itself."""
    if filtered and position + 2 <= end:
        length = int.from_bytes(buffer[position : position + 2], "big", signed=True)
        if length < -1:
            raise MalformedFrame(f"a filter value of {length} bytes cannot be")
        position += 2 + max(length, 0)
    length_at = position if position < end and buffer[position] < 0x80 else position + _SUB_BATCH_LENGTH_AT
    behind = length_at + 4
    if behind <= end:
        behind += int.from_bytes(buffer[length_at : length_at + 4], "big")
    if behind > end:
        raise MalformedFrame("a message reaches beyond the end")
    return behind

"""RabbitMQ Streams protocol, DeclarePublisher and Publish: the publishers of a connection, and gathered confirms."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headwater.encoding._kernel import UNNAMED, gather_published
from headwater.encoding.chunk import ENTRIES_MAX
from headwater.errors import (
    EntryTooLarge,
    LogBusy,
    MalformedFrame,
    MalformedSubBatch,
    PartitionDeleted,
    StorageError,
)
from headwater.log.partition import Partition
from headwater.streams.commands import Publish, ResponseCode
from headwater.streams.server_connection import ServerConnection

__all__ = ["Publisher", "Publishers"]

ID_BYTES = 8
_FILTERED_VERSION = 2


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


class Publishers:
    """Takes Publish frames to their partitions and tells what became of the messages, once for a turn of the loop."""

    def __init__(self, machine: ServerConnection, answered: Callable[[], None]) -> None:
        self._machine = machine
        self._answered = answered
        self._publishers: dict[int, Publisher] = {}
        self._dirty: dict[Publisher, None] = {}
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
        """Forget a publisher; what it sent is confirmed all the same."""
        found = self._publishers.pop(id_, None)
        return ResponseCode.PUBLISHER_DOES_NOT_EXIST if found is None else ResponseCode.OK

    def drop(self, partition: Partition) -> bool:
        """Forget the publishers of a stream that is gone; whether there were any."""
        dropped = [id_ for id_, publisher in self._publishers.items() if publisher.partition is partition]
        for id_ in dropped:
            del self._publishers[id_]
        return bool(dropped)

    def publish(self, command: Publish, buffer: bytearray | memoryview) -> None:
        """Append the messages of a frame. Raises `MalformedFrame`, and `LogBusy` if it is to be given again later."""
        filtered = command.version == _FILTERED_VERSION
        publisher = self._publishers.get(command.publisher_id)
        if publisher is None:
            ids = _ids_of(command, buffer, filtered)
            self._machine.refuse_messages(command.publisher_id, ids, ResponseCode.PUBLISHER_DOES_NOT_EXIST)
            return
        count = command.count
        ids = bytearray(ID_BYTES * count)

        def done(error: StorageError | None) -> None:
            self.unanswered -= 1
            if error is None:
                publisher.confirmed.append(ids)
                publisher.confirmed_count += count
                self._dirty[publisher] = None
            else:
                publisher.refused_count += count
                self._machine.refuse_messages(publisher.id, ids, _code_of(error))
            self._answered()

        self.unanswered += 1
        try:
            code = self._append(command, buffer, publisher, ids, done, filtered=filtered)
        except (LogBusy, MalformedFrame):
            self.unanswered -= 1
            raise
        publisher.published_count += count
        if code is not None:
            self.unanswered -= 1
            publisher.refused_count += count
            refused = _ids_of(command, buffer, filtered)
            self._machine.refuse_messages(publisher.id, refused, code)

    def write_confirms(self) -> None:
        """Queue what was confirmed since the last call, one frame for a publisher."""
        dirty, self._dirty = self._dirty, {}
        for publisher in dirty:
            confirmed, publisher.confirmed = publisher.confirmed, []
            ids = confirmed[0] if len(confirmed) == 1 else b"".join(confirmed)
            self._machine.confirm(publisher.id, ids)

    def _append(
        self,
        command: Publish,
        buffer: bytearray | memoryview,
        publisher: Publisher,
        ids: bytearray,
        done: Callable[[StorageError | None], None],
        *,
        filtered: bool,
    ) -> ResponseCode | None:
        try:
            position = publisher.partition.append_published(
                buffer,
                command.start,
                command.end,
                command.count,
                publisher.reference,
                ids,
                0,
                done,
                filtered=filtered,
            )
        except (MalformedSubBatch, EntryTooLarge):
            return ResponseCode.PRECONDITION_FAILED
        except LogBusy:
            raise
        except StorageError as error:
            return _code_of(error)
        if position != command.end:
            raise MalformedFrame(f"{command.end - position} bytes stand behind the messages of a Publish")
        return None


def _code_of(error: StorageError) -> ResponseCode:
    if isinstance(error, PartitionDeleted):
        return ResponseCode.STREAM_DOES_NOT_EXIST
    return ResponseCode.STREAM_NOT_AVAILABLE


def _ids_of(command: Publish, buffer: bytearray | memoryview, filtered: bool) -> bytearray:
    """The ids of a frame's messages, of which nothing else is wanted; those before one that does not parse."""
    ids = bytearray(ID_BYTES * command.count)
    scratch = bytearray(command.end - command.start)
    position, taken = command.start, 0
    while taken < command.count:
        try:
            position, now, *_ = gather_published(
                buffer,
                position,
                command.end,
                1,
                filtered,
                UNNAMED,
                scratch,
                0,
                len(scratch),
                ENTRIES_MAX,
                ids,
                ID_BYTES * taken,
            )
        except MalformedSubBatch as error:
            ids[ID_BYTES * taken : ID_BYTES * (taken + 1)] = error.publishing_id.to_bytes(ID_BYTES, "big")
            return ids[: ID_BYTES * (taken + 1)]
        taken += now
    return ids

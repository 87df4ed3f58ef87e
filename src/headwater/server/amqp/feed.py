"""A partition that is sent on a link."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headwater.amqp.definitions import Condition
from headwater.amqp.sender_link import SenderLink
from headwater.encoding.delivery_annotations import annotations_before_offset, message_to_send, offset_digits
from headwater.encoding.expression_position import OFFSET_END
from headwater.encoding.ranges import IdRange
from headwater.log.partition import Partition
from headwater.server.amqp.nodes import Refused
from headwater.server.record_source import Records, RecordSource, Selection

__all__ = ["Feed"]


class Feed(RecordSource):
    """Records of a partition, as the deliveries of a link."""

    def __init__(
        self, partition: Partition, offset: int, partition_id: str, selection: Selection | None = None
    ) -> None:
        super().__init__(partition, offset, partition_id, selection)
        self._annotations = b""
        """The same for all records of a chunk, up to the offset."""
        self._annotated_ms = -1

    def rename(self, partition_id: str) -> None:
        """The partition has another id from now on: one is called differently while it is the only one of its log."""
        self.partition_id = self._event.partition = partition_id
        self._annotated_ms = -1

    def send(
        self,
        link: SenderLink,
        bytes_max: int,
        when_read: Callable[[], None],
        *,
        end: int = OFFSET_END,
        delivery_count: int = 0,
        announced: Sequence[str] | None = None,
    ) -> list[IdRange]:
        """Send messages before `end` as far as the link allows, one at least; gives their offsets.

        The first one says which partitions the link has, if those are others than before. They are none at the end,
        while the disk works, and when much was passed over. Raises `StorageError`, and `Refused` if the next message
        is larger than the receiver takes.
        """
        sent: list[IdRange] = []
        if not self.records and not self.fill(when_read):
            return sent
        if self._annotated_ms != self.timestamp_ms:
            self._annotated_ms = self.timestamp_ms
            self._annotations = annotations_before_offset(self.timestamp_ms, self.partition_id)
        connection = link.session.connection
        while self.records and self.records[0].offset < end:
            records = self.records[0]
            start = records.offset
            count = min(records.count, end - start)
            try:
                if announced is not None:
                    self._send_one(link, records, delivery_count, announced)
                    announced = None
                elif delivery_count:
                    self._send_again(link, records, count, bytes_max, delivery_count)
                else:
                    self._send_run(link, records, count, bytes_max)
            except Refused:
                if records.offset == start and not sent:
                    raise
            if start < records.offset:
                sent.append((start, records.offset))
            # Runs of a selection may be short: several go in one write.
            if records.count or not (link.may_send and connection.pending_bytes < bytes_max):
                break
        return sent

    def _send_run(self, link: SenderLink, records: Records, count: int, bytes_max: int) -> None:
        annotations = self._annotations + offset_digits(records.offset)
        sent = link.send_records(records.data, records.spans, records.first, count, annotations, bytes_max)
        if sent:
            self.take(sent)
        else:
            self._send_one(link, records, 0)

    def _send_again(
        self, link: SenderLink, records: Records, count: int, bytes_max: int, delivery_count: int
    ) -> None:
        """Send messages whose headers say that they were sent before."""
        connection = link.session.connection
        self._send_one(link, records, delivery_count)
        while count > 1 and link.may_send and connection.pending_bytes < bytes_max:
            self._send_one(link, records, delivery_count)
            count -= 1

    def _send_one(
        self,
        link: SenderLink,
        records: Records,
        delivery_count: int,
        announced: Sequence[str] | None = None,
    ) -> None:
        annotations = self._annotations
        if announced is not None:
            annotations = annotations_before_offset(self.timestamp_ms, self.partition_id, announced)
        record, digits = records.first_record(), offset_digits(records.offset)
        message = message_to_send(record, annotations + digits, delivery_count)
        if announced is not None and 0 < link.message_size_bytes_max < len(message):
            message = message_to_send(record, self._annotations + digits, delivery_count)
        if 0 < link.message_size_bytes_max < len(message):
            raise Refused(
                Condition.LINK_MESSAGE_SIZE_EXCEEDED,
                f"the message at offset {records.offset} has {len(message)} bytes,"
                f" and the receiver takes {link.message_size_bytes_max} at most",
            )
        link.send(message)
        self.take(1)

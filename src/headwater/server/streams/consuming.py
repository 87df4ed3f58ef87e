"""RabbitMQ Streams protocol, Subscribe, Credit and Deliver: one subscription reads its partition as credit allows."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Protocol

from headwater.encoding._hash_kernel import bloom_may_contain
from headwater.encoding._kernel import SCAN_FIELDS
from headwater.encoding.chunk import ChunkType
from headwater.errors import StorageError
from headwater.log.file_span import FileSpan
from headwater.log.partition import Partition
from headwater.log.reader import Reader, Run, find_timestamp, last_chunk_offset
from headwater.server.streams.sub_batches import split_at_sub_batches
from headwater.streams.commands import OffsetSpecification, OffsetType

__all__ = ["Deliveries", "Filter", "Subscription", "committed_chunk_id", "start_offset"]

CREDIT_MAX = 65_535
BYTES_PER_TURN = 1 << 20

_BLOOM_BYTES_AT = 44
_RECORDS_AT = 4
_RECORDS_AND_OFFSET = struct.Struct(">I16xQ")

PROPERTIES_KEPT_MAX = 64
PROPERTY_CHARS_KEPT_MAX = 255


class Deliveries(Protocol):
    """Where chunks go: the connection of the subscription."""

    def can_deliver(self) -> bool:
        """Whether more may be queued for the socket."""

    def deliver(self, subscription: Subscription, chunk: memoryview) -> None:
        """Queue one chunk."""

    def can_send_files(self) -> bool:
        """Whether the next chunk may go from its file to the socket."""

    def deliver_span(self, subscription: Subscription, span: FileSpan) -> None:
        """Send one chunk from its file."""

    def call_soon(self, subscription: Subscription) -> None:
        """Call `pump` again in the next turn of the loop."""

    def may_read(self, subscription: Subscription) -> bool:
        """Whether the user may read at this moment; if not, the subscription is closed already."""

    def reading_failed(self, subscription: Subscription, error: StorageError) -> None:
        """The partition cannot be read on."""


class Filter:
    """Which chunks a subscription wants: those that may hold one of its values, and those without any if it says so."""

    def __init__(self, values: Iterable[bytes], *, match_unfiltered: bool) -> None:
        self._values = tuple(values)
        self._match_unfiltered = match_unfiltered

    @staticmethod
    def of(properties: Mapping[str, str]) -> Filter | None:
        """The filter of a subscription's properties; None if it wants all."""
        values = [value.encode() for name, value in properties.items() if name.startswith("filter.")]
        if not values:
            return None
        return Filter(values, match_unfiltered=properties.get("match-unfiltered", "").lower() == "true")

    def wants(self, bloom: memoryview) -> bool:
        """Whether a chunk with this bloom filter, empty for none, is to be sent."""
        if not bloom:
            return self._match_unfiltered
        wanted = (*self._values, b"") if self._match_unfiltered else self._values
        return any(bloom_may_contain(bloom, value) for value in wanted)


class Subscription:
    """Reads chunk by chunk, one for each credit, and waits at the end for more."""

    def __init__(
        self,
        id_: int,
        partition: Partition,
        offset: int,
        credit: int,
        filter_: Filter | None,
        deliveries: Deliveries,
        properties: Mapping[str, str],
        *,
        splits_at_sub_batches: bool = False,
    ) -> None:
        self.id = id_
        self.partition = partition
        self.credit = credit
        self.properties = _bounded(properties)
        """What the client said of itself, for people to see."""
        self.offset = offset
        """What is delivered next."""
        self.records_delivered = 0
        self.is_paused = False
        """Whether it waits to become the active consumer of its group."""
        self._filter = filter_
        self._splits_at_sub_batches = splits_at_sub_batches
        self._deliveries = deliveries
        self._reader = Reader(partition, offset, keeps_runs=True)
        self._chunks: Iterator[memoryview] = iter(())
        self._is_waiting = False
        self._is_closed = False

    def add_credit(self, credit: int) -> None:
        """The client has room for this many chunks more."""
        self.credit = min(self.credit + credit, CREDIT_MAX)
        self.pump()

    def go_to(self, offset: int) -> None:
        """Read from here on."""
        self._reader.close()
        self._reader = Reader(self.partition, offset, keeps_runs=True)
        self._chunks = iter(())
        self.offset = offset

    def close(self) -> None:
        """Read no more."""
        self._is_closed = True
        self._reader.close()
        self.partition.on_committed.discard(self.pump)

    def pump(self) -> None:
        """Deliver what there is, as far as credit, the socket and this turn of the loop allow."""
        left = BYTES_PER_TURN
        if self._is_closed or not self._deliveries.may_read(self):
            return
        while self._may_deliver():
            chunk = next(self._chunks, None)
            if chunk is None:
                if left <= 0:
                    self._deliveries.call_soon(self)
                    return
                taken = self._read()
                if not taken:
                    return
                left -= taken
                continue
            self._delivers(*_RECORDS_AND_OFFSET.unpack_from(chunk, _RECORDS_AT))
            self._deliveries.deliver(self, chunk)

    def _may_deliver(self) -> bool:
        ready = self.credit > 0 and not (self.is_paused or self._is_closed or self._is_waiting)
        return ready and self._deliveries.can_deliver()

    def _delivers(self, records: int, first_offset: int) -> None:
        """A chunk is about to be delivered."""
        self.credit -= 1
        self.records_delivered += records
        self.offset = first_offset + records

    def _read(self) -> int:
        """Fetch the next chunks, or deliver one from its file; gives their bytes, or 0 if there are none yet: `pump` is
        called when they are there."""
        try:
            return self._deliver_span() or self._read_run()
        except BlockingIOError:
            self._is_waiting = True
            self._reader.read_ahead(self._fetched)
        except StorageError as error:
            self._deliveries.reading_failed(self, error)
        return 0

    def _deliver_span(self) -> int:
        """Deliver the next chunk from its file, if it is large and goes as it is; gives its bytes, else 0."""
        goes_as_it_is = self._filter is None and not self._splits_at_sub_batches
        if not goes_as_it_is or not self._deliveries.can_send_files():
            return 0
        span = self._reader.next_span()
        if span is None:
            return 0
        self._delivers(span.header.records, span.header.first_offset)
        self._deliveries.deliver_span(self, span)
        return span.byte_count

    def _read_run(self) -> int:
        run = self._reader.read(wait=False)
        if run is None:
            self.offset = self._reader.offset
            self.partition.on_committed.add(self.pump)
            return 0
        self.partition.on_committed.discard(self.pump)
        self._chunks = run.deliveries if self._filter is None else _wanted(run, self._filter)
        if self._splits_at_sub_batches:
            self._chunks = split_at_sub_batches(self._chunks)
        # What a filter passes over counts too, or it would hold up all others.
        return len(run.buffer)

    def _fetched(self) -> None:
        self._is_waiting = False
        if not self._is_closed:
            self.pump()


def start_offset(partition: Partition, specification: OffsetSpecification) -> int:
    """The offset at which a subscription begins to read."""
    match specification.type:
        case OffsetType.FIRST:
            return partition.first_offset
        case OffsetType.LAST:
            last = last_chunk_offset(partition)
            return partition.committed_offset if last is None else last
        case OffsetType.OFFSET:
            return specification.value
        case OffsetType.TIMESTAMP:
            return find_timestamp(partition, specification.value)
        case _:
            return partition.committed_offset


def _wanted(run: Run, filter_: Filter) -> Iterator[memoryview]:
    buffer = run.buffer
    for at in range(0, SCAN_FIELDS * run.count, SCAN_FIELDS):
        start, deliver_bytes, _, type_ = run.fields[at : at + 4]
        behind = start + deliver_bytes
        bloom = buffer[behind : behind + buffer[start + _BLOOM_BYTES_AT]]
        if type_ == ChunkType.USER and filter_.wants(bloom):
            yield buffer[start:behind]


def _bounded(properties: Mapping[str, str]) -> dict[str, str]:
    """As much of them as is kept for as long as a subscription lives: a client may send a whole frame of them."""
    kept = islice(properties.items(), PROPERTIES_KEPT_MAX)
    return {name[:PROPERTY_CHARS_KEPT_MAX]: value[:PROPERTY_CHARS_KEPT_MAX] for name, value in kept}


def committed_chunk_id(partition: Partition) -> int:
    """The offset of the last chunk; 0 where the disk does not tell: clients only show it."""
    try:
        return last_chunk_offset(partition) or 0
    except StorageError:
        return 0

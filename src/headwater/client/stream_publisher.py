"""RabbitMQ Streams protocol, Publish: batches with a bounded number unconfirmed, and what became of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from headwater.client._kernel import fill_publish, id_runs, messages_that_fit
from headwater.client.errors import IdsNotRising, MessagesRefused, MessageTooLarge
from headwater.client.stream_connection import StreamConnection
from headwater.client.unanswered import Unanswered
from headwater.encoding.chunk import ReadableBuffer
from headwater.encoding.compression import Compression, pack_sub_batch
from headwater.errors import HeadwaterError
from headwater.streams import commands as c
from headwater.streams.errors import InvalidCommand
from headwater.streams.publish import PUBLISH_HEADER_BYTES, publish_header

__all__ = ["REFUSALS_KEPT_MAX", "UNCONFIRMED_MESSAGES_MAX", "StreamPublisher"]

UNCONFIRMED_MESSAGES_MAX = 100_000
REFUSALS_KEPT_MAX = 10_000
"""Ids of refused messages that are remembered until they are asked for; beyond, they are counted."""

_FRAME_BYTES_IF_UNLIMITED = 1 << 20
_FILTER_VALUE_BYTES_MAX = 0x7FFF
_ID_BYTES = 8


class StreamPublisher:
    """Publishes to one stream; with a name, the server recognises ids that it has already."""

    def __init__(
        self, connection: StreamConnection, stream: str, name: str | None, unconfirmed_max: int
    ) -> None:
        self.stream = stream
        self.name = name
        self.unconfirmed_max = unconfirmed_max
        self.next_id = 1
        """The id of the next message; a named publisher may raise it."""
        self.on_confirmed: Callable[[int, int], None] | None = None
        """Called with first id and count of each run of ids that was confirmed."""
        self.confirmed_count = 0
        self.refused_count = 0
        self.error: HeadwaterError | None = None
        """Why nothing more can be published, once that is so."""
        self._connection = connection
        self.id = -1
        """What the frames of this publisher have as its id."""
        self._unanswered = Unanswered()
        self._refusals: dict[int, int] = {}
        self._unreported = 0
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        """Ids, each with who waits until it and all below are answered."""
        self._room: asyncio.Future[None] | None = None
        self._last_sent = -1

    @classmethod
    async def open(
        cls,
        connection: StreamConnection,
        stream: str,
        *,
        name: str | None = None,
        unconfirmed_max: int = UNCONFIRMED_MESSAGES_MAX,
    ) -> StreamPublisher:
        """Declare a publisher; one with a name goes on behind the highest id that is stored under it."""
        publisher = cls(connection, stream, name, unconfirmed_max)
        publisher.id = await connection.declare_publisher(publisher, name)
        if name is not None:
            publisher.next_id = await connection.publisher_sequence(name, stream) + 1
        return publisher

    @property
    def unconfirmed_count(self) -> int:
        """Messages that were sent and not answered yet; a sub-batch counts as one."""
        return self._unanswered.count

    @property
    def answered_through(self) -> int:
        """The highest id of which it and all below, as far as they were sent, are confirmed or refused."""
        lowest = self._unanswered.lowest
        return self.next_id - 1 if lowest is None else lowest - 1

    async def publish(
        self,
        records: list[bytes],
        *,
        ids: list[int] | None = None,
        filter_values: Sequence[str | None] | None = None,
        as_data: bool = False,
    ) -> None:
        """Send records, each under the next id or that of `ids`, which rise. Waits while too many are unconfirmed.

        With `as_data` each becomes an AMQP 1.0 message of one data section, which is what stream clients expect.
        """
        filters = None if filter_values is None else _encoded(filter_values, len(records))
        if ids is not None and len(ids) != len(records):
            raise InvalidCommand("Publish", f"there are {len(ids)} ids for {len(records)} messages")
        taken = 0
        while taken < len(records):
            wanted = min(len(records) - taken, await self._room_for_some())
            frame, count = self._frame(records, taken, taken + wanted, ids, filters, as_data=as_data)
            await self._connection.publish_frame(frame)
            taken += count

    async def publish_sub_batch(
        self, records: Sequence[bytes], compression: Compression, *, id_: int | None = None
    ) -> None:
        """Send records packed together, all under the next id or `id_`."""
        entry = pack_sub_batch(records, compression)
        await self._room_for_some()
        self._check_frame(_ID_BYTES + len(entry))
        id_ = self.next_id if id_ is None else id_
        self._take_ids(id_, 1)
        header = publish_header(self.id, 1, _ID_BYTES + len(entry))
        await self._connection.publish_frame(b"".join((header, id_.to_bytes(_ID_BYTES, "big"), entry)))

    async def publish_frame(self, frame: ReadableBuffer, first_id: int, count: int) -> None:
        """Send a Publish that the caller has laid out for this publisher's `id`, with rising ids from `first_id`."""
        await self._room_for_some()
        self._check_frame(len(frame) - PUBLISH_HEADER_BYTES)
        self._take_ids(first_id, count)
        await self._connection.publish_frame(frame)

    async def flush(self) -> None:
        """Wait until all that was sent is answered; raises MessagesRefused if some were not taken."""
        lowest = self._unanswered.lowest
        if lowest is not None:
            await self._answered_to(self._last_sent)
        self._raise_refusals()
        self._check_alive(even_if_done=True)

    async def close(self) -> None:
        """Wait for what is unanswered and give the publisher back."""
        try:
            if self.error is None:
                await self.flush()
        finally:
            await self._connection.delete_publisher(self.id)

    # What the connection tells

    def confirmed(self, event: c.PublishConfirm, buffer: ReadableBuffer) -> None:
        """Some ids are confirmed; those that do not wait for it are passed over."""
        for first, count in id_runs(buffer, event.start, event.end):
            removed = self._unanswered.remove(first, count)
            self.confirmed_count += removed
            if removed and self.on_confirmed is not None:
                self.on_confirmed(first, count)
        self._wake()

    def refused(self, event: c.PublishError) -> None:
        """Some messages were not taken."""
        for refusal in event.publishing_errors:
            if self._unanswered.remove(refusal.publishing_id, 1):
                self.refused_count += 1
                self._unreported += 1
                if len(self._refusals) < REFUSALS_KEPT_MAX:
                    self._refusals[refusal.publishing_id] = refusal.code
        self._wake()

    def ended(self, error: HeadwaterError) -> None:
        """Nothing more will be answered."""
        self.error = error
        waiters, self._waiters = self._waiters, deque()
        for _, waiter in waiters:
            if not waiter.done():
                waiter.set_exception(error)
        self._give_room()

    # Ids, room and waiting

    def _frame(
        self,
        records: list[bytes],
        start: int,
        end: int,
        ids: list[int] | None,
        filters: list[bytes | None] | None,
        *,
        as_data: bool,
    ) -> tuple[bytearray, int]:
        """A frame with as many of these as it takes, and how many these are."""
        room = self._frame_bytes_max() - PUBLISH_HEADER_BYTES
        count, size = messages_that_fit(records, start, end, filters, as_data, room)
        if count == 0:
            raise MessageTooLarge(len(records[start]), room)
        first = self.next_id
        if ids is None:
            self._take_ids(first, count)
        else:
            for id_ in ids[start : start + count]:
                self._take_ids(id_, 1)
        frame = bytearray(PUBLISH_HEADER_BYTES + size)
        frame[:PUBLISH_HEADER_BYTES] = publish_header(self.id, count, size, 1 if filters is None else 2)
        end = start + count
        fill_publish(frame, PUBLISH_HEADER_BYTES, records, start, end, first, ids, filters, as_data)
        return frame, count

    def _take_ids(self, first: int, count: int) -> None:
        self._check_alive()
        if first <= self._last_sent:
            raise IdsNotRising(first, self._last_sent)
        self._unanswered.add(first, count)
        self._last_sent = first + count - 1
        self.next_id = first + count

    def _frame_bytes_max(self) -> int:
        # What counts is the size field, which leaves itself out; a few bytes less harm nobody.
        return self._connection.frame_size_bytes_max or _FRAME_BYTES_IF_UNLIMITED

    def _check_frame(self, message_bytes: int) -> None:
        room = self._frame_bytes_max() - PUBLISH_HEADER_BYTES
        if message_bytes > room:
            raise MessageTooLarge(message_bytes, room)

    async def _room_for_some(self) -> int:
        """How many may be sent now; waits until that is one at least."""
        while True:
            self._check_alive()
            if (room := self.unconfirmed_max - self._unanswered.count) > 0:
                return room
            if self._room is None:
                self._room = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._room)

    async def _answered_to(self, last_id: int) -> None:
        self._check_alive()
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append((last_id, waiter))
        await waiter

    def _wake(self) -> None:
        lowest = self._unanswered.lowest
        while self._waiters and (lowest is None or self._waiters[0][0] < lowest):
            _, waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
        if self._unanswered.count < self.unconfirmed_max:
            self._give_room()

    def _give_room(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def _check_alive(self, *, even_if_done: bool = False) -> None:
        if self.error is not None and not (even_if_done and self._unanswered.count == 0):
            raise self.error.with_traceback(None)

    def _raise_refusals(self) -> None:
        if self._unreported:
            refusals, self._refusals = self._refusals, {}
            count, self._unreported = self._unreported, 0
            raise MessagesRefused(self.stream, refusals, count)


def _encoded(values: Sequence[str | None], count: int) -> list[bytes | None]:
    if len(values) != count:
        raise InvalidCommand("Publish", f"there are {len(values)} filter values for {count} messages")
    encoded = [None if value is None else value.encode() for value in values]
    longest = max((len(value) for value in encoded if value is not None), default=0)
    if longest > _FILTER_VALUE_BYTES_MAX:
        raise InvalidCommand(
            "Publish", f"a filter value of {longest} bytes is above {_FILTER_VALUE_BYTES_MAX}"
        )
    return encoded

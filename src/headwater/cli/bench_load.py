"""The load of `headwater bench`: publishers and readers that do next to nothing for a message of their own."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque

from headwater.cli._kernel import scan, stamp
from headwater.cli.connecting import Stop
from headwater.cli.histogram import Histogram
from headwater.client.stream_connection import StreamConnection
from headwater.client.stream_consumer import FIRST
from headwater.client.stream_publisher import StreamPublisher
from headwater.encoding.amqp_message import data_section
from headwater.encoding.chunk import CHUNK_HEADER_BYTES, ReadableBuffer
from headwater.errors import HeadwaterError, MalformedFrame
from headwater.streams import commands as c
from headwater.streams.commands import OffsetSpecification
from headwater.streams.publish import PUBLISH_HEADER_BYTES, publish_header

__all__ = ["BODY_BYTES_MIN", "Publishing", "Reading"]

BODY_BYTES_MIN = 16
"""A marker and a time."""
CREDIT = 64
"""Chunks on their way to a reader."""
NOT_YET = 1 << 64
_LATE_NS = 2_000_000
"""A batch sent later than this was held up, so its age counts from when it was due; below, the timer is not finer."""
_ID_AND_LENGTH_BYTES = 12


class Publishing:
    """Sends one frame after the other, made from a template of which ids and times alone are written anew."""

    def __init__(self, publisher: StreamPublisher, marker: int, body_bytes: int, batch_messages: int) -> None:
        self.publisher = publisher
        self.confirm_latency = Histogram()
        self.sent = 0
        self._batch = batch_messages
        body = marker.to_bytes(8, "big") + bytes(8) + b"x" * (body_bytes - BODY_BYTES_MIN)
        entry = data_section(body)
        message = bytes(8) + len(entry).to_bytes(4, "big") + entry
        self._stride = len(message)
        self._time_at = _ID_AND_LENGTH_BYTES + len(entry) - body_bytes + 8
        header = publish_header(publisher.id, batch_messages, batch_messages * len(message))
        self._frame = bytearray(header + message * batch_messages)
        self._sent_at: deque[tuple[int, int]] = deque()
        """The last id of each frame that is not confirmed, and when the frame was sent, or due."""
        publisher.on_confirmed = self._confirmed

    @property
    def frame_bytes(self) -> int:
        """Of each frame."""
        return len(self._frame)

    async def run(
        self, until: float, rate: float | None, stop: Stop, messages_max: int | None = None
    ) -> None:
        """Send until the time is up or so many messages are sent, at this rate if there is one; waits for confirms."""
        started_ns = time.monotonic_ns()
        while time.monotonic() < until and not stop.is_set:
            if messages_max is not None and self.sent >= messages_max:
                break
            due_ns = None if rate is None else started_ns + int(self.sent / rate * 1e9)
            if due_ns is not None and (ahead_ns := due_ns - time.monotonic_ns()) > 0:
                await asyncio.sleep(ahead_ns / 1e9)
            await self._send(due_ns)
        await self.publisher.flush()

    async def _send(self, due_ns: int | None) -> None:
        publisher, count = self.publisher, self._batch
        first = publisher.next_id
        now_ns = time.monotonic_ns()
        if due_ns is not None and now_ns - due_ns > _LATE_NS:
            now_ns = due_ns
        stamp(self._frame, PUBLISH_HEADER_BYTES, count, self._stride, self._time_at, first, now_ns)
        self._sent_at.append((first + count - 1, now_ns))
        await publisher.publish_frame(bytes(self._frame), first, count)
        self.sent += count

    def _confirmed(self, first: int, count: int) -> None:
        behind, sent_at = first + count, self._sent_at
        now_ns = time.monotonic_ns()
        while sent_at and sent_at[0][0] < behind:
            self.confirm_latency.record(now_ns - sent_at.popleft()[1], self._batch)


class Reading:
    """Counts what comes, in the buffer that it came in."""

    def __init__(self, connection: StreamConnection, stream: str, marker: int) -> None:
        self.stream = stream
        self.latency = Histogram()
        self.messages = 0
        """All that came, and in `own_messages` those that this run has published."""
        self.own_messages = 0
        self.byte_count = 0
        """Bodies of messages of this run; of others all that is in their chunks."""
        self.error: HeadwaterError | None = None
        self.at_end = asyncio.Event()
        """Set when the last chunk has come, or as many messages as are waited for."""
        self._end_chunk = self._own_wanted = NOT_YET
        self._connection = connection
        self._marker = marker
        self._id = -1
        self._credit_due = 0

    async def open(self, offset: OffsetSpecification) -> None:
        """Subscribe."""
        self.at_end.clear()
        self._credit_due = 0
        self._id = await self._connection.subscribe(self, offset, CREDIT, {})

    async def read_again(self, until: float, stop: Stop) -> None:
        """Read the stream from its first to its last chunk, again and again until the time is up."""
        stats = await self._connection.stream_stats(self.stream)
        self._end_chunk = stats.get("committed_chunk_id", -1)
        while time.monotonic() < until and not stop.is_set and self._end_chunk >= 0:
            await self.open(FIRST)
            try:
                async with asyncio.timeout_at(until):
                    await self.at_end.wait()
            except TimeoutError:
                break
            finally:
                await self._connection.unsubscribe(self._id)
            if self.error is not None:
                raise self.error

    async def until_own(self, messages: int, timeout_s: float) -> None:
        """Wait until so many messages of this run have come, or for so long."""
        self._own_wanted = messages
        self.at_end.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self.own_messages < messages and self.error is None:
                    await self.at_end.wait()
        if self.error is not None:
            raise self.error

    # What the connection tells

    def delivered(self, event: c.Deliver, buffer: ReadableBuffer) -> None:
        """Count a chunk."""
        start, header = event.start + CHUNK_HEADER_BYTES, event.header
        try:
            found, found_bytes = scan(
                buffer,
                start,
                event.end,
                header.entries,
                self._marker,
                time.monotonic_ns(),
                self.latency.counts,
            )
        except MalformedFrame as error:
            self._connection.fail(error)
            return
        self.messages += header.records
        self.own_messages += found
        self.byte_count += found_bytes or header.data_bytes
        self._credit_due += 1
        if self._credit_due >= CREDIT // 2:
            self._connection.give_credit(event.subscription_id, self._credit_due)
            self._credit_due = 0
        if header.first_offset >= self._end_chunk or self.own_messages >= self._own_wanted:
            self.at_end.set()

    async def activity_changed(self, active: bool) -> OffsetSpecification:
        """Never asked for."""
        return FIRST

    def ended(self, error: HeadwaterError) -> None:
        """The stream or the connection is gone."""
        self.error = error
        self.at_end.set()

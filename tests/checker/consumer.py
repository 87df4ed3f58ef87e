"""A consumer: reads a stream to its end, again and again from where the plan lets it go on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from isal.isal_zlib import crc32

from headwater.client.stream_consumer import FIRST, at_offset
from headwater.encoding.chunk import CHUNK_HEADER_BYTES, ReadableBuffer
from headwater.errors import HeadwaterError
from headwater.streams import commands as c
from headwater.streams.commands import OffsetSpecification
from tests.checker import plan
from tests.checker.board import UNKNOWN
from tests.checker.history import Event, QueriedOffset, Received, StoredOffset, Subscribed, now
from tests.checker.link import Link, Place, StreamClient

__all__ = ["ConsumerClient", "begin_at", "received"]

STEP_S = (0.02, 0.2)
CUTS_PER_STEP = 0.01
QUERIES_PER_STEP = 0.1
STORES_PER_CHUNK = 0.1
STALLS_PER_CHUNK = 0.02
STALL_S = (0.1, 0.8)


class ConsumerClient(StreamClient):
    """Reads until it has come to where it is to come, and looks at its stored offset now and then."""

    def __init__(self, place: Place, consumer: plan.Consumer) -> None:
        super().__init__(place, consumer.name)
        self.consumer = consumer
        self.stream = consumer.stream
        self.heartbeat_s = place.plan.heartbeat_s
        self._position_gauge = plan.position_gauge(consumer.name)
        self._target_gauge = plan.target_gauge(consumer.name)
        self._link: Link
        self._ended = False
        self._position = 0
        for event in place.earlier_of(self.who):
            self._recall(event)

    async def serve(self, link: Link) -> bool:
        """Read until the connection ends, or until the target is reached."""
        self._link, self._ended = link, False
        self._position = await self._start(link)
        self.record(Subscribed(self.who, now(), self.attempt, self.stream, self._position))
        await link.subscribe(self, begin_at(self._position), self.consumer.credit, self._properties())
        while not self._ended:
            target = self.board[self._target_gauge]
            if target != UNKNOWN and self._position >= target:
                return True
            await asyncio.sleep(self.rng.uniform(*STEP_S))
            if self.consumer.resumes == "stored" and self.rng.random() < QUERIES_PER_STEP:
                await self._stored_offset(link)
            if not self.is_draining() and self.rng.random() < CUTS_PER_STEP and not self._ended:
                self.cut(link, "cut while reading")
                return False
        return False

    # What the connection tells

    def delivered(self, event: c.Deliver, buffer: ReadableBuffer) -> None:
        chunk = received(self.who, self.attempt, self.stream, event, buffer)
        self.record(chunk)
        self._position = self.board[self._position_gauge] = chunk.first + chunk.records
        if self.consumer.resumes == "stored" and self.rng.random() < STORES_PER_CHUNK:
            offset = self._position - 1
            self.record(StoredOffset(self.who, now(), self.attempt, self.who, self.stream, offset))
            self._link.store_offset(self.who, self.stream, offset)
        if self.consumer.stalls and not self.is_draining() and self.rng.random() < STALLS_PER_CHUNK:
            time.sleep(self.rng.uniform(*STALL_S))
        self._link.give_credit(event.subscription_id, 1)

    async def activity_changed(self, active: bool) -> OffsetSpecification:
        raise AssertionError(f"{self.who} is no single active consumer, and was told that active is {active}")

    def ended(self, error: HeadwaterError) -> None:
        self._ended = True

    async def _start(self, link: Link) -> int:
        if self.consumer.resumes == "position":
            return self._position
        if self.consumer.resumes == "first":
            return 0
        stored = await self._stored_offset(link)
        return 0 if stored is None else stored + 1

    async def _stored_offset(self, link: Link) -> int | None:
        asked_at = now()
        stored = await link.stored_offset(self.who, self.stream)
        self.record(QueriedOffset(self.who, now(), self.attempt, self.who, self.stream, stored, asked_at))
        return stored

    def _properties(self) -> Mapping[str, str]:
        filters = {f"filter.{index}": value for index, value in enumerate(self.consumer.filters)}
        if self.consumer.match_unfiltered:
            filters["match-unfiltered"] = "true"
        return filters

    def _recall(self, event: Event) -> None:
        """Take over what an earlier process of this consumer did."""
        if isinstance(event, Subscribed):
            self._position = event.offset
        elif isinstance(event, Received):
            self._position = event.first + event.records


def begin_at(offset: int) -> OffsetSpecification:
    """From this offset on; the word for offset 0 is tried as well."""
    return at_offset(offset) if offset else FIRST


def received(
    who: str, attempt: int, stream: str, event: c.Deliver, buffer: ReadableBuffer, join: int = 0
) -> Received:
    """What came, with the CRC of its data as it is."""
    header = event.header
    with memoryview(buffer) as view:
        crc = crc32(view[event.start + CHUNK_HEADER_BYTES : event.end])
    return Received(
        who, now(), attempt, stream, header.first_offset, header.records, crc, header.data_crc, join
    )

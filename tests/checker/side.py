"""A stream that is made, filled, read and deleted again and again: what is answered holds, and nothing comes back."""

from __future__ import annotations

import asyncio

from headwater.client.chunk_view import Chunk
from headwater.client.stream_consumer import FIRST, StreamConsumer
from headwater.client.stream_publisher import StreamPublisher
from tests.checker.content import runs_of
from tests.checker.history import SideRead, SideStep, now
from tests.checker.link import Link, Place, StreamClient
from tests.checker.payload import Payloads

__all__ = ["SIDE_PUBLISHER", "SideClient"]

SIDE_PUBLISHER = 0xFFFF
"""Messages of side streams are of this publisher; the incarnation of the stream is their attempt."""
MESSAGES = (1, 500)
PAUSE_S = (0.1, 1.0)
READ_TIMEOUT_S = 120.0


class SideClient(StreamClient):
    """The one who knows what should be in the stream."""

    def __init__(self, place: Place, stream: str) -> None:
        super().__init__(place, stream)
        self.stream = stream
        steps = [event for event in place.earlier_of(stream) if isinstance(event, SideStep)]
        self._incarnation = max((step.incarnation for step in steps), default=0)
        self._next_id = 1

    async def serve(self, link: Link) -> bool:
        """Live through incarnations until the run drains."""
        exists = await link.stream_exists(self.stream)
        self._step("exists" if exists else "missing")
        if exists:
            await self._delete(link)
        while not self.is_draining():
            await self._create(link)
            await self._fill_and_read(link)
            await asyncio.sleep(self.rng.uniform(*PAUSE_S))
            await self._delete(link)
        return True

    async def _create(self, link: Link) -> None:
        self._incarnation += 1
        self._step("create")
        await link.create_stream(self.stream)
        self._step("created")

    async def _delete(self, link: Link) -> None:
        self._step("delete")
        await link.delete_stream(self.stream)
        self._step("deleted")

    async def _fill_and_read(self, link: Link) -> None:
        publisher = await StreamPublisher.open(link, self.stream)
        count = self.rng.randint(*MESSAGES)
        bodies = [
            self.place.payloads.body(SIDE_PUBLISHER, self._incarnation, id_) for id_ in range(1, count + 1)
        ]
        await publisher.publish(bodies)
        await publisher.flush()
        consumer = await StreamConsumer.open(link, self.stream, FIRST)
        chunks: list[Chunk] = []
        async with asyncio.timeout(READ_TIMEOUT_S):
            while sum(chunk.records for chunk in chunks) < count:
                chunk = await consumer.next_chunk()
                assert chunk is not None
                chunks.append(chunk)
        self.record(
            _what_was_read(self.who, self.stream, self._incarnation, count, chunks, self.place.payloads)
        )
        await consumer.close()
        await publisher.close()

    def _step(self, step: str) -> None:
        self.record(SideStep(self.who, now(), self.stream, self._incarnation, step))


def _what_was_read(
    who: str, stream: str, incarnation: int, confirmed: int, chunks: list[Chunk], payloads: Payloads
) -> SideRead:
    runs = [run for chunk in chunks for run in runs_of(chunk, payloads)]
    told = tuple((run.attempt, run.first, run.last - run.first + 1) for run in runs)
    return SideRead(who, now(), stream, incarnation, chunks[0].first_offset, confirmed, told)

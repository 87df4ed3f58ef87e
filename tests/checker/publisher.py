"""A publisher: named ones go on behind what the server says it has, anonymous ones send again what is not confirmed."""

from __future__ import annotations

import asyncio
import contextlib

from headwater.client._kernel import id_runs
from headwater.client.unanswered import Unanswered
from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import HeadwaterError
from headwater.streams import commands as c
from tests.checker import plan
from tests.checker.board import UNKNOWN, Phase
from tests.checker.history import Confirmed, Connected, Event, Finished, Refused, Sent, SequenceTold, now
from tests.checker.link import Client, Link, Place

__all__ = ["PublisherClient"]

CUTS_PER_SECOND = 0.04
CUTS_WITHIN_FRAME = 0.5
LOOK_S = 0.02
"""How soon a change of the phase is seen."""


class PublisherClient(Client):
    """Sends ids from 1 on without gaps, in order, whatever happens to its connection."""

    def __init__(self, place: Place, publisher: plan.Publisher) -> None:
        super().__init__(place, f"publisher {publisher.number}")
        self.publisher = publisher
        self.stream = publisher.stream
        self._gauge = plan.unconfirmed_gauge(publisher.number)
        self._next = 1
        self._highest = 0
        """What is not above it was sent before, on this connection or an earlier one."""
        self._unanswered = Unanswered()
        self._link: Link
        self._wire_id = 0
        self._answered = asyncio.Event()
        self._ended = False
        for event in place.earlier_of(self.who):
            self._recall(event)

    async def serve(self, link: Link) -> bool:
        """Publish until the connection ends, or until all is confirmed and nothing more is wanted."""
        self._link, self._ended = link, False
        self._go_back()
        self._wire_id = await link.declare_publisher(self, self.publisher.reference)
        if self.publisher.reference is not None:
            sequence = await link.publisher_sequence(self.publisher.reference, self.stream)
            self.record(SequenceTold(self.who, now(), self.attempt, sequence))
            self._next = sequence + 1
        self._show()
        while not self._ended:
            count = self._room()
            if count > 0:
                await self._send(range(self._next, self._next + count))
            elif self.is_draining() and self._unanswered.count == 0:
                self.record(Finished(self.who, now()))
                return True
            else:
                await self._look_again()
        return False

    # What the connection tells

    def confirmed(self, event: c.PublishConfirm, buffer: ReadableBuffer) -> None:
        runs = id_runs(buffer, event.start, event.end)
        self.record(Confirmed(self.who, now(), self.attempt, tuple(runs)))
        for first, count in runs:
            self._unanswered.remove(first, count)
        self._show()
        self._answered.set()

    def refused(self, event: c.PublishError) -> None:
        ids = tuple(error.publishing_id for error in event.publishing_errors)
        self.record(Refused(self.who, now(), self.attempt, ids, event.publishing_errors[0].code))
        if not self._ended:
            # They are sent again on the next connection, before all that follows them.
            self._ended = True
            self.cut(self._link, "messages were refused")

    def ended(self, error: HeadwaterError) -> None:
        self._ended = True
        self.board[self._gauge] = UNKNOWN
        self._answered.set()

    # Sending

    def _room(self) -> int:
        """How many ids may be sent now."""
        room = min(self.publisher.window - self._unanswered.count, self.publisher.batch)
        return min(room, self._highest - self._next + 1) if self.is_draining() else room

    async def _send(self, ids: range) -> None:
        publisher = self.publisher
        frame = self.place.payloads.frame(
            self._wire_id,
            publisher.number,
            self.attempt,
            ids,
            filters=publisher.filters,
            sub_batch=publisher.sub_batch,
        )
        self.record(Sent(self.who, now(), self.attempt, ids[0], ids[-1]))
        self._take(ids)
        self._show()
        seconds = len(ids) * publisher.records_per_id / publisher.rate
        paced = self.board.phase is Phase.PACED
        if paced and self.rng.random() < CUTS_PER_SECOND * seconds:
            await self._cut(frame)
            return
        await self._link.publish_frame(frame)
        if paced:
            await self._pace(seconds)

    async def _cut(self, frame: bytes) -> None:
        self._ended = True
        if self.rng.random() < CUTS_WITHIN_FRAME:
            await self.cut_within(self._link, frame)
        else:
            await self._link.publish_frame(frame)
            self.cut(self._link, "cut behind a frame")

    async def _pace(self, seconds: float) -> None:
        seconds *= self.rng.uniform(0.5, 1.5)
        while seconds > 0 and self.board.phase is Phase.PACED and not self._ended:
            await asyncio.sleep(min(seconds, LOOK_S))
            seconds -= LOOK_S

    async def _look_again(self) -> None:
        self._answered.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._answered.wait(), LOOK_S)

    # Ids

    def _take(self, ids: range) -> None:
        self._unanswered.add(ids[0], len(ids))
        self._next = ids[-1] + 1
        self._highest = max(self._highest, ids[-1])

    def _go_back(self) -> None:
        """On a new connection the first id that is not confirmed is the next."""
        self._next = self._unanswered.lowest or self._next
        self._unanswered = Unanswered()

    def _recall(self, event: Event) -> None:
        """Take over what an earlier process of this publisher did."""
        if isinstance(event, Connected):
            self._go_back()
        elif isinstance(event, SequenceTold):
            self._next = event.sequence + 1
        elif isinstance(event, Sent):
            self._take(range(event.first, event.last + 1))
        elif isinstance(event, Confirmed):
            for first, count in event.runs:
                self._unanswered.remove(first, count)

    def _show(self) -> None:
        self.board[self._gauge] = self._unanswered.count * self.publisher.records_per_id

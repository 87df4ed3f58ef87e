"""Publishing, whatever the door: ids from 1 on without gaps, in order, and what is not confirmed once more."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from headwater.client.unanswered import Unanswered
from tests.checker import plan
from tests.checker.board import UNKNOWN, Phase
from tests.checker.history import Confirmed, Connected, Event, Finished, Refused, Sent, SequenceTold, now
from tests.checker.link import Client, LinkT, Place

__all__ = ["CUTS_PER_SECOND", "PublishingClient"]

CUTS_PER_SECOND = 0.04
LOOK_S = 0.02
"""How soon a change of the phase is seen."""


class PublishingClient(Client[LinkT]):
    """Sends what the plan says; subclasses know how that is done at a door."""

    def __init__(self, place: Place, publisher: plan.Publisher) -> None:
        super().__init__(place, f"publisher {publisher.number}")
        self.publisher = publisher
        self.stream = publisher.stream
        self.next_id = 1
        self.link: LinkT
        self.has_ended = False
        self._gauge = plan.unconfirmed_gauge(publisher.number)
        self._highest = 0
        """What is not above it was sent before, on this connection or an earlier one."""
        self._unanswered = Unanswered()
        self._answered = asyncio.Event()
        for event in place.earlier_of(self.who):
            self._recall(event)

    async def begin(self) -> None:
        """What comes before the first message on a connection."""
        raise NotImplementedError

    async def send(self, ids: range, *, is_cut: bool) -> None:
        """Send these ids, and cut the connection in the middle or behind them if it is to be."""
        raise NotImplementedError

    async def serve(self, link: LinkT) -> bool:
        """Publish until the connection ends, or until all is confirmed and nothing more is wanted."""
        self.link, self.has_ended = link, False
        try:
            return await self._publish()
        finally:
            self.board[self._gauge] = UNKNOWN

    async def _publish(self) -> bool:
        self._go_back()
        await self.begin()
        self._show()
        while not self.has_ended and self.link.error is None:
            count = self._room()
            if count > 0:
                await self._send(range(self.next_id, self.next_id + count))
            elif self.is_draining() and self._unanswered.count == 0:
                self.record(Finished(self.who, now()))
                return True
            else:
                await self._wait()
        return False

    # What the connection tells

    def note_confirmed(self, runs: Sequence[tuple[int, int]]) -> None:
        """First id and count of each run that the server has."""
        self.record(Confirmed(self.who, now(), self.attempt, tuple(runs)))
        for first, count in runs:
            self._unanswered.remove(first, count)
        self._show()
        self.look_again()

    def note_refused(self, ids: tuple[int, ...], code: int) -> None:
        """They are sent again on the next connection, before all that follows them."""
        self.record(Refused(self.who, now(), self.attempt, ids, code))
        if not self.has_ended:
            self.has_ended = True
            self.cut(self.link, "messages were refused")

    def look_again(self) -> None:
        """Something has happened on the connection."""
        self._answered.set()

    # Sending

    def _room(self) -> int:
        """How many ids may be sent now."""
        room = min(self.publisher.window - self._unanswered.count, self.publisher.batch)
        return min(room, self._highest - self.next_id + 1) if self.is_draining() else room

    async def _send(self, ids: range) -> None:
        publisher = self.publisher
        self.record(Sent(self.who, now(), self.attempt, ids[0], ids[-1]))
        self._take(ids)
        self._show()
        seconds = len(ids) * publisher.records_per_id / publisher.rate
        paced = self.board.phase is Phase.PACED
        if paced and self.rng.random() < CUTS_PER_SECOND * seconds:
            self.has_ended = True
            await self.send(ids, is_cut=True)
            return
        await self.send(ids, is_cut=False)
        if paced:
            await self._pace(seconds)

    async def _pace(self, seconds: float) -> None:
        seconds *= self.rng.uniform(0.5, 1.5)
        while seconds > 0 and self.board.phase is Phase.PACED and not self.has_ended:
            await asyncio.sleep(min(seconds, LOOK_S))
            seconds -= LOOK_S

    async def _wait(self) -> None:
        self._answered.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._answered.wait(), LOOK_S)

    # Ids

    def _take(self, ids: range) -> None:
        self._unanswered.add(ids[0], len(ids))
        self.next_id = ids[-1] + 1
        self._highest = max(self._highest, ids[-1])

    def _go_back(self) -> None:
        """On a new connection the first id that is not confirmed is the next."""
        self.next_id = self._unanswered.lowest or self.next_id
        self._unanswered = Unanswered()

    def _recall(self, event: Event) -> None:
        """Take over what an earlier process of this publisher did."""
        if isinstance(event, Connected):
            self._go_back()
        elif isinstance(event, SequenceTold):
            self.next_id = event.sequence + 1
        elif isinstance(event, Sent):
            self._take(range(event.first, event.last + 1))
        elif isinstance(event, Confirmed):
            for first, count in event.runs:
                self._unanswered.remove(first, count)

    def _show(self) -> None:
        self.board[self._gauge] = self._unanswered.count * self.publisher.records_per_id

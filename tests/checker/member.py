"""A process's members of the groups of single active consumers: they come and go, and answer sooner or later."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from headwater.client.stream_consumer import FIRST
from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import HeadwaterError
from headwater.streams import commands as c
from headwater.streams.commands import OffsetSpecification, OffsetType
from tests.checker import plan
from tests.checker.consumer import begin_at, received
from tests.checker.history import (
    Answered,
    QueriedOffset,
    Released,
    StoredOffset,
    Subscribed,
    Updated,
    now,
)
from tests.checker.link import Link, Place, StreamClient

__all__ = ["MemberClient"]

STEP_S = (0.1, 0.6)
CUTS_PER_STEP = 0.02
LEAVES_PER_STEP = 0.1
ABSENT_S = (0.0, 0.5)
SLOW_ANSWERS = 0.25
SLOW_ANSWER_S = (0.02, 0.6)
STORES_PER_CHUNK = 0.1
STORES_BEFORE_STEPPING_DOWN = 0.7
CREDIT = 5


class MemberClient(StreamClient):
    """One connection with a member of each group, on each of its streams."""

    def __init__(self, place: Place, name: str) -> None:
        super().__init__(place, name)
        self.heartbeat_s = place.plan.heartbeat_s
        self.joins = 0
        """Subscriptions of this connection."""

    async def serve(self, link: Link) -> bool:
        """Be a member, with pauses, until the connection ends."""
        self.joins = 0
        places = [(group, stream) for group in self.place.plan.groups for stream in group.streams]
        self.rng.shuffle(places)
        members = [await self._join(link, group, stream) for group, stream in places]
        while link.error is None:
            await asyncio.sleep(self.rng.uniform(*STEP_S))
            if self.is_draining():
                continue
            if self.rng.random() < CUTS_PER_STEP:
                self.cut(link, "cut as a member")
                return False
            if self.rng.random() < LEAVES_PER_STEP:
                index = self.rng.randrange(len(members))
                await members[index].leave()
                await asyncio.sleep(self.rng.uniform(*ABSENT_S))
                members[index] = await self._join(link, *places[index])
        return False

    async def _join(self, link: Link, group: plan.Group, stream: str) -> _Membership:
        self.joins += 1
        membership = _Membership(self, link, group, stream)
        await membership.join()
        return membership


class _Membership:
    """One subscription of the member."""

    def __init__(self, client: MemberClient, link: Link, group: plan.Group, stream: str) -> None:
        self.stream = stream
        self._client = client
        self._link = link
        self._group = group
        self._reference = group.reference
        self._gauge = plan.position_gauge(f"{group.reference}/{stream}")
        self._number = client.joins
        self._id = -1
        self._last: int | None = None
        """The last offset that came since this one is active."""
        self._in_order = asyncio.Lock()

    async def join(self) -> None:
        """Subscribe."""
        self._client.record(
            Subscribed(self._client.who, now(), self._client.attempt, self.stream, 0, self._number)
        )
        self._id = await self._link.subscribe(self, FIRST, CREDIT, self._properties())

    async def leave(self) -> None:
        """Unsubscribe; answers that are due are given all the same, sooner or later."""
        self._client.record(
            Released(
                self._client.who, now(), self._client.attempt, self._reference, self.stream, self._number
            )
        )
        await self._link.unsubscribe(self._id)

    # What the connection tells

    def delivered(self, event: c.Deliver, buffer: ReadableBuffer) -> None:
        client = self._client
        chunk = received(client.who, client.attempt, self.stream, event, buffer, self._number)
        client.record(chunk)
        self._last = chunk.first + chunk.records - 1
        client.board[self._gauge] = self._last + 1
        if client.rng.random() < STORES_PER_CHUNK:
            self._store(self._last)
        self._link.give_credit(event.subscription_id, 1)

    async def activity_changed(self, active: bool) -> OffsetSpecification:
        client = self._client
        update = (self._reference, self.stream, self._number, active)
        client.record(Updated(client.who, now(), client.attempt, *update))
        async with self._in_order:
            if client.rng.random() < SLOW_ANSWERS:
                await asyncio.sleep(client.rng.uniform(*SLOW_ANSWER_S))
            start = await self._start() if active else 0
            if not active and client.rng.random() < STORES_BEFORE_STEPPING_DOWN and self._last is not None:
                self._store(self._last)
            self._last = None
            client.record(Answered(client.who, now(), client.attempt, *update, start))
            return begin_at(start) if active else OffsetSpecification(OffsetType.NONE)

    def ended(self, error: HeadwaterError) -> None:
        """The client sees it."""

    def _store(self, offset: int) -> None:
        client = self._client
        client.record(StoredOffset(client.who, now(), client.attempt, self._reference, self.stream, offset))
        self._link.store_offset(self._reference, self.stream, offset)

    async def _start(self) -> int:
        """Where to begin: behind what the group has stored."""
        client, asked_at = self._client, now()
        stored = await self._link.stored_offset(self._reference, self.stream)
        client.record(
            QueriedOffset(client.who, now(), client.attempt, self._reference, self.stream, stored, asked_at)
        )
        return 0 if stored is None else stored + 1

    def _properties(self) -> Mapping[str, str]:
        properties = {"single-active-consumer": "true", "name": self._reference}
        if self._group.super_stream is not None:
            properties["super-stream"] = self._group.super_stream
        return properties

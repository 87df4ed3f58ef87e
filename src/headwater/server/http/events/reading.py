"""Events that are read over HTTP as one answer: envelopes with positions, or a plain CloudEvents batch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from aiohttp import web

from headwater.cloudevents.content_mode import JSON_BATCH_TYPE
from headwater.encoding._cloudevents_text_kernel import timestamp_text
from headwater.log.partition import Partition
from headwater.server.http.events.asked import Asked
from headwater.server.http.events.reader import EventReader, ShownEvent

__all__ = ["ANSWER_BYTES_MAX", "NEXT", "BatchReading", "Waiting", "schema"]

ANSWER_BYTES_MAX = 1 << 20
"""An answer ends with the event that reaches this."""
EVENTS_PER_TURN = 64
NEXT = "Headwater-Next"
"""Header with the position behind an answer."""


class Waiting:
    """Requests that wait for events; all end when the server does."""

    def __init__(self) -> None:
        self._woken: set[asyncio.Event] = set()
        self.has_ended = False

    async def wait(self, partitions: Sequence[Partition], woken: asyncio.Event, timeout_s: float) -> None:
        """Until something was committed to one of these, the event was set, or the time is over."""
        for partition in partitions:
            partition.on_committed.add(woken.set)
            partition.on_deleted.add(woken.set)
        self._woken.add(woken)
        try:
            if not self.has_ended:
                async with asyncio.timeout(timeout_s):
                    await woken.wait()
        except TimeoutError:
            pass
        finally:
            self._woken.discard(woken)
            for partition in partitions:
                partition.on_committed.discard(woken.set)
                partition.on_deleted.discard(woken.set)

    def end(self) -> None:
        """Nothing more comes."""
        self.has_ended = True
        for woken in self._woken:
            woken.set()


class BatchReading:
    """Answers a request with the events that it asked for, waiting for the first one as long as it wants."""

    def __init__(self, waiting: Waiting, asked: Asked, limit: int, wait_s: float) -> None:
        self._waiting = waiting
        self._asked = asked
        self._limit = limit
        self._deadline_s = asyncio.get_running_loop().time() + wait_s
        self._woken = asyncio.Event()
        self._reader = EventReader(asked, self._woken.set)

    async def answer(self, *, as_batch: bool) -> web.Response:
        """The answer; as a batch it is a JSON array of events alone."""
        try:
            events = await self._read()
        finally:
            self._reader.close()
        following = self._asked.position(self._reader.offsets)
        headers = {"Cache-Control": "no-store", NEXT: following}
        if as_batch:
            body = b"[" + b",".join(each.json for each in events) + b"]"
            return web.Response(body=body, headers={**headers, "Content-Type": JSON_BATCH_TYPE})
        at_end = all(
            offset >= partition.committed_offset
            for offset, partition in zip(self._reader.offsets, self._asked.partitions, strict=True)
        )
        body = b'{"events":[%b],"next":%b,"at_end":%b}' % (
            b",".join(_envelope(self._asked.ids[each.number], each) for each in events),
            _quoted(following),
            b"true" if at_end or self._reader.has_ended else b"false",
        )
        return web.Response(body=body, content_type="application/json", headers=headers)

    async def _read(self) -> list[ShownEvent]:
        loop, reader = asyncio.get_running_loop(), self._reader
        events: list[ShownEvent] = []
        byte_count = 0
        while len(events) < self._limit and byte_count < ANSWER_BYTES_MAX and not reader.has_ended:
            self._woken.clear()
            found = reader.read(
                min(self._limit - len(events), EVENTS_PER_TURN), ANSWER_BYTES_MAX - byte_count
            )
            events += found
            byte_count += sum(len(each.json) for each in found)
            if found or reader.may_have_more:
                await asyncio.sleep(0)
            elif reader.is_waiting:
                await self._woken.wait()
            else:
                left_s = self._deadline_s - loop.time()
                if events or left_s <= 0 or self._waiting.has_ended:
                    break
                await self._waiting.wait(self._asked.partitions, self._woken, left_s)
                if not self._woken.is_set():
                    break
        return events


def _envelope(partition_id: str, event: ShownEvent) -> bytes:
    accepted = timestamp_text(event.accepted_ms) or ""
    return b'{"partition":%b,"offset":%d,"accepted":"%b","event":%b}' % (
        _quoted(partition_id),
        event.offset,
        accepted.encode(),
        event.json,
    )


def _quoted(text: str) -> bytes:
    return msgspec.json.encode(text)


def schema() -> dict[str, Any]:
    """What an answer looks like."""
    event = {
        "type": "object",
        "required": ["partition", "offset", "accepted", "event"],
        "properties": {
            "partition": {"type": "string"},
            "offset": {"type": "integer", "minimum": 0},
            "accepted": {"type": "string", "format": "date-time"},
            "event": {"type": "object", "required": ["specversion", "id", "source", "type"]},
        },
    }
    return {
        "type": "object",
        "required": ["events", "next", "at_end"],
        "properties": {
            "events": {"type": "array", "items": event},
            "next": {"type": "string", "description": "What to give as `position` to go on."},
            "at_end": {"type": "boolean", "description": "Whether all that is there was read."},
        },
    }

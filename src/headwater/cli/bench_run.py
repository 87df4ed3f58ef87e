"""A run of `headwater bench`: streams, connections, load, and the figures of all of it."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from headwater.cli.bench_load import Publishing, Reading
from headwater.cli.connecting import Misused, Server, Stop
from headwater.cli.histogram import Histogram, Latency
from headwater.client.stream_connection import StreamConnection
from headwater.client.stream_consumer import NEXT
from headwater.client.stream_publisher import StreamPublisher
from headwater.errors import HeadwaterError

__all__ = ["Figures", "Kind", "Plan", "Run"]

Kind = Literal["publish", "consume", "both", "latency"]

RECEIVE_TIMEOUT_S = 10.0
FILL_TIMEOUT_S = 600.0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to load the server with."""

    what: Kind
    size_bytes: int
    batch_messages: int
    publishers: int
    consumers: int
    streams: int
    seconds: float
    rate: float | None = None
    named: bool = False
    window_messages: int
    fill_messages: int
    stream: str | None = None
    keep: bool = False


class Figures(msgspec.Struct, kw_only=True):
    """What came of it."""

    plan: Plan
    published: int = 0
    publish_seconds: float = 0.0
    publish_rate: float = 0.0
    publish_mb_s: float = 0.0
    confirm: Latency | None = None
    consumed: int = 0
    missing: int = 0
    """Messages that were confirmed and not seen by every consumer in time."""
    consume_seconds: float = 0.0
    consume_rate: float = 0.0
    consume_mb_s: float = 0.0
    end_to_end: Latency | None = None


@dataclass(slots=True)
class Run:
    """Carries out a plan; counts can be looked at meanwhile."""

    server: Server
    plan: Plan
    stop: Stop
    publishings: list[Publishing] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    phase: str = "connect"
    started: float = 0.0
    marker: int = field(default_factory=lambda: secrets.randbits(64))
    """What tells messages of this run from others."""

    async def figures(self) -> Figures:
        """Run it to its end."""
        works: dict[Kind, Callable[[list[str]], Coroutine[Any, Any, Figures]]] = {
            "publish": self._publish,
            "consume": self._consume,
            "both": self._both,
            "latency": self._both,
        }
        async with self._streams() as streams:
            return await works[self.plan.what](streams)

    @property
    def confirmed(self) -> int:
        """Messages so far."""
        return sum(each.publisher.confirmed_count for each in self.publishings)

    @property
    def consumed(self) -> int:
        """Messages so far."""
        return sum(each.messages for each in self.readings)

    async def _publish(self, streams: list[str]) -> Figures:
        async with self._publishers(streams, self.plan.publishers):
            figures = Figures(plan=self.plan)
            await self._load(figures, self.plan.seconds)
        return figures

    async def _consume(self, streams: list[str]) -> Figures:
        plan = self.plan
        if plan.stream is None:
            self.phase = "fill"
            async with self._publishers(streams, max(plan.streams, 1)):
                each = plan.fill_messages // plan.streams
                until = time.monotonic() + FILL_TIMEOUT_S
                await asyncio.gather(*(one.run(until, None, self.stop, each) for one in self.publishings))
            self.publishings = []
        figures = Figures(plan=plan)
        async with self._readers(streams):
            self._begin("consume")
            until = self.started + plan.seconds
            await asyncio.gather(*(each.read_again(until, self.stop) for each in self.readings))
            self._note_consumed(figures)
        return figures

    async def _both(self, streams: list[str]) -> Figures:
        plan = self.plan
        figures = Figures(plan=plan)
        async with self._readers(streams), self._publishers(streams, plan.publishers):
            for each in self.readings:
                await each.open(NEXT)
            await self._load(figures, plan.seconds)
            published = dict.fromkeys(streams, 0)
            for one in self.publishings:
                published[one.publisher.stream] += one.publisher.confirmed_count
            self.phase = "receive"
            waits = (each.until_own(published[each.stream], RECEIVE_TIMEOUT_S) for each in self.readings)
            await asyncio.gather(*waits)
            figures.missing = sum(published[each.stream] - each.own_messages for each in self.readings)
            self._note_consumed(figures)
        return figures

    async def _load(self, figures: Figures, seconds: float) -> None:
        plan = self.plan
        rate = None if plan.rate is None else plan.rate / len(self.publishings)
        self._begin("publish")
        until = self.started + seconds
        await asyncio.gather(*(each.run(until, rate, self.stop) for each in self.publishings))
        figures.publish_seconds = time.monotonic() - self.started
        figures.published = self.confirmed
        figures.publish_rate = self.confirmed / figures.publish_seconds
        figures.publish_mb_s = figures.publish_rate * plan.size_bytes / 1e6
        figures.confirm = _together([each.confirm_latency for each in self.publishings])

    def _note_consumed(self, figures: Figures) -> None:
        figures.consume_seconds = time.monotonic() - self.started
        figures.consumed = self.consumed
        figures.consume_rate = self.consumed / figures.consume_seconds
        figures.consume_mb_s = sum(each.byte_count for each in self.readings) / figures.consume_seconds / 1e6
        if self.plan.what in ("both", "latency"):
            figures.end_to_end = _together([each.latency for each in self.readings])

    def _begin(self, phase: str) -> None:
        self.phase, self.started = phase, time.monotonic()

    # Streams and connections

    @contextlib.asynccontextmanager
    async def _streams(self) -> AsyncIterator[list[str]]:
        """The stream that was named, or new ones, which are deleted at the end."""
        plan = self.plan
        if plan.stream is not None:
            async with await self._connect() as connection:
                if plan.what != "consume":
                    await connection.create_stream(plan.stream, exists_ok=True)
                elif not await connection.stream_exists(plan.stream):
                    raise Misused(
                        f"there is no stream {plan.stream!r} to read; leave out --stream to make one"
                    )
            yield [plan.stream]
            return
        run = secrets.token_hex(4)
        streams = [f"bench-{run}-{index}" for index in range(plan.streams)]
        async with await self._connect() as connection:
            try:
                for stream in streams:
                    await connection.create_stream(stream)
                yield streams
            finally:
                if not plan.keep and connection.error is None:
                    for stream in streams:
                        with contextlib.suppress(HeadwaterError):
                            await connection.delete_stream(stream)

    @contextlib.asynccontextmanager
    async def _publishers(self, streams: list[str], count: int) -> AsyncIterator[None]:
        plan = self.plan
        async with contextlib.AsyncExitStack() as stack:
            for index in range(count):
                connection = await stack.enter_async_context(await self._connect())
                publisher = await StreamPublisher.open(
                    connection,
                    streams[index % len(streams)],
                    name=f"bench-{index}" if plan.named else None,
                    unconfirmed_max=plan.window_messages,
                )
                publishing = Publishing(publisher, self.marker, plan.size_bytes, plan.batch_messages)
                if 0 < connection.frame_size_bytes_max < publishing.frame_bytes:
                    raise Misused(
                        f"a batch has {publishing.frame_bytes} bytes, a frame takes "
                        f"{connection.frame_size_bytes_max}; choose a smaller --batch or --size"
                    )
                self.publishings.append(publishing)
            yield

    @contextlib.asynccontextmanager
    async def _readers(self, streams: list[str]) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for index in range(self.plan.consumers):
                connection = await stack.enter_async_context(await self._connect())
                self.readings.append(Reading(connection, streams[index % len(streams)], self.marker))
            yield

    async def _connect(self) -> StreamConnection:
        return await self.server.connect("headwater bench")


def _together(histograms: list[Histogram]) -> Latency | None:
    total = Histogram()
    for each in histograms:
        total.add(each)
    return total.latency()

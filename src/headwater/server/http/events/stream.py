"""One reader of server-sent events: its connection, and all of them together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice

import msgspec
from aiohttp import HttpVersion11, web

from headwater.server.http.events.asked import Asked
from headwater.server.http.events.feed import Feed, Feeds, chunk
from headwater.server.http.listener import HttpProtocol

__all__ = ["EventStream", "EventStreams"]

RETRY_MS = 1000
STREAMS_PER_TURN = 128
HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # proxies hold back what comes in pieces
}
_HEARTBEAT = chunk(b": still here\n\n")


class EventStream:
    """An answer that goes on until one side ends it."""

    def __init__(self, request: web.Request, may_go_on: Callable[[], bool]) -> None:
        self.feed: Feed | None = None
        self.may_go_on = may_go_on
        self._request = request
        self._is_chunked = request.version >= HttpVersion11
        self._response = web.StreamResponse(headers=HEADERS)
        self._wants_room = asyncio.Event()
        self._reason: str | None = None
        self._is_lost = False
        self.sent_bytes = 0

    async def run(self, follow: Callable[[EventStream], None]) -> web.StreamResponse:
        """Send what the feed writes; gives the response at its end."""
        connection = self._request.protocol
        assert isinstance(connection, HttpProtocol), "all are ours"
        await self._response.prepare(self._request)
        await self._response.write(b"retry: %d\n\n" % RETRY_MS)
        connection.when_lost = self._lost
        try:
            follow(self)
            while await self._is_to_go_on():
                if self.feed is not None:
                    self.feed.release()
        except ConnectionError:
            self._is_lost = True
        finally:
            connection.when_lost = None
            if self.feed is not None:
                self.feed.leave(self)
                self.feed = None
        await self._finish()
        return self._response

    def write(self, block: bytes) -> bool:
        """Send a chunk; gives whether there is room for more."""
        transport = self._request.transport
        if transport is None or transport.is_closing():
            return True  # what is lost is about to leave
        if not self._is_chunked:
            block = block[block.index(b"\r\n") + 2 : -2]
        transport.write(block)
        self.sent_bytes += len(block)
        if self._is_full:
            self._wants_room.set()
            return False
        return True

    def beat(self) -> None:
        """Show that the connection is alive, unless it has enough to send."""
        if not self._is_full:
            self.write(_HEARTBEAT)

    def end(self, reason: str) -> None:
        """Nothing more comes."""
        self.feed = None
        self._reason = reason
        self._wants_room.set()

    @property
    def _is_full(self) -> bool:
        return self._request.protocol.writing_paused

    @property
    def _is_over(self) -> bool:
        return self._is_lost or self._reason is not None

    async def _is_to_go_on(self) -> bool:
        """Wait until the socket has room again after it had none; False at the end."""
        await self._wants_room.wait()
        self._wants_room.clear()
        if not self._is_over:
            await self._request.writer.drain()
        return not self._is_over

    async def _finish(self) -> None:
        if self._is_lost:
            return
        if self._is_full:
            # It would not read the end either, and nobody waits for it.
            if self._request.transport is not None:
                self._request.transport.abort()
            return
        said = msgspec.json.encode({"reason": self._reason})
        try:
            await self._response.write(b"event: end\ndata: " + said + b"\n\n")
            await self._response.write_eof()
        except ConnectionError:
            pass

    def _lost(self) -> None:
        self._is_lost = True
        self._wants_room.set()


class EventStreams:
    """All readers of server-sent events of a server."""

    def __init__(self, heartbeat_s: float) -> None:
        self.streams: dict[EventStream, None] = {}
        self.feeds = Feeds()
        self._heartbeat_s = heartbeat_s
        self._beating: asyncio.Task[None] | None = None

    async def serve(
        self, request: web.Request, asked: Asked, may_go_on: Callable[[], bool]
    ) -> web.StreamResponse:
        """Answer a request, until its end."""
        stream = EventStream(request, may_go_on)
        self.streams[stream] = None
        if self._beating is None:
            self._beating = asyncio.create_task(self._beat())
        try:
            return await stream.run(lambda reader: self.feeds.follow(asked, reader))
        finally:
            del self.streams[stream]

    async def end(self) -> None:
        """Tell all of them that the server stops, so that they connect again."""
        self.feeds.end("the server stops; connect again")
        if self._beating is not None:
            self._beating.cancel()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_s)
            streams = iter(list(self.streams))
            while some := list(islice(streams, STREAMS_PER_TURN)):
                for stream in some:
                    if stream.may_go_on():
                        stream.beat()
                    elif stream.feed is not None:
                        stream.feed.leave(stream)
                        stream.end("this user may no longer read the log")
                await asyncio.sleep(0)

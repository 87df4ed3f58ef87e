"""Server-sent events (HTML Living Standard, section 9.2): one feed serves all readers that stand at the same place.

Whoever begins has a feed of its own, which reads forward. At the end of the log it joins the shared one for the same
events, so that what comes is read, shown and framed once, however many there are. Who does not take what is written
leaves it, with a feed of its own again that waits until its socket has room: behind one reader there is never more than
what its socket was given.

    id: 0:17,1:4            the position behind the event
    data: {"specversion":"1.0", ...}
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from headwater.log.partition import Partition
from headwater.server.http.events.asked import Asked
from headwater.server.http.events.positions import PositionText
from headwater.server.http.events.reader import EventReader, ShownEvent

__all__ = ["Feed", "Feeds", "Member", "chunk"]

BLOCK_BYTES_MAX = 64 * 1024
BLOCK_EVENTS_MAX = 256
MEMBERS_PER_TURN = 128
"""Readers that are written to before other connections have their turn."""


class Member(Protocol):
    """One who reads."""

    feed: Feed | None
    """Where it is."""

    def write(self, block: bytes) -> bool:
        """Send a block, which is a chunk of HTTP; gives whether there is room for more."""
        ...

    def end(self, reason: str) -> None:
        """Nothing more comes."""
        ...


class Feeds:
    """All feeds of a server, and the shared ones by what they give."""

    def __init__(self) -> None:
        self._shared: dict[tuple[object, ...], Feed] = {}
        self._feeds: set[Feed] = set()
        self.has_ended = False

    def follow(self, asked: Asked, member: Member) -> None:
        """Give a reader what it asked for, from its start on."""
        self._feed_for(member, asked).wake()

    def shared(self, feed: Feed) -> Feed:
        """The shared feed for the same events, which is this one if there was none."""
        return self._shared.setdefault(feed.key, feed)

    def split(self, feed: Feed, member: Member) -> Feed:
        """Give a member a feed of its own, at the same place."""
        del feed.members[member]
        return self._feed_for(member, feed.asked_from_here())

    def forget(self, feed: Feed) -> None:
        """It is over."""
        self._feeds.discard(feed)
        if self._shared.get(feed.key) is feed:
            del self._shared[feed.key]

    def end(self, reason: str) -> None:
        """The server stops."""
        self.has_ended = True
        for feed in list(self._feeds):
            feed.end(reason)

    def _feed_for(self, member: Member, asked: Asked) -> Feed:
        feed = Feed(self, asked)
        self._feeds.add(feed)
        feed.add(member)
        return feed


class Feed:
    """Reads events and writes them to all of its members, which stand at the same place."""

    def __init__(self, feeds: Feeds, asked: Asked) -> None:
        self.members: dict[Member, None] = {}
        self.key = (
            asked.node.log,
            tuple(asked.numbers),
            asked.takes_all_partitions,
            *asked.filter_key,
        )
        self.is_held = False
        """Whether its one member has no room."""
        self._feeds = feeds
        self._asked = asked
        self._loop = asyncio.get_running_loop()
        self._reader = EventReader(asked, self.wake)
        self._text = PositionText(asked.ids)
        self._offsets = list(asked.offsets)
        """Behind the last event that was written."""
        self._is_woken = False
        self._is_closed = False
        self._writing: deque[Member] = deque()
        self._block = b""
        self._watch(lambda calls, call: calls.add(call))

    def add(self, member: Member) -> None:
        """A reader that stands here, too."""
        self.members[member] = None
        member.feed = self

    def wake(self) -> None:
        """There may be something to read."""
        if not (self._is_woken or self._is_closed):
            self._is_woken = True
            self._loop.call_soon(self._turn)

    def release(self) -> None:
        """Its member has room again."""
        self.is_held = False
        self.wake()

    def leave(self, member: Member) -> None:
        """A reader is gone."""
        self.members.pop(member, None)
        if not self.members:
            self._close()

    def end(self, reason: str) -> None:
        """Tell all members that nothing more comes."""
        members = list(self.members)
        self.members.clear()
        self._close()
        for member in members:
            member.end(reason)

    def asked_from_here(self) -> Asked:
        """The same from behind what was written."""
        return self._asked.continued(self._offsets)

    @property
    def position(self) -> list[int]:
        """Behind all that was read, what a filter has passed over included."""
        return self._reader.offsets

    def _turn(self) -> None:
        self._is_woken = False
        if self._is_closed or self.is_held:
            return
        if self._writing:
            self._write_some()
            return
        events = self._reader.read(BLOCK_EVENTS_MAX, BLOCK_BYTES_MAX)
        if events:
            self._block = self._framed(events)
            self._writing.extend(self.members)
            self._write_some()
        elif self._reader.may_have_more:
            self.wake()
        elif self._reader.has_ended:
            self.end("there is nothing more of what was asked for")
        elif not self._reader.is_waiting:
            self._share()

    def _write_some(self) -> None:
        """Write the block to some members, and come back for the others, or for the next block."""
        for _ in range(min(len(self._writing), MEMBERS_PER_TURN)):
            member = self._writing.popleft()
            if member in self.members and not member.write(self._block):
                self._hold(member)
        if not self._writing:
            self._block = b""
        self.wake()

    def _hold(self, member: Member) -> None:
        feed = self
        if len(self.members) > 1:
            feed = self._feeds.split(self, member)
        feed.is_held = True

    def _share(self) -> None:
        """At the end: go together with who stands here, too."""
        shared = self._feeds.shared(self)
        if shared is self:
            return
        if shared._writing or shared.position != self.position:
            # It has not read as far as this one, which goes on alone until the next event.
            shared.wake()
            return
        for member in self.members:
            shared.add(member)
        self.members.clear()
        self._close()

    def _framed(self, events: list[ShownEvent]) -> bytes:
        offsets, parts = self._offsets, []
        for event in events:
            offsets[event.number] = event.offset + 1
            json = event.json
            if b"\n" in json or b"\r" in json:
                json = b"\ndata: ".join(json.splitlines())
            parts.append(b"id: %b\ndata: %b\n\n" % (self._text.at(offsets).encode(), json))
        return chunk(b"".join(parts))

    def _deleted(self) -> None:
        self.end("the log was deleted")

    def _changed(self) -> None:
        self.end("the partitions of the log have changed; connect again to read all of them")

    def _watch(self, change: Callable[[set[Callable[[], None]], Callable[[], None]], None]) -> None:
        log = self._asked.node.log
        partitions: list[Partition] = self._asked.partitions
        for partition in partitions:
            change(partition.on_committed, self.wake)
            change(partition.on_deleted, self._deleted)
        change(log.on_deleted, self._deleted)
        if self._asked.takes_all_partitions:
            change(log.on_partitions_changed, self._changed)

    def _close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._watch(lambda calls, call: calls.discard(call))
        self._reader.close()
        self._feeds.forget(self)


def chunk(data: bytes) -> bytes:
    """RFC 9112, section 7.1: bytes as one chunk of a body."""
    return b"%x\r\n%b\r\n" % (len(data), data)

"""The newest chunks of all partitions, in memory for consumers at the ends of their logs; bounded as a whole."""

from __future__ import annotations

import sys
from collections import deque

import msgspec

__all__ = ["TAIL_CHUNK_BYTES", "TailChunk", "Tails"]

TAIL_CHUNK_BYTES = 600
"""What a chunk costs beside its buffer: objects, numbers, its places in two queues. Many a chunk is smaller."""


class TailChunk(msgspec.Struct, frozen=True, gc=False):
    """A user chunk in memory."""

    first_offset: int
    records: int
    deliver_bytes: int
    """Header and data: what consumers get."""
    whole: memoryview
    """Header, data and trailer."""

    @property
    def held_bytes(self) -> int:
        """What it takes in memory."""
        return sys.getsizeof(self.whole.obj) + TAIL_CHUNK_BYTES


class Tails:
    """Bounds what all tails hold: the oldest chunk goes first, whosever it is."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._chunks: deque[tuple[deque[TailChunk], int]] = deque()
        """The tail that each chunk is in, and what it takes, oldest first."""
        self.bytes_held = 0

    def keep(self, tail: deque[TailChunk], chunk: TailChunk) -> None:
        """Put a chunk behind the others of its tail."""
        size = chunk.held_bytes
        tail.append(chunk)
        self._chunks.append((tail, size))
        self.bytes_held += size
        while self.bytes_held > self._bytes_max:
            oldest, size = self._chunks.popleft()
            self.bytes_held -= size
            if oldest:
                oldest.popleft()

    def drop(self, tail: deque[TailChunk]) -> None:
        """Let all chunks of a tail go."""
        tail.clear()
        self.bytes_held -= sum(size for owner, size in self._chunks if owner is tail)
        self._chunks = deque(item for item in self._chunks if item[0] is not tail)

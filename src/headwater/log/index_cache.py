"""Whole indexes in memory, for look-ups; the longest unused are dropped when the bound is reached."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from headwater.log.index import INDEX_ENTRY_BYTES, IndexEntry
from headwater.log.segment import Segment

__all__ = ["IndexCache"]


class IndexCache:
    """Loads the index of a segment on its first use."""

    def __init__(self, bytes_max: int, load: Callable[[Segment], bytes]) -> None:
        self._bytes_max = bytes_max
        self._load = load
        self._held: OrderedDict[Path, Segment] = OrderedDict()
        self.bytes_held = 0
        """Bytes of all indexes that are loaded now."""

    def entries(self, segment: Segment) -> bytearray:
        """All entries of a segment's index."""
        if (cached := segment.index.cached) is not None:
            self._held.move_to_end(segment.path)
            return cached
        loaded = bytearray(self._load(segment))
        loaded += segment.index.pending
        segment.index.cached = loaded
        self._held[segment.path] = segment
        self.bytes_held += len(loaded)
        self._shrink()
        return loaded

    def append(self, segment: Segment, entry: IndexEntry) -> None:
        """Add the entry of a chunk that was committed; a loaded index grows by it."""
        segment.index.append(entry)
        if segment.index.cached is not None:
            self.bytes_held += INDEX_ENTRY_BYTES
            self._shrink()

    def drop(self, segment: Segment) -> None:
        """Forget the index of a segment that goes away."""
        if self._held.pop(segment.path, None) is not None:
            self._unload(segment)

    def _shrink(self) -> None:
        while self.bytes_held > self._bytes_max and len(self._held) > 1:
            _, oldest = self._held.popitem(last=False)
            self._unload(oldest)

    def _unload(self, segment: Segment) -> None:
        self.bytes_held -= len(segment.index.cached or b"")
        segment.index.cached = None

"""Whole indexes in memory, for look-ups; the longest unused are dropped when the bound is reached."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from headwater.log.segment import Segment

__all__ = ["IndexCache"]


class IndexCache:
    """Loads the index of a segment on its first use."""

    def __init__(self, bytes_max: int, load: Callable[[Segment], bytes]) -> None:
        self._bytes_max = bytes_max
        self._load = load
        self._held: OrderedDict[Path, Segment] = OrderedDict()

    @property
    def bytes_held(self) -> int:
        """Bytes of all indexes that are loaded now."""
        return sum(len(segment.index.cached or b"") for segment in self._held.values())

    def entries(self, segment: Segment) -> bytearray:
        """All entries of a segment's index."""
        if (cached := segment.index.cached) is not None:
            self._held.move_to_end(segment.path)
            return cached
        loaded = bytearray(self._load(segment))
        loaded += segment.index.pending
        segment.index.cached = loaded
        self._held[segment.path] = segment
        self._shrink()
        return loaded

    def drop(self, segment: Segment) -> None:
        """Forget the index of a segment that goes away."""
        if self._held.pop(segment.path, None) is not None:
            segment.index.cached = None

    def _shrink(self) -> None:
        excess = self.bytes_held - self._bytes_max
        while excess > 0 and len(self._held) > 1:
            _, oldest = self._held.popitem(last=False)
            excess -= len(oldest.index.cached or b"")
            oldest.index.cached = None

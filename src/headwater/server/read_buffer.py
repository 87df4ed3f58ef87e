"""What a connection reads into: one buffer that all share, and one of its own for as long as a frame is cut."""

from __future__ import annotations

__all__ = ["ReadBuffer"]

ROOM_BYTES_MIN = 4096
ROOM_BYTES = 64 * 1024


class ReadBuffer:
    """Hands out room to read into, and keeps the beginning of a frame until the rest of it comes."""

    __slots__ = ("_kept", "_kept_bytes", "_shared", "_shared_view")

    def __init__(self, shared: bytearray, shared_view: memoryview) -> None:
        self._shared = shared
        self._shared_view = shared_view
        self._kept: bytearray | None = None
        self._kept_bytes = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing is kept."""
        return self._kept is None

    def room(self, bytes_max: int | None = None) -> memoryview:
        """Where the next bytes go."""
        if self._kept is not None:
            return memoryview(self._kept)[self._kept_bytes :]
        return self._shared_view[:bytes_max]

    def filled(self, byte_count: int) -> tuple[bytearray, int]:
        """So many bytes came: the buffer that holds all of a beginning now, and where they end."""
        if self._kept is None:
            return self._shared, byte_count
        kept, self._kept = self._kept, None
        return kept, self._kept_bytes + byte_count

    def taken(self) -> tuple[bytearray, int]:
        """What is kept, to be looked at again without more bytes."""
        return self.filled(0)

    def keep(self, buffer: bytearray, start: int, end: int, bytes_missing: int) -> None:
        """Hold what is left of a buffer until more of its frame comes."""
        rest = end - start
        if not rest:
            return
        if start or end == len(buffer) or buffer is self._shared:
            # In steps: a size alone makes nobody a present of that much memory.
            room = max(min(bytes_missing, max(rest, ROOM_BYTES)), ROOM_BYTES_MIN)
            kept = bytearray(rest + room)
            kept[:rest] = memoryview(buffer)[start:end]
            buffer = kept
        self._kept, self._kept_bytes = buffer, rest

    def own(self, buffer: bytearray, end: int) -> bytearray:
        """The same bytes in a buffer that no other connection reads into."""
        return bytearray(memoryview(buffer)[:end]) if buffer is self._shared else buffer

    def drop(self) -> None:
        """Let go of what is kept."""
        self._kept = None

"""Which cursors changed, what of them is on its way to `$state`, and what waits for it.

Every `cursor_flush_ms` the shell puts the value of each `begin`, and tells `done` or `failed`:

    settle ──> the cursor is in `changed` ── begin ──> put into $state ──┬─> done: what waited may go out
                          ^                                              │
                          └────────────────── failed ────────────────────┘
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

import msgspec

from headwater.engine.cursor import Cursor, Flush

__all__ = ["CursorFlush", "CursorFlushes", "WaitOver"]

C = TypeVar("C", bound=Hashable)
W = TypeVar("W")


class CursorFlush(msgspec.Struct, Generic[C], frozen=True):
    """A record to put, and which cursor it is of."""

    key: bytes
    value: bytes
    cursor: Cursor[C]
    flush: Flush


class WaitOver(msgspec.Struct, frozen=True):
    """What waited for settlements of cursors that are no more: it may go out when the deletes before are durable."""

    waited: tuple[Any, ...]


class CursorFlushes(Generic[C, W]):
    """All durable cursors of a server; `W` is whatever the shell sends when a settlement is on disk."""

    def __init__(self) -> None:
        self.changed: set[Cursor[C]] = set()
        """Handed to every durable cursor, which puts itself in."""
        self._waiting: dict[Cursor[C], deque[tuple[int, W]]] = {}

    def wait(self, cursor: Cursor[C], sequence: int, what: W) -> list[W]:
        """Give this back when the settlement of that sequence is durable: now, or with `done`.

        Of a cursor that is not durable nothing outlives the server: there is nothing to wait for.
        """
        if sequence <= cursor.durable_sequence or not cursor.is_durable:
            return [what]
        self._waiting.setdefault(cursor, deque()).append((sequence, what))
        return []

    def begin(self, count_max: int) -> list[CursorFlush[C]]:
        """What is to be written now, of so many cursors at most."""
        flushes: list[CursorFlush[C]] = []
        while self.changed and len(flushes) < count_max:
            cursor = self.changed.pop()
            flush = cursor.begin_flush()
            if flush is not None:
                flushes.append(CursorFlush(cursor.key, flush.value, cursor, flush))
        return flushes

    def done(self, flush: CursorFlush[C]) -> list[W]:
        """A record is on disk; gives what waited for it."""
        cursor = flush.cursor
        cursor.flushed(flush.flush)
        waiting = self._waiting.get(cursor)
        found = []
        while waiting and waiting[0][0] <= cursor.durable_sequence:
            found.append(waiting.popleft()[1])
        if not waiting:
            self._waiting.pop(cursor, None)
        return found

    def failed(self, flush: CursorFlush[C]) -> None:
        """A record could not be written; it comes with a later `begin`."""
        flush.cursor.flush_failed()

    def forget(self, cursor: Cursor[C]) -> list[W]:
        """The cursor is deleted: nothing of it comes again, so what waited may go out."""
        cursor.let_go()
        return [what for _, what in self._waiting.pop(cursor, ())]

"""The engine's effects, carried out in their order: what comes behind a put waits until that is on disk.

That holds between calls, too: what one link is told rests on what others were told before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from headwater.engine.cursor_flushes import WaitOver
from headwater.engine.state_record import Delete, Put
from headwater.errors import StorageError
from headwater.server.consumers.state_writer import StateWriter, Write

__all__ = ["Effects"]


class Effects:
    """What is still to be done, and what it waits for."""

    def __init__(self, writer: StateWriter) -> None:
        self._writer = writer
        self._waiting: deque[tuple[Callable[[StorageError | None], None], Write | None]] = deque()
        self._is_acting = False

    def carry_out(
        self, effects: Iterable[Any], act: Callable[[Any, StorageError | None], None]
    ) -> Write | None:
        """Write records at once, and do the rest in its turn, told why a put before it failed; gives the last write."""
        put: Write | None = None
        last: Write | None = None
        for effect in effects:
            match effect:
                case Put():
                    put = last = self._writer.put(effect)
                    put.then(self._go_on)
                case Delete():
                    last = self._writer.delete(effect)
                case WaitOver(waited=waited):
                    for call in waited:
                        if not self._writer.when_written(call):
                            call()
                case _:
                    self._waiting.append((partial(act, effect), put))
        self._go_on()
        return last

    def _go_on(self, _: StorageError | None = None) -> None:
        if self._is_acting:
            return  # what an effect brought about comes behind what is there
        self._is_acting = True
        try:
            while self._waiting:
                act, put = self._waiting[0]
                if put is not None and not put.is_done:
                    return
                self._waiting.popleft()
                act(None if put is None else put.error)
        finally:
            self._is_acting = False

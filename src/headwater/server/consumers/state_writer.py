"""Changes of `$state`, in the order in which they are asked for, and what waits for them to be on disk."""

from __future__ import annotations

import logging
from collections.abc import Callable

from headwater.engine.state_record import Delete, Put
from headwater.errors import StorageError
from headwater.log.state import StateStore

__all__ = ["StateWriter", "Write"]

logger = logging.getLogger("headwater.consumers")


class Write:
    """One change on its way to the disk."""

    __slots__ = ("_calls", "_error", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self._error: StorageError | None = None
        self._calls: list[Callable[[StorageError | None], None]] = []

    def then(self, call: Callable[[StorageError | None], None]) -> None:
        """Call when it is on disk, or with why it is not."""
        if self.is_done:
            call(self._error)
        else:
            self._calls.append(call)

    def finish(self, error: StorageError | None) -> None:
        """It is on disk, or cannot be."""
        self.is_done, self._error = True, error
        calls, self._calls = self._calls, []
        for call in calls:
            call(error)


class StateWriter:
    """The records of consumers in `$state`."""

    def __init__(self, state: StateStore) -> None:
        self._state = state
        self._last: Write | None = None
        self._to_delete: set[bytes] = set()
        """Records whose removal failed: it is tried again, for they would come back with a restart."""

    def put(self, put: Put) -> Write:
        """Set a key."""
        self._to_delete.discard(put.key)
        write = self._last = Write()
        try:
            self._state.put(put.key, put.value, write.finish)
        except StorageError as error:
            write.finish(error)
        return write

    def delete(self, delete: Delete) -> Write:
        """Remove a key, now or when there is room for it."""
        write = self._last = Write()
        self._to_delete.discard(delete.key)

        def done(error: StorageError | None) -> None:
            if error is not None:
                logger.error("a record of a consumer cannot be removed yet: %s", error)
                self._to_delete.add(delete.key)
            write.finish(error)

        try:
            self._state.delete(delete.key, done)
        except StorageError as error:
            done(error)
        return write

    @property
    def has_failed_deletes(self) -> bool:
        """Whether `delete_again` has something to do."""
        return bool(self._to_delete)

    def delete_again(self) -> None:
        """Try again what could not be removed."""
        for key in list(self._to_delete):
            self.delete(Delete(key))

    def when_written(self, call: Callable[[], None]) -> bool:
        """Call when all that was asked for so far is on disk, or failed; False if it is already."""
        if self._last is None or self._last.is_done:
            return False
        self._last.then(lambda _: call())
        return True

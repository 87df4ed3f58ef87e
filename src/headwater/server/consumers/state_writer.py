"""Changes of `$state`, in the order in which they are asked for, and what waits for them to be on disk."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from headwater.engine.state_record import Delete, Put
from headwater.errors import StorageError
from headwater.log.intake import OnDone
from headwater.log.state import StateStore

__all__ = ["StateWriter", "Write"]

logger = logging.getLogger("headwater.consumers")


class Write:
    """One change on its way to the disk."""

    __slots__ = ("_calls", "error", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self.error: StorageError | None = None
        self._calls: list[Callable[[StorageError | None], None]] = []

    def then(self, call: Callable[[StorageError | None], None]) -> None:
        """Call when it is on disk, or with why it is not."""
        if self.is_done:
            call(self.error)
        else:
            self._calls.append(call)

    async def wait(self) -> None:
        """Return when it is on disk; raises why it is not."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def settle(error: StorageError | None) -> None:
            if done.done():
                return  # nobody waits any more
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        self.then(settle)
        await done

    def finish(self, error: StorageError | None) -> None:
        """It is on disk, or cannot be."""
        self.is_done, self.error = True, error
        calls, self._calls = self._calls, []
        for call in calls:
            call(error)


class StateWriter:
    """The records of consumers in `$state`."""

    def __init__(self, state: StateStore, when_failed: Callable[[], None]) -> None:
        """`when_failed` is told that there is something to try again."""
        self._state = state
        self._when_failed = when_failed
        self._last: Write | None = None
        self._failed: dict[bytes, bytes | None] = {}
        """Records that are not on disk as they should be, None for those that should not be there.

        They are tried again: a restart would not find what holds now, or find what does not.
        """

    def put(self, put: Put) -> Write:
        """Set a key."""
        return self._change(put.key, put.value, lambda done: self._state.put(put.key, put.value, done))

    def delete(self, delete: Delete) -> Write:
        """Remove a key."""
        return self._change(delete.key, None, lambda done: self._state.delete(delete.key, done))

    def _change(self, key: bytes, value: bytes | None, ask: Callable[[OnDone], None]) -> Write:
        write = self._last = Write()
        self._failed.pop(key, None)

        def done(error: StorageError | None) -> None:
            if error is not None:
                logger.error("a record of a consumer cannot be written, and is tried again: %s", error)
                self._failed[key] = value
                self._when_failed()
            write.finish(error)

        try:
            ask(done)
        except StorageError as error:
            done(error)
        return write

    def has_failed(self, key: bytes) -> bool:
        """Whether the record of a key is not on disk as it should be."""
        return key in self._failed

    def try_again(self) -> None:
        """Write what could not be written."""
        for key, value in list(self._failed.items()):
            if value is None:
                self.delete(Delete(key))
            else:
                self.put(Put(key, value))

    def when_written(self, call: Callable[[], None]) -> bool:
        """Call when all that was asked for so far is on disk, or failed; False if it is already."""
        if self._last is None or self._last.is_done:
            return False
        self._last.then(lambda _: call())
        return True

"""The stream door on a thread of its own: a real listener and store, every limit and seam of which a test may set."""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

import uvloop

from headwater.encoding.scram import ITERATIONS_MIN
from headwater.log.clock import wall_clock_ms
from headwater.log.files import Files
from headwater.log.partition import Partition
from headwater.log.settings import StoreSettings
from headwater.log.store import Store
from headwater.server.catalogue import Catalogue
from headwater.server.security.access import Access
from headwater.server.security.authenticator import Authenticator
from headwater.server.security.passwords import PasswordChecker
from headwater.server.security.permissions import Permission
from headwater.server.security.sasl import Sasl
from headwater.server.security.users import first_user
from headwater.server.streams.door import Door, Endpoint
from headwater.server.streams.limits import Limits
from headwater.server.streams.listener import StreamListener, close_connections

__all__ = ["ANNOUNCED_VERSION", "HOST", "PASSWORD", "ListeningDoor"]

HOST = "127.0.0.1"
ANNOUNCED_VERSION = "4.0.5"
PASSWORD = "pencil"
STEP_TIMEOUT_S = 20.0

ResultT = TypeVar("ResultT")


THREAD = "door"


class _Faults(logging.Handler):
    """Every traceback of ours, and every line of the door's loop: what no peer may bring about."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        # On the main thread are other tests of this worker, which may make servers fail on purpose.
        is_elsewhere = record.thread == threading.main_thread().ident
        is_ours = record.exc_info and record.name.startswith("headwater") and not is_elsewhere
        is_of_loop = record.name.startswith("asyncio") and record.threadName == THREAD
        if is_ours or is_of_loop:
            self.lines.append(self.format(record))


class ListeningDoor:
    """Listens while it is used as a context manager, after which nothing may have gone wrong in its loop.

    `guest` may do everything; `add_user` makes others.
    """

    def __init__(
        self,
        data: Path,
        limits: Limits | None = None,
        advertised: Endpoint | None = None,
        *,
        settings: StoreSettings | None = None,
        files: Files | None = None,
        tls: ssl.SSLContext | None = None,
        clock: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self._data = data
        self._clock = clock
        self._limits = limits or Limits(failure_delay_s=0.05)
        self._advertised = advertised or Endpoint()
        self._settings = settings
        self._files = files
        self._tls = tls
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=THREAD, daemon=True)
        self._log = _Faults()
        self._faults: list[str] = []
        """What the loop's exception handler was told."""
        self.store: Store
        self.catalogue: Catalogue
        self.door: Door
        self.port = 0

    def __enter__(self) -> Self:
        logging.getLogger().addHandler(self._log)
        self._thread.start()
        try:
            self.run(self._open())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.run(self._close())
        finally:
            self._end()
        if kind is None:
            told = self._faults + self._log.lines
            assert not told, told

    def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Do something on the thread of the door."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(STEP_TIMEOUT_S)

    def call(self, function: Callable[[], ResultT]) -> ResultT:
        """Call something on the thread of the door."""

        async def calling() -> ResultT:
            return function()

        return self.run(calling())

    def partition(self, stream: str) -> Partition:
        """The partition of a stream."""
        found = self.store.stream(stream)
        assert found is not None
        return found

    def unread_bytes_max(self) -> int:
        """The most that waits in the door for one socket."""

        def look() -> int:
            return max(each._transport.get_write_buffer_size() for each in self.door.connections)

        return self.call(look)

    def add_user(self, name: str, permissions: Mapping[str, Permission] | None = None) -> None:
        """Make a user with `PASSWORD`."""
        self.run(self.catalogue.add_user(name, PASSWORD, permissions=permissions))

    def permit(self, name: str, configure: str = "", write: str = "", read: str = "") -> None:
        """Give a user these permissions on `/` in place of others."""
        self.run(self.catalogue.set_permission(name, "/", Permission(configure, write, read)))

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.set_exception_handler(lambda _, context: self._faults.append(repr(context)))
        self._loop.run_forever()

    async def _open(self) -> None:
        self.store = Store.open(
            self._data, self._settings, files=self._files, clock=self._clock, loop=self._loop
        )
        self.catalogue = Catalogue.open(
            self._data, iterations=ITERATIONS_MIN, first_user=lambda: first_user(None, None)
        )
        self._passwords = PasswordChecker(remembered_max=10, remembered_s=60.0)
        self._sasl = Sasl(
            Authenticator(self.catalogue, self._passwords),
            allows_anonymous=True,
            allows_plain_without_tls=True,
        )
        self._access = Access(self.catalogue)
        self.door = Door(self.store, self._access, self._sasl, self._loop, self._limits, ANNOUNCED_VERSION)
        self._listener = StreamListener(self.door, self._advertised, self._tls)
        (address,) = await self._listener.open(HOST, 0)
        self.port = int(address.rpartition(":")[2])

    async def _close(self) -> None:
        self._listener.close()
        await close_connections(self.door)
        self._passwords.close()
        self.catalogue.close()
        self.store.close()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STEP_TIMEOUT_S)
        self._loop.close()
        logging.getLogger().removeHandler(self._log)

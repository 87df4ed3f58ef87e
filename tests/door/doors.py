"""A stream door inside the test's process, on a loop of its own thread, whose every limit and seam a test may set."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import ssl
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from headwater.encoding.scram import ITERATIONS_MIN
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
from headwater.server.streams.door import Door, Endpoint
from headwater.server.streams.limits import Limits
from headwater.server.streams.listener import StreamListener, close_connections
from tests.door.peer import Peer
from tests.security_material import guest

__all__ = ["RunningDoor"]

STEP_TIMEOUT_S = 20.0
T = TypeVar("T")


class _Faults(logging.Handler):
    """Every line of the loop, and of ours from errors on: what no peer may bring about."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.name.startswith("asyncio"):
            self.lines.append(self.format(record))


class RunningDoor:
    """As a context manager: open inside, and stopped behind, when nothing may have gone wrong in its loop."""

    def __init__(
        self,
        folder: Path,
        *,
        limits: Limits | None = None,
        settings: StoreSettings | None = None,
        files: Files | None = None,
        tls: ssl.SSLContext | None = None,
        advertised: Endpoint | None = None,
        **sasl: bool,
    ) -> None:
        self.limits = limits or Limits(failure_delay_s=0.01)
        self.faults: list[str] = []
        """What the loop's exception handler was told, and tracebacks in the log."""
        self.store: Store
        self.door: Door
        self.catalogue: Catalogue
        self.address = self.tls_address = ("", 0)
        self._folder = folder
        self._settings = settings
        self._files = files
        self._tls = tls
        self._advertised = advertised or Endpoint()
        self._sasl = sasl
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="door", daemon=True)
        self._log = _Faults()
        self._listeners: list[StreamListener] = []

    def __enter__(self) -> RunningDoor:
        logging.getLogger().addHandler(self._log)
        self._thread.start()
        try:
            self.call(self._open())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.call(self._close())
        finally:
            self._end()
        if kind is None:
            assert self.faults + self._log.lines == []

    def connect(self, **options: Any) -> Peer:
        """A connection that has said nothing yet."""
        return Peer(self.address, **options)

    def peer(self, user: str = "guest", password: str | None = None, **options: Any) -> Peer:
        """An opened connection."""
        return Peer(self.address, **options).open(user, password)

    def call(self, wanted: Callable[[], T] | Any) -> Any:
        """Run a function, or a coroutine, in the loop of the door."""

        async def calling() -> object:
            return wanted()

        task = wanted if asyncio.iscoroutine(wanted) else calling()
        future: concurrent.futures.Future[Any] = asyncio.run_coroutine_threadsafe(task, self._loop)
        return future.result(STEP_TIMEOUT_S)

    def partition(self, stream: str) -> Partition:
        """The partition of a stream."""
        found = self.store.stream(stream)
        assert found is not None
        return found

    def add_user(
        self, name: str, password: str = "pencil", permissions: Mapping[str, Permission] | None = None
    ) -> None:
        """Make a user."""
        self.call(self.catalogue.add_user(name, password, permissions=permissions))

    def permit(self, name: str, configure: str = "", write: str = "", read: str = "") -> None:
        """Give a user these permissions on `/` in place of others."""
        self.call(self.catalogue.set_permission(name, "/", Permission(configure, write, read)))

    def stop(self) -> None:
        """Stop as the server does, and give the folder back."""
        self.call(self._close())

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.set_exception_handler(lambda _, context: self.faults.append(repr(context)))
        self._loop.run_forever()

    async def _open(self) -> None:
        self.store = Store.open(self._folder, self._settings, files=self._files, loop=self._loop)
        self.catalogue = Catalogue.open(self._folder, iterations=ITERATIONS_MIN, first_user=guest)
        self._passwords = PasswordChecker()
        sasl = Sasl(Authenticator(self.catalogue, self._passwords), **self._sasl)
        self.door = Door(self.store, Access(self.catalogue), sasl, self._loop, self.limits, "4.0.5")
        self.address = await self._listen(None)
        if self._tls is not None:
            self.tls_address = await self._listen(self._tls)

    async def _listen(self, tls: ssl.SSLContext | None) -> tuple[str, int]:
        listener = StreamListener(self.door, self._advertised, tls)
        self._listeners.append(listener)
        (address,) = await listener.open("127.0.0.1", 0)
        host, _, port = address.rpartition(":")
        return host, int(port)

    async def _close(self) -> None:
        listeners, self._listeners = self._listeners, []
        if not listeners:
            return
        for listener in listeners:
            listener.close()
        await close_connections(self.door)
        self._passwords.close()
        self.catalogue.close()
        self.store.close()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STEP_TIMEOUT_S)
        self._loop.close()
        logging.getLogger().removeHandler(self._log)

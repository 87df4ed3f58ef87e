"""The stream door on a thread of its own: a real listener and store, with whatever limits a test wants to reach."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import uvloop

from headwater.log.store import Store
from headwater.server.catalogue import Catalogue
from headwater.server.security.access import Access
from headwater.server.security.authenticator import Authenticator
from headwater.server.security.passwords import PasswordChecker
from headwater.server.security.sasl import Sasl
from headwater.server.security.users import first_user
from headwater.server.streams.door import Door, Endpoint
from headwater.server.streams.limits import Limits
from headwater.server.streams.listener import StreamListener, close_connections

__all__ = ["ANNOUNCED_VERSION", "HOST", "ListeningDoor"]

HOST = "127.0.0.1"
ANNOUNCED_VERSION = "4.0.5"
SCRAM_ITERATIONS = 4096
STOP_TIMEOUT_S = 20.0

ResultT = TypeVar("ResultT")


class ListeningDoor:
    """Listens while it is used as a context manager; `guest` may do everything."""

    def __init__(self, data: Path, limits: Limits | None = None, advertised: Endpoint | None = None) -> None:
        self._data = data
        self._limits = limits or Limits(failure_delay_s=0.05)
        self._advertised = advertised or Endpoint()
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self.door: Door
        self.port = 0

    def __enter__(self) -> ListeningDoor:
        self._thread.start()
        self.run(self._open())
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_TIMEOUT_S)
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Do something on the thread of the door."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(STOP_TIMEOUT_S)

    async def _open(self) -> None:
        self._store = Store.open(self._data, loop=self._loop)
        self._catalogue = Catalogue.open(
            self._data, iterations=SCRAM_ITERATIONS, first_user=lambda: first_user(None, None)
        )
        self._passwords = PasswordChecker(remembered_max=10, remembered_s=60.0)
        sasl = Sasl(
            Authenticator(self._catalogue, self._passwords),
            allows_anonymous=True,
            allows_plain_without_tls=True,
        )
        access = Access(self._catalogue)
        self.door = Door(self._store, access, sasl, self._loop, self._limits, ANNOUNCED_VERSION)
        self._listener = StreamListener(self.door, self._advertised)
        (address,) = await self._listener.open(HOST, 0)
        self.port = int(address.rpartition(":")[2])

    async def _close(self) -> None:
        self._listener.close()
        await close_connections(self.door)
        self._passwords.close()
        self._catalogue.close()
        self._store.close()

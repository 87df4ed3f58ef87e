"""AMQP 1.0 part 2, section 2.4.5: idle time-outs: a frame in time for the peer, and an eye on when it sent its last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["IdleTimer"]

CHECKS_SILENT_MAX = 4


class IdleTimer:
    """The timers of one connection: when to send, and when to give up; 0 seconds is never."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        peer_timeout_s: float,
        own_timeout_s: float,
        send: Callable[[], None],
        give_up: Callable[[], None],
    ) -> None:
        self.heard = True
        """Set whenever bytes come."""
        self._loop = loop
        self._send = send
        self._give_up = give_up
        self._silent = 0
        self._beat_s = peer_timeout_s / 2
        self._check_s = own_timeout_s / CHECKS_SILENT_MAX
        self._beat_handle = loop.call_later(self._beat_s, self._beat) if peer_timeout_s else None
        self._check_handle = loop.call_later(self._check_s, self._check) if own_timeout_s else None

    def cancel(self) -> None:
        """Neither send nor give up from now on."""
        for handle in (self._beat_handle, self._check_handle):
            if handle is not None:
                handle.cancel()

    def _beat(self) -> None:
        self._beat_handle = self._loop.call_later(self._beat_s, self._beat)
        self._send()

    def _check(self) -> None:
        self._silent = 0 if self.heard else self._silent + 1
        self.heard = False
        self._check_handle = self._loop.call_later(self._check_s, self._check)
        if self._silent >= CHECKS_SILENT_MAX:
            self._give_up()

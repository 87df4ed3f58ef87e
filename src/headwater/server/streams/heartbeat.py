"""RabbitMQ Streams protocol, Heartbeat: one goes out every half interval, and a peer silent for two is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["HeartbeatTimer"]

HALF_INTERVALS_SILENT_MAX = 4


class HeartbeatTimer:
    """The timer of one connection, which says when to send, and when to give up."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        interval_s: float,
        send: Callable[[], None],
        give_up: Callable[[], None],
    ) -> None:
        self.heard = True
        """Set whenever bytes come, and while none are read because we are busy."""
        self._loop = loop
        self._half_interval_s = interval_s / 2
        self._send = send
        self._give_up = give_up
        self._silent = 0
        self._handle = loop.call_later(self._half_interval_s, self._beat)

    def cancel(self) -> None:
        """Neither send nor give up from now on."""
        self._handle.cancel()

    def _beat(self) -> None:
        self._silent = 0 if self.heard else self._silent + 1
        self.heard = False
        if self._silent >= HALF_INTERVALS_SILENT_MAX:
            self._give_up()
            return
        self._handle = self._loop.call_later(self._half_interval_s, self._beat)
        self._send()

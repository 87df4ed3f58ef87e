"""A server that is killed now and then, and which life it is in."""

from __future__ import annotations

from tests.peers.servers import Server

__all__ = ["Lives"]


class Lives:
    """A connection whose life is the same before and after it was opened is to that life."""

    def __init__(self, server: Server) -> None:
        self.number = 1
        self._server = server

    @property
    def port(self) -> int:
        """It stays the same."""
        return self._server.amqp_port

    def kill(self) -> None:
        """End it without a warning, and begin the next life."""
        self._server.kill()
        self.number += 1
        self._server.start()

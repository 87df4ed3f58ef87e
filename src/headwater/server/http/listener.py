"""The HTTP door's socket: it binds, says where, and lets requests under way end when it closes."""

from __future__ import annotations

import errno
import os
import socket

from aiohttp import web

from headwater.errors import CallerError

__all__ = ["HttpListener", "ListenFailed"]


class ListenFailed(CallerError):
    """A door could not be opened on the address asked for."""

    def __init__(self, door: str, host: str, port: int, reason: str) -> None:
        self.door, self.host, self.port, self.reason = door, host, port, reason
        super().__init__(f"cannot listen for {door} on {_address(host, port)}: {reason}")


class HttpListener:
    """Serves one aiohttp application on one host and port."""

    def __init__(self, application: web.Application, stop_timeout_s: float) -> None:
        self._runner = web.AppRunner(
            application, access_log=None, handle_signals=False, shutdown_timeout=stop_timeout_s
        )

    async def open(self, host: str, port: int) -> list[str]:
        """Bind and serve; gives the addresses as `host:port`, of which there are several when a name has several."""
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port).start()
        except (OSError, UnicodeError) as error:
            await self._runner.cleanup()
            raise ListenFailed("http", host, port, _reason(error, host)) from error
        return [_address(address[0], address[1]) for address in self._runner.addresses]

    async def close(self) -> None:
        """Take no more connections, wait for requests under way, and close."""
        await self._runner.cleanup()


def _reason(error: OSError | UnicodeError, host: str) -> str:
    if isinstance(error, socket.gaierror | UnicodeError):
        return f"the name {host!r} has no address; check --host"
    match error.errno:
        case errno.EADDRINUSE:
            return "the port is in use; stop what uses it, or choose another with --http-port"
        case errno.EACCES | errno.EPERM:
            return "no permission for this port; choose one above 1023 with --http-port"
        case errno.EADDRNOTAVAIL:
            return "this machine has no such address; check --host"
    return os.strerror(error.errno or 0)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

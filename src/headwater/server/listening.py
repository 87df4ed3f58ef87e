"""Opening a door: one clear line when its address cannot be had."""

from __future__ import annotations

import errno
import os
import socket

from headwater.errors import CallerError

__all__ = ["ListenFailed", "address_of"]


class ListenFailed(CallerError):
    """A door could not be opened on the address asked for."""

    def __init__(self, door: str, host: str, port: int, error: OSError | UnicodeError) -> None:
        self.door, self.host, self.port = door, host, port
        self.reason = _reason(error, host, f"--{door}-port")
        super().__init__(f"cannot listen for {door} on {address_of(host, port)}: {self.reason}")


def _reason(error: OSError | UnicodeError, host: str, flag: str) -> str:
    if isinstance(error, socket.gaierror | UnicodeError):
        return f"the name {host!r} has no address; check --host"
    match error.errno:
        case errno.EADDRINUSE:
            return f"the port is in use; stop what uses it, or choose another with {flag}"
        case errno.EACCES | errno.EPERM:
            return f"no permission for this port; choose one above 1023 with {flag}"
        case errno.EADDRNOTAVAIL:
            return "this machine has no such address; check --host"
    return os.strerror(error.errno or 0)


def address_of(host: str, port: int) -> str:
    """Host and port as people write them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

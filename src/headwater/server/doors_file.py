"""`doors.json` in the data folder: who serves it, and where its HTTP door is, for commands on this machine."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

__all__ = ["Doors", "forget_doors", "read_doors", "write_doors"]

FILE_NAME = "doors.json"
BYTES_MAX = 4096
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - looked for, not bound


class Doors(msgspec.Struct, frozen=True):
    """What the file holds; it says nothing that is not seen in a list of processes and their ports."""

    pid: int
    http: str
    """URL of the HTTP door."""


def write_doors(folder: Path, host: str, port: int) -> None:
    """Say that this process serves the folder, and where."""
    reached = _LOOPBACK.get(host, host)
    shown = f"[{reached}]" if ":" in reached else reached
    doors = Doors(os.getpid(), f"http://{shown}:{port}")
    path = folder / FILE_NAME
    beside = path.with_name(f"{FILE_NAME}.new")
    beside.write_bytes(msgspec.json.encode(doors))
    beside.replace(path)


def forget_doors(folder: Path) -> None:
    """Nobody serves the folder any more."""
    with contextlib.suppress(OSError):
        (folder / FILE_NAME).unlink(missing_ok=True)


def read_doors(folder: Path, pid: int | None) -> Doors | None:
    """Where the process that holds the folder serves it; None if that is not known."""
    try:
        with (folder / FILE_NAME).open("rb") as file:
            doors = msgspec.json.decode(file.read(BYTES_MAX), type=Doors)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return doors if pid is not None and doors.pid == pid else None

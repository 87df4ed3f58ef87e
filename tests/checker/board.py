"""What the processes of a run show each other while it goes on: integers in a file that all of them map."""

from __future__ import annotations

import enum
import mmap
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

__all__ = ["UNKNOWN", "Board", "Phase", "ServerAddress"]

UNKNOWN = -1
_BYTES_PER_GAUGE = 8
_PHASE, _ADDRESS, _OWN = range(3)


class Phase(enum.IntEnum):
    """What the clients are to do."""

    PACED = 0
    BURST = 1
    """Publishers fill their windows as fast as they can."""
    DRAIN = 2
    """Publishers send nothing new, and end when all is confirmed."""
    STOP = 3
    """Everybody ends."""


class ServerAddress(NamedTuple):
    """Which life of the server listens where: each life has ports of its own, so that nobody takes one for another."""

    life: int
    port: int
    amqp_port: int


class Board:
    """Gauges by name; each has one writer at a time, and eight bytes are read and written at once."""

    def __init__(self, path: Path, names: Iterable[str]) -> None:
        self._slots = {name: index for index, name in enumerate(names, _OWN)}
        size = _BYTES_PER_GAUGE * (_OWN + len(self._slots))
        if not path.exists():
            path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), size)
        self._values = memoryview(self._map).cast("q")

    def __getitem__(self, name: str) -> int:
        return self._values[self._slots[name]]

    def __setitem__(self, name: str, value: int) -> None:
        self._values[self._slots[name]] = value

    @property
    def phase(self) -> Phase:
        """What is to be done now."""
        return Phase(self._values[_PHASE])

    @phase.setter
    def phase(self, phase: Phase) -> None:
        self._values[_PHASE] = phase

    @property
    def address(self) -> ServerAddress:
        """Where the server is, or will be in a moment; life 0 is before the first one."""
        packed = self._values[_ADDRESS]
        return ServerAddress(packed >> 32, packed >> 16 & 0xFFFF, packed & 0xFFFF)

    @address.setter
    def address(self, address: ServerAddress) -> None:
        self._values[_ADDRESS] = address.life << 32 | address.port << 16 | address.amqp_port

    def snapshot(self) -> bytes:
        """All of it, to see whether anything changes."""
        return self._values.tobytes()

"""The client processes of a run, as the runner handles them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

__all__ = ["ClientFailed", "ClientProcesses"]

ROOT = Path(__file__).resolve().parents[2]
LOOK_S = 0.02


class ClientFailed(Exception):
    """A client process ended as none should."""


class ClientProcesses:
    """Processes by name; one that was killed begins again under the same name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._frozen_until: dict[str, float] = {}

    def begin(self, name: str) -> None:
        """Start a process."""
        command = [sys.executable, "-m", "tests.checker.client", str(self._folder), name]
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT
            )

    def kill(self, name: str) -> None:
        """End a process without a warning."""
        self._frozen_until.pop(name, None)
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def freeze(self, name: str, seconds: float) -> None:
        """Stop a process; `thaw` lets it go on when its time is over."""
        if name not in self._frozen_until:
            self._processes[name].send_signal(signal.SIGSTOP)
            self._frozen_until[name] = time.monotonic() + seconds

    def thaw(self, *, all_of_them: bool = False) -> None:
        """Let those go on whose time is over."""
        for name, until in list(self._frozen_until.items()):
            if all_of_them or time.monotonic() >= until:
                del self._frozen_until[name]
                self._processes[name].send_signal(signal.SIGCONT)

    def check(self) -> None:
        """Raises `ClientFailed` if one has ended badly."""
        for name, process in self._processes.items():
            if process.poll() not in (None, 0):
                log = (self._folder / f"{name}.log").read_text("utf-8", "replace")
                raise ClientFailed(f"{name} ended with {process.returncode}: {log[-2000:]}")

    def have_ended(self, names: Iterable[str]) -> bool:
        """Whether all of these are done."""
        return all(self._processes[name].poll() is not None for name in names)

    def end(self) -> None:
        """Leave nothing behind."""
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()

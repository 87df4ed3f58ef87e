"""The server under test as a process: each life has a port and a log of its own, and ends by whatever signal."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["HOST", "SERVE", "STARTING_MAX_S", "ServerFailed", "ServerProcess"]

HOST = "127.0.0.1"
SERVE = (sys.executable, "-m", "headwater.cli.main")
STARTING_MAX_S = 120.0
STOPPING_MAX_S = 120.0
PORT_TRIES_MAX = 5
LOOK_S = 0.005

_GIVEN_UP = re.compile(r"127\.0\.0\.1:(\d+) -> \S+: no heartbeat")
_COMPLAINT = re.compile(r"Traceback|\bERROR\b|\bCRITICAL\b")


class ServerFailed(Exception):
    """The server did what no fault asked it to do."""


class ServerProcess:
    """A server on a folder; one life after the other."""

    def __init__(self, folder: Path, command: Sequence[str] = SERVE) -> None:
        self.data = folder / "data"
        self.life = 0
        self.port = 0
        """Of the stream door."""
        self.amqp_port = 0
        self._folder = folder
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Begin a life; it listens later, on ports that were free a moment ago."""
        self.life += 1
        self.port, self.amqp_port = _free_port(), _free_port()
        arguments = ["serve", "--data", str(self.data), "--stream-port", str(self.port)]
        arguments += ["--amqp-port", str(self.amqp_port), "--http-port", "0"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
        with self._log(self.life).open("wb") as log:
            self._process = subprocess.Popen(
                [*self._command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=environment,
            )

    def wait_for(self, line: str) -> bool:
        """Wait until this life has logged such a line; false if its port was taken and it is to begin again."""
        deadline = time.monotonic() + STARTING_MAX_S
        while line not in (log := self._log(self.life).read_text("utf-8", "replace")):
            if self.has_ended():
                if "the port is in use" in log:
                    return False
                raise ServerFailed(f"life {self.life} ended before it said {line!r}: {log[-2000:]}")
            if time.monotonic() > deadline:
                raise ServerFailed(f"life {self.life} did not say {line!r} in {STARTING_MAX_S:g} s")
            time.sleep(LOOK_S)
        return True

    def has_ended(self) -> bool:
        """Whether there is no process."""
        return self._process is None or self._process.poll() is not None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to a server that is alive; it is a failure if it is not."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise ServerFailed(f"life {self.life} has ended by itself with {self._process.returncode}")
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for the end of this life; gives the exit code."""
        assert self._process is not None
        try:
            return self._process.wait(STOPPING_MAX_S)
        except subprocess.TimeoutExpired:
            raise ServerFailed(f"life {self.life} did not stop in {STOPPING_MAX_S:g} s") from None

    def end(self) -> None:
        """Leave nothing behind."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def given_up(self) -> Iterator[tuple[int, int]]:
        """Life and client's port of every connection that was ended for want of heartbeats."""
        for life in range(1, self.life + 1):
            for match in _GIVEN_UP.finditer(self._log(life).read_text("utf-8", "replace")):
                yield life, int(match[1])

    def complaints(self) -> Iterator[str]:
        """What the logs tell that no fault of a run explains."""
        for life in range(1, self.life + 1):
            for line in self._log(life).read_text("utf-8", "replace").splitlines():
                if _COMPLAINT.search(line):
                    yield f"life {life}: {line}"

    def _log(self, life: int) -> Path:
        return self._folder / f"server-{life}.log"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])

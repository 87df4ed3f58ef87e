"""`headwater serve` as a process of its own, for other makers' clients: it can be stopped, killed, started again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

__all__ = ["COMMAND", "HOST", "PASSWORD", "USER", "Server"]

HOST = "127.0.0.1"
USER = PASSWORD = "guest"
COMMAND = (sys.executable, "-m", "headwater.cli.main")
START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 20.0

_LISTENING = re.compile(r"listening (\S+) \S+:(\d+)")
_PLAIN_DOORS = frozenset({"http", "streams", "amqp"})


class Server:
    """A server on a folder; the ports that it found free at its first start are its own from then on."""

    def __init__(
        self, data: Path, *arguments: str, with_tls: bool = False, command: Sequence[str] = COMMAND
    ) -> None:
        self.data = data
        self._command = command
        self._arguments = arguments
        self._doors = _PLAIN_DOORS | ({"http-tls", "streams-tls", "amqp-tls"} if with_tls else set())
        self._ports: dict[str, int] = {}
        self.lines: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    @property
    def http_port(self) -> int:
        return self._ports["http"]

    @property
    def http_tls_port(self) -> int:
        return self._ports["http-tls"]

    @property
    def stream_port(self) -> int:
        return self._ports["streams"]

    @property
    def stream_tls_port(self) -> int:
        return self._ports["streams-tls"]

    @property
    def amqp_port(self) -> int:
        return self._ports["amqp"]

    @property
    def amqp_tls_port(self) -> int:
        return self._ports["amqp-tls"]

    def start(self) -> None:
        """Run it, and wait until all its ports take connections."""
        command = [*self._command, "serve", "--data", str(self.data)]
        flags = {"http": "http", "streams": "stream", "streams-tls": "stream-tls"}
        for door in (*_PLAIN_DOORS, "http-tls", "streams-tls", "amqp-tls"):
            command += [f"--{flags.get(door, door)}-port", str(self._ports.get(door, 0))]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
        process = subprocess.Popen(
            [*command, *self._arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        settled = threading.Event()
        self._process = process
        self._reader = threading.Thread(target=self._read_lines, args=(process, settled), daemon=True)
        self._reader.start()
        if not settled.wait(START_TIMEOUT_S) or process.poll() is not None:
            self.end()
            raise AssertionError(f"the server did not start: {self.lines}")

    @property
    def pid(self) -> int:
        """Of the process that runs."""
        assert self._process is not None
        return self._process.pid

    @property
    def resident_mib(self) -> float:
        """Memory that the process holds now."""
        lines = Path(f"/proc/{self.pid}/status").read_text("ascii").splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))

    def stop(self) -> int:
        """End it with SIGTERM; gives its exit code."""
        return self._end_by(signal.SIGTERM)

    def kill(self) -> None:
        """End it without a warning."""
        self._end_by(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to stop; `wait` gives its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """Wait until it has ended by itself."""
        assert self._process is not None
        return self._process.wait(STOP_TIMEOUT_S)

    def end(self) -> None:
        """Make sure that nothing of it is left."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def _end_by(self, number: signal.Signals) -> int:
        process, reader = self._process, self._reader
        assert process is not None
        assert reader is not None
        process.send_signal(number)
        code = process.wait(STOP_TIMEOUT_S)
        reader.join(STOP_TIMEOUT_S)
        return code

    def _read_lines(self, process: subprocess.Popen[str], settled: threading.Event) -> None:
        """Read to the end, so that a full pipe never holds up the server."""
        assert process.stderr is not None
        missing = set(self._doors)
        with process.stderr as lines:
            for line in lines:
                self.lines.append(line.rstrip("\n"))
                if found := _LISTENING.search(line):
                    self._ports[found[1]] = int(found[2])
                    missing.discard(found[1])
                    if not missing:
                        settled.set()
        settled.set()

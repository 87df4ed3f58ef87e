"""`headwater serve` as a process that the demo starts, kills and starts again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from headwater.errors import HeadwaterError

__all__ = ["DemoServer", "ServerDidNotStart"]

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 20.0
LOOK_INTERVAL_S = 0.02
DOORS = 3
_LISTENING = re.compile(r"listening (streams|amqp|http) \S+:(\d+)")


class ServerDidNotStart(HeadwaterError):
    """The server ended, or did not listen in time."""

    def __init__(self, said: str) -> None:
        self.said = said
        super().__init__(
            f"the server of the demo did not start, try `headwater serve`: {said or 'it said nothing'}"
        )


class DemoServer:
    """A server on a folder, at a free port of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.stream_port = self.amqp_port = self.http_port = 0

    @property
    def pid(self) -> int:
        """Of the process that runs."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> float:
        """Run it until it listens; gives the seconds that took."""
        started = time.monotonic()
        command = [sys.executable, "-m", "headwater.cli.main", "serve", "--data", str(self._folder)]
        command += ["--host", "127.0.0.1", "--stream-port", "0", "--amqp-port", "0", "--http-port", "0"]
        # Settings of another server in the environment are not meant for this one.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
        log = self._folder.with_suffix(".log")
        with log.open("wb") as lines:
            # In a group of its own, so that Ctrl-C reaches the demo alone, which then ends it.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=lines,
                stderr=lines,
                env=environment,
                start_new_session=True,
            )
        while len(ports := dict(_LISTENING.findall(said := log.read_text(errors="replace")))) < DOORS:
            if self._process.poll() is not None or time.monotonic() - started > START_TIMEOUT_S:
                raise ServerDidNotStart(said.strip())
            time.sleep(LOOK_INTERVAL_S)
        self.stream_port, self.amqp_port = int(ports["streams"]), int(ports["amqp"])
        self.http_port = int(ports["http"])
        return time.monotonic() - started

    def kill(self) -> None:
        """End it without a warning."""
        self._end_by(signal.SIGKILL)

    def stop(self) -> int:
        """End it in good order; gives its exit code."""
        return self._end_by(signal.SIGTERM)

    def end(self) -> None:
        """Make sure that nothing of it is left."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def _end_by(self, number: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(STOP_TIMEOUT_S)

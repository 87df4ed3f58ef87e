"""Example programs of other makers as processes: what they print, what they trace of their frames, how they end."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

__all__ = ["EXAMPLE_TIMEOUT_S", "Example"]

EXAMPLE_TIMEOUT_S = 40.0


class Example:
    """A running program, used as a context manager: gone at the end, whatever became of it."""

    def __init__(self, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.printed: list[str] = []
        self.traced: list[str] = []
        """What it wrote to its stderr: there the clients trace their frames."""
        self._said_more = threading.Condition()
        self._open_streams = 2
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._listeners = [
            threading.Thread(target=self._listen, args=(stream, lines), daemon=True)
            for stream, lines in ((self._process.stdout, self.printed), (self._process.stderr, self.traced))
        ]
        for listener in self._listeners:
            listener.start()

    def __enter__(self) -> Example:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def wait_for_print(self, count: int) -> None:
        """Wait until it has printed so many lines."""
        self._wait_for(lambda: len(self.printed) >= count, f"{count} lines")

    def wait_for_trace(self, text: str, count: int = 1) -> None:
        """Wait until so many lines of the trace hold this."""
        self._wait_for(lambda: sum(text in line for line in self.traced) >= count, f"{count} x {text!r}")

    def finish(self) -> list[str]:
        """Wait until it ends by itself and well; gives what it printed."""
        code = self._process.wait(EXAMPLE_TIMEOUT_S)
        self._heard_out()
        assert code == 0, (code, self.printed, self.traced)
        return self.printed

    def kill(self) -> None:
        """End it without a warning."""
        self._process.kill()
        self._process.wait()
        self._heard_out()
        assert self._process.stdin is not None
        self._process.stdin.close()

    def _wait_for(self, condition: Callable[[], bool], what: str) -> None:
        with self._said_more:
            self._said_more.wait_for(lambda: condition() or not self._open_streams, EXAMPLE_TIMEOUT_S)
        assert condition(), f"there came no {what}: {self.printed} {self.traced}"

    def _heard_out(self) -> None:
        for listener in self._listeners:
            listener.join(EXAMPLE_TIMEOUT_S)

    def _listen(self, stream: IO[str], lines: list[str]) -> None:
        """Read to the end, so that a full pipe never holds up the program."""
        with stream:
            for line in stream:
                with self._said_more:
                    lines.append(line.rstrip("\n"))
                    self._said_more.notify_all()
        with self._said_more:
            self._open_streams -= 1
            self._said_more.notify_all()

"""`headwater serve` as a process: it starts, answers, refuses what it must, and stops cleanly."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 20.0


class ServeProcess:
    """A server of its own on a free port, whose log lines are read as they come."""

    def __init__(self, data: Path, *arguments: str) -> None:
        command = [
            sys.executable,
            "-m",
            "headwater.cli.main",
            "serve",
            "--data",
            str(data),
            *("--stream-port", "0", "--amqp-port", "0", "--http-port", "0"),
        ]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [*command, *arguments],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env=environment,
        )

    def wait_for_line(self, pattern: str) -> re.Match[str]:
        assert self.process.stderr is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and (line := self.process.stderr.readline()):
            self.lines.append(line.rstrip("\n"))
            if match := re.search(pattern, line):
                return match
        raise AssertionError(f"no line matches {pattern!r} in {self.lines}")

    def wait_until_listening(self) -> str:
        return self.wait_for_line(r"listening http (127\.0\.0\.1:\d+)")[1]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        _, rest = self.process.communicate(timeout=STOP_TIMEOUT_S)
        self.lines += rest.splitlines()
        return self.process.returncode

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServeProcess]:
    started = ServeProcess(tmp_path / "data")
    yield started
    started.end()


def refused(data: Path, *arguments: str) -> tuple[int, list[str]]:
    attempt = ServeProcess(data, *arguments)
    try:
        return attempt.wait(), attempt.lines
    finally:
        attempt.end()


def health_of(address: str) -> Any:
    with urllib.request.urlopen(f"http://{address}/health", timeout=5) as answer:
        return json.load(answer)


def test_a_started_server_says_it_is_ready(server: ServeProcess) -> None:
    health = health_of(server.wait_until_listening())
    assert health["state"] == "ready"
    assert health["data"]["damaged_partitions"] == 0
    assert health["uptime_s"] >= 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_and_frees_the_folder(
    server: ServeProcess, tmp_path: Path, number: signal.Signals
) -> None:
    server.wait_until_listening()
    assert server.stop(number) == 0
    assert server.lines[-1].endswith("stopped")
    again = ServeProcess(tmp_path / "data")
    try:
        assert health_of(again.wait_until_listening())["state"] == "ready"
        assert again.stop() == 0
    finally:
        again.end()


def test_more_signals_while_it_stops_change_nothing(server: ServeProcess) -> None:
    server.wait_until_listening()
    for _ in range(20):
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.002)
    assert server.wait() == 0


def test_a_second_server_on_the_same_folder_is_told_who_holds_it(
    server: ServeProcess, tmp_path: Path
) -> None:
    address = server.wait_until_listening()
    code, lines = refused(tmp_path / "data")
    assert code == 1
    assert len(lines) == 1
    assert f"in use by process {server.process.pid}" in lines[0]
    assert health_of(address)["state"] == "ready"


def test_a_port_in_use_is_one_clear_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, lines = refused(tmp_path / "data", "--http-port", str(port))
    assert code == 1
    assert f"cannot listen for http on 127.0.0.1:{port}: the port is in use" in lines[-1]
    assert not any("Traceback" in line for line in lines)


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    code, lines = refused(tmp_path / "file" / "data")
    assert code == 1
    assert len(lines) == 1


def test_json_lines_parse(tmp_path: Path) -> None:
    server = ServeProcess(tmp_path / "data", "--log-format", "json")
    try:
        server.wait_until_listening()
        assert server.stop() == 0
    finally:
        server.end()
    records = [json.loads(line) for line in server.lines]
    assert {"time", "level", "logger", "message"} <= records[0].keys()
    assert records[-1]["message"] == "stopped"


def test_a_quiet_server_logs_nothing_below_its_level(tmp_path: Path) -> None:
    code, lines = refused(tmp_path, "--log-level", "error", "--host", "192.0.2.1")
    assert code == 1
    assert len(lines) == 1

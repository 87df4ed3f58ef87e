"""The two servers under load, each a process of its own: Headwater, and RabbitMQ as its scripts start it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

__all__ = ["NotHere", "Server", "connections_to", "cpu_seconds", "headwater", "rabbitmq"]

RABBITMQ_PORT = 5552
RABBITMQ_DATA = Path("/var/lib/rabbitmq/mnesia/rabbit@localhost")
_START_S = 30
_STOP_S = 60
_LISTENING = re.compile(r"listening streams \S*?:(\d+)")


class NotHere(Exception):
    """A server cannot be had, and why."""


class Server(msgspec.Struct, frozen=True):
    """A server that runs."""

    name: str
    version: str
    pid: int
    port: int
    data: Path

    @property
    def resident_mib(self) -> float:
        """Memory that the process holds now."""
        return _status_mib(self.pid, "VmRSS")

    @property
    def segments(self) -> list[Path]:
        """The files of its streams."""
        return sorted(self.data.rglob("*.segment"))


@contextlib.contextmanager
def headwater(folder: Path) -> Iterator[Server]:
    """Ours, on a free port and a data folder in here."""
    log_path = folder / "server.log"
    command = [sys.executable, "-m", "headwater.cli.main", "serve", "--data", str(folder / "data")]
    command += ["--stream-port", "0", "--amqp-port", "0", "--http-port", "0"]
    with log_path.open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            port = _wait_for(lambda: _listening_port(log_path, process), "headwater serve")
            version = subprocess.run([*command[:3], "--version"], capture_output=True, text=True, check=True)
            name = version.stdout.strip().splitlines()[0]
            yield Server("Headwater", name, process.pid, port, folder / "data")
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(_STOP_S)
    if code:
        raise NotHere(f"headwater serve ended with {code}: {log_path.read_text()[-2000:]}")


@contextlib.contextmanager
def rabbitmq(tools: Path, folder: Path) -> Iterator[Server]:
    """RabbitMQ as it runs already, or by the scripts in `tools`; raises `NotHere` if it cannot be had."""
    if _rabbitmq_pid() is not None and _is_open(RABBITMQ_PORT):
        yield _running_rabbitmq()
        return
    if os.geteuid():
        raise NotHere("RabbitMQ is installed by apt and started as root, and this is another user")
    if _is_open(RABBITMQ_PORT):
        raise NotHere(f"something else listens on port {RABBITMQ_PORT}")
    # Not through pipes: what the script leaves running would hold them open.
    log_path = folder / "rabbit_up.log"
    with log_path.open("wb") as log:
        up = subprocess.run([str(tools / "rabbit_up.sh")], stdout=log, stderr=log, check=False)
    if up.returncode:
        raise NotHere(f"rabbit_up.sh ended with {up.returncode}: {log_path.read_text()[-500:]}")
    try:
        _wait_for(lambda: _is_open(RABBITMQ_PORT), "RabbitMQ")
        yield _running_rabbitmq()
    finally:
        subprocess.run([str(tools / "rabbit_down.sh")], capture_output=True, check=False)


def cpu_seconds(pid: int) -> float:
    """What the threads of a process used so far."""
    fields = (
        Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    )
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def connections_to(port: int) -> int:
    """Connections that a loopback port has accepted, and that are still open."""
    wanted = f":{port:04X}"
    lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    lines += Path("/proc/net/tcp6").read_text(encoding="ascii").splitlines()[1:]
    established = "01"
    return sum(line.split()[1].endswith(wanted) and line.split()[3] == established for line in lines)


def _listening_port(log_path: Path, process: subprocess.Popen[bytes]) -> int | None:
    said = log_path.read_text(encoding="utf-8")
    if process.poll() is not None:
        raise NotHere(f"headwater serve ended with {process.returncode}: {said[-2000:]}")
    found = _LISTENING.search(said)
    return None if found is None else int(found[1])


def _wait_for(look: Callable[[], int | None], who: str) -> int:
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise NotHere(f"{who} did not listen within {_START_S} s")


def _rabbitmq_pid() -> int | None:
    try:
        pid = int(RABBITMQ_DATA.with_name(f"{RABBITMQ_DATA.name}.pid").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return pid if Path(f"/proc/{pid}").exists() else None


def _running_rabbitmq() -> Server:
    pid = _rabbitmq_pid()
    if pid is None:
        raise NotHere("RabbitMQ runs without its pid file")
    said = subprocess.run(["rabbitmqctl", "-q", "version"], capture_output=True, text=True, check=True)
    return Server("RabbitMQ", f"RabbitMQ {said.stdout.strip()}", pid, RABBITMQ_PORT, RABBITMQ_DATA / "stream")


def _is_open(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def _status_mib(pid: int, field: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise NotHere(f"process {pid} is gone")

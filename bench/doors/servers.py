"""The servers under load, each a process of its own: Headwater, and RabbitMQ as its scripts start it."""

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
from typing import TypeVar

import msgspec

__all__ = [
    "NotHere",
    "Server",
    "connections_to",
    "cpu_seconds",
    "headwater",
    "is_open",
    "rabbitmq",
    "wait_for",
]

Found = TypeVar("Found")

RABBITMQ_PORTS = {"streams": 5552, "amqp": 5672, "http": 15672}
RABBITMQ_DATA = Path("/var/lib/rabbitmq/mnesia/rabbit@localhost")
_START_S = 30
_STOP_S = 60
_LISTENING = re.compile(r"listening (\S+) \S*?:(\d+)")


class NotHere(Exception):
    """A server cannot be had, and why."""


class Server(msgspec.Struct, frozen=True):
    """A server that runs."""

    name: str
    version: str
    pid: int
    port: int
    """Of the door that is measured."""
    data: Path
    http_port: int | None = None
    """Where logs are made and deleted; without one the server makes queues as they are named."""
    address_prefix: str = ""
    """Stands before the name of a log in its AMQP address."""
    keeps_what_was_read: bool = True
    """Whether clients of AMQP can read from the first message on, as often as they like."""
    has_event_streams: bool = False
    """Whether it knows the Event Stream Extensions for AMQP."""
    load_options: tuple[str, ...] = ()
    """What the load generator has to know of this server."""

    @property
    def resident_mib(self) -> float:
        """Memory that the process holds now."""
        return _status_mib(self.pid, "VmRSS")

    @property
    def segments(self) -> list[Path]:
        """The files of its streams."""
        return sorted(self.data.rglob("*.segment"))


@contextlib.contextmanager
def headwater(folder: Path, door: str) -> Iterator[Server]:
    """Ours, on free ports and a data folder in here."""
    log_path = folder / "server.log"
    command = [sys.executable, "-m", "headwater.cli.main", "serve", "--data", str(folder / "data")]
    command += ["--stream-port", "0", "--amqp-port", "0", "--http-port", "0"]
    with log_path.open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            ports = wait_for(lambda: _listening_ports(log_path, process), "headwater serve")
            version = subprocess.run([*command[:3], "--version"], capture_output=True, text=True, check=True)
            name = version.stdout.strip().splitlines()[0]
            data = folder / "data"
            yield Server(
                "Headwater", name, process.pid, ports[door], data, ports["http"], has_event_streams=True
            )
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(_STOP_S)
    if code:
        raise NotHere(f"headwater serve ended with {code}: {log_path.read_text()[-2000:]}")


@contextlib.contextmanager
def rabbitmq(tools: Path, folder: Path, door: str) -> Iterator[Server]:
    """RabbitMQ as it runs already, or by the scripts in `tools`; raises `NotHere` if it cannot be had."""
    port = RABBITMQ_PORTS[door]
    if _rabbitmq_pid() is not None and is_open(port):
        yield _running_rabbitmq(port)
        return
    if os.geteuid():
        raise NotHere("RabbitMQ is installed by apt and started as root, and this is another user")
    if is_open(port):
        raise NotHere(f"something else listens on port {port}")
    # Not through pipes: what the script leaves running would hold them open.
    log_path = folder / "rabbit_up.log"
    with log_path.open("wb") as log:
        up = subprocess.run([str(tools / "rabbit_up.sh")], stdout=log, stderr=log, check=False)
    if up.returncode:
        raise NotHere(f"rabbit_up.sh ended with {up.returncode}: {log_path.read_text()[-500:]}")
    try:
        wait_for(lambda: is_open(port), "RabbitMQ")
        yield _running_rabbitmq(port)
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


def _listening_ports(log_path: Path, process: subprocess.Popen[bytes]) -> dict[str, int] | None:
    said = log_path.read_text(encoding="utf-8")
    if process.poll() is not None:
        raise NotHere(f"headwater serve ended with {process.returncode}: {said[-2000:]}")
    ports = {door: int(port) for door, port in _LISTENING.findall(said)}
    return ports if "http" in ports else None  # the last one that opens


def wait_for(look: Callable[[], Found | None], who: str) -> Found:
    """What is found within the time that a server has to start."""
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


def _running_rabbitmq(port: int) -> Server:
    pid = _rabbitmq_pid()
    if pid is None:
        raise NotHere("RabbitMQ runs without its pid file")
    said = subprocess.run(["rabbitmqctl", "-q", "version"], capture_output=True, text=True, check=True)
    version = f"RabbitMQ {said.stdout.strip()}"
    data = RABBITMQ_DATA / "stream"
    return Server(
        "RabbitMQ", version, pid, port, data, RABBITMQ_PORTS["http"], "/amq/queue/", keeps_what_was_read=False
    )


def is_open(port: int) -> bool:
    """Whether somebody listens on a loopback port."""
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def _status_mib(pid: int, field: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise NotHere(f"process {pid} is gone")

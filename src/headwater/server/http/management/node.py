"""This server as a node of one: its name, its figures, and those of its process."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headwater import __version__

__all__ = ["CLUSTER", "Node"]

CLUSTER = "headwater"
WILDCARDS = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - looked for, not bound

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Node:
    """What does not change while the server runs."""

    host: str
    """Where clients reach it, as far as that is known."""
    data: Path
    announced_version: str
    """The version of RabbitMQ that clients are told."""
    started_at_s: float
    """As `time.monotonic` counts."""
    listeners: Sequence[tuple[str, str, int]]
    """Protocol, address and port of each that is open."""

    @property
    def name(self) -> str:
        """As RabbitMQ names nodes; clients take the part behind the @ for the host of a stream's leader."""
        host = socket.gethostname() if self.host in WILDCARDS else self.host
        return f"{CLUSTER}@{host}"

    def versions(self) -> Json:
        """What is running."""
        return {
            "rabbitmq_version": self.announced_version,
            "management_version": self.announced_version,
            "product_name": "Headwater",
            "product_version": __version__,
        }

    def listening(self) -> list[Json]:
        """The ports that are open."""
        return [
            {"node": self.name, "protocol": protocol, "ip_address": address, "port": port}
            for protocol, address, port in self.listeners
        ]

    def figures(self) -> Json:
        """The process and its disk at this moment."""
        descriptors_max, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        disk = shutil.disk_usage(self.data)
        return {
            "name": self.name,
            "type": "disc",
            "running": True,
            "os_pid": str(os.getpid()),
            "uptime": int((time.monotonic() - self.started_at_s) * 1000),
            "processors": os.cpu_count(),
            "mem_used": _resident_bytes(),
            "fd_used": sum(1 for _ in Path("/proc/self/fd").iterdir()),
            "fd_total": descriptors_max,
            "disk_free": disk.free,
            "db_dir": str(self.data.absolute()),
        }


def _resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text("ascii").split()[1]
    return int(pages) * resource.getpagesize()

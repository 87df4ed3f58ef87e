"""Connections that are there and do nothing: what they cost."""

from __future__ import annotations

import time

from bench.doors.case import Bench, Values
from bench.doors.loading import LoadFailed
from bench.doors.servers import Server, connections_to, cpu_seconds

__all__ = ["FOR_EVER", "idle_values", "wait_connected"]

FOR_EVER = "1000000000000"
"""Messages that a consumer waits for, so that it does not end by itself."""
_CONNECT_S = 60
_SETTLE_S = 1.0


def wait_connected(server: Server, count: int) -> None:
    """Until so many connections are there."""
    until = time.monotonic() + _CONNECT_S
    while connections_to(server.port) < count:
        if time.monotonic() > until:
            raise LoadFailed(
                f"{connections_to(server.port)} of {count} consumers connected in {_CONNECT_S} s"
            )
        time.sleep(0.1)
    time.sleep(_SETTLE_S)


def idle_values(bench: Bench, server: Server, count: int, seconds: float, *options: str) -> Values:
    """Memory and CPU that so many connections of consumers cost in so many seconds without a message."""
    before = server.resident_mib
    with bench.loader.beside(server, "consume", *options, "--offset", "next", "--n", FOR_EVER) as process:
        wait_connected(server, count)
        started = cpu_seconds(server.pid)
        time.sleep(seconds)
        cpu = cpu_seconds(server.pid) - started
        more = server.resident_mib - before
        if process.poll() is not None or connections_to(server.port) < count:
            raise LoadFailed(f"of {count} idle connections {connections_to(server.port)} are left")
    return {"more memory": more, "CPU": 100 * cpu / seconds}

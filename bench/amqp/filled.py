"""Logs that are filled once and read in many rounds."""

from __future__ import annotations

from collections.abc import Callable

from bench.amqp.logs import address_of, delete_log, make_log
from bench.amqp.publishing import CLOUD_EVENT, PILOT
from bench.doors.case import Bench
from bench.doors.servers import Server

__all__ = ["CLOUD_EVENTS", "PLAIN", "SIZES", "count_in", "fill", "filled", "removed"]

MESSAGES_MAX = 4_000_000
PLAIN, CLOUD_EVENTS = "plain", "cloud-events"
SIZES = {PLAIN: (), CLOUD_EVENTS: CLOUD_EVENT}
_filled: dict[tuple[str, str], int] = {}
"""By server and log, the messages in it."""


def fill(bench: Bench, server: Server, log: str) -> None:
    """As many messages as the server takes in one round."""
    make_log(server, log, kind="stream" if server.keeps_what_was_read else "classic")
    address = ("--address", address_of(server, log), *SIZES[log])
    pilot = bench.loader.run(server, "publish", *address, "--n", str(PILOT))
    count = min(int(pilot.pub_msgs_s * bench.seconds), bench.scaled(MESSAGES_MAX, PILOT)) + 1
    bench.loader.run(server, "publish", *address, "--n", str(count))
    _filled[server.name, log] = PILOT + count


def count_in(server: Server, log: str) -> int:
    """The messages in a filled log."""
    return _filled[server.name, log]


def removed(*logs: str) -> Callable[[Bench, Server], None]:
    """What deletes logs after all rounds."""

    def clean(_bench: Bench, server: Server) -> None:
        for log in logs:
            if _filled.pop((server.name, log), None) is not None:
                delete_log(server, log)

    return clean


def filled(*logs: str) -> Callable[[Bench, Server], None]:
    """What fills logs before the first round."""

    def prepare(bench: Bench, server: Server) -> None:
        for log in logs:
            delete_log(server, log)  # that of a run which was interrupted
            fill(bench, server, log)

    return prepare

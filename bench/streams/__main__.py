"""`python -m bench.streams`: the stream door and RabbitMQ under the same load, one after the other."""

from __future__ import annotations

import sys
from functools import partial

from bench.doors.loading import Loader
from bench.doors.run import Door, measure
from bench.doors.servers import headwater, rabbitmq
from bench.streams import crowds, latency, publishing, replaying

__all__ = ["CASES", "DOOR"]

CASES = {case.name: case for case in (*crowds.CASES, *publishing.CASES, *replaying.CASES, *latency.CASES)}
DOOR = Door(
    "streams",
    "streamload",
    partial(Loader, fresh=lambda _server: ("--fresh",), verify=("--crc", "--verify")),
    CASES,
    lambda _tools, folder: headwater(folder, "streams"),
    (lambda tools, folder: rabbitmq(tools, folder, "streams"),),
    "Batches of 100 and the load generator's windows; ours confirms from disk, RabbitMQ from memory.",
)


if __name__ == "__main__":
    sys.exit(measure(DOOR))

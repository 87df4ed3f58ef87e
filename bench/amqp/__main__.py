"""`python -m bench.amqp`: the AMQP door, RabbitMQ's plugin and a broker on Qpid Proton under the same load."""

from __future__ import annotations

import contextlib
import importlib.metadata
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.amqp import accounted, consuming, crowds, latency, publishing
from bench.amqp.logs import fresh
from bench.doors.loading import Loader
from bench.doors.run import Door, measure
from bench.doors.servers import NotHere, Server, headwater, is_open, rabbitmq, wait_for

__all__ = ["CASES", "DOOR"]

CASES = {
    case.name: case
    for case in (*crowds.CASES, *publishing.CASES, *consuming.CASES, *accounted.CASES, *latency.CASES)
}


@contextlib.contextmanager
def proton(folder: Path) -> Iterator[Server]:
    """A broker on Qpid Proton for Python, in memory."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "bench.amqp.proton_broker", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            wait_for(lambda: is_open(port) or process.poll() is not None, "the broker on Qpid Proton")
            if process.poll() is not None:
                raise NotHere(f"the broker on Qpid Proton ended with {process.returncode}")
            version = f"Qpid Proton {importlib.metadata.version('python-qpid-proton')} (Python)"
            yield Server(
                "Proton",
                version,
                process.pid,
                port,
                folder,
                keeps_what_was_read=False,
                load_options=("--anonymous",),
            )
        finally:
            process.send_signal(signal.SIGTERM)


DOOR = Door(
    "amqp",
    "amqpload",
    partial(Loader, fresh=fresh, verify=("--verify",)),
    CASES,
    lambda _tools, folder: headwater(folder, "amqp"),
    (lambda tools, folder: rabbitmq(tools, folder, "amqp"), lambda _tools, folder: proton(folder)),
    "One link; at most 10,000 unsettled, or the server's credit; 10,000 credit to receive; frames up to 128 KiB; "
    "batches of 100 a write. Ours accepts when it is on disk; outcomes are counted at the client.",
)


if __name__ == "__main__":
    sys.exit(measure(DOOR))

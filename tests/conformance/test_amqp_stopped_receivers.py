"""Fifty receivers stopped by SIGSTOP, with a credit of 65,535, cost the server little memory, and others nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.amqp.performatives import Disposition, Flow, Transfer
from tests.conformance.amqp_wire import AmqpWire, data, opened_amqp, transfer
from tests.peers.servers import HOST, Server

RECEIVERS = 50
PROCESSES = 5
"""They are stopped one after the other, at places of the log that are far from each other."""
MORE_MEMORY_MIB_MAX = 100
MESSAGES_PER_BATCH = 5_000
MESSAGE_BYTES = 200
BATCHES_BETWEEN = 2
BATCHES = 40
"""40 MB in all, of which each receiver is to get the first 13 MB: far more than fifty sockets hold."""
ROUND_TRIPS = 300
LOG = "s"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    started = Server(tmp_path / "data")
    started.start()
    yield started
    started.end()


def p99_ms(wire: AmqpWire, first_id: int) -> float:
    """Of the time from a transfer until its message is accepted and delivered, one after the other."""
    took = []
    for number in range(ROUND_TRIPS):
        started = time.perf_counter()
        wire.send(transfer(first_id + number, data(b"x")))
        left = 2
        while left:
            came = wire.next().performative
            assert isinstance(came, Disposition | Flow | Transfer)
            left -= not isinstance(came, Flow)
        took.append(time.perf_counter() - started)
    return sorted(took)[ROUND_TRIPS * 99 // 100] * 1e3


@contextlib.contextmanager
def stopped_later(server: Server) -> Iterator[subprocess.Popen[str]]:
    """A process with its share of the receivers, all of which are attached."""
    module = ["-m", "tests.conformance.stopped_receivers"]
    share = [str(server.amqp_port), str(RECEIVERS // PROCESSES), LOG]
    command = [sys.executable, *module, *share]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


@pytest.mark.clause("AMQP harm 2")
def test_fifty_stopped_receivers_cost_little_memory_and_hold_up_nobody(server: Server) -> None:
    with opened_amqp(HOST, server.amqp_port) as writer, opened_amqp(HOST, server.amqp_port) as other:
        writer.sender(LOG)
        other.sender("other")
        other.receiver("other", handle=1, credit=65_535, settled=True)
        batch = [data(bytes(MESSAGE_BYTES))] * MESSAGES_PER_BATCH
        writer.publish(batch)
        alone = p99_ms(other, 0)
        with contextlib.ExitStack() as stack:
            receivers = [stack.enter_context(stopped_later(server)) for _ in range(PROCESSES)]
            most = before = server.resident_mib
            for number in range(1, BATCHES):
                if receivers and number % BATCHES_BETWEEN == 0:
                    os.kill(receivers.pop().pid, signal.SIGSTOP)
                writer.publish(batch, first_id=number * MESSAGES_PER_BATCH)
                most = max(most, server.resident_mib)
            beside = p99_ms(other, ROUND_TRIPS)
            most = max(most, server.resident_mib)
        print(f"{most - before:.0f} MiB more, p99 {alone:.2f} ms alone and {beside:.2f} ms beside them")
        assert most - before <= MORE_MEMORY_MIB_MAX

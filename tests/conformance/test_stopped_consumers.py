"""Fifty consumers stopped by SIGSTOP, whatever credit they gave, cost the server little memory, and others nothing.

What they cost in delay is measured by `make bench-streams ARGS="--cases stopped"`; here it is only told.
"""

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

from headwater.streams.commands import OffsetSpecification, OffsetType
from tests.conformance.wire import Wire, opened, publish_frame
from tests.peers.servers import HOST, Server

CONSUMERS = 50
PROCESSES = 5
"""They are stopped one after the other, at places of the stream that are far from each other."""
MORE_MEMORY_MIB_MAX = 100
MESSAGES_PER_FRAME = 5_000
MESSAGE_BYTES = 100
FRAMES_BETWEEN = 20
FRAMES = 300
"""150 MB in all: far more than fifty sockets hold."""
ROUND_TRIPS = 500
STREAM = "s"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    started = Server(tmp_path / "data")
    started.start()
    yield started
    started.end()


def p99_ms(wire: Wire, first_id: int) -> float:
    """Of the time from a Publish until its message is delivered, one after the other."""
    took = []
    for number in range(ROUND_TRIPS):
        started = time.perf_counter()
        wire.send(publish_frame(1, [(first_id + number, b"x")]))
        for _ in range(2):
            wire.next()
        took.append(time.perf_counter() - started)
    return sorted(took)[ROUND_TRIPS * 99 // 100] * 1e3


@contextlib.contextmanager
def stopped_later(server: Server) -> Iterator[subprocess.Popen[str]]:
    """A process with its share of the consumers, all of which have subscribed."""
    module = ["-m", "tests.conformance.stopped_consumers"]
    share = [str(server.stream_port), str(CONSUMERS // PROCESSES), STREAM]
    command = [sys.executable, *module, *share]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


@pytest.mark.clause("SP-9", "SP-19")
def test_fifty_stopped_consumers_cost_little_memory_and_hold_up_nobody(server: Server) -> None:
    with opened(HOST, server.stream_port) as writer, opened(HOST, server.stream_port) as other:
        for stream in (STREAM, "other"):
            writer.create(stream)
        writer.declare(1, STREAM)
        other.declare(1, "other")
        other.subscribe(1, "other", OffsetSpecification(OffsetType.NEXT), 65_535)
        body = bytes(MESSAGE_BYTES)
        messages = [(number, body) for number in range(MESSAGES_PER_FRAME)]
        writer.publish(1, messages)
        alone = p99_ms(other, 0)
        with contextlib.ExitStack() as stack:
            consumers = [stack.enter_context(stopped_later(server)) for _ in range(PROCESSES)]
            most = before = server.resident_mib
            for number in range(FRAMES):
                if consumers and number % FRAMES_BETWEEN == 0:
                    os.kill(consumers.pop().pid, signal.SIGSTOP)
                writer.publish(1, messages)
                most = max(most, server.resident_mib)
            beside = p99_ms(other, ROUND_TRIPS)
            most = max(most, server.resident_mib)
        print(f"{most - before:.0f} MiB more, p99 {alone:.2f} ms alone and {beside:.2f} ms beside them")
        assert most - before <= MORE_MEMORY_MIB_MAX

"""`python -m bench.http`: single events and batches beside a handler that does nothing, and a thousand readers."""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.disk import filesystem_of
from bench.doors.servers import Server, cpu_seconds, headwater
from bench.figure import Figure, at_least, at_most, figure_of, ratio_of, say, table
from bench.http.loading import AUTHORIZATION, event, following, outcome_of, post_request, posting, program

CONNECTIONS = 256
READERS = 1000
EVENTS_PER_SECOND = 1000
BATCH = 100
DATA = Path(__file__).resolve().parents[2] / "bench-data"
_LISTENING = re.compile(r"listening http \S*?:(\d+)")


def main() -> int:
    """Run the cases, print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.http", description=__doc__)
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("BENCH_SECONDS", "10")))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--readers", type=int, default=READERS)
    options = parser.parse_args()
    DATA.mkdir(parents=True, exist_ok=True)
    kind, is_memory = filesystem_of(DATA)
    if is_memory:
        say(f"bench: {DATA} lies in memory ({kind}), which syncs nothing")
        return 2
    with tempfile.TemporaryDirectory(dir=DATA) as folder:
        built, seconds = program(Path(folder)), options.seconds / options.rounds
        with headwater(Path(folder), "http") as server, _empty() as (empty_port, empty_pid):
            figures = [
                *_publishing(built, server, (empty_port, empty_pid), seconds, options.rounds),
                *_readers(built, server, options.readers, max(seconds, 2.0)),
            ]
    print(f"{CONNECTIONS} connections, one request at a time on each; answered when on disk.\n")
    print(table(figures))
    return 0


@contextlib.contextmanager
def _empty() -> Iterator[tuple[int, int]]:
    """Port and process of the yardstick."""
    command = [sys.executable, "-m", "bench.http.empty"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = _LISTENING.match(process.stdout.readline())
        assert found is not None, "it says where it listens"
        try:
            yield int(found[1]), process.pid
        finally:
            process.kill()


def _publishing(
    built: Path, server: Server, empty: tuple[int, int], seconds: float, rounds: int
) -> Iterator[Figure]:
    """Both servers in turns, so that what disturbs one disturbs the other."""
    for mode in ("binary", "structured"):
        request = post_request(mode)
        ours, theirs, cost, least = list[float](), list[float](), list[float](), list[float]()
        for _ in range(rounds):
            say(f"{mode} ...")
            rate, microseconds = _rate(built, *empty, seconds, request)
            theirs.append(rate)
            least.append(microseconds)
            rate, microseconds = _rate(built, server.port, server.pid, seconds, request)
            ours.append(rate)
            cost.append(microseconds)
        yardstick = statistics.median(theirs)
        yield figure_of(
            f"single, {mode}",
            ours,
            "/s",
            yardstick=f"{yardstick:,.0f}/s empty handler",
            ratio=statistics.median(ours) / yardstick,
            aim=ratio_of(0.6),
        )
        spent = statistics.median(least)
        yield figure_of(
            f"CPU of it, {mode}",
            cost,
            "us",
            smaller_is_better=True,
            yardstick=f"{spent:.0f} us",
            ratio=spent / statistics.median(cost),
        )
    request, events, cost = post_request("batch"), list[float](), list[float]()
    for _ in range(rounds):
        say("batches ...")
        rate, microseconds = _rate(built, server.port, server.pid, seconds, request)
        events.append(BATCH * rate)
        cost.append(microseconds / BATCH)
    yield figure_of(f"batches of {BATCH}", events, "events/s", aim=at_least(300_000))
    yield figure_of("CPU of it, an event", cost, "us", smaller_is_better=True)


def _rate(built: Path, port: int, pid: int, seconds: float, request: bytes) -> tuple[float, float]:
    """Answers a second, and the CPU of one in microseconds."""
    before = cpu_seconds(pid)
    outcome = posting(built, port, CONNECTIONS, seconds, request)
    return outcome.per_second, 1e6 * (cpu_seconds(pid) - before) / outcome.answered


def _readers(built: Path, server: Server, count: int, seconds: float) -> Iterator[Figure]:
    """Readers at the end of a log into which events come at a given rate; then one that is alone there."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    _publish(connection, "followed", 1)
    alone = crowd = None
    for readers in (1, count):
        say(f"{readers} readers ...")
        path = "/logs/followed/events?offset=next"
        with following(built, server.port, readers, seconds + 1, path) as process:
            before = cpu_seconds(server.pid)
            _publish_at(connection, seconds)
            busy = (cpu_seconds(server.pid) - before) / seconds
            resident = server.resident_mib
            outcome = outcome_of(process)
        if readers == 1:
            alone = outcome
        crowd = outcome
    assert alone is not None
    assert crowd is not None
    delivered = crowd.delivered / crowd.sampled * count / seconds
    yield figure_of(f"{count} readers, deliveries", [delivered], "/s")
    yield figure_of("memory of the server", [resident], "MiB", smaller_is_better=True, aim=at_most(200))
    yield figure_of("CPU of the server", [100 * busy], "%", smaller_is_better=True)
    for name, one, many in (("p50", alone.p50_ms, crowd.p50_ms), ("p99", alone.p99_ms, crowd.p99_ms)):
        aim = at_most(10) if name == "p99" else None
        yardstick = f"{one:.1f} ms to one reader"
        yield figure_of(
            f"added delivery {name}",
            [many - one],
            "ms",
            smaller_is_better=True,
            yardstick=yardstick,
            aim=aim,
        )


def _publish_at(connection: http.client.HTTPConnection, seconds: float) -> None:
    """Publish at the rate, with what is due in one request."""
    started, sent = time.monotonic(), 0
    while (passed := time.monotonic() - started) < seconds:
        due = int(passed * EVENTS_PER_SECOND) - sent
        if due > 0:
            _publish(connection, "followed", due)
            sent += due
        else:
            time.sleep(0.0005)


def _publish(connection: http.client.HTTPConnection, log: str, count: int) -> None:
    events = [event(number, data={"sent": time.monotonic_ns()}) for number in range(count)]
    headers = {"Authorization": AUTHORIZATION, "Content-Type": "application/cloudevents-batch+json"}
    connection.request("POST", f"/logs/{log}/events", json.dumps(events).encode(), headers)
    answer = connection.getresponse()
    said = answer.read()
    assert answer.status == http.client.OK, said


if __name__ == "__main__":
    sys.exit(main())

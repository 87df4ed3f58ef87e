"""The load: `httpload.c`, built when it is missing or older than its source, and the requests that it sends."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec

__all__ = [
    "AUTHORIZATION",
    "LoadFailed",
    "Outcome",
    "event",
    "following",
    "outcome_of",
    "post_request",
    "posting",
    "program",
]

SOURCE = Path(__file__).with_name("httpload.c")
AUTHORIZATION = "Basic " + base64.b64encode(b"guest:guest").decode()
GRACE_S = 60


class LoadFailed(Exception):
    """The generator did not do what it was asked for, and what it said."""


class Outcome(msgspec.Struct, frozen=True):
    """What the generator says."""

    answered: int
    refused: int
    seconds: float
    delivered: int
    """To those readers that were looked at."""
    sampled: int
    """How many these were."""
    p50_ms: float
    p99_ms: float

    @property
    def per_second(self) -> float:
        """Answers."""
        return self.answered / self.seconds


def program(folder: Path) -> Path:
    """The compiled generator."""
    built = folder / "httpload"
    if not built.exists() or built.stat().st_mtime < SOURCE.stat().st_mtime:
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-o", str(built), str(SOURCE)], check=True)
    return built


def event(number: int, **others: object) -> dict[str, object]:
    """A CloudEvent of 180 bytes, or so."""
    return {
        "specversion": "1.0",
        "id": f"order-{number}",
        "source": "/shop/till/3",
        "type": "com.example.order",
        "subject": f"customer-{number % 100}",
        "time": "2026-01-31T12:00:00Z",
        "datacontenttype": "application/json",
        "data": {"total": 12, "items": 3},
        **others,
    }


def post_request(mode: str) -> bytes:
    """A request that publishes one event, or a batch of 100."""
    head = {"Host": "127.0.0.1", "Authorization": AUTHORIZATION}
    one = event(1)
    if mode == "binary":
        head["Content-Type"] = str(one.pop("datacontenttype"))
        body = json.dumps(one.pop("data"))
        head |= {f"ce-{name}": str(value) for name, value in one.items()}
    elif mode == "structured":
        head["Content-Type"] = "application/cloudevents+json"
        body = json.dumps(one)
    else:
        head["Content-Type"] = "application/cloudevents-batch+json"
        body = json.dumps([event(number) for number in range(100)])
    head["Content-Length"] = str(len(body))
    lines = ["POST /logs/bench/events HTTP/1.1", *(f"{name}: {value}" for name, value in head.items())]
    return "\r\n".join([*lines, "", body]).encode()


def posting(built: Path, port: int, connections: int, seconds: float, request: bytes) -> Outcome:
    """Send a request over and over on so many connections."""
    command = [str(built), "post", str(port), str(connections), str(seconds)]
    done = subprocess.run(command, input=request, capture_output=True, check=False, timeout=seconds + GRACE_S)
    return _outcome(done.returncode, done.stdout, done.stderr)


@contextlib.contextmanager
def following(
    built: Path, port: int, connections: int, seconds: float, path: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Readers of an event stream, all of whom are there; `outcome_of` their process tells what came of it."""
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n"
    command = [str(built), "follow", str(port), str(connections), str(seconds)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(f"{request}Authorization: {AUTHORIZATION}\r\n\r\n".encode())
        process.stdin.close()
        if process.stderr.readline() != b"ready\n":
            raise LoadFailed("the readers were not all answered")
        yield process


def outcome_of(process: subprocess.Popen[bytes]) -> Outcome:
    """What readers saw, when their time is over."""
    assert process.stdout is not None
    assert process.stderr is not None
    said = process.stdout.read()
    return _outcome(process.wait(GRACE_S), said, process.stderr.read())


def _outcome(code: int, said: bytes, errors: bytes) -> Outcome:
    if code:
        raise LoadFailed(errors.decode(errors="replace"))
    outcome = msgspec.json.decode(said, type=Outcome)
    if outcome.refused:
        raise LoadFailed(f"{outcome.refused} requests were refused: {errors.decode(errors='replace')}")
    return outcome

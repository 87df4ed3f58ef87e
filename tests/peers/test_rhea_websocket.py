"""rhea, the JavaScript client of AMQP 1.0, over a WebSocket."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.peers.packages import npm_packages
from tests.peers.servers import HOST, PASSWORD, USER, Server

pytestmark = pytest.mark.peers

HERE = Path(__file__).parent / "websocket"
TIMEOUT_S = 120
COUNT = 500


def run(server: Server, log: str, password: str = PASSWORD) -> Any:
    """What the program saw."""
    packages = npm_packages(HERE)
    url = f"ws://{HOST}:{server.http_port}/amqp"
    done = subprocess.run(
        ["node", str(HERE / "rhea_websocket.js"), url, USER, password, log, str(COUNT)],
        check=False,
        env={**os.environ, "NODE_PATH": str(packages / "node_modules")},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.stdout, (done.returncode, done.stderr)
    return json.loads(done.stdout)


def test_rhea_publishes_reads_and_manages_over_a_websocket(server: Server, stream: str) -> None:
    seen = run(server, stream)
    assert seen["error"] is None
    assert seen["accepted"] == COUNT
    assert seen["bodies"] == [f"message {number}" for number in range(COUNT)]
    assert seen["management"] == {"statusCode": 200, "correlation": 7, "name": stream}


def test_a_wrong_password_ends_the_connection(server: Server, stream: str) -> None:
    seen = run(server, stream, "wrong")
    assert seen["error"] is not None
    assert seen["accepted"] == 0

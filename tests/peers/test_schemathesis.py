"""The HTTP door is held to its OpenAPI document by Schemathesis: what it declares is served, and nothing else comes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http_api import Api
from tests.peers.packages import python_packages
from tests.peers.servers import HOST, PASSWORD, USER, Server

pytestmark = pytest.mark.peers

DEFINITION = Path(__file__).parent / "http"
RUN_TIMEOUT_S = 400
EXAMPLES_MAX = 25


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """One that answers wrong passwords at once."""
    config = tmp_path / "headwater.toml"
    config.write_text("sasl_failure_delay_s = 0", "utf-8")
    started = Server(tmp_path / "data", "--config", str(config))
    started.start()
    yield started
    started.end()


def test_all_that_is_served_is_as_the_document_says(server: Server, tmp_path: Path) -> None:
    programs = python_packages(DEFINITION / "schemathesis.txt")
    report = tmp_path / "report.json"
    command = [
        *(str(programs / "schemathesis"), "--config-file", str(DEFINITION / "schemathesis.toml"), "run"),
        *(f"http://{HOST}:{server.http_port}/openapi.json", "--auth", f"{USER}:{PASSWORD}"),
        *("--checks", "all", "--seed", "1", "--max-examples", str(EXAMPLES_MAX), "--continue-on-failure"),
        *("--report", "json", "--report-json-path", str(report), "--no-color"),
    ]
    done = subprocess.run(
        command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=RUN_TIMEOUT_S
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr
    document = Api(server.http_port, below="").get("/openapi.json")
    count = sum(len(methods) for methods in document["paths"].values())
    operations = json.loads(report.read_text("utf-8"))["operations"]
    assert (
        operations["tested"] == operations["total"] == count - 1
    )  # all but the document, which it began with
    changes = [line for line in server.lines if " audit " in line]
    assert {"201", "204"} <= {line.rpartition("outcome=")[2].split()[0] for line in changes}
    assert [line for line in server.lines if "Traceback" in line or " error " in line] == []

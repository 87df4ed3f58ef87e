"""README.md: its programs and its commands do what the page says, on a server of the test's own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.servers import HOST, Server

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "README.md").read_text("utf-8")
FENCED = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
PROGRAMS = [text for language, text in FENCED if language == "python"]
BLOCKS = [text for language, text in FENCED if not language]
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("readme") / "data")
    started.start()
    yield started
    started.end()


def test_what_one_program_publishes_the_other_reads(server: Server) -> None:
    publish, read = PROGRAMS
    assert '"127.0.0.1", 5552' in publish
    assert "127.0.0.1:5672" in read
    assert said_by(publish.replace('"127.0.0.1", 5552', f'"{HOST}", {server.stream_port}')) == ""
    assert said_by(read.replace("127.0.0.1:5672", f"{HOST}:{server.amqp_port}")) == "b'hello'\n"


def test_the_commands_without_code_publish_and_read(server: Server) -> None:
    (block,) = [block for block in BLOCKS if "headwater publish" in block]
    publish, tail, _bench = block.splitlines()
    url = f"rabbitmq-stream://{HOST}:{server.stream_port}"
    environment = {**os.environ, "HEADWATER_URL": url}
    shell = ["sh", "-c", f"{adapted(publish)} && {adapted(tail)}"]
    done = subprocess.run(
        shell, env=environment, check=False, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith("hello")


def test_make_has_the_targets_that_the_page_names() -> None:
    named = {line.split()[1] for block in BLOCKS for line in block.splitlines() if line.startswith("make ")}
    assert named
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert named <= known


def test_pages_that_are_linked_are_there() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert link.startswith("https://") or (ROOT / link).exists(), link


def said_by(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def adapted(command: str) -> str:
    """With the interpreter of this test."""
    return command.replace(".venv/bin/headwater", f"{sys.executable} -m headwater.cli.main")

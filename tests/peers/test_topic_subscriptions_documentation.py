"""docs/topic-subscriptions.md: its programs print what it says, one after the other, and its numbers hold."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.engine.cursor_flushes import CursorFlushes
from headwater.engine.subscription_record import NAME_BYTES_MAX
from headwater.engine.subscriptions import CONSUMERS_MAX, Subscriptions
from headwater.server.config import Settings
from tests.peers.programs import java_command
from tests.peers.servers import HOST, Server

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "topic-subscriptions.md").read_text("utf-8")
BLOCKS = re.findall(r"```(python|java)\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
WRITTEN_IN = "127.0.0.1:5672"
TIMEOUT_S = 60


def run(command: list[str], printed: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert (done.stdout, done.returncode) == (printed, 0), done.stderr


def test_the_programs_print_what_the_page_says(own_server: Server) -> None:
    programs = [(code, printed) for language, code, printed in BLOCKS if language == "python"]
    assert len(programs) == PAGE.count("```python") == 3
    for code, printed in programs:
        assert code.count(WRITTEN_IN) == 1
        run([sys.executable, "-c", code.replace(WRITTEN_IN, f"{HOST}:{own_server.amqp_port}")], printed)


@pytest.mark.peers
def test_the_program_in_java_does_too(server: Server, tmp_path: Path) -> None:
    ((code, printed),) = [(code, printed) for language, code, printed in BLOCKS if language == "java"]
    assert code.count(WRITTEN_IN) == 1
    source = tmp_path / "Subscribe.java"
    source.write_text(code.replace(WRITTEN_IN, f"{HOST}:{server.amqp_port}"), "utf-8")
    run([*java_command("jms")[:-1], str(source)], printed)


def test_the_limits_are_those_of_the_code() -> None:
    flushes: CursorFlushes[object, object] = CursorFlushes()
    assert f"more than {NAME_BYTES_MAX:,} bytes" in PAGE
    subscriptions_max = Subscriptions(flushes).subscriptions_max
    assert f"{subscriptions_max:,} subscriptions, or {CONSUMERS_MAX:,} consumers" in PAGE
    assert f"{Settings().cursor_flush_ms} ms later (`cursor_flush_ms`)" in PAGE

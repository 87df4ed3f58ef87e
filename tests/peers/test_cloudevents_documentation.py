"""docs/cloudevents.md: its programs print what it says, one after the other on one server."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.peers.servers import HOST, Server

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cloudevents.md").read_text("utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
TIMEOUT_S = 60


def test_the_programs_print_what_the_page_says(own_server: Server) -> None:
    assert len(PROGRAMS) == PAGE.count("```python") == 2
    for program, printed in PROGRAMS:
        assert program.count("127.0.0.1:5672") == 1
        code = program.replace("127.0.0.1:5672", f"{HOST}:{own_server.amqp_port}")
        done = subprocess.run(
            [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=TIMEOUT_S
        )
        assert (done.stdout, done.returncode) == (printed, 0), done.stderr

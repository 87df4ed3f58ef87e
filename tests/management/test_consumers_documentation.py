"""docs/consumers.md: its programs and commands print what it says, and its table has every field that needs a word."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.engine.subscriptions import REATTACH_MS
from headwater.server.management.consumer_shapes import GroupPositionShown, GroupShown, SubscriptionShown
from tests.peers.servers import HOST, Server

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "consumers.md").read_text("utf-8")
BLOCKS = re.findall(r"```(sh|python)\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
TIMEOUT_S = 120


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on which nothing was done yet."""
    started = Server(tmp_path_factory.mktemp("documented") / "data")
    started.start()
    yield started
    started.end()


def test_the_programs_and_commands_print_what_the_page_says_one_after_the_other(fresh: Server) -> None:
    assert len(BLOCKS) == PAGE.count("```sh") + PAGE.count("```python") == 3
    url = f"http://{HOST}:{fresh.http_port}"
    variables = {"HEADWATER_HTTP_URL": url, "HEADWATER": url, "HEADWATER_STREAM_PORT": str(fresh.stream_port)}
    headwater = f'headwater() {{ "{sys.executable}" -m headwater.cli.main "$@"; }}\n'
    for language, code, printed in BLOCKS:
        program = code.replace("127.0.0.1:5672", f"{HOST}:{fresh.amqp_port}")
        command = (
            [sys.executable, "-c", program] if language == "python" else ["sh", "-ec", headwater + program]
        )
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env={**os.environ, **variables},
        )
        assert (done.stdout, done.returncode) == (printed, 0), done.stderr


def test_the_table_has_every_field_of_a_partition_and_those_of_the_whole_that_need_a_word() -> None:
    table = PAGE.partition("| field |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`([a-z_]+)`", table))
    assert set(GroupPositionShown.__struct_fields__) - {"partition"} <= named
    assert named - {"is_waiting"} <= {
        *GroupPositionShown.__struct_fields__,
        *GroupShown.__struct_fields__,
        *SubscriptionShown.__struct_fields__,
    }
    assert ("a\nminute at least" in PAGE) == (REATTACH_MS == 60_000)

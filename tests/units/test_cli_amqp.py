"""`headwater publish` and `tail` with a URL of AMQP: the same lines in and out, by another door."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from headwater.encoding.amqp_message import AmqpValue, Message, encode_message
from tests.peers.servers import HOST, Server

TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("server") / "data")
    started.start()
    yield started
    started.end()


def headwater(
    server: Server, *arguments: str, given: str = "", scheme: str = "amqp"
) -> subprocess.CompletedProcess[str]:
    """Run a command with the URL of the server in its environment."""
    port = server.amqp_port if scheme == "amqp" else server.stream_port
    return subprocess.run(
        [sys.executable, "-m", "headwater.cli.main", *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env=os.environ | {"HEADWATER_URL": f"{scheme}://guest:guest@{HOST}:{port}"},
    )


def test_lines_that_are_published_are_shown_again_by_both_doors(server: Server) -> None:
    lines = [f"line {number}" for number in range(3000)]
    published = headwater(server, "publish", "orders", "--json", given="\n".join(lines) + "\n")
    assert published.returncode == 0, published.stderr
    outcome = json.loads(published.stdout)
    assert (outcome["read"], outcome["sent"], outcome["confirmed"]) == (3000, 3000, 3000)
    for scheme in ("amqp", "rabbitmq-stream"):
        shown = headwater(server, "tail", "orders", "--from", "first", "--no-follow", scheme=scheme)
        assert shown.stdout.splitlines() == lines
    some = headwater(server, "tail", "orders", "--from", "2990", "--count", "2", "--json")
    assert some.returncode == 0, some.stderr
    documents = [json.loads(line) for line in some.stdout.splitlines()]
    assert [(each["offset"], each["partition"], each["body"]) for each in documents] == [
        (2990, "0", "line 2990"),
        (2991, "0", "line 2991"),
    ]
    assert documents[0]["timestamp"].endswith("Z")


def test_what_has_no_log_or_is_no_option_of_amqp_is_said_in_one_line(server: Server) -> None:
    missing = headwater(server, "tail", "nowhere", "--no-follow")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "nowhere" in missing.stderr
    assert missing.stderr.count("\n") == 1
    for arguments, named in (
        (("publish", "orders", "x", "--key", "k", "--name", "me"), "--name, --key cannot be had"),
        (("tail", "orders", "--name", "me"), "--name"),
        (("bench", "publish"), "this command needs streams"),
    ):
        refused = headwater(server, *arguments)
        assert refused.returncode == 2, refused.stderr
        assert named in refused.stderr


def test_a_message_of_another_node_is_shown_without_an_offset() -> None:
    from headwater.cli.amqp_tailing import _line
    from headwater.cli.tailing import Line, with_body

    message = encode_message(Message(body=AmqpValue("hello")))
    assert with_body(_line("queue", message), message) == Line("queue", body="hello")
    assert _line("queue", b"no message") == Line("queue")

"""The Python examples of Qpid Proton that talk to a broker, as Debian's package ships them, run with Proton from PyPI.

Adapted is this, and no more:

- The address that is written into them gives way to that of a server and a log of the test's own.
- The log is made first: a receiver that is no subscriber does not make one.
- A log hands out what comes from now on. So receivers are started first, and senders when Proton's trace shows that
  the receivers are attached; where an example is to see what was sent before, it gets a filter that says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.http_api import Api
from tests.peers.examples import Example
from tests.peers.packages import debian_files
from tests.peers.servers import HOST, Server

pytestmark = pytest.mark.peers

PACKAGE = "libqpid-proton11-dev-examples"
WRITTEN_IN = "localhost:5672"
ATTACHED = "<- @attach"
REFUSED = 'condition=:"amqp:not-implemented"'
REQUESTS = [
    "Twas brillig, and the slithy toves",
    "Did gire and gymble in the wabe.",
    "All mimsy were the borogroves,",
    "And the mome raths outgrabe.",
]
ANSWERS = [f"{request} => {request.upper()}" for request in REQUESTS]
SEQUENCE = [f"{{'sequence': {number}}}" for number in range(1, 101)]


class Examples:
    """The examples with the address of a server and a log in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, name: str, *arguments: str) -> Example:
        return Example([sys.executable, name, *arguments], self.folder, {"PN_TRACE_FRM": "1"})

    def run(self, name: str, *arguments: str) -> list[str]:
        """What an example prints that ends by itself."""
        with self.start(name, *arguments) as example:
            return example.finish()

    def receiver(self, name: str, *arguments: str, links: int = 1) -> Example:
        """An example that waits for messages, when its links are attached."""
        example = self.start(name, *arguments)
        try:
            example.wait_for_trace(ATTACHED, links)
        except AssertionError:
            example.kill()
            raise
        return example

    def rewrite(self, name: str, old: str, new: str) -> None:
        path = self.folder / name
        text = path.read_text("utf-8")
        assert old in text
        path.write_text(text.replace(old, new), "utf-8")


@pytest.fixture
def examples(server: Server, stream: str, tmp_path: Path) -> Examples:
    shipped = debian_files(PACKAGE) / "usr" / "share" / "proton" / "examples" / "python"
    folder = tmp_path / "examples"
    shutil.copytree(shipped, folder)
    for path in folder.glob("*.py"):
        text = path.read_text("utf-8").replace(WRITTEN_IN, f"{HOST}:{server.amqp_port}")
        path.write_text(text.replace('"examples"', f'"{stream}"').replace("/examples", f"/{stream}"), "utf-8")
    Api(server.http_port).do("PUT", f"/queues/%2F/{stream}", {"arguments": {"x-queue-type": "stream"}})
    return Examples(folder)


@pytest.mark.parametrize("name", ["helloworld.py", "helloworld_blocking.py"])
def test_hello_world(examples: Examples, name: str) -> None:
    assert examples.run(name) == ["Hello World!"]


def test_simple_send_and_simple_recv(examples: Examples) -> None:
    with examples.receiver("simple_recv.py") as receiver:
        assert examples.run("simple_send.py") == ["all messages confirmed"]
        assert receiver.finish() == SEQUENCE


@pytest.mark.parametrize("client", ["client.py", "sync_client.py"])
def test_clients_get_the_answers_of_the_server_at_nodes_of_their_own(examples: Examples, client: str) -> None:
    with examples.receiver("server.py", links=2) as server:
        assert examples.run(client) == ANSWERS
        server.wait_for_print(1 + len(REQUESTS))


def test_the_abstract_server_answers_without_correlation(examples: Examples) -> None:
    # sync_client.py waits for a correlation-id, which this server does not give back.
    with examples.receiver("abstract_server.py", links=2) as server:
        assert examples.run("client.py") == ANSWERS
        server.wait_for_print(len(REQUESTS))


def test_the_queue_browser_begins_with_the_first_message_each_time_when_it_asks_for_that(
    examples: Examples,
) -> None:
    examples.run("simple_send.py", "-m", "20")
    examples.rewrite("queue_browser.py", "import Container, Copy", "import Container, Copy, Filter")
    examples.rewrite(
        "queue_browser.py",
        "options=Copy()",
        "options=[Copy(), Filter({symbol('rabbitmq:stream-offset-spec'): "
        "Described(symbol('rabbitmq:stream-offset-spec'), 'first')})]",
    )
    examples.rewrite("queue_browser.py", "\ntry:", "\nfrom proton import Described, symbol\ntry:")
    for _ in range(2):
        # It ends as soon as nothing is queued at the client, be it before the end of the log.
        printed = examples.run("queue_browser.py")
        assert printed
        assert all(f"'sequence': {number}}}" in line for number, line in enumerate(printed, 1))


def test_a_selector_chooses_and_the_attach_says_so(examples: Examples) -> None:
    with examples.receiver("selected_recv.py", "-m", "3") as receiver:
        examples.run("colour_send.py", "-m", "6")
        printed = receiver.finish()
    assert printed == ["green 1", "green 3", "green 5"]
    asked, answered = (
        next(line for line in receiver.traced if direction in line) for direction in ("-> @attach", ATTACHED)
    )
    assert "selector" in asked
    assert "selector" in answered


def test_records_go_from_one_database_to_another(examples: Examples) -> None:
    for database in ("./src_db", "./dst_db"):
        examples.run("db_ctrl.py", "init", database)
    described = "".join(f"Message-{number}\n" for number in range(1, 101))
    subprocess.run(
        [sys.executable, "db_ctrl.py", "insert", "./src_db"],
        cwd=examples.folder,
        env=dict(os.environ),
        input=described,
        text=True,
        check=True,
        timeout=60,
    )
    with examples.receiver("db_recv.py", "-m", "100") as receiver:
        examples.run("db_send.py", "-m", "100")
        assert receiver.finish() == [f"inserted message {number}" for number in range(1, 101)]
    stored = [f"({number}, 'Message-{number}')" for number in range(1, 101)]
    assert examples.run("db_ctrl.py", "list", "./dst_db") == stored
    assert examples.run("db_ctrl.py", "list", "./src_db") == []


# Transactions do not exist here: the examples are told so, and end.


@pytest.mark.parametrize("name", ["tx_send.py", "tx_recv.py"])
def test_transactions_are_refused_and_the_program_ends(examples: Examples, name: str) -> None:
    with examples.start(name) as example:
        assert example.finish() == []
        assert any("<- @detach" in line and REFUSED in line for line in example.traced)


def test_the_interactive_receiver_hears_at_once_that_there_are_no_transactions(examples: Examples) -> None:
    with examples.start("tx_recv_interactive.py") as example:
        example.wait_for_trace(REFUSED)


def test_a_server_that_answers_in_transactions_is_refused_at_its_first_request(examples: Examples) -> None:
    # It listens for the outcome of its declare alone, so it passes over the refusal that came before that.
    with examples.receiver("server_tx.py") as server, examples.start("client.py"):
        server.wait_for_trace(REFUSED)
        assert server.printed == []

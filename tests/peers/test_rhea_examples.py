"""rhea's examples that talk to a broker, as version 0.2.9 of its package shipped them, run with today's rhea.

Adapted is this, and no more:

- The port and the node that are written into them give way to those of a server and a log of the test's own.
- The log is made first: a receiver that is no subscriber does not make one.
- A log hands out what comes from now on. So receivers are started first, and senders when rhea's trace shows that the
  receivers are attached; the queue browser, which is to see what was sent before, gets a filter that says so.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.http_api import Api
from tests.peers.examples import Example
from tests.peers.packages import npm_packages
from tests.peers.servers import Server

pytestmark = pytest.mark.peers

ATTACHED = "<- attach#12"
REQUESTS = [
    "Twas brillig, and the slithy toves",
    "Did gire and gymble in the wabe.",
    "All mimsy were the borogroves,",
    "And the mome raths outgrabe.",
]
ANIMALS = ["sent red-panda", "sent green-grasshopper", "sent red-squirrel", "sent blue-whale"]


class Examples:
    """The examples with the address of a server and a log in them."""

    def __init__(self, folder: Path, node_modules: Path) -> None:
        self.folder = folder
        self._environment = {"NODE_PATH": str(node_modules), "DEBUG": "rhea:frames", "DEBUG_COLORS": "0"}

    def start(self, name: str, *arguments: str) -> Example:
        return Example(["node", name, *arguments], self.folder, self._environment)

    def run(self, name: str, *arguments: str) -> list[str]:
        """What an example prints that ends by itself."""
        with self.start(name, *arguments) as example:
            return example.finish()

    def receiver(self, name: str, *arguments: str) -> Example:
        """An example that waits for messages, when its link is attached."""
        example = self.start(name, *arguments)
        try:
            example.wait_for_trace(ATTACHED)
        except AssertionError:
            example.kill()
            raise
        return example

    def rewrite(self, name: str, old: str, new: str) -> None:
        path = self.folder / name
        text = path.read_text("utf-8")
        assert old in text
        path.write_text(text.replace(old, new), "utf-8")


def prepared(server: Server, log: str, folder: Path) -> Examples:
    """The examples for a server, and the log that they use."""
    node_modules = npm_packages(Path(__file__).parent / "rhea") / "node_modules"
    shutil.copytree(node_modules / "rhea-examples" / "examples", folder)
    for path in folder.rglob("*.js"):
        text = path.read_text("utf-8")
        for port in ("'port':5672", "default: 5672", "default: [8888]"):
            text = text.replace(port, port.replace("5672", "PORT").replace("8888", "PORT"))
        text = text.replace("PORT", str(server.amqp_port)).replace("'examples'", f"'{log}'")
        path.write_text(text.replace("topic://PRICE.STOCK.NYSE.*", log), "utf-8")
    Api(server.http_port).do("PUT", f"/queues/%2F/{log}", {"arguments": {"x-queue-type": "stream"}})
    return Examples(folder, node_modules)


@pytest.fixture
def examples(server: Server, stream: str, tmp_path: Path) -> Examples:
    return prepared(server, stream, tmp_path / "examples")


def test_hello_world(examples: Examples) -> None:
    assert examples.run("helloworld.js") == ["Hello World!"]


def test_simple_send_and_simple_recv(examples: Examples) -> None:
    with examples.receiver("simple_recv.js") as receiver:
        sent = examples.run("simple_send.js")
        assert sent == [*(f"sent {number}" for number in range(1, 101)), "all messages confirmed"]
        assert receiver.finish() == [f'{{"sequence":{number}}}' for number in range(1, 101)]


def test_the_client_gets_its_answers_at_a_node_of_its_own(examples: Examples) -> None:
    with examples.receiver("server.js") as server:
        assert examples.run("client.js") == [f"{request} => {request.upper()}" for request in REQUESTS]
        server.wait_for_print(len(REQUESTS))
        assert server.printed == [f"Received: {request}" for request in REQUESTS]


def test_the_queue_browser_sees_all_messages_each_time_when_it_asks_for_the_first(examples: Examples) -> None:
    assert examples.run("selector/send.js") == ANIMALS
    described = (
        "filter:{'rabbitmq:stream-offset-spec':"
        "require('rhea').types.wrap_described('first','rabbitmq:stream-offset-spec')}"
    )
    for name, old in (
        ("queue_browser.js", "distribution_mode:'copy'"),
        ("simple_recv.js", "open_receiver(args.node)"),
    ):
        new = (
            f"{old},{described}"
            if "copy" in old
            else f"open_receiver({{source:{{address:args.node,{described}}}}})"
        )
        examples.rewrite(name, old, new)
    for name in ("queue_browser.js", "queue_browser.js", "simple_recv.js", "simple_recv.js"):
        assert examples.run(name, "-m", "4") == ['"panda"', '"grasshopper"', '"squirrel"', '"whale"']


def test_the_drain_example_gets_all_there_is_and_ends(examples: Examples) -> None:
    # More than its batch of 10 it would not see: it takes the answer to its first drain for the end.
    examples.run("simple_send.js", "-m", "7")
    examples.rewrite(
        "drain.js",
        "source:{address:args.node}",
        "source:{address:args.node,filter:{'rabbitmq:stream-offset-spec':"
        "require('rhea').types.wrap_described('first','rabbitmq:stream-offset-spec')}}",
    )
    assert examples.run("drain.js") == [f'{{"sequence":{number}}}' for number in range(1, 8)]


def test_a_selector_chooses_and_the_attach_says_so(examples: Examples) -> None:
    with examples.receiver("selector/recv.js", "-m", "2") as receiver:
        assert examples.run("selector/send.js") == ANIMALS
        assert receiver.finish() == ["panda", "squirrel"]
    asked, answered = (
        next(line for line in receiver.traced if what in line) for what in ("-> attach#12", ATTACHED)
    )
    assert "selector" in asked
    assert "selector" in answered


def test_a_subscriber_gets_what_is_published_while_it_is_attached(examples: Examples, stream: str) -> None:
    messages = ["one", "two", "three", "close"]
    with examples.receiver("durable_subscription/subscriber.js", "-t", stream) as subscriber:
        sent = examples.run("durable_subscription/publisher.js", "-t", stream, *messages)
        assert sent == [f"sent {message}" for message in messages]
        assert subscriber.finish() == messages[:3]


@pytest.mark.parametrize(
    "who", [["--username", "anonymous"], ["--username", "guest", "--password", "guest"], []]
)
def test_clients_with_and_without_a_name_are_connected(
    examples: Examples, server: Server, who: list[str]
) -> None:
    assert examples.run("sasl/simple_sasl_client.js", "-p", str(server.amqp_port), *who) == ["Connected!"]


def test_the_reconnecting_client_goes_on_when_the_server_is_back(
    own_server: Server, stream: str, tmp_path: Path
) -> None:
    examples = prepared(own_server, stream, tmp_path / "examples")
    # `disconnected` may come between a request and its answer: the next connection sends that request again.
    with examples.start(
        "reconnect/client.js", "--request_interval", "5", "--fixed_delay", "20", "-m", "150"
    ) as client:
        client.wait_for_print(40)
        own_server.kill()
        own_server.start()
        printed = client.finish()
    assert "disconnected" in printed
    assert printed[-1] == "connection closed"
    received = [line for line in printed if line.startswith("received ")]
    assert {f"received request-{number}" for number in range(1, 151)} <= set(received)

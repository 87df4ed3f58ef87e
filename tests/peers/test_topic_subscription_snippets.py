"""The code snippets of *Extended Semantics for Topic Subscriptions in AMQP*, run as they stand there.

Around each stands a handler like those of the proposal's examples, in a program of its own. `Capabilities` is not shown
there; it is written so that the frames are those of the proposal's protocol traces.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from proton.utils import BlockingConnection

from tests.peers.examples import Example
from tests.peers.proton_clients import connected, numbered, send_all
from tests.peers.servers import HOST, Server

A = "event.container.create_receiver(self.url)"
B = "event.container.create_receiver(self.url, name=self.subscription, options=[DurableSubscription()])"
C = (
    "event.container.create_receiver(self.url, name=self.subscription, "
    "options=[DurableSubscription(), Capabilities('global')])"
)
D = "event.container.create_receiver(self.url, name=self.subscription, options=[Capabilities('shared')])"
E = (
    "event.container.create_receiver(self.url, name=self.subscription, "
    "options=[Capabilities(['global', 'shared'])])"
)
F = (
    "event.container.create_receiver(self.url, name=self.subscription, "
    "options=[Capabilities('shared'), DurableSubscription()])"
)
G = (
    "event.container.create_receiver(self.url, name=self.subscription, "
    "options=[Capabilities(['global', 'shared']), DurableSubscription()])"
)

PROGRAM = """
import sys
from proton import symbol
from proton.handlers import MessagingHandler
from proton.reactor import Container, DurableSubscription, ReceiverOption


class Capabilities(ReceiverOption):
    def __init__(self, capabilities):
        self.capabilities = capabilities

    def apply(self, receiver):
        one = isinstance(self.capabilities, str)
        wanted = symbol(self.capabilities) if one else [symbol(each) for each in self.capabilities]
        receiver.source.capabilities.put_object(wanted)


class Subscriber(MessagingHandler):
    def __init__(self, url, subscription, count):
        super().__init__()
        self.url, self.subscription, self.left = url, subscription, count

    def on_start(self, event):
        SNIPPET

    def on_link_opened(self, event):
        if event.link.remote_source.address:
            print("attached", flush=True)

    def on_link_error(self, event):
        print(event.link.remote_condition.name, flush=True)
        event.connection.close()

    def on_message(self, event):
        print(event.message.body, flush=True)
        self.left -= 1
        if not self.left:
            event.connection.close()


url, subscription, container, count = sys.argv[1:]
running = Container(Subscriber(url, subscription, int(count)))
running.container_id = container or running.container_id
running.run()
"""


class Subscriber(Example):
    """A program with a snippet, attached; it closes its connection when it has had so many messages."""

    def __init__(
        self, snippet: str, server: Server, log: str, count: int, name: str = "", container: str = ""
    ) -> None:
        url = f"{HOST}:{server.amqp_port}/{log}"
        code = PROGRAM.replace("SNIPPET", snippet)
        super().__init__([sys.executable, "-c", code, url, name, container, str(count)], Path.cwd(), {})

    def __enter__(self) -> Subscriber:
        try:
            self.wait_for_print(1)
        except AssertionError:
            self.kill()
            raise
        return self

    def all(self) -> list[str]:
        """What had come when it ended."""
        said = self.finish()
        assert said[0] == "attached", said
        return said[1:]


@pytest.fixture
def sending(server: Server, stream: str) -> Iterator[BlockingConnection]:
    """A connection that has made the log."""
    with connected(server) as connection:
        send_all(connection, stream, ["before anybody was there"])
        yield connection


@pytest.mark.clause("TS-5", "ES-2")
def test_a_simple_subscribers_each_get_all(server: Server, sending: BlockingConnection, stream: str) -> None:
    with Subscriber(A, server, stream, 3) as one, Subscriber(A, server, stream, 3) as two:
        send_all(sending, stream, numbered(0, 3))
        assert one.all() == two.all() == numbered(0, 3)
    send_all(sending, stream, ["while nobody was there"])
    with Subscriber(A, server, stream, 1) as again:
        send_all(sending, stream, ["now"])
        assert again.all() == ["now"]


@pytest.mark.clause("TS-1", "TS-6", "TS-9")
def test_b_a_durable_subscriber_of_a_container_goes_on_where_it_was(
    server: Server, sending: BlockingConnection, stream: str
) -> None:
    with (
        Subscriber(B, server, stream, 2, "sub", "one") as mine,
        Subscriber(B, server, stream, 2, "sub", "two") as other,
    ):
        send_all(sending, stream, numbered(0, 2))
        assert mine.all() == other.all() == numbered(0, 2)
    for start in (2, 4):
        send_all(sending, stream, numbered(start, start + 2))
        with Subscriber(B, server, stream, 2, "sub", "one") as mine:
            assert mine.all() == numbered(start, start + 2)


@pytest.mark.clause("TS-2", "TS-6")
def test_c_a_global_durable_subscription_is_the_same_for_every_container(
    server: Server, sending: BlockingConnection, stream: str
) -> None:
    with Subscriber(C, server, stream, 2, f"{stream}-c", "one") as first:
        with Subscriber(C, server, stream, 1, f"{stream}-c", "two") as second:
            assert second.finish() == ["amqp:resource-locked"]
        send_all(sending, stream, numbered(0, 2))
        assert first.all() == numbered(0, 2)
    send_all(sending, stream, numbered(2, 5))
    with Subscriber(C, server, stream, 3, f"{stream}-c", "two") as second:
        assert second.all() == numbered(2, 5)


@pytest.mark.clause("TS-3", "TS-7")
@pytest.mark.parametrize(("snippet", "containers"), [(D, ("same", "same")), (E, ("one", "two"))])
def test_d_and_e_shared_subscribers_divide_and_leave_nothing_behind(
    server: Server,
    sending: BlockingConnection,
    stream: str,
    snippet: str,
    containers: tuple[str, str],
) -> None:
    name = f"{stream}-de"
    with (
        Subscriber(snippet, server, stream, 4, name, containers[0]) as one,
        Subscriber(snippet, server, stream, 4, name, containers[1]) as two,
    ):
        for text in numbered(0, 8):
            send_all(sending, stream, [text])  # each to the next of them
        assert sorted(one.all() + two.all()) == numbered(0, 8)
    send_all(sending, stream, ["while nobody was there"])
    with Subscriber(snippet, server, stream, 1, name, containers[0]) as again:
        send_all(sending, stream, ["now"])
        assert again.all() == ["now"]


@pytest.mark.clause("TS-3", "TS-8", "TS-9")
@pytest.mark.parametrize(("snippet", "containers"), [(F, ("same", "same")), (G, ("one", "two"))])
def test_f_and_g_shared_durable_subscribers_divide_and_find_what_came_meanwhile(
    server: Server,
    sending: BlockingConnection,
    stream: str,
    snippet: str,
    containers: tuple[str, str],
) -> None:
    name = f"{stream}-fg"
    with (
        Subscriber(snippet, server, stream, 4, name, containers[0]) as one,
        Subscriber(snippet, server, stream, 4, name, containers[1]) as two,
    ):
        for text in numbered(0, 8):
            send_all(sending, stream, [text])  # each to the next of them
        assert sorted(one.all() + two.all()) == numbered(0, 8)
    send_all(sending, stream, numbered(8, 10))
    with Subscriber(snippet, server, stream, 2, name, containers[1]) as again:
        assert again.all() == numbered(8, 10)


@pytest.mark.clause("TS-3", "TS-4")
def test_names_that_differ_behind_a_bar_are_one_subscription(
    server: Server, sending: BlockingConnection, stream: str
) -> None:
    with (
        Subscriber(F, server, stream, 2, "mysub|foo", stream) as foo,
        Subscriber(F, server, stream, 2, "mysub|bar", stream) as bar,
    ):
        for text in numbered(0, 4):
            send_all(sending, stream, [text])
        assert sorted(foo.all() + bar.all()) == numbered(0, 4)

"""Qpid JMS: durable, shared, and shared durable consumers of topics, and how they unsubscribe."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.peers.programs import Program, Refused, java_command, texts
from tests.peers.servers import HOST, Server

pytestmark = pytest.mark.peers

_CLIENTS = itertools.count(1)


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    """One for all tests: it takes a second to start."""
    with Program(java_command("jms")) as started:
        yield started


class Client:
    """A connection of the program with a session, known by a name."""

    def __init__(self, program: Program, server: Server, name: str, **fields: Any) -> None:
        self._program = program
        self.name = name
        program("connect", **{"as": name, "uri": f"amqp://{HOST}:{server.amqp_port}", **fields})
        self.session()

    def session(self, ack: str = "auto") -> None:
        self._program("session", **{"as": f"{self.name} session", "of": self.name, "ack": ack})

    def consumer(self, topic: str, as_: str = "c", **fields: Any) -> None:
        """Make a consumer; `durable`, `shared` and `shared_durable` name its subscription."""
        self._program(
            "consumer", **{"as": f"{self.name} {as_}", "of": f"{self.name} session", "topic": topic, **fields}
        )

    def receive(self, count: int, as_: str = "c", **fields: Any) -> list[str]:
        found: list[str] = self._program("receive", of=f"{self.name} {as_}", count=count, **fields)
        return found

    def has_nothing(self, as_: str = "c") -> bool:
        return self._program("receive_no_wait", of=f"{self.name} {as_}") is None

    def properties(self, as_: str = "c") -> dict[str, Any]:
        found: dict[str, Any] = self._program("receive_properties", of=f"{self.name} {as_}")
        return found

    def leave(self, as_: str = "c") -> None:
        """Close a consumer: what is durable stays."""
        self._program("close", of=f"{self.name} {as_}")

    def unsubscribe(self, name: str) -> None:
        self._program("unsubscribe", of=f"{self.name} session", name=name)

    def close(self) -> None:
        self._program("close", of=self.name)


@pytest.fixture
def client(program: Program, server: Server) -> Iterator[Any]:
    """Makes clients, which are closed at the end."""
    made: list[Client] = []

    def make(**fields: Any) -> Client:
        made.append(Client(program, server, f"client-{next(_CLIENTS)}", **fields))
        return made[-1]

    yield make
    for each in made:
        with contextlib.suppress(Refused):
            each.close()


@pytest.fixture
def send(program: Program, server: Server, stream: str) -> Iterator[Any]:
    """Sends to the topic, which it has made."""
    sender = Client(program, server, "sender")
    program("producer", **{"as": "p", "of": "sender session", "topic": stream})

    def sending(bodies: list[str]) -> None:
        for body in bodies:
            assert program("send", to="p", bodies=[body]) == 1

    yield sending
    sender.close()


@pytest.mark.clause("TS-6", "TS-9")
def test_a_durable_subscriber_finds_what_came_while_it_was_away_until_it_unsubscribes(
    client: Any, send: Any, stream: str
) -> None:
    mine = client(client_id=stream)
    mine.consumer(stream, durable="sub")
    send(texts(0, 3))
    assert mine.receive(3) == texts(0, 3)
    mine.leave()
    send(texts(3, 5))
    mine.consumer(stream, durable="sub")
    assert mine.receive(2) == texts(3, 5)
    mine.close()
    send(texts(5, 6))
    again = client(client_id=stream)
    again.consumer(stream, durable="sub")
    assert again.receive(1) == texts(5, 6)
    again.leave()
    again.unsubscribe("sub")
    send(["lost"])
    again.consumer(stream, durable="sub")
    assert again.has_nothing()


@pytest.mark.clause("TS-1")
def test_clients_have_durable_subscriptions_of_their_own(client: Any, send: Any, stream: str) -> None:
    one, two = client(client_id=f"{stream}-one"), client(client_id=f"{stream}-two")
    for each in (one, two):
        each.consumer(stream, durable="sub")
    send(texts(0, 3))
    assert one.receive(3) == two.receive(3) == texts(0, 3)


@pytest.mark.clause("TS-3", "TS-4", "TS-7")
@pytest.mark.parametrize("has_id", [True, False], ids=["with a client id", "global"])
def test_shared_consumers_divide_a_topic_and_leave_nothing_behind(
    client: Any, send: Any, stream: str, has_id: bool
) -> None:
    one = client(client_id=stream) if has_id else client()
    two = one if has_id else client()
    one.consumer(stream, "first", shared=stream)
    two.consumer(stream, "second", shared=stream)
    send(texts(0, 6))
    assert one.receive(3, "first") == texts(0, 6)[::2]
    assert two.receive(3, "second") == texts(0, 6)[1::2]
    one.leave("first")
    two.leave("second")
    send(["lost"])
    one.consumer(stream, "first", shared=stream)
    assert one.has_nothing("first")


@pytest.mark.clause("TS-2", "TS-3", "TS-4", "TS-8", "TS-9")
@pytest.mark.parametrize("has_id", [True, False], ids=["with a client id", "global"])
def test_shared_durable_consumers_divide_a_topic_and_find_what_came_meanwhile(
    client: Any, send: Any, stream: str, has_id: bool
) -> None:
    one = client(client_id=stream) if has_id else client()
    two = one if has_id else client()
    one.consumer(stream, "first", shared_durable=stream)
    two.consumer(stream, "second", shared_durable=stream)
    send(texts(0, 6))
    assert one.receive(3, "first") == texts(0, 6)[::2]
    assert two.receive(3, "second") == texts(0, 6)[1::2]
    one.leave("first")
    two.leave("second")
    send(texts(6, 8))
    two.consumer(stream, "second", shared_durable=stream)
    assert two.receive(2, "second") == texts(6, 8)
    two.leave("second")
    one.unsubscribe(stream)
    send(["lost"])
    one.consumer(stream, "first", shared_durable=stream)
    assert one.has_nothing("first")


@pytest.mark.clause("TS-9")
def test_unsubscribing_from_what_is_not_there_or_in_use_is_an_error(
    client: Any, send: Any, stream: str
) -> None:
    one, two = client(), client()
    with pytest.raises(Refused, match="there is no subscription of this name") as refused:
        one.unsubscribe(stream)
    assert refused.value.code == "InvalidDestinationException"
    one.consumer(stream, shared_durable=stream)
    with pytest.raises(Refused, match="another consumer is attached to this subscription"):
        two.unsubscribe(stream)
    send(texts(0, 1))
    assert one.receive(1) == texts(0, 1)


@pytest.mark.clause("TS-1", "TS-10")
def test_a_subscription_with_another_selector_or_of_another_kind_is_refused(
    client: Any, send: Any, stream: str
) -> None:
    mine = client(client_id=stream)
    mine.consumer(stream, durable="sub", selector="JMSPriority > 3")
    mine.leave()
    with pytest.raises(Refused, match="the subscription exists with another filter"):
        mine.consumer(stream, durable="sub", selector="JMSPriority > 4")
    with pytest.raises(Refused, match="the subscription exists with other properties"):
        mine.consumer(stream, shared_durable="sub", selector="JMSPriority > 3")
    mine.consumer(stream, durable="sub", selector="JMSPriority > 3")
    send(texts(0, 1))
    assert mine.receive(1) == texts(0, 1)


@pytest.mark.clause("TS-11")
@pytest.mark.parametrize("kind", ["durable", "shared_durable"])
def test_what_was_not_acknowledged_comes_again_and_is_counted(
    client: Any, send: Any, stream: str, kind: str
) -> None:
    mine = client(client_id=stream)
    mine.session("client")
    mine.consumer(stream, **{kind: "sub"})
    send(texts(0, 2))
    assert [mine.properties()["JMSXDeliveryCount"] for _ in range(2)] == [1, 1]
    mine.close()
    again = client(client_id=stream)
    again.consumer(stream, **{kind: "sub"})
    # The client gives messages back before it closes its link, which may have got them once more by then.
    assert all(again.properties()["JMSXDeliveryCount"] >= 2 for _ in range(2))
    assert again.has_nothing()


@pytest.mark.clause("TS-8", "TS-11")
def test_what_a_killed_client_held_goes_to_another(
    program: Program, client: Any, send: Any, server: Server, stream: str
) -> None:
    with Program(java_command("jms")) as doomed:
        killed = Client(doomed, server, "killed")
        killed.session("client")
        killed.consumer(stream, shared_durable=stream)
        send(texts(0, 4))
        assert killed.receive(4) == texts(0, 4)
        doomed.kill()
    other = client()
    other.consumer(stream, shared_durable=stream)
    seen = [other.properties()["JMSXDeliveryCount"] for _ in range(4)]
    assert seen == [2, 2, 2, 2]

"""Qpid JMS: topics and their subscribers, messages of every kind, acknowledging, temporary destinations, refusals."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.peers.programs import Program, Refused, java_command, texts
from tests.peers.servers import HOST, Server

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    """One for all tests: it takes a second to start."""
    with Program(java_command("jms")) as started:
        yield started


@pytest.fixture
def uri(server: Server) -> str:
    return f"amqp://{HOST}:{server.amqp_port}"


@pytest.fixture
def peer(program: Program, uri: str) -> Iterator[Program]:
    """The program with a connection and a session of this test."""
    program("connect", uri=uri)
    program("session")
    yield program
    with contextlib.suppress(Refused):
        program("close")


def made(peer: Program, kind: str, name: str, topic: str, **fields: Any) -> None:
    peer(kind, **{"as": name, "topic": topic, **fields})


def topic(peer: Program, name: str, **fields: Any) -> None:
    """A producer `p`, which makes the log, and a consumer `c`."""
    made(peer, "producer", "p", name)
    made(peer, "consumer", "c", name, **fields)


def send(peer: Program, bodies: list[str], to: str = "p", **fields: Any) -> None:
    assert peer("send", to=to, bodies=bodies, **fields) == len(bodies)


# Topics


def test_every_subscriber_gets_what_comes_from_now_on(peer: Program, stream: str) -> None:
    topic(peer, stream)
    send(peer, texts(0, 10))
    made(peer, "consumer", "late", stream)
    send(peer, texts(10, 20))
    assert peer("receive", of="c", count=20) == texts(0, 20)
    assert peer("receive", of="late", count=10) == texts(10, 20)
    assert peer("receive_no_wait", of="c") is None


def test_messages_of_every_kind_come_out_with_all_their_properties(peer: Program, stream: str) -> None:
    topic(peer, stream)
    assert peer("send_rich", to="p") == 7
    assert peer("receive_rich", of="c") == []


@pytest.mark.clause("AMQP links 6")
def test_a_producer_without_a_destination_sends_each_message_where_it_says(
    peer: Program, stream: str
) -> None:
    names = [f"{stream}-{word}" for word in ("a", "b")]
    peer("producer", **{"as": "any"})
    for name in names:
        send(peer, ["the first makes the log"], to="any", topic=name)
        made(peer, "consumer", name, name)
    for name in names:
        send(peer, [f"for {name}"], to="any", topic=name)
    for name in names:
        assert peer("receive", of=name, count=1) == [f"for {name}"]


@pytest.mark.parametrize("fields", [{}, {"not_persistent": True}, {"at_once": True}])
def test_messages_go_one_by_one_or_many_at_once_with_listeners(
    peer: Program, stream: str, fields: dict[str, Any]
) -> None:
    topic(peer, stream)
    send(peer, texts(0, 500), **fields)
    assert peer("receive", of="c", count=500) == texts(0, 500)


def test_listeners_hear_what_comes_while_the_connection_runs(peer: Program, stream: str) -> None:
    topic(peer, stream, listens=True)
    made(peer, "consumer", "another", stream, listens=True)
    send(peer, texts(0, 100))
    assert peer("listened", of="c", count=100) == texts(0, 100)
    peer("stop")
    send(peer, texts(100, 150))
    assert peer("listened", of="c", count=100) == texts(0, 100)
    peer("start")
    assert peer("listened", of="c", count=150) == texts(0, 150)
    assert peer("listened", of="another", count=150) == texts(0, 150)


def test_large_messages_come_whole_and_too_large_ones_are_refused_with_a_reason(
    peer: Program, stream: str
) -> None:
    topic(peer, stream)
    for size in (1000, 100_000, 1_000_000):
        assert peer("send", to="p", size=size) == 1
        assert peer("receive", of="c", count=1) == [f"{size} bytes"]
    with pytest.raises(Refused, match="message has 1048448 bytes at most"):
        peer("send", to="p", size=1_100_000)
    made(peer, "producer", "p", stream)
    send(peer, ["after it"])
    assert peer("receive", of="c", count=1) == ["after it"]


# Acknowledging


@pytest.mark.parametrize("ack", ["auto", "dups_ok"])
def test_sessions_acknowledge_by_themselves(peer: Program, stream: str, ack: str) -> None:
    peer("session", ack=ack)
    topic(peer, stream)
    send(peer, texts(0, 2000), at_once=True)
    assert peer("receive", of="c", count=2000) == texts(0, 2000)


def test_what_is_not_acknowledged_comes_again_when_the_session_recovers(peer: Program, stream: str) -> None:
    peer("session", ack="client")
    topic(peer, stream)
    send(peer, texts(0, 10))
    assert peer("receive", of="c", count=4, acknowledge=True) == texts(0, 4)
    assert peer("receive", of="c", count=3) == texts(4, 7)
    peer("recover", of="")
    assert peer("receive", of="c", count=6, acknowledge=True) == texts(4, 10)


@pytest.mark.clause("AMQP flow 2")
@pytest.mark.parametrize("prefetch", [0, 1, 100])
def test_prefetched_messages_are_as_many_as_wanted(
    program: Program, uri: str, stream: str, prefetch: int
) -> None:
    program("connect", uri=f"{uri}?jms.prefetchPolicy.all={prefetch}")
    program("session")
    topic(program, stream)
    assert program("receive_no_wait", of="c") is None
    send(program, texts(0, 300))
    assert program("receive", of="c", count=300) == texts(0, 300)
    assert program("receive_no_wait", of="c") is None
    program("close")


def test_everything_may_be_settled_as_it_is_sent(program: Program, uri: str, stream: str) -> None:
    program("connect", uri=f"{uri}?jms.presettlePolicy.presettleAll=true")
    program("session")
    topic(program, stream)
    send(program, texts(0, 300))
    assert program("receive", of="c", count=300) == texts(0, 300)
    program("close")


def test_a_consumer_that_closes_leaves_what_it_had_prefetched(peer: Program, stream: str) -> None:
    topic(peer, stream)
    send(peer, texts(0, 500))
    assert peer("receive", of="c", count=1) == texts(0, 1)
    peer("close", of="c")
    made(peer, "consumer", "c", stream)
    send(peer, ["another"])
    assert peer("receive", of="c", count=1) == ["another"]


# Temporary destinations and queues


@pytest.mark.clause("AMQP links 7")
@pytest.mark.parametrize("kind", ["topic", "queue"])
def test_a_temporary_destination_takes_messages_until_it_is_deleted(peer: Program, kind: str) -> None:
    name = peer("temporary", **{"as": "t", "kind": kind})
    peer("consumer", **{"as": "c", "temporary": "t"})
    peer("producer", **{"as": "p", "temporary": "t"})
    send(peer, texts(0, 3))
    assert peer("receive", of="c", count=3) == texts(0, 3)
    peer("close", of="c")
    peer("delete", of="t")
    peer("producer", **{"as": "late"})
    with pytest.raises(Refused, match=f"there is no log '{name}'"):
        peer("send", to="late", topic=name, bodies=["for nobody"])


def test_a_request_is_answered_where_it_says(peer: Program, uri: str, stream: str) -> None:
    peer("connect", **{"as": "service", "uri": uri})
    peer("session", **{"as": "serving", "of": "service"})
    made(peer, "producer", "p", stream)
    made(peer, "consumer", "requests", stream, of="serving")
    peer("producer", **{"as": "answers", "of": "serving"})
    name = peer("temporary", **{"as": "t", "kind": "topic"})
    peer("consumer", **{"as": "c", "temporary": "t"})
    for body in texts(0, 5):
        send(peer, [body], reply_to=name)
        assert peer("answer", of="requests", to="answers") == body
        assert peer("receive", of="c", count=1) == [f"answer to {body}"]
    peer("close", of="service")


def test_a_queue_is_browsed_from_its_first_message_to_its_last(peer: Program, stream: str) -> None:
    made(peer, "producer", "p", stream)
    assert peer("browse", queue=stream) == []
    send(peer, texts(0, 1500), at_once=True)
    assert peer("browse", queue=stream) == texts(0, 1500)
    assert peer("browse", queue=stream) == texts(0, 1500)


def test_a_queue_is_sent_to_and_received_from(peer: Program, stream: str) -> None:
    peer("producer", **{"as": "p", "queue": stream})
    peer("consumer", **{"as": "c", "queue": stream})
    send(peer, texts(0, 3))
    assert peer("receive", of="c", count=3) == texts(0, 3)


# The management node


@pytest.mark.clause("AMQP management 2")
def test_logs_are_made_and_deleted_by_requests_to_the_management_node(peer: Program, stream: str) -> None:
    name = peer("temporary", **{"as": "t", "kind": "queue"})
    peer("consumer", **{"as": "answers", "temporary": "t"})
    peer("producer", **{"as": "requests", "queue": "$management"})

    def ask(operation: str) -> Any:
        properties = {"operation": operation, "type": "headwater.log", "name": stream}
        assert peer("send", to="requests", map={}, properties=properties, reply_to=name) == 1
        return peer("receive_properties", of="answers")["statusCode"]

    assert ask("READ") == 404
    assert ask("CREATE") == 201
    made(peer, "consumer", "c", stream)
    made(peer, "producer", "p", stream)
    send(peer, ["there"])
    assert peer("receive", of="c", count=1) == ["there"]
    assert ask("READ") == 200
    assert ask("DELETE") == 204
    with pytest.raises(Refused, match=f"there is no log '{stream}'"):
        made(peer, "consumer", "c", stream)


# Refusals: each is an exception with words that help, and the connection goes on


def assert_goes_on(peer: Program, name: str) -> None:
    topic(peer, name)
    send(peer, ["still there"])
    assert peer("receive", of="c", count=1) == ["still there"]


def test_a_topic_that_is_not_there_has_no_subscribers(peer: Program, stream: str) -> None:
    with pytest.raises(Refused, match=f"there is no log '{stream}'; create it") as refused:
        made(peer, "consumer", "c", stream)
    assert refused.value.code == "InvalidDestinationException"
    assert_goes_on(peer, stream)


@pytest.mark.clause("AMQP links 8")
def test_transactions_are_refused(peer: Program, stream: str) -> None:
    with pytest.raises(Refused, match="there are no transactions here; use a session without them"):
        peer("session", **{"as": "transacted", "ack": "transacted"})
    assert_goes_on(peer, stream)


def test_own_messages_are_not_kept_back_but_the_wish_is_refused(peer: Program, stream: str) -> None:
    made(peer, "producer", "p", stream)
    with pytest.raises(Refused, match="is not implemented here; receive all, and choose in the application"):
        made(peer, "consumer", "c", stream, no_local=True)
    assert_goes_on(peer, stream)


@pytest.mark.clause("ES-28")
def test_a_selector_chooses_by_header_fields(peer: Program, stream: str) -> None:
    topic(peer, stream, selector="JMSDeliveryMode = 'NON_PERSISTENT'")
    send(peer, texts(0, 3))
    send(peer, texts(3, 6), not_persistent=True)
    assert peer("receive", of="c", count=3) == texts(3, 6)
    assert peer("receive_no_wait", of="c") is None

"""What of subscriptions and durable termini outlives a server that is stopped, and one that is killed (ES-4, TS-8)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.amqp.definitions import Condition
from headwater.amqp.messaging import TerminusExpiryPolicy
from headwater.amqp.performatives import Disposition
from headwater.encoding.amqp_types import Described, Symbol
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_subscriber import (
    Publisher,
    count_of,
    leave,
    offsets,
    refused,
    settle,
    subscribe,
)
from tests.conformance.amqp_wire import AmqpWire, from_offset, opened_amqp
from tests.peers.servers import HOST, Server

SHARED = ("shared", "durable")
SELECTOR = Symbol("apache.org:selector-filter:string")
SELECTED = {SELECTOR: Described(SELECTOR, "n > 3")}
TO_ZERO = {"properties": {Symbol("event-streams-partition"): Symbol("0")}}
KINDS: dict[str, tuple[tuple[str, ...], Any]] = {
    "shared": (SHARED, None),
    "alone": (("durable",), None),
    "terminus": (("durable",), TO_ZERO),
}
POLICIES: dict[str, dict[str, Any]] = {
    "short": {"expiry_policy": TerminusExpiryPolicy.CONNECTION_CLOSE, "timeout": 1},
    "long": {"expiry_policy": TerminusExpiryPolicy.LINK_DETACH, "timeout": 1_000},
}


def opened(server: Server) -> AmqpWire:
    return opened_amqp(HOST, server.amqp_port, fields={"container_id": "same"})


def settle_on_disk(peer: AmqpWire, messages: list[Any]) -> None:
    """Accept messages, and wait for our settling."""
    settle(peer, messages, settled=False)
    answered = 0
    while answered < len(messages):
        told = peer.take(Disposition)
        answered += 1 + (told.first if told.last is None else told.last) - told.first


def before(peer: AmqpWire, writer: AmqpWire) -> None:
    """What a server is told before it ends; consumers are attached then."""
    publish = Publisher(writer, "log")
    for handle, (name, (words, link)) in enumerate(KINDS.items()):
        subscribe(peer, "log", name, *words, handle=handle, credit=0, second=True, link=link)
    subscribe(peer, "log", "volatile", "shared", handle=3, credit=0)
    subscribe(peer, "log", "closed", *SHARED, handle=4, credit=0)
    subscribe(peer, "log", "selecting", *SHARED, handle=5, filter=SELECTED)
    for handle, (name, fields) in enumerate(POLICIES.items(), 6):
        subscribe(peer, "log", name, "durable", handle=handle, credit=0, **fields)
    publish(10)
    for handle in range(5):
        peer.credit(100, handle)
        came = peer.messages(10)
        if handle < len(KINDS):
            settle_on_disk(peer, [*came[:3], came[6]])
    leave(peer, 4, closed=True)
    publish(2)


@pytest.fixture(scope="module", params=[Server.stop, Server.kill], ids=["stopped", "killed"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that was ended, and started anew."""
    end: Callable[[Server], object] = request.param
    started = Server(tmp_path_factory.mktemp("server") / "data")
    started.start()
    with opened(started) as peer, opened(started) as writer:
        before(peer, writer)
        end(started)
    started.start()
    yield started
    started.end()


@pytest.mark.clause("ES-4", "TS-8", "TS-11")
@pytest.mark.parametrize("kind", list(KINDS))
def test_what_was_settled_on_disk_does_not_come_again_and_nothing_else_is_lost(
    server: Server, kind: str
) -> None:
    words, link = KINDS[kind]
    with opened(server) as peer:
        subscribe(peer, "log", kind, *words, link=link)
        assert offsets(peer.messages(8)) == [3, 4, 5, 7, 8, 9, 10, 11]
        peer.assert_nothing_came()


@pytest.mark.clause("TS-7", "TS-9")
@pytest.mark.parametrize(("name", "words"), [("closed", SHARED), ("volatile", ("shared",))])
def test_what_was_closed_or_not_durable_does_not_come_back(
    server: Server, name: str, words: tuple[str, ...]
) -> None:
    with opened(server) as peer:
        subscribe(peer, "log", name, *words)
        peer.assert_nothing_came()


@pytest.mark.clause("TS-8", "TS-10")
@pytest.mark.parametrize(
    ("words", "filters"), [(("durable",), SELECTED), (("shared",), SELECTED), (SHARED, None)]
)
def test_what_was_granted_holds(server: Server, words: tuple[str, ...], filters: dict[Symbol, Any]) -> None:
    with opened(server) as peer:
        refused(peer, Condition.PRECONDITION_FAILED, "log", "selecting", *words, filter=filters)
        subscribe(peer, "log", "selecting", *SHARED, filter=SELECTED)


@pytest.mark.clause("ES-4")
def test_time_outs_run_from_the_start_of_the_server(server: Server) -> None:
    time.sleep(1.5)
    with opened(server) as peer:
        for handle, (name, fields) in enumerate(POLICIES.items()):
            subscribe(peer, "log", name, "durable", handle=handle, **fields)
        came = peer.messages(12)
        assert offsets(came) == list(range(12))
        peer.assert_nothing_came()


@pytest.mark.clause("TS-8", "TS-11")
def test_a_server_that_is_stopped_writes_what_was_settled_last(tmp_path: Path) -> None:
    fields = {"container_id": "same"}
    with ListeningAmqp(tmp_path, cursor_flush_s=1_000.0) as door, door.connect(fields=fields) as peer:
        subscribe(peer, "log", "sub", *SHARED, handle=1)
        Publisher(peer, "log")(10)
        settle(peer, peer.messages(10)[:7])
        peer.assert_nothing_came()
    with ListeningAmqp(tmp_path) as door, door.connect(fields=fields) as peer:
        subscribe(peer, "log", "sub", *SHARED)
        assert [(each.offset, count_of(each)) for each in peer.messages(3)] == [(7, 1), (8, 1), (9, 1)]


@pytest.mark.clause("ES-4", "TS-8")
def test_a_position_that_is_yet_to_come_is_waited_for_over_a_restart(tmp_path: Path) -> None:
    fields = {"container_id": "same"}
    with ListeningAmqp(tmp_path) as door, door.connect(fields=fields) as peer:
        subscribe(peer, "log", "sub", *SHARED, filter=from_offset(7))
        peer.assert_nothing_came()
    with ListeningAmqp(tmp_path) as door, door.connect(fields=fields) as peer:
        subscribe(peer, "log", "sub", *SHARED, filter=from_offset(7), handle=1)
        Publisher(peer, "log")(10)
        assert offsets(peer.messages(3)) == [7, 8, 9]

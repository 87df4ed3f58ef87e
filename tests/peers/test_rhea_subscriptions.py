"""rhea: durable and shared subscribers, what they say of messages, and durable termini over a restart."""

from __future__ import annotations

from typing import Any

import pytest

from tests.peers.programs import Program, Refused
from tests.peers.servers import Server
from tests.peers.test_rhea import connect, program, receive, send, sender

pytestmark = pytest.mark.peers

SHARED: dict[str, Any] = {"capabilities": ["shared"]}
DURABLE: dict[str, Any] = {"durable": 2, "expiry_policy": "never"}
FAILED: dict[str, Any] = {"outcome": "modified", "details": {"delivery_failed": True}}
NOT_HERE: dict[str, Any] = {"outcome": "modified", "details": {"undeliverable_here": True}}


@pytest.fixture
def peer(server: Server) -> Any:
    """The program with one connection."""
    with program() as running:
        connect(running, server)
        yield running


def subscriber(
    peer: Program, address: str, name: str, as_: str = "r", credit: int = 100, **source: Any
) -> None:
    peer(
        "receiver", **{"as": as_, "address": address, "name": name, "source": {"address": address, **source}}
    )
    if credit:
        peer("credit", of=as_, credit=credit)


def counted(peer: Program, count: int, of: str = "r", **how: Any) -> list[tuple[str, int]]:
    """Bodies with their delivery counts."""
    return [
        (each["body"], each.get("delivery_count", 0)) for each in peer("receive", of=of, count=count, **how)
    ]


@pytest.mark.clause("TS-6", "TS-9")
def test_a_detached_subscription_is_kept_and_a_closed_one_is_not(peer: Program, stream: str) -> None:
    sender(peer, stream)
    subscriber(peer, stream, "sub", **DURABLE)
    send(peer, ["one"])
    assert receive(peer, 1) == ["one"]
    peer("leave", of="r", closed=False)
    send(peer, ["two"])
    subscriber(peer, stream, "sub", **DURABLE)
    assert receive(peer, 1) == ["two"]
    peer("leave", of="r", closed=True)
    send(peer, ["three"])
    subscriber(peer, stream, "sub", **DURABLE)
    send(peer, ["four"])
    assert receive(peer, 1) == ["four"]


@pytest.mark.clause("TS-3", "TS-4", "TS-7")
def test_shared_subscribers_take_turns(peer: Program, stream: str) -> None:
    sender(peer, stream)
    for number in range(2):
        subscriber(peer, stream, f"sub|{number}", f"r{number}", **SHARED)
    for number in range(6):
        send(peer, [str(number)])
    assert receive(peer, 3, "r0") == ["0", "2", "4"]
    assert receive(peer, 3, "r1") == ["1", "3", "5"]


@pytest.mark.clause("TS-3", "TS-11")
def test_what_is_released_rejected_or_modified_does_what_amqp_says(peer: Program, stream: str) -> None:
    sender(peer, stream)
    subscriber(peer, stream, "sub|1", credit=1, **DURABLE, **SHARED)
    send(peer, ["one"])
    for how, expected in (({"outcome": "release"}, 0), (FAILED, 0), (FAILED, 1)):
        assert counted(peer, 1, **how) == [("one", expected)]
        peer("credit", of="r", credit=1)
    assert counted(peer, 1, **NOT_HERE) == [("one", 2)]
    subscriber(peer, stream, "sub|2", "other", credit=1, **DURABLE, **SHARED)
    assert counted(peer, 1, "other", outcome="reject") == [("one", 2)]
    assert peer("drain", of="r", credit=5) == {"arrived": 0, "credit": 0}
    assert peer("drain", of="other", credit=5) == {"arrived": 0, "credit": 0}


@pytest.mark.clause("TS-10")
def test_a_subscription_of_another_kind_is_refused_with_a_reason(peer: Program, stream: str) -> None:
    sender(peer, stream)
    subscriber(peer, stream, "sub", **DURABLE)
    with pytest.raises(Refused, match="with other properties") as refused:
        subscriber(peer, stream, "sub|2", "other", **SHARED)
    assert refused.value.code == "amqp:precondition-failed"


@pytest.mark.clause("ES-4", "TS-8", "TS-11")
def test_what_was_settled_second_does_not_come_again_after_a_kill(own_server: Server, stream: str) -> None:
    to_zero = {"properties": {"event-streams-partition": "0"}}
    kinds: list[tuple[dict[str, Any], dict[str, Any]]] = [({**DURABLE, **SHARED}, {}), (DURABLE, to_zero)]
    with program() as peer:
        connect(peer, own_server, container_id="same")
        sender(peer, stream)
        for number, (source, options) in enumerate(kinds):
            fields = {"name": f"sub-{number}", "source": {"address": stream, **source}, "rcv_settle_mode": 1}
            peer("receiver", **{"as": str(number), "address": stream, **fields, **options})
            peer("credit", of=str(number), credit=10)
        send(peer, ["one", "two", "three"])
        for number in range(len(kinds)):
            assert receive(peer, 2, str(number)) == ["one", "two"]
            peer("settled", of=str(number))
        own_server.kill()
    own_server.start()
    with program() as peer:
        connect(peer, own_server, container_id="same")
        for number, (source, options) in enumerate(kinds):
            fields = {"name": f"sub-{number}", "source": {"address": stream, **source}}
            peer("receiver", **{"as": str(number), "address": stream, **fields, **options})
            peer("credit", of=str(number), credit=10)
            assert receive(peer, 1, str(number)) == ["three"]
            assert peer("drain", of=str(number), credit=1) == {"arrived": 0, "credit": 0}

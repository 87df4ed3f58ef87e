"""rhea, the JavaScript client of AMQP 1.0: every use of links that it knows, and its reconnecting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.http_api import Api
from tests.peers.packages import npm_packages
from tests.peers.programs import Program, Refused, texts
from tests.peers.servers import HOST, PASSWORD, USER, Server

pytestmark = pytest.mark.peers

HERE = Path(__file__).parent / "rhea"


def program() -> Program:
    packages = npm_packages(HERE) / "node_modules"
    return Program(["env", f"NODE_PATH={packages}", "node", str(HERE / "peer.js")])


def connect(peer: Program, server: Server, **options: Any) -> Any:
    access = {"host": HOST, "port": server.amqp_port, "username": USER, "password": PASSWORD}
    return peer("connect", **{**access, **options})


@pytest.fixture
def peer(server: Server) -> Iterator[Program]:
    """The program with one connection."""
    with program() as running:
        connect(running, server)
        yield running


def sender(peer: Program, address: str | None, as_: str = "s", **options: Any) -> Any:
    target = {} if address is None else {"address": address}
    return peer("sender", **{"as": as_, "target": target, **options})


def receiver(peer: Program, address: str, as_: str = "r", offset: Any = "first", **options: Any) -> Any:
    return peer("receiver", **{"as": as_, "address": address, "offset": offset, **options})


def send(peer: Program, bodies: list[str], to: str = "s") -> None:
    told = peer("send", to=to, messages=[{"body": body} for body in bodies])
    assert told == [{"state": "accepted", "settled": True}] * len(bodies)


def receive(peer: Program, count: int, of: str = "r", **how: Any) -> list[Any]:
    return [message["body"] for message in peer("receive", of=of, count=count, **how)]


def refused(peer: Program, command: str, **fields: Any) -> tuple[int | str, str]:
    """The condition and the words of an error that a command has to end with."""
    with pytest.raises(Refused) as found:
        peer(command, **fields)
    return found.value.code, str(found.value)


# Sending and receiving


def test_what_is_sent_comes_back_in_its_order(peer: Program, stream: str) -> None:
    sender(peer, stream)
    send(peer, texts(0, 1000))
    receiver(peer, stream, credit_window=100)
    assert receive(peer, 1000) == texts(0, 1000)


def test_a_receiver_without_a_filter_gets_what_comes_from_now_on(peer: Program, stream: str) -> None:
    sender(peer, stream)
    send(peer, texts(0, 3))
    peer("receiver", **{"as": "r", "address": stream, "credit_window": 10})
    receiver(peer, stream, "from one", offset=1, credit_window=10)
    send(peer, texts(3, 5))
    assert receive(peer, 2) == texts(3, 5)
    assert receive(peer, 4, "from one") == texts(1, 5)


def test_messages_of_every_type_come_back_as_they_were(peer: Program, stream: str) -> None:
    sender(peer, stream)
    receiver(peer, stream)
    seen = peer("types", to="s", of="r")
    assert seen["count"] == 23
    assert seen["differing"] == []


@pytest.mark.parametrize("frame_bytes", [512, 4096])
def test_large_messages_pass_in_small_frames_both_ways(
    peer: Program, server: Server, stream: str, frame_bytes: int
) -> None:
    connect(peer, server, **{"as": "small", "max_frame_size": frame_bytes})
    bodies = ["before", "x" * 100_000, "after"]
    sender(peer, stream, of="small")
    send(peer, bodies)
    receiver(peer, stream, of="small", credit_window=10)
    assert receive(peer, 3) == bodies


# Settling and credit


def test_what_is_sent_settled_is_stored(peer: Program, stream: str) -> None:
    sender(peer, stream, snd_settle_mode=1)
    assert peer("send", to="s", settled=True, messages=[{"body": text} for text in texts(0, 20)]) == 20
    receiver(peer, stream, snd_settle_mode=1, credit_window=30)
    assert receive(peer, 20, outcome="none") == texts(0, 20)


def test_a_sender_that_settles_first_has_the_last_word(peer: Program, stream: str) -> None:
    sender(peer, stream, rcv_settle_mode=1, autosettle=False)
    told = peer("send", to="s", messages=[{"body": "one"}])
    assert told == [{"state": "accepted", "settled": False}]
    assert peer("send", to="s", messages=[{"body": "two"}]) == told


@pytest.mark.parametrize("outcome", ["accept", "reject", "release", "modified", "none"])
def test_whatever_a_receiver_says_of_a_message_the_log_goes_on(
    peer: Program, stream: str, outcome: str
) -> None:
    sender(peer, stream)
    send(peer, texts(0, 4))
    receiver(peer, stream, credit_window=2)
    assert receive(peer, 2, outcome=outcome) == texts(0, 2)
    if outcome == "none":
        peer("credit", of="r", credit=2)
    assert receive(peer, 2) == texts(2, 4)


def test_no_more_comes_than_there_is_credit_for(peer: Program, stream: str) -> None:
    sender(peer, stream)
    send(peer, texts(0, 10))
    receiver(peer, stream)
    peer("credit", of="r", credit=3)
    assert receive(peer, 3) == texts(0, 3)
    send(peer, ["one more"])
    assert peer("waiting", of="r") == 0
    peer("credit", of="r", credit=8)
    assert receive(peer, 8) == [*texts(3, 10), "one more"]


@pytest.mark.parametrize("there_are", [0, 4, 30])
def test_a_drained_receiver_gets_what_there_is_and_its_credit_back(
    peer: Program, stream: str, there_are: int
) -> None:
    sender(peer, stream)
    send(peer, texts(0, there_are))
    receiver(peer, stream)
    assert peer("drain", of="r", credit=10) == {"arrived": min(there_are, 10), "credit": 0}
    assert receive(peer, min(there_are, 10)) == texts(0, min(there_are, 10))


# Nodes


def test_a_receiver_of_a_log_that_is_not_there_is_told_what_to_do(peer: Program, stream: str) -> None:
    fields = {"as": "r", "address": stream}
    condition, words = refused(peer, "receiver", **fields)
    assert condition == "amqp:not-found"
    assert "create it, or check the name" in words
    sender(peer, stream)
    send(peer, ["the connection goes on"])


def test_a_sender_to_a_name_that_is_no_log_is_refused(peer: Program) -> None:
    condition, words = refused(peer, "sender", **{"as": "s", "target": {"address": "$unknown"}})
    assert condition == "amqp:not-found"
    assert "none of this name can be made" in words


def test_a_message_to_nowhere_is_rejected_by_the_relay(peer: Program, stream: str) -> None:
    sender(peer, None)
    told = peer("send", to="s", messages=[{"body": 1}, {"to": "$none", "body": 2}, {"to": stream, "body": 3}])
    assert [each["state"] for each in told] == ["rejected", "rejected", "accepted"]
    assert [each.get("condition") for each in told] == ["amqp:precondition-failed", "amqp:not-found", None]


def test_a_dynamic_node_goes_with_its_link(peer: Program) -> None:
    given = peer("receiver", **{"as": "r", "source": {"dynamic": True}, "credit_window": 5})["address"]
    sender(peer, given)
    send(peer, ["one"])
    assert receive(peer, 1) == ["one"]
    peer("leave", of="r")
    assert peer("ended", of="s")["condition"] == "amqp:resource-deleted"
    assert refused(peer, "receiver", **{"as": "r", "address": given})[0] == "amqp:not-found"


@pytest.mark.parametrize("link", ["s", "r"])
def test_links_to_a_deleted_log_are_told_so(peer: Program, server: Server, stream: str, link: str) -> None:
    sender(peer, stream)
    receiver(peer, stream, credit_window=5)
    Api(server.http_port).do("DELETE", f"/queues/%2F/{stream}")
    told = peer("ended", of=link)
    assert told["condition"] == "amqp:resource-deleted"
    assert "was deleted" in told["description"]


def test_a_message_that_is_too_large_breaks_its_link_and_nothing_else(peer: Program, stream: str) -> None:
    size_max = sender(peer, stream)["max_message_size"]
    condition, _ = refused(peer, "send", to="s", messages=[{"body": "x" * size_max}])
    assert condition == "amqp:link:message-size-exceeded"
    sender(peer, stream, "again")
    send(peer, ["x" * (size_max - 200)], "again")


# Ends


@pytest.mark.parametrize("closed", [True, False])
def test_a_link_that_was_closed_or_detached_can_be_attached_again(
    peer: Program, stream: str, closed: bool
) -> None:
    for number in range(3):
        sender(peer, stream, name="again")
        send(peer, [str(number)])
        peer("leave", of="s", closed=closed)
    receiver(peer, stream, credit_window=5)
    assert receive(peer, 3) == ["0", "1", "2"]


def test_a_session_ends_with_its_links(peer: Program, server: Server, stream: str) -> None:
    sender(peer, stream)
    send(peer, ["one"])
    peer("end", of="s")
    connect(peer, server, **{"as": "other"})
    receiver(peer, stream, of="other", credit_window=5)
    assert receive(peer, 1) == ["one"]
    peer("close")
    peer("close", **{"as": "other"})


def test_a_link_is_stolen_by_one_of_the_same_name_and_container(
    peer: Program, server: Server, stream: str
) -> None:
    sender(peer, stream, name="mine")
    connect(peer, server, **{"as": "second"})
    sender(peer, stream, "thief", of="second", name="mine")
    assert peer("ended", of="s")["condition"] == "amqp:link:stolen"
    send(peer, ["stolen"], "thief")


def test_a_wrong_password_is_refused(server: Server) -> None:
    with program() as running:
        words = refused(
            running, "connect", host=HOST, port=server.amqp_port, username=USER, password="wrong"
        )[1]
        assert "auth" in words.lower()


@pytest.mark.parametrize("how", [{"username": "anonymous"}, {}], ids=["anonymous", "without sasl"])
def test_a_client_without_a_name_is_let_in_from_this_machine(
    server: Server, stream: str, how: dict[str, Any]
) -> None:
    with program() as running:
        opened = running("connect", host=HOST, port=server.amqp_port, **how)
        assert opened["product"] == "Headwater"
        assert "ANONYMOUS-RELAY" in opened["capabilities"]
        sender(running, stream)
        send(running, ["one"])


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_its_links_are_back_when_the_server_is(own_server: Server, stream: str, end: str) -> None:
    with program() as running:
        connect(running, own_server, reconnect=20, reconnect_limit=500)
        sender(running, stream)
        send(running, texts(0, 5))
        receiver(running, stream, offset=5, credit_window=10)
        getattr(own_server, end)()
        own_server.start()
        running("reconnected", times=1)
        send(running, texts(5, 10))
        assert receive(running, 5) == texts(5, 10)

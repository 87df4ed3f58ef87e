"""go-amqp, the scenarios of its own integration tests: sending, receiving, settling, credit, sizes and addresses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.peers.programs import Program, Refused, go_command, texts
from tests.peers.servers import HOST, Server

pytestmark = pytest.mark.peers

NEXT = "next"


@pytest.fixture
def peer(server: Server) -> Iterator[Program]:
    """The program with one connection and one session on it."""
    with Program(go_command("go-amqp")) as program:
        program("connect", host=HOST, port=server.amqp_port)
        program("session")
        yield program


def sender(peer: Program, address: str, as_: str = "s", **fields: Any) -> Any:
    return peer("sender", **{"as": as_, "address": address, **fields})


def receiver(peer: Program, address: str, as_: str = "r", offset: Any = "first", **fields: Any) -> Any:
    return peer("receiver", **{"as": as_, "address": address, "offset": offset, **fields})


def send(peer: Program, bodies: list[str], to: str = "s", **fields: Any) -> None:
    assert peer("send", to=to, bodies=bodies, **fields) == {"accepted": len(bodies)}


def receive(peer: Program, count: int, of: str = "r", **fields: Any) -> list[str]:
    seen: list[str] = peer("receive", of=of, count=count, **fields)
    return seen


# Round trips


@pytest.mark.parametrize("count", [1, 3, 1000])
def test_what_is_sent_comes_back_in_its_order(peer: Program, stream: str, count: int) -> None:
    sender(peer, stream)
    send(peer, texts(0, count))
    receiver(peer, stream, credit=10)
    assert receive(peer, count) == texts(0, count)


def test_many_senders_wait_for_their_outcome_while_a_receiver_takes_what_comes(
    peer: Program, stream: str
) -> None:
    sender(peer, stream)
    receiver(peer, stream, offset=NEXT, credit=10)
    peer("send", to="s", bodies=texts(0, 1000), at_once=20)
    assert sorted(receive(peer, 1000)) == sorted(texts(0, 1000))


def test_ten_sessions_of_a_connection_each_have_their_links(peer: Program, stream: str) -> None:
    for number in range(10):
        name = f"{stream}-{number}"
        peer("session", **{"as": name})
        sender(peer, name, f"s{number}", of=name)
        receiver(peer, name, f"r{number}", of=name)
    for number in range(10):
        send(peer, [f"of {number}"], to=f"s{number}")
    for number in range(10):
        assert receive(peer, 1, of=f"r{number}") == [f"of {number}"]


@pytest.mark.clause("AMQP logs 9")
def test_a_receiver_without_a_filter_gets_what_comes_from_now_on(peer: Program, stream: str) -> None:
    sender(peer, stream)
    send(peer, ["before"])
    receiver(peer, stream, offset=None)
    receiver(peer, stream, "from one", offset=1)
    send(peer, ["after"])
    assert receive(peer, 1) == ["after"]
    assert receive(peer, 1, of="from one") == ["after"]


@pytest.mark.clause("AMQP logs 3")
def test_sections_and_values_of_every_type_come_out_as_they_went_in(peer: Program, stream: str) -> None:
    sender(peer, stream)
    receiver(peer, stream)
    peer("send_rich", to="s")
    seen = peer("receive_rich", of="r")
    assert seen["differing"] == []
    assert seen["offsets"] == [f"{number:016x}" for number in range(4)]
    assert seen["left"] == []


@pytest.mark.clause("AMQP encoding 4")
def test_the_answer_to_an_attach_has_the_filters_that_are_applied_and_no_others(
    peer: Program, stream: str
) -> None:
    sender(peer, stream)
    send(peer, texts(0, 3))
    answer = receiver(peer, stream, selector="color = 'red'", durable=True)
    assert answer["applied"] == {
        "rabbitmq:stream-offset-spec": "first",
        "apache.org:selector-filter:string": "color = 'red'",
    }


@pytest.mark.clause("TS-3", "TS-4", "TS-10")
def test_receivers_share_a_durable_subscription(peer: Program, stream: str) -> None:
    sender(peer, stream)
    shared = {"capabilities": ["topic", "shared"], "durable": True, "offset": None, "credit": 10}
    for number in range(2):
        receiver(peer, stream, as_=f"r{number}", name=f"sub|{number}", **shared)
    for text in texts(0, 6):
        send(peer, [text])
    assert receive(peer, 3, of="r0") == texts(0, 6)[::2]
    assert receive(peer, 3, of="r1") == texts(0, 6)[1::2]
    with pytest.raises(Refused, match="with other properties") as refused:
        receiver(peer, stream, as_="r2", name="sub", durable=True, offset=None)
    assert refused.value.code == "amqp:precondition-failed"


# Settling


@pytest.mark.clause("AMQP links 9")
@pytest.mark.parametrize("receiver_mode", ["first", "second"])
@pytest.mark.parametrize("sender_mode", ["unsettled", "mixed"])
def test_a_sender_is_told_of_every_message_in_both_receiver_modes(
    peer: Program, stream: str, sender_mode: str, receiver_mode: str
) -> None:
    sender(peer, stream, sender_mode=sender_mode, receiver_mode=receiver_mode)
    send(peer, texts(0, 1000))
    receiver(peer, stream)
    assert receive(peer, 1000) == texts(0, 1000)


@pytest.mark.parametrize("sender_mode", ["settled", "mixed"])
def test_what_is_sent_settled_arrives_too(peer: Program, stream: str, sender_mode: str) -> None:
    sender(peer, stream, sender_mode=sender_mode)
    peer("send", to="s", bodies=texts(0, 500), settled=True)
    receiver(peer, stream)
    assert receive(peer, 500) == texts(0, 500)


def test_settled_and_unsettled_messages_take_turns_on_a_mixed_link(peer: Program, stream: str) -> None:
    sender(peer, stream, sender_mode="mixed")
    for number in range(0, 20, 2):
        peer("send", to="s", bodies=texts(number, number + 1), settled=True)
        send(peer, texts(number + 1, number + 2))
    receiver(peer, stream)
    assert receive(peer, 20) == texts(0, 20)


@pytest.mark.clause("AMQP links 9")
@pytest.mark.parametrize("receiver_mode", ["first", "second"])
@pytest.mark.parametrize("sender_mode", ["settled", "unsettled", "mixed"])
def test_a_receiver_gets_on_in_every_mode_with_less_credit_than_messages(
    peer: Program, stream: str, sender_mode: str, receiver_mode: str
) -> None:
    sender(peer, stream)
    send(peer, texts(0, 300))
    receiver(peer, stream, sender_mode=sender_mode, receiver_mode=receiver_mode, credit=10)
    assert receive(peer, 300) == texts(0, 300)


@pytest.mark.clause("AMQP flow 6")
@pytest.mark.parametrize("settle", ["accept", "reject", "release", "modify"])
@pytest.mark.parametrize("receiver_mode", ["first", "second"])
def test_whatever_the_outcome_it_is_the_end_of_a_delivery(
    peer: Program, stream: str, receiver_mode: str, settle: str
) -> None:
    sender(peer, stream)
    send(peer, texts(0, 40))
    receiver(peer, stream, receiver_mode=receiver_mode, credit=5)
    assert receive(peer, 40, settle=settle) == texts(0, 40)


def test_messages_are_settled_in_lots_while_they_are_sent_elsewhere(peer: Program, stream: str) -> None:
    sender(peer, stream)
    send(peer, texts(0, 20))
    sender(peer, f"{stream}-other", "other")
    receiver(peer, stream, credit=10)
    send(peer, receive(peer, 20, held=10), to="other")
    receiver(peer, f"{stream}-other", "behind")
    assert receive(peer, 20, of="behind") == texts(0, 20)


# Credit


@pytest.mark.clause("AMQP flow 2")
def test_credit_by_hand_brings_so_many_messages_and_draining_takes_back_the_rest(
    peer: Program, stream: str
) -> None:
    sender(peer, stream)
    send(peer, texts(0, 3))
    receiver(peer, stream, credit=-1)
    peer("issue", of="r", count=2)
    assert receive(peer, 2) == texts(0, 2)
    peer("issue", of="r", count=5)
    assert receive(peer, 1) == texts(2, 3)
    peer("drain", of="r")
    send(peer, texts(3, 6))
    # A drain is answered behind what was sent: without credit nothing was.
    peer("drain", of="r")
    assert peer("prefetched", of="r") == []
    peer("issue", of="r", count=2)
    assert [*receive(peer, 1), *receive(peer, 1)] == texts(3, 5)


@pytest.mark.clause("AMQP flow 2")
def test_an_empty_log_is_drained_again_and_again(peer: Program, stream: str) -> None:
    sender(peer, stream)
    receiver(peer, stream, credit=-1, receiver_mode="second")
    for _ in range(20):
        peer("issue", of="r", count=100)
        peer("drain", of="r")
    assert peer("prefetched", of="r") == []


@pytest.mark.clause("AMQP flow 3")
@pytest.mark.parametrize("sender_mode", ["settled", "unsettled"])
def test_credit_may_go_beyond_the_window_of_the_session(peer: Program, stream: str, sender_mode: str) -> None:
    sender(peer, stream)
    send(peer, texts(0, 12_000))
    receiver(peer, stream, credit=12_000, sender_mode=sender_mode)
    assert receive(peer, 12_000, held=6_000) == texts(0, 12_000)


# Sizes


@pytest.mark.clause("AMQP flow 4")
@pytest.mark.parametrize("max_frame", [512, 4096, 0])
def test_large_messages_go_in_many_frames(peer: Program, server: Server, stream: str, max_frame: int) -> None:
    peer("connect", **{"as": "small"}, host=HOST, port=server.amqp_port, max_frame=max_frame)
    peer("session", **{"as": "small session"}, of="small")
    sender(peer, stream, of="small session")
    sizes = (511, 70_000, 1_000_000)
    for size in sizes:
        assert peer("send", to="s", size=size) == {"accepted": 1}
    receiver(peer, stream, of="small session", credit=3)
    assert [len(body) for body in receive(peer, 1)] == [511]
    assert receive(peer, 2) == [f"{size} bytes" for size in sizes[1:]]


def test_receivers_of_one_session_read_large_messages_at_the_same_time(peer: Program, stream: str) -> None:
    names = [f"r{number}" for number in range(8)]
    for name in names:
        sender(peer, stream + name, name)
        receiver(peer, stream + name, f"from {name}", offset=NEXT, credit=3)
    for _ in range(5):
        for name in names:
            assert peer("send", to=name, size=300_000) == {"accepted": 1}
    seen = peer("receive_at_once", names=[f"from {name}" for name in names], count=5)
    assert seen == [5 * 300_000] * len(names)


@pytest.mark.clause("AMQP flow 5")
def test_the_largest_message_is_announced_and_a_larger_one_is_refused_by_either_side(
    peer: Program, stream: str
) -> None:
    announced = sender(peer, stream)["max_message"]
    assert announced == (1 << 20) - 128
    assert peer("send", to="s", size=announced - 200) == {"accepted": 1}
    with pytest.raises(Refused, match="exceeds max"):
        peer("send", to="s", size=announced + 1)
    send(peer, ["after it"])
    receiver(peer, stream, max_message=1000)
    with pytest.raises(Refused) as refused:
        receive(peer, 1)
    assert refused.value.code == "amqp:link:message-size-exceeded"


# Addresses and names


@pytest.mark.clause("AMQP links 7")
def test_a_dynamic_address_lives_as_long_as_its_link(peer: Program) -> None:
    address = receiver(peer, "", dynamic=True, offset=None, credit=10)["address"]
    sender(peer, address)
    send(peer, texts(0, 3))
    assert receive(peer, 3) == texts(0, 3)
    peer("close", of="r")
    with pytest.raises(Refused) as refused:
        peer("send", to="s", bodies=["too late"])
    assert refused.value.code == "amqp:resource-deleted"


def test_a_sender_gets_a_dynamic_address_too(peer: Program) -> None:
    address = sender(peer, "", dynamic=True)["address"]
    receiver(peer, address)
    send(peer, ["there"])
    assert receive(peer, 1) == ["there"]


@pytest.mark.clause("AMQP links 1")
def test_a_receiver_on_nothing_is_refused_with_a_reason(peer: Program, stream: str) -> None:
    with pytest.raises(Refused, match=f"there is no log '{stream}'; create it") as refused:
        receiver(peer, stream)
    assert refused.value.code == "amqp:not-found"
    sender(peer, stream)
    receiver(peer, stream)


def test_a_message_for_nowhere_is_rejected_with_a_reason(peer: Program) -> None:
    sender(peer, "")
    with pytest.raises(Refused, match="the message has no `to`") as refused:
        peer("send", to="s", bodies=["lost"])
    assert refused.value.code == "amqp:precondition-failed"


@pytest.mark.clause("AMQP links 5")
def test_a_link_of_the_same_name_takes_the_place_of_the_one_before(peer: Program, stream: str) -> None:
    sender(peer, stream)
    receiver(peer, stream, "old", name="link A", offset=NEXT)
    peer("session", **{"as": "another"})
    receiver(peer, stream, "new", name="link A", offset=NEXT, of="another")
    with pytest.raises(Refused) as refused:
        peer("receive_end", of="old")
    assert refused.value.code == "amqp:link:stolen"
    send(peer, ["to the new one"])
    assert receive(peer, 1, of="new") == ["to the new one"]

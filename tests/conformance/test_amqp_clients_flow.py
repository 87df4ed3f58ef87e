"""What AMQP clients need of flow and transfers: echo, drain, credit, windows, frames of one message, outcomes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.amqp.definitions import Condition, ReceiverSettleMode, Role
from headwater.amqp.messaging import (
    Accepted,
    DeliveryState,
    Modified,
    Received,
    Rejected,
    Released,
    Source,
    Target,
)
from headwater.amqp.performatives import Attach, Begin, Detach, Disposition, Flow, Transfer
from headwater.encoding.amqp_types import Described, Ulong
from headwater.server.amqp.limits import Limits
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_wire import FIRST, WINDOW, AmqpWire, data, frame, transfer
from tests.conformance.conftest import ConnectAmqp


def stored(connect_amqp: ConnectAmqp, log: str, count: int) -> list[bytes]:
    """What a reader of its own finds in a log that holds so many messages."""
    wire = connect_amqp()
    wire.receiver(log, credit=count + 10)
    found = [each.record for each in wire.messages(count)]
    wire.assert_nothing_came()
    return found


@pytest.fixture
def writer(connect_amqp: ConnectAmqp) -> AmqpWire:
    """A connection of its own for what is published beforehand."""
    return connect_amqp()


def published(writer: AmqpWire, log: str, count: int) -> list[bytes]:
    payloads = [data(b"%d" % number) for number in range(count)]
    writer.sender(log)
    writer.publish(payloads)
    return payloads


@pytest.mark.clause("AMQP flow 1")
def test_a_flow_without_a_handle_is_for_the_session_and_its_echo_is_answered(
    peer: AmqpWire, log: str
) -> None:
    peer.send(Flow(0, 100, 0, 100))
    peer.send(Flow(None, 100, 0, 100, echo=True))
    answer = peer.take(Flow)
    assert (answer.handle, answer.link_credit, answer.delivery_count, answer.echo) == (
        None,
        None,
        None,
        False,
    )
    assert answer.next_incoming_id == 0
    assert answer.incoming_window > 0
    peer.sender(log)
    peer.publish([data(b"x")] * 3)
    peer.send(Flow(0, 100, 3, 100, echo=True))
    assert peer.take(Flow).next_incoming_id == 3


@pytest.mark.clause("AMQP flow 1")
def test_the_echo_of_a_link_tells_where_that_stands(peer: AmqpWire, writer: AmqpWire, log: str) -> None:
    published(writer, log, 3)
    peer.receiver(log, credit=10)
    peer.messages(3)
    peer.send(Flow(3, WINDOW, 3, 1, 0, 3, 20, echo=True))
    answer = peer.take(Flow)
    assert (answer.handle, answer.delivery_count, answer.link_credit) == (0, 3, 20)
    assert answer.next_outgoing_id == 3


@pytest.mark.clause("AMQP flow 2")
@pytest.mark.parametrize("credit", [0, 1, 10, 2**31 - 1])
def test_a_drain_is_answered_even_when_there_is_nothing_to_send(
    peer: AmqpWire, writer: AmqpWire, log: str, credit: int
) -> None:
    writer.sender(log)
    peer.receiver(log, credit=0)
    peer.credit(credit, drain=True)
    answer = peer.take(Flow)
    assert (answer.handle, answer.delivery_count, answer.link_credit) == (0, credit, 0)
    assert answer.drain
    peer.assert_nothing_came()


@pytest.mark.clause("AMQP flow 2")
@pytest.mark.parametrize("credit", [2, 3, 10])
def test_a_drain_gives_what_there_is_first(peer: AmqpWire, writer: AmqpWire, log: str, credit: int) -> None:
    payloads = published(writer, log, 3)
    peer.receiver(log, credit=0)
    peer.credit(credit, drain=True)
    count = min(credit, 3)
    assert [each.record for each in peer.messages(count)] == payloads[:count]
    answer = peer.take(Flow)
    assert (answer.delivery_count, answer.link_credit) == (credit, 0)
    writer.publish([data(b"later")], first_id=100)
    peer.assert_nothing_came()
    peer.credit(1, delivery_count=credit)
    assert peer.message().record == (payloads[2] if credit == 2 else data(b"later"))


@pytest.mark.clause("AMQP flow 2")
def test_a_drain_of_a_message_of_many_frames_waits_for_the_window(
    connect_amqp: ConnectAmqp, log: str
) -> None:
    writer = connect_amqp()
    writer.sender(log)
    writer.publish([data(bytes(2_000))])
    wire = connect_amqp(session=False, fields={"max_frame_size": 512})
    wire.begin(window=2)
    wire.receiver(log, credit=0)
    wire.send(Flow(0, 2, 0, 1, 0, 0, 5, drain=True))
    for _ in range(2):
        assert wire.take(Transfer).more
    wire.send(Flow(2, 100, 0, 1, echo=True))
    came: list[object] = [wire.next().performative]
    while not isinstance(came[-1], Flow) or came[-1].handle is None:
        came.append(wire.next().performative)
    last = came[-1]
    assert isinstance(last, Flow)
    assert (last.delivery_count, last.link_credit) == (5, 0)
    assert sum(isinstance(each, Transfer) for each in came) >= 3


@pytest.mark.clause("AMQP flow 3")
def test_credit_is_never_exceeded_and_may_be_taken_back(
    writer: AmqpWire, log: str, connect_amqp: ConnectAmqp
) -> None:
    payloads = published(writer, log, 20)
    wire = connect_amqp()
    wire.receiver(log, credit=0)
    wire.assert_nothing_came()
    wire.credit(7)
    assert [each.record for each in wire.messages(7)] == payloads[:7]
    wire.assert_nothing_came()
    wire.credit(5, delivery_count=4)
    assert [each.record for each in wire.messages(2)] == payloads[7:9]
    wire.assert_nothing_came()
    wire.credit(0, delivery_count=9)
    wire.credit(1, delivery_count=9)
    assert wire.message().record == payloads[9]
    wire.credit(2**32 - 1, delivery_count=10)
    assert [each.record for each in wire.messages(10)] == payloads[10:]


@pytest.mark.clause("AMQP flow 3")
def test_senders_get_credit_after_their_attach_and_more_before_it_is_used_up(
    peer: AmqpWire, log: str, amqp_door: ListeningAmqp
) -> None:
    credit = amqp_door.limits.credit_count
    first = peer.sender(log)
    assert (first.handle, first.link_credit, first.delivery_count) == (0, credit, 0)
    peer.send(b"".join(transfer(number, data(b"x"), settled=True) for number in range(credit // 2)))
    peer.echo()
    flows = [peer.take(Flow), peer.take(Flow)]
    (again,) = [each for each in flows if each.handle == 0 and each.link_credit == credit]
    assert again.delivery_count is not None
    assert 0 < again.delivery_count <= credit // 2


@pytest.mark.clause("AMQP flow 3")
def test_a_transfer_without_credit_detaches_the_link_alone(tmp_path: Path) -> None:
    with ListeningAmqp(tmp_path / "data", Limits(credit_count=0)) as door, door.connect() as wire:
        wire.attach(Role.SENDER, Source(), Target("orders"))
        wire.take(Flow)
        wire.send(transfer(0, data(b"x")))
        wire.assert_detaches(Condition.LINK_TRANSFER_LIMIT_EXCEEDED)


@pytest.mark.clause("AMQP flow 3")
def test_a_session_window_that_is_overrun_ends_the_session(tmp_path: Path) -> None:
    with ListeningAmqp(tmp_path / "data", Limits(incoming_window=4)) as door, door.connect() as wire:
        assert wire.sender("orders").incoming_window == 4
        wire.send(b"".join(part_of(0, b"x", more=True, first=number == 0) for number in range(5)))
        wire.take(Flow)
        wire.assert_ends(Condition.SESSION_WINDOW_VIOLATION)
        wire.begin()
        wire.sender("orders")
        for number in range(20):
            wire.send(transfer(number, data(b"x")))
            wire.until(Disposition)


def part_of(
    id_: int, payload: bytes, *, more: bool, first: bool = False, handle: int = 0, **fields: Any
) -> bytes:
    if first:
        return transfer(id_, payload, handle, more=more, **fields)
    return frame(Transfer(handle, more=more, **fields), payload)


@pytest.mark.clause("AMQP flow 4")
def test_the_parts_of_a_message_say_what_it_is_once_and_those_of_other_links_may_come_between(
    peer: AmqpWire, log: str, connect_amqp: ConnectAmqp
) -> None:
    for handle in (0, 1):
        peer.sender(f"{log}-{handle}", handle=handle)
    messages = [data(bytes([65 + number]) * 3000) for number in range(2)]
    parts = [[message[at : at + 700] for at in range(0, len(message), 700)] for message in messages]
    sent = b""
    for number in range(len(parts[0])):
        for handle in (0, 1):
            more = number + 1 < len(parts[0])
            sent += part_of(handle, parts[handle][number], more=more, first=number == 0, handle=handle)
        if number == 1:
            sent += transfer(2, data(b"whole"), handle=2)
    peer.sender(f"{log}-2", handle=2)
    peer.send(sent)
    assert set(peer.outcomes(range(3)).values()) == {Accepted()}
    for handle in (0, 1):
        assert stored(connect_amqp, f"{log}-{handle}", 1) == [messages[handle]]
    assert stored(connect_amqp, f"{log}-2", 1) == [data(b"whole")]


@pytest.mark.clause("AMQP flow 4")
def test_later_parts_may_repeat_the_id_and_settle_at_the_end(
    peer: AmqpWire, log: str, connect_amqp: ConnectAmqp
) -> None:
    peer.sender(log)
    message = data(bytes(100))
    peer.send(
        part_of(0, message[:50], more=True, first=True),
        frame(Transfer(0, 0, b"\0\0\0\0", 0, False, more=True), message[50:60]),
        frame(Transfer(0, settled=True), message[60:]),
    )
    peer.assert_nothing_came()
    assert stored(connect_amqp, log, 1) == [message]


@pytest.mark.clause("AMQP flow 4")
@pytest.mark.parametrize(
    ("then", "condition"),
    [
        (Transfer(0, settled=False), Condition.INVALID_FIELD),
        (Transfer(0, 1, b"x", 0, False), Condition.NOT_ALLOWED),
        (Transfer(0, delivery_tag=b"t" * 33), Condition.INVALID_FIELD),
    ],
)
def test_a_part_that_does_not_belong_to_its_message_detaches_the_link(
    peer: AmqpWire, log: str, connect_amqp: ConnectAmqp, then: Transfer, condition: Condition
) -> None:
    peer.sender(log)
    peer.send(transfer(0, b"begun", more=True, settled=True), then)
    peer.assert_detaches(condition)
    peer.sender(log)
    peer.publish([data(b"goes on")], first_id=5)
    assert stored(connect_amqp, log, 1) == [data(b"goes on")]


@pytest.mark.clause("AMQP flow 4")
@pytest.mark.parametrize(
    "sent", [Transfer(0), Transfer(0, 0), Transfer(0, delivery_tag=b"t"), Transfer(0, 0, b"t" * 33)]
)
def test_a_delivery_begins_with_its_id_and_a_tag_of_32_bytes_at_most(
    peer: AmqpWire, log: str, sent: Transfer
) -> None:
    peer.sender(log)
    peer.send(frame(sent, data(b"x")))
    peer.assert_detaches(Condition.INVALID_FIELD)


@pytest.mark.clause("AMQP flow 5")
def test_an_aborted_message_leaves_nothing(peer: AmqpWire, log: str, connect_amqp: ConnectAmqp) -> None:
    peer.sender(log)
    peer.send(
        part_of(0, data(b"never"), more=True, first=True),
        frame(Transfer(0, aborted=True), b"ignored"),
        transfer(1, data(b"this one")),
        transfer(2, data(b"nor this"), aborted=True),
        part_of(3, data(b"nor that"), more=True, first=True),
        Detach(0, closed=True),
    )
    assert peer.outcomes([1]) == {1: Accepted()}
    peer.take(Detach)
    assert stored(connect_amqp, log, 1) == [data(b"this one")]


@pytest.mark.clause("AMQP flow 5")
def test_a_transfer_without_payload_is_a_message_of_nothing(
    peer: AmqpWire, log: str, connect_amqp: ConnectAmqp
) -> None:
    peer.sender(log)
    peer.publish([b"", data(b"x"), b""])
    found = stored(connect_amqp, log, 3)
    assert found[1] == data(b"x")
    assert found[0] == found[2] == data(b""), "what is no message is shown as the data of one"


@pytest.mark.clause("AMQP flow 5")
def test_a_message_may_have_the_size_that_is_announced_and_no_more(
    peer: AmqpWire, log: str, connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp
) -> None:
    size_max = amqp_door.limits.message_size_bytes_max
    answer = peer.attach(Role.SENDER, Source(), Target(log))
    assert answer.max_message_size == size_max
    peer.take(Flow)
    largest = data(bytes(size_max - len(data(bytes(300))) + 300))
    assert len(largest) == size_max
    half = size_max // 2
    peer.send(part_of(0, largest[:half], more=True, first=True), part_of(0, largest[half:], more=False))
    assert peer.outcomes([0]) == {0: Accepted()}
    for sent in (
        part_of(1, largest[:half], more=True, first=True) + part_of(1, largest[half:] + b"x", more=True),
        part_of(2, largest[:half], more=True, first=True) + part_of(2, largest[half:] + b"x", more=False),
        transfer(3, largest + b"x"),
    ):
        peer.send(sent)
        peer.assert_detaches(Condition.LINK_MESSAGE_SIZE_EXCEEDED)
        peer.sender(log)
    peer.publish([largest], first_id=5)
    assert stored(connect_amqp, log, 2) == [largest] * 2


@pytest.mark.clause("AMQP flow 5")
@pytest.mark.parametrize(
    ("size_max", "is_sent"), [(0, True), (None, True), (2**64 - 1, True), (1_000, False)]
)
def test_no_message_above_the_receivers_maximum_is_sent(
    peer: AmqpWire, writer: AmqpWire, log: str, size_max: int | None, *, is_sent: bool
) -> None:
    writer.sender(log)
    payloads = [data(b"small"), data(bytes(1_000))]
    writer.publish(payloads)
    peer.receiver(log, max_message_size=size_max)
    assert peer.message().record == payloads[0]
    if is_sent:
        assert peer.message().record == payloads[1]
    else:
        peer.assert_detaches(Condition.LINK_MESSAGE_SIZE_EXCEEDED)


OUTCOMES: list[DeliveryState | None] = [Accepted(), Rejected(), Released(), Modified(True, True), None]


@pytest.mark.clause("AMQP flow 6")
@pytest.mark.parametrize("state", OUTCOMES)
def test_whatever_a_receiver_says_settles_and_nothing_comes_again(
    peer: AmqpWire, writer: AmqpWire, log: str, amqp_door: ListeningAmqp, state: DeliveryState | None
) -> None:
    published(writer, log, 10)
    peer.receiver(log)
    ids = [each.id for each in peer.messages(10)]
    assert ids == list(range(10))
    peer.send(
        Disposition(Role.RECEIVER, 3, settled=True, state=state),
        Disposition(Role.RECEIVER, 0, 2, settled=True, state=state),
        Disposition(Role.RECEIVER, 2, 8, settled=True, state=state),
        Disposition(Role.RECEIVER, 500, 600, settled=True, state=state),
        Disposition(Role.RECEIVER, 9, 4, settled=True, state=state),
    )
    peer.assert_nothing_came()
    (link,) = sending_links(amqp_door, log)
    assert list(link.unsettled) == [(9, 10)]  # type: ignore[attr-defined]
    writer.publish([data(b"more")], first_id=100)
    assert peer.message().record == data(b"more")


def sending_links(door: ListeningAmqp, log: str) -> list[object]:
    containers = [each.container for each in door.amqp.connections]
    handlers = [handler for each in containers if each is not None for handler in each.links.values()]
    return [each.link for each in handlers if each.link.role is Role.SENDER and vars(each).get("name") == log]


@pytest.mark.clause("AMQP flow 6")
@pytest.mark.parametrize("state", OUTCOMES[:-1])
def test_an_outcome_that_is_not_settled_is_settled_by_us(
    peer: AmqpWire, writer: AmqpWire, log: str, state: DeliveryState
) -> None:
    published(writer, log, 5)
    peer.receiver(log, rcv_settle_mode=ReceiverSettleMode.SECOND)
    peer.messages(5)
    peer.send(Disposition(Role.RECEIVER, 0, 3, state=state))
    answer = peer.take(Disposition)
    assert (answer.role, answer.first, answer.last, answer.settled) == (Role.SENDER, 0, 3, True)
    assert answer.state == state
    peer.send(Disposition(Role.RECEIVER, 0, 3, state=state))
    peer.assert_nothing_came()


@pytest.mark.clause("AMQP flow 6")
def test_a_state_that_is_not_terminal_settles_nothing(
    peer: AmqpWire, writer: AmqpWire, log: str, amqp_door: ListeningAmqp
) -> None:
    published(writer, log, 2)
    peer.receiver(log)
    peer.messages(2)
    peer.send(
        Disposition(Role.RECEIVER, 0, 1, state=Received(0, 5)),
        Disposition(Role.RECEIVER, 0, 1),
        Disposition(Role.SENDER, 0, 1, state=Received(1, 1)),
    )
    peer.assert_nothing_came()
    (link,) = sending_links(amqp_door, log)
    assert list(link.unsettled) == [(0, 2)]  # type: ignore[attr-defined]


@pytest.mark.clause("AMQP flow 6")
def test_with_receiver_settle_mode_second_the_sender_has_the_last_word(
    peer: AmqpWire, log: str, amqp_door: ListeningAmqp
) -> None:
    peer.sender(log, rcv_settle_mode=ReceiverSettleMode.SECOND)
    peer.send(b"".join(transfer(number, data(b"x")) for number in range(4)))
    outcome = peer.take(Disposition)
    assert (outcome.first, outcome.last, outcome.settled, outcome.state) == (0, 3, False, Accepted())
    peer.send(Disposition(Role.SENDER, 0, 3, settled=True, state=Accepted()))
    peer.assert_nothing_came()
    peer.send(transfer(4, data(b"x"), rcv_settle_mode=ReceiverSettleMode.FIRST))
    came = [peer.take(Disposition), peer.take(Disposition)]
    assert [each.settled for each in came] == [False, True]
    assert {each.first for each in came} == {4}


@pytest.mark.clause("AMQP flow 6")
def test_a_sender_that_waits_for_our_settling_is_told_that_we_settle_first(peer: AmqpWire, log: str) -> None:
    """The Event Hubs SDK for Python asks for the second mode all the same; its source tells who it is."""
    second = ReceiverSettleMode.SECOND
    source = Source("sender-link-of-a-hub")
    answer = peer.attach(Role.SENDER, source, Target(log), name="of-a-hub", rcv_settle_mode=second)
    assert answer.rcv_settle_mode is ReceiverSettleMode.FIRST
    peer.take(Flow)
    peer.send(transfer(0, data(b"x")))
    assert peer.take(Disposition).settled
    other = peer.attach(Role.SENDER, source, Target(log), name="other", handle=1, rcv_settle_mode=second)
    assert other.rcv_settle_mode is second


@pytest.mark.clause("AMQP flow 6")
def test_a_link_that_settles_first_refuses_a_delivery_that_wants_the_other(peer: AmqpWire, log: str) -> None:
    peer.sender(log)
    peer.send(transfer(0, data(b"x"), rcv_settle_mode=ReceiverSettleMode.SECOND))
    peer.assert_detaches(Condition.INVALID_FIELD)


@pytest.mark.clause("AMQP flow 6")
def test_settled_deliveries_have_no_outcome(peer: AmqpWire, log: str, connect_amqp: ConnectAmqp) -> None:
    peer.sender(log)
    payloads = [data(b"%d" % number) for number in range(100)]
    peer.send(b"".join(transfer(number, each, settled=True) for number, each in enumerate(payloads)))
    assert stored(connect_amqp, log, 100) == payloads
    peer.assert_nothing_came()
    wire = connect_amqp()
    wire.receiver(log, settled=True)
    assert all(each.settled for each in wire.messages(100))


@pytest.mark.clause("AMQP flow 3")
def test_the_window_of_a_session_holds_back_what_credit_would_let_come(
    connect_amqp: ConnectAmqp, log: str
) -> None:
    writer = connect_amqp()
    payloads = published(writer, log, 10)
    wire = connect_amqp(session=False)
    wire.send(Begin(None, 0, 3, 100))
    wire.take(Begin)
    wire.send(Attach("down", 0, Role.RECEIVER, source=Source(log, filter=FIRST), target=Target()))
    wire.take(Attach)
    wire.send(Flow(0, 3, 0, 100, 0, 0, 100))
    assert [each.record for each in wire.messages(3)] == payloads[:3]
    wire.send(Flow(3, 0, 0, 100, echo=True))
    assert wire.take(Flow).next_outgoing_id == 3
    wire.send(Flow(3, 4, 0, 100))
    assert [each.record for each in wire.messages(4)] == payloads[3:7]
    wire.send(Flow(6, 5, 0, 100))
    assert [each.record for each in wire.messages(3)] == payloads[7:]


@pytest.mark.clause("AMQP flow 6")
def test_an_unknown_state_of_a_delivery_harms_nobody(peer: AmqpWire, writer: AmqpWire, log: str) -> None:
    published(writer, log, 1)
    peer.receiver(log)
    peer.message()
    peer.send(Disposition(Role.RECEIVER, 0, state=Described(Ulong(0x34), [b"txn", None])))
    assert peer.take(Disposition).settled
    peer.assert_nothing_came()
